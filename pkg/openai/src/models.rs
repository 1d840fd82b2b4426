//! `GET /v1/models` over several providers.

use crate::json::{Json, Members, get};
use bytes::Bytes;

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
        let mut list = Self::default();
        for model in data {
            if let Json::Object(members) = model.clone().into_owned() {
                list.insert(members);
            }
        }
        Ok(list)
    }

    /// Adds a model by name, unless its id is there already. `created` is in seconds since the Unix epoch.
    pub fn push(&mut self, id: &str, owned_by: &str, created: u64) {
        let field = |key: &'static str, value| crate::json::Member::new(key, value);
        self.insert(vec![
            field("id", Json::text(id)),
            field("object", Json::text("model")),
            field("created", Json::Number(created.to_string().into())),
            field("owned_by", Json::text(owned_by)),
        ]);
    }

    /// The union by id; what is in `self` wins.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        let known: std::collections::HashSet<String> = self.ids().map(str::to_owned).collect();
        self.models.extend(other.models.into_iter().filter(|model| id(model).is_some_and(|id| !known.contains(id))));
        self
    }

    /// The ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.models.iter().filter_map(|model| id(model))
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

    fn insert(&mut self, model: Members<'static>) {
        if id(&model).is_some_and(|id| self.ids().all(|known| known != id)) {
            self.models.push(model);
        }
    }
}

fn id<'m>(model: &'m Members<'_>) -> Option<&'m str> {
    get(model, "id").and_then(Json::as_str)
}
