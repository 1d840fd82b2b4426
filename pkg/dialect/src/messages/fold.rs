//! A stream's events put together again into the message that they are parts of.
//!
//! `message_start` brings the message, `message_delta` replaces fields of it and of its usage (counts are cumulative),
//! blocks are put together by their index. Fields that nobody here knows are kept.

use super::{Message, usage_of};
use crate::pivot::RawStr;
use crate::template::{Template, raw};
use signet_openai::wire::{Json, Member, Members, duplicate, get};
use signet_openai::{Incomplete, Usage};
use std::collections::BTreeMap;

/// Most fields in one object, and most blocks. They are searched one by one, so that a hostile stream must not bring a
/// million of them.
const MAX_FIELDS: usize = 1024;

/// Takes events, gives a [`Message`].
#[derive(Debug, Default)]
pub struct MessageFold {
    head: Option<Members<'static>>,
    blocks: BTreeMap<u64, Block>,
    template: Option<Template<(u64, Growing)>>,
    fault: Option<Incomplete>,
    unread: bool,
}

/// What deltas add to; escaped, since a stream may cut an escape's pair in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growing {
    Text,
    Thinking,
    Signature,
    Input,
}

#[derive(Debug)]
struct Block {
    fields: Members<'static>,
    /// What was added to its text, thoughts or input.
    added: String,
    /// What was added to its signature.
    seal: String,
}

impl MessageFold {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the data of one event. What is wrong with it is told by [`Self::finish`].
    pub fn push(&mut self, data: &[u8]) {
        let known = self.template.as_ref().and_then(|template| Some((template.key, template.text(data)?)));
        let fault = match known {
            Some(((index, growing), text)) => self.grow(index, growing, text),
            None => match Json::parse(data) {
                Ok(Json::Object(event)) => self.event(data, event),
                _ => Err(Incomplete::Malformed),
            },
        };
        self.fault = self.fault.or(fault.err());
    }

    /// What the provider counted so far.
    pub fn usage(&self) -> Option<Usage> {
        get(self.head.as_ref()?, "usage").and_then(usage_of)
    }

    /// The model that answers, once it is known.
    pub fn model(&self) -> Option<&str> {
        get(self.head.as_ref()?, "model").and_then(Json::as_str)
    }

    /// The whole message.
    ///
    /// # Errors
    /// The events do not make one; `message_stop` is not needed.
    pub fn finish(self) -> Result<Message, Incomplete> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let mut message = self.head.ok_or(Incomplete::Cut)?;
        if get(&message, "stop_reason").and_then(Json::as_str).is_none_or(str::is_empty) {
            return Err(Incomplete::Cut);
        }
        message.retain(|field| field.key != "content");
        let mut text = b"{".to_vec();
        for field in &message {
            field.write(&mut text);
            text.push(b',');
        }
        text.extend_from_slice(b"\"content\":[");
        for (i, block) in self.blocks.into_values().enumerate() {
            text.extend_from_slice(if i > 0 { b"," } else { b"" });
            block.write(&mut text)?;
        }
        text.extend_from_slice(b"]}");
        Message::from_text(text, self.unread).map_err(|_| Incomplete::Malformed)
    }

    fn event(&mut self, data: &[u8], mut event: Members<'_>) -> Result<(), Incomplete> {
        if duplicate(&event).is_some() {
            return Err(Incomplete::Malformed);
        }
        let kind = take(&mut event, "type");
        match kind.as_ref().and_then(Json::as_str) {
            Some("message_start") => self.start(take(&mut event, "message")),
            Some("content_block_start") => self.open(&event),
            Some("content_block_delta") => self.delta(data, &event),
            Some("message_delta") => self.change(&event),
            Some("error") => Err(Incomplete::Failure),
            Some("content_block_stop" | "message_stop" | "ping") => Ok(()),
            Some(_) => {
                self.unread = true;
                Ok(())
            }
            None => Err(Incomplete::Malformed),
        }
    }

    fn start(&mut self, message: Option<Json<'_>>) -> Result<(), Incomplete> {
        let Some(Json::Object(mut message)) = message else { return Err(Incomplete::Malformed) };
        let blocks = take(&mut message, "content");
        let empty = blocks.is_none_or(|blocks| blocks.as_array().is_some_and(<[_]>::is_empty));
        if self.head.is_some() || !empty || message.len() > MAX_FIELDS {
            return Err(Incomplete::Malformed);
        }
        message.retain(|member| member.key != "id");
        self.head = Some(message.into_iter().map(Member::into_owned).collect());
        Ok(())
    }

    fn open(&mut self, event: &[Member<'_>]) -> Result<(), Incomplete> {
        let index = get(event, "index").and_then(Json::as_u64).ok_or(Incomplete::Malformed)?;
        let block = get(event, "content_block").and_then(Json::as_object).ok_or(Incomplete::Malformed)?;
        if block.len() > MAX_FIELDS || self.blocks.len() >= MAX_FIELDS {
            return Err(Incomplete::Malformed);
        }
        let fields = block.iter().cloned().map(Member::into_owned).collect();
        let block = Block { fields, added: String::new(), seal: String::new() };
        match self.blocks.insert(index, block) {
            None => Ok(()),
            Some(_) => Err(Incomplete::Malformed),
        }
    }

    fn delta(&mut self, data: &[u8], event: &[Member<'_>]) -> Result<(), Incomplete> {
        let index = get(event, "index").and_then(Json::as_u64).ok_or(Incomplete::Malformed)?;
        let delta = get(event, "delta").and_then(Json::as_object).ok_or(Incomplete::Malformed)?;
        let (growing, key) = match get(delta, "type").and_then(Json::as_str) {
            Some("text_delta") => (Growing::Text, "text"),
            Some("thinking_delta") => (Growing::Thinking, "thinking"),
            Some("signature_delta") => (Growing::Signature, "signature"),
            Some("input_json_delta") => (Growing::Input, "partial_json"),
            Some("citations_delta") => return self.cite(index, get(delta, "citation")),
            _ => {
                self.unread = true;
                return Ok(());
            }
        };
        let member = delta.iter().find(|member| member.key == key).ok_or(Incomplete::Malformed)?;
        let text = raw(data, &member.span).ok_or(Incomplete::Malformed)?;
        let unique = duplicate(delta).is_none();
        self.template = unique.then(|| Template::of(data, &member.span, (index, growing))).flatten();
        self.grow(index, growing, text)
    }

    fn grow(&mut self, index: u64, growing: Growing, text: RawStr<'_>) -> Result<(), Incomplete> {
        let block = self.blocks.get_mut(&index).ok_or(Incomplete::Malformed)?;
        let fits = match growing {
            Growing::Text => block.kind() == "text",
            Growing::Thinking | Growing::Signature => block.kind() == "thinking",
            Growing::Input => block.kind().ends_with("tool_use"),
        };
        let to = if growing == Growing::Signature { &mut block.seal } else { &mut block.added };
        to.push_str(text.as_str());
        if fits { Ok(()) } else { Err(Incomplete::Malformed) }
    }

    fn cite(&mut self, index: u64, citation: Option<&Json<'_>>) -> Result<(), Incomplete> {
        let block = self.blocks.get_mut(&index).ok_or(Incomplete::Malformed)?;
        let citation = citation.ok_or(Incomplete::Malformed)?.clone().into_owned();
        match block.fields.iter_mut().find(|field| field.key == "citations").map(|field| &mut field.value) {
            Some(Json::Array(citations)) => citations.push(citation),
            Some(other) => *other = Json::Array(vec![citation]),
            None => block.fields.push(Member::new("citations", Json::Array(vec![citation]))),
        }
        Ok(())
    }

    fn change(&mut self, event: &[Member<'_>]) -> Result<(), Incomplete> {
        let head = self.head.as_mut().ok_or(Incomplete::Malformed)?;
        for field in get(event, "delta").and_then(Json::as_object).unwrap_or_default() {
            set(head, &field.key, field.value.clone())?;
        }
        let Some(counts) = get(event, "usage").and_then(Json::as_object) else { return Ok(()) };
        if get(head, "usage").and_then(Json::as_object).is_none() {
            set(head, "usage", Json::Object(Vec::new()))?;
        }
        let usage = head.iter_mut().find(|field| field.key == "usage").map(|field| &mut field.value);
        let Some(Json::Object(usage)) = usage else { return Err(Incomplete::Malformed) };
        counts.iter().try_for_each(|count| set(usage, &count.key, count.value.clone()))
    }
}

impl Block {
    fn kind(&self) -> &str {
        get(&self.fields, "type").and_then(Json::as_str).unwrap_or_default()
    }

    /// Appends the block. Its input stays as it was written, so that a replay has the very text that was streamed.
    fn write(mut self, out: &mut Vec<u8>) -> Result<(), Incomplete> {
        let added = unescaped(&self.added)?;
        let seal = unescaped(&self.seal)?;
        let mut input = None;
        match self.kind() {
            "text" => self.append("text", &added)?,
            "thinking" => {
                self.append("thinking", &added)?;
                self.append("signature", &seal)?;
            }
            _ if added.trim().is_empty() => {}
            _ => {
                Json::parse(added.as_bytes()).map_err(|_| Incomplete::Malformed)?;
                self.fields.retain(|field| field.key != "input");
                input = Some(added);
            }
        }
        out.push(b'{');
        for (i, field) in self.fields.iter().enumerate() {
            out.extend_from_slice(if i > 0 { b"," } else { b"" });
            field.write(out);
        }
        if let Some(input) = input {
            out.extend_from_slice(if self.fields.is_empty() { b"\"input\":" } else { b",\"input\":" });
            out.extend_from_slice(input.trim().as_bytes());
        }
        out.push(b'}');
        Ok(())
    }

    fn append(&mut self, key: &str, added: &str) -> Result<(), Incomplete> {
        match self.fields.iter_mut().find(|field| field.key == key).map(|field| &mut field.value) {
            Some(Json::String(text)) => text.to_mut().push_str(added),
            _ if added.is_empty() => {}
            _ => set(&mut self.fields, key, Json::text(added))?,
        }
        Ok(())
    }
}

fn unescaped(text: &str) -> Result<String, Incomplete> {
    let text = RawStr::between_quotes(text.as_bytes()).and_then(RawStr::unescaped);
    text.map(std::borrow::Cow::into_owned).ok_or(Incomplete::Malformed)
}

fn take<'a>(members: &mut Members<'a>, key: &str) -> Option<Json<'a>> {
    let at = members.iter().position(|member| member.key == key)?;
    Some(members.remove(at).value)
}

/// The last value counts.
fn set(members: &mut Members<'static>, key: &str, value: Json<'_>) -> Result<(), Incomplete> {
    match members.iter().position(|member| member.key == key) {
        Some(at) => members[at].value = value.into_owned(),
        None if members.len() >= MAX_FIELDS => return Err(Incomplete::Malformed),
        None => members.push(Member::new(key.to_owned(), value.into_owned())),
    }
    Ok(())
}
