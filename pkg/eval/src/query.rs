//! A question as the cache sees it: read by the gateway's own reader of requests, put into a partition, keyed.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use signet_cache::{CacheKey, Partition, PartitionParts};
use signet_openai::ChatRequest;
use signet_types::TenantId;

/// Stands in where a text or a request names no model.
const MODEL: &str = "eval";
/// Fields of a request object that say who asks; they are no part of the body. Two writers are two tenants, as they are
/// two credentials to the gateway.
const ASKERS: [&str; 3] = ["tenant", "writer", "scope"];

/// One request of a data set.
#[derive(Debug, Clone)]
pub struct Query {
    tenant: TenantId,
    request: ChatRequest,
}

/// A request in its place, as [`signet_cache::Ask`] wants it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) partition: Partition,
    pub(crate) key: CacheKey,
    /// The text of the last turn, empty unless it is text.
    pub(crate) text: String,
    /// Why the request's form allows no semantic answer.
    pub(crate) barred: Option<&'static str>,
}

impl Query {
    /// A text, a list of chat messages, or a request object.
    ///
    /// # Errors
    /// What is wrong with it, for whoever wrote the file.
    pub fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Self::from_body(json_body(json!([{ "role": "user", "content": text }])), ""),
            Value::Array(_) => Self::from_body(json_body(value.clone()), ""),
            Value::Object(members) => {
                let named = ["tenant", "writer"].iter().filter_map(|name| members.get(*name).map(|who| (name, who)));
                let asker = named.map(|(name, who)| format!("{name}={who}")).collect::<Vec<_>>().join(";");
                let mut body = members.clone();
                body.retain(|name, _| !ASKERS.contains(&name.as_str()));
                Self::from_body(body, &asker)
            }
            _ => Err("neither a text nor a list of messages nor a request".to_owned()),
        }
    }

    /// A request body, asked by who is called `asker`.
    ///
    /// # Errors
    /// What the gateway would answer to this body.
    pub fn from_body(mut body: Map<String, Value>, asker: &str) -> Result<Self, String> {
        body.entry("model").or_insert_with(|| MODEL.into());
        let bytes = Bytes::from(Value::Object(body).to_string());
        let request = ChatRequest::parse(&bytes).map_err(|fault| fault.message)?;
        let hash: [u8; 32] = Sha256::digest(asker.as_bytes()).into();
        let tenant = TenantId::from_bytes(hash[..16].try_into().expect("16 of 32 bytes"));
        Ok(Self { tenant, request })
    }

    /// In a namespace of its own.
    pub(crate) fn within(&self, namespace: &str) -> Asked {
        let partition = Partition::derive(&PartitionParts {
            tenant: self.tenant,
            namespace,
            operation: "chat",
            targets: [0; 32],
            policy_generation: 0,
            shape: self.request.shape,
        });
        Asked {
            key: CacheKey::derive(&partition, self.request.last_text.as_bytes()),
            partition,
            text: self.request.last_text.clone(),
            barred: self.request.semantic_candidate().err(),
        }
    }
}

impl Asked {
    pub(crate) fn question(&self) -> Result<&str, &'static str> {
        self.barred.map_or(Ok(&self.text), Err)
    }
}

fn json_body(messages: Value) -> Map<String, Value> {
    Map::from_iter([("messages".to_owned(), messages)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(value: &Value) -> (Partition, CacheKey) {
        let asked = Query::read(value).expect("a good query").within("x");
        (asked.partition, asked.key)
    }

    #[test]
    fn a_text_is_a_chat_of_one_message() {
        let text = place(&json!("What is a delta?"));
        assert_eq!(text, place(&json!([{ "role": "user", "content": "What is a delta?" }])));
        assert_eq!(text, place(&json!({ "messages": [{ "role": "user", "content": "What is a delta?" }] })));
    }

    #[test]
    fn who_asks_is_a_partition_and_no_part_of_the_body() {
        let messages = json!([{ "role": "user", "content": "What is a delta?" }]);
        let acme = place(&json!({ "tenant": "acme", "messages": messages, "user": "u1" }));
        assert_eq!(acme, place(&json!({ "tenant": "acme", "messages": messages, "user": "u2", "scope": "tenant" })));
        assert_ne!(acme, place(&json!({ "tenant": "globex", "messages": messages })));
        assert_ne!(acme, place(&json!({ "tenant": "acme", "writer": "u1", "messages": messages })));
    }

    #[test]
    fn what_the_gateway_would_refuse_is_a_fault() {
        assert!(Query::read(&json!({ "messages": "hello" })).is_err());
        assert!(Query::read(&json!(3)).is_err());
    }
}
