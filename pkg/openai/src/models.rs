//! `GET /v1/models` over several providers.

use crate::json::{Json, Member, Members, get};
use bytes::Bytes;
use std::collections::HashSet;

/// A list of models, each id once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelList {
    models: Vec<Members<'static>>,
}

/// A provider's model list is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the provider's model list is not in the expected format")]
pub struct NotAModelList;

impl ModelList {
    /// Reads a provider's answer. Entries without an id are left out, unknown fields are kept.
    ///
    /// # Errors
    /// It is not `{"data": [..]}`.
    pub fn parse(body: &[u8]) -> Result<Self, NotAModelList> {
        let tree = Json::parse(body).map_err(|_| NotAModelList)?;
        let data = tree.get("data").and_then(Json::as_array).ok_or(NotAModelList)?;
        let mut known = HashSet::new();
        let first =
            |model: &&Json<'_>| model.get("id").and_then(Json::as_str).is_some_and(|id| known.insert(id.to_owned()));
        let models = data.iter().filter(first).filter_map(|model| match model.clone().into_owned() {
            Json::Object(members) => Some(members),
            _ => None,
        });
        Ok(Self { models: models.collect() })
    }

    /// Adds a model by name, unless its id is there already. `created` is in seconds since the Unix epoch.
    pub fn push(&mut self, id: &str, owned_by: &str, created: u64) {
        if self.ids().any(|known| known == id) {
            return;
        }
        self.models.push(vec![
            Member::new("id", Json::text(id)),
            Member::new("object", Json::text("model")),
            Member::new("created", Json::Number(created.to_string().into())),
            Member::new("owned_by", Json::text(owned_by)),
        ]);
    }

    /// The union by id; what is in `self` wins.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        let known: HashSet<String> = self.ids().map(str::to_owned).collect();
        self.models.extend(other.models.into_iter().filter(|model| id(model).is_some_and(|id| !known.contains(id))));
        self
    }

    /// The ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.models.iter().filter_map(|model| id(model))
    }

    /// One entry as the body to answer with; none where there is no model of that id.
    pub fn one(&self, wanted: &str) -> Option<Bytes> {
        let model = self.models.iter().find(|model| id(model) == Some(wanted))?;
        let mut out = Vec::new();
        Json::Object(model.clone()).write(&mut out);
        Some(out.into())
    }

    /// The body to answer with.
    pub fn to_json(&self) -> Bytes {
        let mut out = b"{\"object\":\"list\",\"data\":[".to_vec();
        for (i, model) in self.models.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            Json::Object(model.clone()).write(&mut out);
        }
        out.extend_from_slice(b"]}");
        out.into()
    }
}

fn id<'m>(model: &'m Members<'_>) -> Option<&'m str> {
    get(model, "id").and_then(Json::as_str)
}
