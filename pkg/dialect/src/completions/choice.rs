//! A choice of a legacy completion: a text, told in pieces.

use signet_openai::wire::{Choice, Chunks, Json, Member, Members, PIECE, get, merge, next_piece, replace, write_str};
use signet_openai::{Choices, ChoicesFold, Incomplete, Layer, NotStorable};

/// A complete answer.
pub type Completion = Choices<TextChoice>;

/// Takes `text_completion` events, gives a [`Completion`]. Texts are appended, lists of log probabilities are extended, of
/// everything else the last value that is not `null` counts.
pub type CompletionsFold = ChoicesFold<TextChoice>;

/// A choice of a [`Completion`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextChoice {
    fields: Members<'static>,
    finished: bool,
}

impl Choice for TextChoice {
    const OBJECT: &'static str = "text_completion";
    const CHUNK: &'static str = Self::OBJECT;
    const DOMAIN: &'static [u8] = b"signet/answer/completions/v1";
    const EVERY_CHUNK: &'static [&'static str] = &["model", "system_fingerprint"];

    fn check(choice: &[Member<'_>]) -> Result<(), NotStorable> {
        get(choice, "text").and_then(Json::as_str).map(|_| ()).ok_or(NotStorable::Shape("no text"))
    }

    /// The finish reasons are a list of what is known to be whole: whatever a provider invents is not stored.
    fn storable(choice: &Json<'_>, layer: Layer) -> Result<(), &'static str> {
        let blank = Self::content(choice).is_none_or(|text| text.trim().is_empty());
        match choice.get("finish_reason").and_then(Json::as_str).unwrap_or_default() {
            "stop" if blank => return Err("an empty answer"),
            "stop" => {}
            "length" => return Err("length"),
            "content_filter" => return Err("content_filter"),
            "" => return Err("no finish reason"),
            _ => return Err("an unknown finish reason"),
        }
        match layer {
            Layer::Semantic if choice.get("logprobs").is_some_and(|logprobs| !logprobs.is_null()) => Err("logprobs"),
            Layer::Exact | Layer::Semantic => Ok(()),
        }
    }

    fn content<'c>(choice: &'c Json<'_>) -> Option<&'c str> {
        choice.get("text")?.as_str()
    }

    /// The text in pieces, then the finish reason. A text with log probabilities stays whole, since they are counted by its
    /// tokens.
    fn replay(index: u64, choice: &[Member<'_>], chunks: &mut Chunks) {
        let mut rest = Vec::new();
        for field in choice.iter().filter(|field| !["text", "index", "finish_reason"].contains(&&*field.key)) {
            field.write(&mut rest);
            rest.push(b',');
        }
        let whole = get(choice, "logprobs").is_some_and(|logprobs| !logprobs.is_null());
        let mut text = get(choice, "text").and_then(Json::as_str).unwrap_or_default();
        let most = if whole { usize::MAX } else { PIECE };
        while let Some(piece) = next_piece(&mut text, most) {
            let rest = std::mem::take(&mut rest);
            chunks.chunk(|out| write(out, (index, piece), &rest, &Json::Null));
        }
        let finish = get(choice, "finish_reason").unwrap_or(&Json::Null);
        chunks.chunk(|out| write(out, (index, ""), &rest, finish));
    }

    fn only_text<'c, 'a>(chunk: &'c [Member<'a>]) -> Option<&'c Member<'a>> {
        chunk.iter().find(|field| field.key == "text")
    }

    fn add_text(&mut self, text: Json<'_>) -> Result<(), Incomplete> {
        merge(&mut self.fields, "text", text)
    }

    fn take(&mut self, chunk: Members<'_>) -> Result<(), Incomplete> {
        for member in chunk {
            match (&*member.key, member.value) {
                ("index", _) | ("text", Json::Null) => {}
                ("text", text @ Json::String(_)) => self.add_text(text)?,
                ("text", _) => return Err(Incomplete::Malformed),
                ("logprobs", value) => merge(&mut self.fields, "logprobs", value)?,
                // Some providers send an empty reason with every event.
                ("finish_reason", Json::String(reason)) if reason.is_empty() => {}
                ("finish_reason", reason) => {
                    self.finished |= reason.as_str().is_some();
                    replace(&mut self.fields, "finish_reason", reason)?;
                }
                (key, value) => replace(&mut self.fields, key, value)?,
            }
        }
        Ok(())
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn into_json(self, index: u64) -> Json<'static> {
        let mut fields = vec![Member::new("index", Json::Number(index.to_string().into()))];
        fields.extend(self.fields);
        Json::Object(fields)
    }
}

fn write(out: &mut Vec<u8>, (index, text): (u64, &str), rest: &[u8], finish: &Json<'_>) {
    out.extend_from_slice(b"\"text\":");
    write_str(text, out);
    out.extend_from_slice(b",\"index\":");
    out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
    out.push(b',');
    out.extend_from_slice(rest);
    out.extend_from_slice(b"\"finish_reason\":");
    finish.write(out);
}
