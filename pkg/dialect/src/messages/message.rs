//! A complete message in the one form that is stored and can be served as JSON and as a stream.
//!
//! It is the text of the message's JSON object without `id`, which every serving gets anew.

use super::render;
use bytes::Bytes;
use signet_openai::wire::{Facts, Json, Member, digest, duplicate, get, stored_members, text_within, write_str};
use signet_openai::{KeptText, NotStorable, Usage};
use std::ops::Deref;

/// A complete message. Two are equal if they say the same, however they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message(KeptText);

impl Message {
    /// Reads a provider's JSON answer.
    ///
    /// An answer that is cut short is one too: it has facts for the record, and [`KeptText::storable`] refuses it.
    ///
    /// # Errors
    /// It does not have the format, so it can be passed on but neither described nor stored.
    pub fn from_json(body: &[u8]) -> Result<Self, NotStorable> {
        let tree = Json::parse(body).map_err(|_| NotStorable::Shape("not JSON"))?;
        let Json::Object(mut members) = tree else { return Err(NotStorable::Shape("not an object")) };
        if get(&members, "type").and_then(Json::as_str) == Some("error") {
            return Err(NotStorable::Failure);
        }
        members.retain(|member| member.key != "id");
        Self::read(text_within(body, &mut members), &members, false)
    }

    /// The message with this text. `unread` says that its events held something that is not in it.
    pub(super) fn from_text(text: Vec<u8>, unread: bool) -> Result<Self, NotStorable> {
        let tree = Json::parse(&text).map_err(|_| NotStorable::Shape("not JSON"))?.into_owned();
        let Json::Object(members) = tree else { return Err(NotStorable::Shape("not an object")) };
        Self::read(text, &members, unread)
    }

    /// Finds the facts in `members`, whose text is `text`.
    fn read(text: Vec<u8>, members: &[Member<'_>], unread: bool) -> Result<Self, NotStorable> {
        if duplicate(members).is_some() {
            return Err(NotStorable::Shape("a duplicate key"));
        }
        let content = get(members, "content").and_then(Json::as_array).ok_or(NotStorable::Shape("no content"))?;
        for block in content {
            let fields = block.as_object().ok_or(NotStorable::Shape("a block is not an object"))?;
            if duplicate(fields).is_some() {
                return Err(NotStorable::Shape("a duplicate key"));
            }
        }
        if get(members, "usage").and_then(Json::as_object).is_some_and(|usage| duplicate(usage).is_some()) {
            return Err(NotStorable::Shape("a duplicate key"));
        }
        let word = |key: &str| get(members, key).and_then(Json::as_str).unwrap_or_default();
        let whole = whole(word("stop_reason"), members, content);
        let exact = if unread { Err("an unknown event") } else { whole };
        let facts = Facts {
            finish: Some(word("stop_reason")).filter(|reason| !reason.is_empty()).map(Box::from),
            usage: get(members, "usage").and_then(usage_of),
            digest: digest(b"signet/message/v1", members.iter()),
            exact,
            semantic: exact.and_then(|()| general(content)),
        };
        Ok(Self(KeptText::new(text, members, facts)))
    }

    /// Its text blocks joined, if it has one.
    pub fn content(&self) -> Option<String> {
        let tree = self.tree();
        let blocks = tree.get("content")?.as_array()?;
        let texts = blocks.iter().filter(|block| kind(block) == "text");
        let texts: Vec<&str> = texts.filter_map(|block| block.get("text")?.as_str()).collect();
        (!texts.is_empty()).then(|| texts.concat())
    }

    /// The body of a whole answer.
    pub fn to_json(&self, id: &str) -> Bytes {
        let mut out = Vec::with_capacity(self.text().len() + id.len() + 10);
        out.extend_from_slice(b"{\"id\":");
        write_str(id, &mut out);
        out.push(b',');
        out.extend_from_slice(&self.text()[1..]);
        out.into()
    }

    /// The whole event stream, `message_stop` included.
    pub fn to_sse(&self, id: &str) -> Bytes {
        render::stream(self.text(), id)
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// It was not made by [`KeptText::encode`] of this version.
    pub fn decode(stored: &[u8]) -> Result<Self, NotStorable> {
        let (members, text) = stored_members(stored)?;
        if get(&members, "id").is_some() {
            return Err(NotStorable::Version);
        }
        Self::read(text.to_vec(), &members, false)
    }
}

/// What is asked of every kept answer.
impl Deref for Message {
    type Target = KeptText;

    fn deref(&self) -> &KeptText {
        &self.0
    }
}

/// Whether a body is an answer to a request to count tokens.
pub(crate) fn is_count(body: &[u8]) -> bool {
    Json::parse(body).is_ok_and(|body| body.get("input_tokens").and_then(Json::as_u64).is_some())
}

/// Reads a `usage` object. Its `input_tokens` are what no cache knew, so that the whole input is the sum of three.
pub(crate) fn usage_of(usage: &Json<'_>) -> Option<Usage> {
    usage.as_object()?;
    let count = |key: &str| usage.get(key).and_then(Json::as_u64).unwrap_or(0);
    let cached = count("cache_read_input_tokens");
    let input = count("input_tokens").saturating_add(cached).saturating_add(count("cache_creation_input_tokens"));
    let thinking = usage.get("output_tokens_details").and_then(|details| details.get("thinking_tokens"));
    let reasoning = thinking.and_then(Json::as_u64).unwrap_or(0);
    Some(Usage { input, output: count("output_tokens"), cached_input: cached, reasoning })
}

fn kind<'b>(block: &'b Json<'_>) -> &'b str {
    block.get("type").and_then(Json::as_str).unwrap_or_default()
}

fn has_text(block: &Json<'_>) -> bool {
    block.get("text").and_then(Json::as_str).is_some_and(|text| !text.trim().is_empty())
}

/// Whether it is a whole answer that can be said in both forms. Stop reasons and blocks are lists of what is known:
/// whatever is invented later is not stored.
fn whole(reason: &str, members: &[Member<'_>], content: &[Json<'_>]) -> Result<(), &'static str> {
    let calls = content.iter().any(|block| kind(block) == "tool_use");
    match reason {
        "end_turn" | "stop_sequence" if !calls && !content.iter().any(has_text) => return Err("an empty answer"),
        "tool_use" if !calls => return Err("missing tool calls"),
        "end_turn" | "stop_sequence" | "tool_use" => {}
        "max_tokens" | "model_context_window_exceeded" => return Err("length"),
        "refusal" => return Err("a refusal"),
        "pause_turn" => return Err("a pause"),
        "" => return Err("no stop reason"),
        _ => return Err("an unknown stop reason"),
    }
    if get(members, "container").is_some_and(|container| !container.is_null()) {
        return Err("a container");
    }
    let says = |block: &Json<'_>, key: &str| block.get(key).is_some_and(|text| text.as_str().is_some());
    content.iter().try_for_each(|block| match kind(block) {
        "text" if !says(block, "text") => Err("a block without its text"),
        "thinking" if !says(block, "thinking") || !says(block, "signature") => Err("a block without its text"),
        "text" => match block.get("citations") {
            Some(Json::Array(citations)) if !citations.is_empty() => Err("citations"),
            _ => Ok(()),
        },
        "tool_use" if block.get("input").is_none_or(|input| input.as_object().is_none()) => Err("a malformed call"),
        "tool_use" | "thinking" | "redacted_thinking" => Ok(()),
        _ => Err("an unknown block"),
    })
}

/// Whether a whole answer may be served to similar questions too: thoughts dwell on the words of one question.
fn general(content: &[Json<'_>]) -> Result<(), &'static str> {
    content.iter().try_for_each(|block| match kind(block) {
        "text" => Ok(()),
        "tool_use" => Err("tool calls"),
        _ => Err("thinking"),
    })
}
