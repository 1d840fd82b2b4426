//! An answer as a stream of chunks: for each choice what it says, at the end the usage and `[DONE]`.

use super::{Choice, head, index_of};
use crate::json::{Json, Member, get};
use crate::sse::DONE;
use bytes::Bytes;

/// Most bytes of text in one delta: long texts come in pieces, since readers of a stream expect several.
pub const PIECE: usize = 128;

pub(super) fn render<C: Choice>(answer: &[Member<'_>], id: &str, created: u64, include_usage: bool) -> Bytes {
    let usage = get(answer, "usage").filter(|usage| include_usage && !usage.is_null());
    let mut chunks = Chunks::new::<C>(answer, id, created, usage.is_some());
    for (place, choice) in get(answer, "choices").and_then(Json::as_array).unwrap_or_default().iter().enumerate() {
        C::replay(index_of(choice, place), choice.as_object().unwrap_or_default(), &mut chunks);
    }
    if let Some(usage) = usage {
        chunks.usage(usage);
    }
    chunks.out.extend_from_slice(DONE);
    chunks.out.into()
}

/// A stream that is being written.
#[derive(Debug)]
pub struct Chunks {
    out: Vec<u8>,
    /// The beginning of every chunk, from `data:` up to its choices.
    head: Vec<u8>,
    /// Fields that only the first chunk has; empty afterwards.
    once: Vec<u8>,
    /// The end of every chunk that carries no usage.
    tail: &'static [u8],
}

impl Chunks {
    fn new<C: Choice>(answer: &[Member<'_>], id: &str, created: u64, with_usage: bool) -> Self {
        let (mut start, mut once) = (b"data: ".to_vec(), Vec::new());
        head(&mut start, id, C::CHUNK, created);
        for field in answer {
            let to = match &*field.key {
                "choices" | "usage" => continue,
                key if C::EVERY_CHUNK.contains(&key) => &mut start,
                _ => &mut once,
            };
            field.write(to);
            to.push(b',');
        }
        let tail: &[u8] = if with_usage { b"}],\"usage\":null}\n\n" } else { b"}]}\n\n" };
        Self { out: Vec::with_capacity(4096), head: start, once, tail }
    }

    /// One chunk of one choice, whose fields `write` appends.
    pub fn chunk(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let Self { out, head, once, tail } = self;
        out.extend_from_slice(head);
        out.append(once);
        out.extend_from_slice(b"\"choices\":[{");
        write(out);
        out.extend_from_slice(tail);
    }

    fn usage(&mut self, usage: &Json<'_>) {
        self.out.extend_from_slice(&self.head);
        self.out.extend_from_slice(b"\"choices\":[],\"usage\":");
        usage.write(&mut self.out);
        self.out.extend_from_slice(b"}\n\n");
    }
}

/// Takes at most `most` bytes off the front, up to a space if there is one, never within a character.
pub fn next_piece<'t>(rest: &mut &'t str, most: usize) -> Option<&'t str> {
    if rest.is_empty() {
        return None;
    }
    let text = *rest;
    let end = text.floor_char_boundary(most);
    let end = match text[..end].rfind(' ') {
        Some(space) if end < text.len() => space + 1,
        _ => end,
    };
    let (piece, behind) = text.split_at(end);
    *rest = behind;
    Some(piece)
}
