//! Requests to `/v1/messages` and `/v1/messages/count_tokens`, read once.

use bytes::Bytes;
use signet_openai::wire::{
    self, Json, Member, check_messages, duplicate, flag, get, object, present, split, take_last_text,
};
use signet_openai::{Asked, BadRequest};
use std::ops::Deref;

/// Fields that do not change what the model says.
const NEUTRAL: [&str; 2] = ["stream", "metadata"];

/// A request to `/v1/messages`.
#[derive(Debug, Clone)]
pub struct MessagesRequest {
    asked: Asked,
    container: bool,
}

impl MessagesRequest {
    /// Reads a body in one pass.
    ///
    /// # Errors
    /// Not JSON, not UTF-8, nested over 128 levels, a duplicate key in the body, a message, a content block or a block of
    /// the system prompt, or a field that Signet interprets has a wrong type. Everything else is left to the provider.
    pub fn parse(body: &Bytes) -> Result<Self, BadRequest> {
        let mut members = object(body)?;
        let (model, model_span) = wire::model(&members)?;
        check(&members)?;
        let stream = flag(&members, "stream", "stream")?;
        wire::temperature(&members)?;
        wire::integer(&members, "max_tokens")?;
        let not_semantic = not_semantic(&members);
        let container = present(&members, "container").is_some();
        let (last_text, not_text) = split(take_last_text(&mut members));
        let asked = Asked {
            body: body.clone(),
            model,
            model_span,
            stream,
            include_usage: true,
            usage_edit: None,
            shape: wire::shape(b"signet/shape/messages/v1", &members, &NEUTRAL),
            last_text,
            not_semantic: not_text.or(not_semantic),
        };
        Ok(Self { asked, container })
    }

    /// Whether the body says all that decides the answer, so that the answer may be kept.
    ///
    /// # Errors
    /// It runs in a container, whose files the provider keeps.
    pub fn stateless(&self) -> Result<(), &'static str> {
        if self.container { Err("container") } else { Ok(()) }
    }
}

/// What every request says.
impl Deref for MessagesRequest {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

/// A request to `/v1/messages/count_tokens`. All of it is in its shape but the neutral fields.
#[derive(Debug, Clone)]
pub struct CountTokensRequest(Asked);

impl CountTokensRequest {
    /// Reads a body in one pass.
    ///
    /// # Errors
    /// As [`MessagesRequest::parse`].
    pub fn parse(body: &Bytes) -> Result<Self, BadRequest> {
        let members = object(body)?;
        let model = wire::model(&members)?;
        check(&members)?;
        let shape = wire::shape(b"signet/shape/count_tokens/v1", &members, &NEUTRAL);
        Ok(Self(Asked::whole(body, model, shape)))
    }
}

/// What every request says.
impl Deref for CountTokensRequest {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.0
    }
}

fn check(members: &[Member<'_>]) -> Result<(), BadRequest> {
    check_messages(members)?;
    let system = get(members, "system").and_then(Json::as_array).unwrap_or_default();
    match system.iter().filter_map(Json::as_object).find_map(duplicate) {
        Some(key) => Err(BadRequest::duplicate("system", key)),
        None => Ok(()),
    }
}

/// Why an answer to a similar question could not stand in for one to this question.
fn not_semantic(members: &[Member<'_>]) -> Option<&'static str> {
    let wanted = |key: &str| match present(members, key) {
        None => false,
        Some(Json::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    let fields = [("tools", "tools"), ("mcp_servers", "tools"), ("container", "container")];
    fields.into_iter().find(|(key, _)| wanted(key)).map(|(_, reason)| reason)
}
