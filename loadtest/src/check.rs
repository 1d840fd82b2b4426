//! Is this the answer to that question?
//!
//! The mock's answer is a function of the prompt, so every answer can be held against what it has to say. A JSON body
//! has to be equal byte by byte, or else (a hit has its own id) in its text; of a stream the text is put together.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use signet_mock::{answer_text, chat_body_with, padded};

use crate::prompts::MODEL;

/// How an answer agrees with what the mock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every byte of a JSON body, or the text of a complete stream.
    Same,
    /// The text, in a body of other bytes.
    SameText,
    /// Another text, or none.
    Wrong,
}

#[derive(Deserialize)]
struct Whole {
    choices: Vec<WholeChoice>,
}

#[derive(Deserialize)]
struct WholeChoice {
    message: Words,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Vec<ChunkChoice>,
}

#[derive(Deserialize)]
struct ChunkChoice {
    delta: Words,
}

#[derive(Deserialize)]
struct Words {
    content: Option<String>,
}

/// `pad`: the answer's text has at least so many bytes.
pub(crate) fn json(body: &[u8], prompt: &str, pad: usize) -> Verdict {
    let text = padded(answer_text(prompt), pad);
    if body == chat_body_with(MODEL, prompt, text.clone()) {
        return Verdict::Same;
    }
    if json_text(body).as_deref() == Some(text.as_str()) { Verdict::SameText } else { Verdict::Wrong }
}

pub(crate) fn stream(body: &[u8], prompt: &str, pad: usize) -> Verdict {
    let text = padded(answer_text(prompt), pad);
    if stream_text(body).as_deref() == Some(text.as_str()) { Verdict::Same } else { Verdict::Wrong }
}

/// The text of a JSON answer.
pub(crate) fn json_text(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<Whole>(body).ok()?.choices.into_iter().next()?.message.content
}

/// The text of a stream that ended as it should: a finish reason, then `[DONE]`.
pub(crate) fn stream_text(body: &[u8]) -> Option<String> {
    static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"finish_reason\":\"stop\""));
    let mut text = Vec::with_capacity(256);
    let mut done = false;
    let mut finished = false;
    for event in lines(body).filter_map(|line| line.strip_prefix(b"data:")) {
        let data = event.trim_ascii();
        if done {
            return None; // nothing may follow the end mark
        }
        if data == b"[DONE]" {
            done = true;
        } else {
            finished |= FINISH.find(data).is_some();
            delta(data, &mut text)?;
        }
    }
    if done && finished { String::from_utf8(text).ok() } else { None }
}

/// Reads one chunk's text without a parse where its form is the usual one: this runs for every chunk of every stream.
fn delta(data: &[u8], text: &mut Vec<u8>) -> Option<()> {
    static CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"delta\":{\"content\":\""));
    if let Some(at) = CONTENT.find(data) {
        let rest = &data[at + CONTENT.needle().len()..];
        let end = memchr::memchr2(b'"', b'\\', rest)?;
        if rest[end] == b'"' {
            text.extend_from_slice(&rest[..end]);
            return Some(());
        }
    }
    let chunk: Chunk = serde_json::from_slice(data).ok()?;
    let content = chunk.choices.into_iter().next().and_then(|choice| choice.delta.content);
    text.extend_from_slice(content.unwrap_or_default().as_bytes());
    Some(())
}

fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

    fn event(delta: &str) -> String {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n")
    }

    #[test]
    fn a_body_is_judged_by_bytes_then_by_text() {
        let body = chat_body_with(MODEL, "tides?", answer_text("tides?"));
        assert_eq!(json(&body, "tides?", 0), Verdict::Same);
        let renamed = String::from_utf8(body.clone()).expect("UTF-8").replace("chatcmpl-", "chatcmpl-other-");
        assert_eq!(json(renamed.as_bytes(), "tides?", 0), Verdict::SameText);
        assert_eq!(json(&body, "bread?", 0), Verdict::Wrong);
        assert_eq!(json(b"{}", "tides?", 0), Verdict::Wrong);
        let long = chat_body_with(MODEL, "tides?", padded(answer_text("tides?"), 5000));
        assert_eq!([json(&long, "tides?", 5000), json(&long, "tides?", 0)], [Verdict::Same, Verdict::Wrong]);
    }

    #[test]
    fn usual_escaped_and_reordered_chunks_read_alike() {
        let role = event(r#"{"role":"assistant","content":""}"#);
        let usual = event(r#"{"content":"a, "}"#);
        let escaped = event(r#"{"content":"\"b\" "}"#);
        let reordered = event(r#"{"refusal":null, "content" : "c"}"#);
        let body = format!(": a comment\n\n{role}{usual}{escaped}{reordered}{END}");
        assert_eq!(stream_text(body.as_bytes()).as_deref(), Some("a, \"b\" c"));
    }

    #[test]
    fn a_stream_without_a_proper_end_has_no_text() {
        let text = event(r#"{"content":"a"}"#);
        for broken in [
            text.clone(),
            format!("{text}data: [DONE]\n\n"),
            END.replace("data: [DONE]\n\n", ""),
            format!("{END}{text}"),
        ] {
            assert_eq!(stream_text(broken.as_bytes()), None, "{broken}");
        }
        let error = format!("{text}data: {{\"error\":{{}}}}\n\n{END}");
        assert_eq!(stream_text(error.as_bytes()), None);
    }
}
