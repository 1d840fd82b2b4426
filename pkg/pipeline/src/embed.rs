//! An encoder behind an OpenAI-compatible embeddings endpoint. Whatever goes wrong there is a miss.

use async_trait::async_trait;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use serde::{Deserialize, Serialize};
use signet_cache::{EmbedFault, Embedder};
use signet_dialect::Api;
use signet_provider::{Auth, Call, Provider, RequestHeaders};
use signet_types::ModelName;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const ANSWER_MAX: usize = 1 << 20;

/// Asks an endpoint for vectors.
pub struct RemoteEmbedder {
    provider: Arc<dyn Provider>,
    model: ModelName,
    timeout: Duration,
    id: String,
}

#[derive(Serialize)]
struct Question<'a> {
    model: &'a str,
    input: &'a str,
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    embedding: Vec<f32>,
}

impl RemoteEmbedder {
    /// An encoder that waits at most `timeout` for `model` at `provider`.
    pub fn new(provider: Arc<dyn Provider>, model: ModelName, timeout: Duration) -> Self {
        let id = format!("remote/{}/{model}", provider.base_url());
        Self { provider, model, timeout, id }
    }
}

#[async_trait]
impl Embedder for RemoteEmbedder {
    fn id(&self) -> &str {
        &self.id
    }

    async fn embed(&self, text: &str) -> Result<Arc<[f32]>, EmbedFault> {
        let question = Question { model: self.model.as_str(), input: text, encoding_format: "float" };
        let body = serde_json::to_vec(&question).map_err(|error| EmbedFault(error.to_string()))?;
        let mut headers = RequestHeaders::default();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let call = Call {
            api: Api::Embeddings,
            model: Some(self.model.clone()),
            method: Method::POST,
            query: None,
            fallback: false,
            headers,
            body: Bytes::from(body),
            authorization: Auth::Provider,
            deadline: Some(Instant::now() + self.timeout),
            trail: None,
        };
        let reply = self.provider.send(call).await.map_err(|error| EmbedFault(error.to_string()))?;
        if reply.status.as_u16() != 200 {
            return Err(EmbedFault(format!("status {}", reply.status)));
        }
        let body = reply.body.collect(ANSWER_MAX).await.map_err(|error| EmbedFault(error.to_string()))?;
        read(&body)
    }
}

fn read(body: &[u8]) -> Result<Arc<[f32]>, EmbedFault> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| EmbedFault(error.to_string()))?;
    let [item] = <[Item; 1]>::try_from(answer.data).map_err(|_| EmbedFault("not one vector".to_owned()))?;
    let length = item.embedding.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if !length.is_normal() {
        return Err(EmbedFault("a vector without direction".to_owned()));
    }
    #[expect(clippy::cast_possible_truncation, reason = "components of a unit vector")]
    let unit = item.embedding.iter().map(|x| (f64::from(*x) / length) as f32);
    Ok(unit.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_brought_to_unit_length() {
        let unit = read(br#"{"data":[{"embedding":[3,4]}]}"#).expect("a vector");
        assert_eq!(&unit[..], [0.6, 0.8]);
    }

    #[test]
    fn what_is_not_one_usable_vector_is_a_fault() {
        for body in [
            &br#"{"data":[]}"#[..],
            br#"{"data":[{"embedding":[0,0]}]}"#,
            br#"{"data":[{"embedding":[]}]}"#,
            b"{}",
            b"",
        ] {
            assert!(read(body).is_err(), "{}", String::from_utf8_lossy(body));
        }
    }
}
