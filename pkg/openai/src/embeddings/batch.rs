//! A batch by its inputs: what each of them is for the cache, the body that asks for some of them, and answers taken apart
//! and put together by vector.

use super::{Embeddings, EmbeddingsRequest};
use crate::canon::digest;
use crate::json::{Json, Member, write_str};
use crate::kept::Usage;
use crate::request::{object, quoted, splice};
use bytes::Bytes;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// The inputs of one request. Each is known by a shape and a text, as a chat request is: together they say all that
/// decides its vector, whatever else was in the batch.
pub struct Batch {
    body: Bytes,
    model: String,
    model_span: Range<usize>,
    input_span: Range<usize>,
    /// Of the rest of the request around one text.
    text_shape: [u8; 32],
    /// Of the rest of the request around one list of tokens.
    token_shape: [u8; 32],
    inputs: Vec<Input>,
}

struct Input {
    /// The text, or the tokens as JSON.
    text: String,
    tokens: bool,
    /// The place of the first input that is the same.
    first: usize,
}

impl EmbeddingsRequest {
    /// The request by its inputs. Reads the body again.
    pub fn batch(&self) -> Batch {
        let mut members = object(&self.body).expect("the body was read before");
        let input = members.iter_mut().find(|member| member.key == "input").expect("the request has an input");
        let input_span = input.span.clone();
        let inputs = inputs(std::mem::replace(&mut input.value, Json::Cut));
        let text_shape = rest(&members);
        if let Some(input) = members.iter_mut().find(|member| member.key == "input") {
            input.value = Json::Array(vec![Json::Cut]);
        }
        Batch {
            body: self.body.clone(),
            model: self.model.clone(),
            model_span: self.model_span.clone(),
            input_span,
            text_shape,
            token_shape: rest(&members),
            inputs,
        }
    }
}

impl Batch {
    /// How many inputs there are.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Bytes to be read where each input is read as a request of its own, but for the inputs themselves.
    pub fn reading_each(&self) -> usize {
        (self.body.len() - self.input_span.len()).saturating_mul(self.inputs.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Canonical SHA-256 of everything but `user` and the inputs, and of what kind input `i` is.
    pub fn shape(&self, i: usize) -> &[u8; 32] {
        if self.inputs[i].tokens { &self.token_shape } else { &self.text_shape }
    }

    /// Input `i`: its text byte-exact, or its tokens as a JSON array without white space.
    pub fn text(&self, i: usize) -> &str {
        &self.inputs[i].text
    }

    /// The place of the first input that is the same as input `i`: only that one needs asking for.
    pub fn first(&self, i: usize) -> usize {
        self.inputs[i].first
    }

    /// The body that asks for the inputs at `wanted`, in that order, and for another model where one is given. Nothing else
    /// is changed; if all inputs are wanted it is the caller's own.
    pub fn asking(&self, wanted: &[usize], model: Option<&str>) -> Bytes {
        let model = model.filter(|model| *model != self.model).map(quoted);
        let all = wanted.iter().copied().eq(0..self.inputs.len());
        let input = (!all).then(|| self.list(wanted));
        let mut edits: Vec<(&Range<usize>, &[u8])> = Vec::with_capacity(2);
        edits.extend(model.as_ref().map(|model| (&self.model_span, &model[..])));
        edits.extend(input.as_ref().map(|input| (&self.input_span, &input[..])));
        edits.sort_by_key(|(span, _)| span.start);
        splice(&self.body, &edits)
    }

    /// The request for input `i` alone, as a caller would write it who has but this one: no list around it, the model as asked.
    pub fn alone(&self, i: usize) -> Bytes {
        let mut input = Vec::new();
        self.write(i, &mut input);
        splice(&self.body, &[(&self.input_span, &input[..])])
    }

    fn write(&self, i: usize, out: &mut Vec<u8>) {
        let input = &self.inputs[i];
        if input.tokens {
            out.extend_from_slice(input.text.as_bytes());
        } else {
            write_str(&input.text, out);
        }
    }

    fn list(&self, wanted: &[usize]) -> Vec<u8> {
        let mut out = b"[".to_vec();
        for (at, i) in wanted.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.write(*i, &mut out);
        }
        out.push(b']');
        out
    }
}

/// Leaves the inputs out: they belong in no log.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("model", &self.model).field("inputs", &self.inputs.len()).finish_non_exhaustive()
    }
}

fn rest(members: &[Member<'_>]) -> [u8; 32] {
    digest(b"signet/shape/embedding/v1", members.iter().filter(|member| member.key != "user"))
}

fn inputs(input: Json<'_>) -> Vec<Input> {
    let items = match input {
        Json::Array(items) if items.first().is_some_and(|item| matches!(item, Json::Number(_))) => {
            vec![Json::Array(items)]
        }
        Json::Array(items) => items,
        one => vec![one],
    };
    let mut seen: HashMap<(bool, String), usize> = HashMap::with_capacity(items.len());
    let known = |(at, item): (usize, Json<'_>)| {
        let (tokens, text) = match item {
            Json::String(text) => (false, text.into_owned()),
            tokens => (true, written(&tokens)),
        };
        let first = *seen.entry((tokens, text.clone())).or_insert(at);
        Input { text, tokens, first }
    };
    items.into_iter().enumerate().map(known).collect()
}

/// A list of tokens as JSON. Numbers are written plainly, so that `1` and `1.0` are the same token.
fn written(tokens: &Json<'_>) -> String {
    let numbers = tokens.as_array().unwrap_or_default().iter().filter_map(Json::as_u64);
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

impl Embeddings {
    /// The JSON text of the vector of input `i` as the provider wrote it; none where the answer says more than vectors, so
    /// that taking it apart would lose something.
    pub fn vector(&self, i: usize) -> Option<&[u8]> {
        self.body.get(self.vectors.as_ref()?.get(i)?.clone())
    }

    /// An answer of one vector, as it is kept for one input: the vector's text as it came.
    pub fn single(model: &str, vector: &[u8]) -> Self {
        Self::join(model, &[vector], None)
    }

    /// An answer of these vectors, in order. `usage` is what was counted for it; without it the answer says nothing of it.
    pub fn join(model: &str, vectors: &[&[u8]], usage: Option<Usage>) -> Self {
        let size: usize = vectors.iter().map(|vector| vector.len() + 64).sum();
        let mut out = Vec::with_capacity(size + model.len() + 128);
        let mut spans = Vec::with_capacity(vectors.len());
        out.extend_from_slice(b"{\"object\":\"list\",\"data\":[");
        for (at, vector) in vectors.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"object\":\"embedding\",\"index\":");
            out.extend_from_slice(itoa::Buffer::new().format(at).as_bytes());
            out.extend_from_slice(b",\"embedding\":");
            spans.push(out.len()..out.len() + vector.len());
            out.extend_from_slice(vector);
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"model\":");
        write_str(model, &mut out);
        if let Some(usage) = usage {
            let counted = format!(",\"usage\":{{\"prompt_tokens\":{0},\"total_tokens\":{0}}}", usage.input);
            out.extend_from_slice(counted.as_bytes());
        }
        out.push(b'}');
        Self { body: out.into(), model: model.to_owned(), usage, vectors: Some(spans.into()) }
    }
}

/// Where the vectors lie, by their `index` or else their place; none where an object has other fields than the format, or
/// the numbers are not those of the inputs (one that comes twice leaves another without a vector).
pub(super) fn spans(members: &[Member<'_>], data: &[Json<'_>]) -> Option<Box<[Range<usize>]>> {
    const ANSWER: [&str; 4] = ["object", "data", "model", "usage"];
    const ITEM: [&str; 3] = ["object", "index", "embedding"];
    if !members.iter().all(|member| ANSWER.contains(&&*member.key)) {
        return None;
    }
    let mut spans: Vec<Option<Range<usize>>> = vec![None; data.len()];
    for (place, item) in data.iter().enumerate() {
        let item = item.as_object()?;
        if !item.iter().all(|field| ITEM.contains(&&*field.key)) || crate::json::duplicate(item).is_some() {
            return None;
        }
        let index = match item.iter().find(|field| field.key == "index") {
            Some(index) => usize::try_from(index.value.as_u64()?).ok()?,
            None => place,
        };
        *spans.get_mut(index)? = Some(item.iter().find(|field| field.key == "embedding")?.span.clone());
    }
    spans.into_iter().collect()
}
