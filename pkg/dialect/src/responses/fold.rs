//! A stream's events put together again into the response they tell.
//!
//! The last event has the response in full, so only that is kept. It is believed for the cache where the items that were
//! told on the way are the same: some servers end with a response that lacks them.

use super::answer::{Response, usage};
use signet_openai::wire::{Json, Members, digest, get, is_failure};
use signet_openai::{Incomplete, NotStorable, Usage};
use std::collections::BTreeMap;

/// The common start of an event; its type's name follows.
const TYPE: &[u8] = b"{\"type\":\"";

/// Most items that are compared; an answer of more is not stored.
const MAX_ITEMS: usize = 1024;

/// Takes events, gives a [`Response`].
#[derive(Debug, Default)]
pub struct ResponsesFold {
    model: Option<String>,
    usage: Option<Usage>,
    /// The digests of the items as they were told, by their place.
    items: BTreeMap<u64, [u8; 32]>,
    response: Option<Box<Response>>,
    fault: Option<Incomplete>,
}

impl ResponsesFold {
    /// For one response.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the data of one event. What is wrong with it is told by [`Self::finish`].
    pub fn push(&mut self, data: &[u8]) {
        if is_delta(data) || data.trim_ascii() == b"[DONE]" {
            return;
        }
        let fault = match Json::parse(data) {
            Ok(event) if is_failure(&event) => Err(Incomplete::Failure),
            Ok(Json::Object(event)) => self.event(&event, data),
            _ => Err(Incomplete::Malformed),
        };
        self.fault = self.fault.or(fault.err());
    }

    /// What the provider counted so far.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The model that answers, once it is known.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The whole answer.
    ///
    /// # Errors
    /// The events do not make one.
    pub fn finish(self) -> Result<Response, Incomplete> {
        match (self.fault, self.response) {
            (Some(fault), _) => Err(fault),
            (None, None) => Err(Incomplete::Cut),
            (None, Some(response)) => Ok(*response),
        }
    }

    fn event(&mut self, event: &Members<'_>, data: &[u8]) -> Result<(), Incomplete> {
        let name = get(event, "type").and_then(Json::as_str).ok_or(Incomplete::Malformed)?;
        if let Some(response) = get(event, "response") {
            self.model = response.get("model").and_then(Json::as_str).map(str::to_owned).or(self.model.take());
            self.usage = response.get("usage").and_then(usage).or(self.usage);
        }
        match name {
            "error" | "response.failed" => Err(Incomplete::Failure),
            "response.output_item.done" => {
                let place = get(event, "output_index").and_then(Json::as_u64).ok_or(Incomplete::Malformed)?;
                let item = get(event, "item").and_then(item_digest).ok_or(Incomplete::Malformed)?;
                if self.items.len() < MAX_ITEMS {
                    self.items.insert(place, item);
                }
                Ok(())
            }
            "response.completed" | "response.incomplete" if self.response.is_none() => {
                let whole = event.iter().find(|member| member.key == "response").ok_or(Incomplete::Malformed)?;
                let response = Response::from_json(&data[whole.span.clone()]).map_err(|why| match why {
                    NotStorable::Failure => Incomplete::Failure,
                    _ => Incomplete::Malformed,
                })?;
                self.response = Some(Box::new(self.checked(response, &whole.value)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn checked(&self, mut response: Response, tree: &Json<'_>) -> Response {
        let output = tree.get("output").and_then(Json::as_array).unwrap_or_default();
        let told = |(at, item): (usize, &Json<'_>)| self.items.get(&(at as u64)).copied() == item_digest(item);
        if output.len() != self.items.len() || !output.iter().enumerate().all(told) {
            response.refuse("other items than told");
        }
        response
    }
}

fn item_digest(item: &Json<'_>) -> Option<[u8; 32]> {
    Some(digest(b"signet/item/responses/v1", item.as_object()?.iter()))
}

/// Whether it is a piece of a text that comes in full later: nearly all of a stream, and not read.
fn is_delta(data: &[u8]) -> bool {
    let name = data.strip_prefix(TYPE).and_then(|rest| rest.split(|byte| *byte == b'"').next());
    name.is_some_and(|name| name.ends_with(b".delta"))
}
