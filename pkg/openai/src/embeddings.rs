//! Embeddings: requests and answers, for the exact cache only.

mod batch;

pub use batch::Batch;

use crate::error::BadRequest;
use crate::json::{Json, duplicate, get};
use crate::kept::{NotStorable, Usage};
use crate::request::{Asked, model, object, shape};
use bytes::Bytes;
use std::ops::{Deref, Range};

/// Most values in an answer: 2,048 vectors of 3,072 dimensions, the most that one request can ask for, are six million.
const MAX_VALUES: usize = 8 << 20;

/// A request to `/v1/embeddings`. All of it is in its shape, but for `user`.
#[derive(Debug, Clone)]
pub struct EmbeddingsRequest {
    asked: Asked,
    inputs: usize,
}

impl EmbeddingsRequest {
    /// Reads a body in one pass.
    ///
    /// # Errors
    /// As [`crate::ChatRequest::parse`]; `input` is a string, an array of strings, of tokens, or of arrays of tokens.
    pub fn parse(body: &Bytes) -> Result<Self, BadRequest> {
        let members = object(body)?;
        let (model, model_span) = model(&members)?;
        let input = get(&members, "input").ok_or_else(|| BadRequest::missing("input"))?;
        let inputs = count(input)
            .ok_or_else(|| BadRequest::wrong_type("input", "a string, or an array of strings or of token arrays"))?;
        let shape = shape(b"signet/shape/embeddings/v1", &members, &["user"]);
        Ok(Self { asked: Asked::whole(body, (model, model_span), shape), inputs })
    }

    /// How many vectors are wanted.
    pub fn inputs(&self) -> usize {
        self.inputs
    }
}

/// What every request says.
impl Deref for EmbeddingsRequest {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

fn count(input: &Json<'_>) -> Option<usize> {
    let tokens = |items: &[Json<'_>]| items.iter().all(|item| item.as_u64().is_some());
    match input {
        Json::String(_) => Some(1),
        Json::Array(items) if items.is_empty() => Some(0),
        Json::Array(items) if items.iter().all(|item| item.as_str().is_some()) => Some(items.len()),
        Json::Array(items) if tokens(items) => Some(1),
        Json::Array(items) if items.iter().all(|item| item.as_array().is_some_and(tokens)) => Some(items.len()),
        _ => None,
    }
}

/// A complete embeddings answer. It has no id and no time of its own, so it is served byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embeddings {
    body: Bytes,
    model: String,
    usage: Option<Usage>,
    /// Where the vectors lie in the body, if it says nothing but vectors.
    vectors: Option<Box<[Range<usize>]>>,
}

impl Embeddings {
    /// Reads a provider's answer to `inputs` inputs.
    ///
    /// # Errors
    /// It is not a list of exactly that many vectors.
    pub fn from_json(body: &[u8], inputs: usize) -> Result<Self, NotStorable> {
        let Ok(Json::Object(members)) = Json::parse_within(body, MAX_VALUES) else {
            return Err(NotStorable::Shape("not an object"));
        };
        if get(&members, "error").is_some_and(|error| !error.is_null()) {
            return Err(NotStorable::Failure);
        }
        if duplicate(&members).is_some() {
            return Err(NotStorable::Shape("a duplicate key"));
        }
        let data = get(&members, "data").and_then(Json::as_array).ok_or(NotStorable::Shape("no data"))?;
        let filled = |vector: &Json<'_>| match vector.get("embedding") {
            Some(Json::Array(values)) => !values.is_empty(),
            Some(Json::String(base64)) => !base64.is_empty(),
            _ => false,
        };
        if data.len() != inputs || !data.iter().all(filled) {
            return Err(NotStorable::Shape("not one vector for each input"));
        }
        let model = get(&members, "model").and_then(Json::as_str).unwrap_or_default().to_owned();
        let usage = get(&members, "usage").and_then(Usage::read);
        let vectors = batch::spans(&members, data);
        Ok(Self { body: Bytes::copy_from_slice(body), model, usage, vectors })
    }

    /// The body as it came, copied to its exact size.
    pub fn to_json(&self) -> &Bytes {
        &self.body
    }

    /// The model that made it, empty if not told.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// What it cost.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }
}
