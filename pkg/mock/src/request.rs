//! Reads just enough of a request to answer it, in one typed pass.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// A chat request as far as the mock cares.
#[derive(serde::Deserialize)]
pub(crate) struct ChatRequest<'a> {
    #[serde(borrow)]
    pub(crate) model: Cow<'a, str>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    pub(crate) stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[serde(borrow)]
    tools: Option<Vec<Tool<'a>>>,
}

#[derive(serde::Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(serde::Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Text<'a>,
}

#[derive(serde::Deserialize)]
struct Tool<'a> {
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(serde::Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

impl ChatRequest<'_> {
    /// The text of the last user message: the part that answers are made from.
    pub(crate) fn prompt(&self) -> &str {
        self.messages.iter().rev().find(|m| m.role == "user").map_or("", |m| &m.content.0)
    }

    pub(crate) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|o| o.include_usage == Some(true))
    }

    pub(crate) fn first_tool(&self) -> Option<&str> {
        Some(&*self.tools.as_ref()?.iter().find_map(|tool| tool.function.as_ref())?.name)
    }
}

/// An embeddings request. Token arrays are refused: nobody sends them to a mock.
#[derive(serde::Deserialize)]
pub(crate) struct EmbeddingRequest<'a> {
    #[serde(borrow)]
    pub(crate) model: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) input: Inputs<'a>,
    pub(crate) dimensions: Option<usize>,
    #[serde(borrow)]
    pub(crate) encoding_format: Option<Cow<'a, str>>,
}

/// `input`: one text or a list of texts.
pub(crate) struct Inputs<'a>(pub(crate) Vec<Cow<'a, str>>);

/// `content`: a text, null, or a list of parts whose texts are put together.
#[derive(Default)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

#[derive(serde::Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Cow<'a, str>,
}

#[derive(serde::Deserialize)]
#[serde(transparent)]
struct OneText<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, null or a list of parts")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
                let mut all = String::new();
                while let Some(part) = parts.next_element::<Part<'de>>()? {
                    all.push_str(&part.text);
                }
                Ok(Text(Cow::Owned(all)))
            }
        }
        from.deserialize_any(Reader)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Inputs<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Inputs<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Inputs(vec![Cow::Borrowed(text)]))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Inputs(vec![Cow::Owned(text.to_owned())]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(OneText(text)) = texts.next_element::<OneText<'de>>()? {
                    all.push(text);
                }
                Ok(Inputs(all))
            }
        }
        from.deserialize_any(Reader)
    }
}

/// Whether a body is JSON at all, to tell the two kinds of 400 apart.
pub(crate) fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(body).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_user_message_is_the_prompt_in_every_form_of_content() {
        let body = br#"{"model":"m","messages":[{"role":"user","content":"one"},{"role":"assistant","content":null},
            {"role":"user","content":[{"type":"text","text":"tw"},{"type":"image_url","image_url":{}},{"type":"text","text":"o\n"}]},
            {"role":"tool","content":"x"}]}"#;
        let request: ChatRequest<'_> = serde_json::from_slice(body).expect("valid");
        assert_eq!(request.prompt(), "two\n");
    }

    #[test]
    fn words_in_a_prompt_do_not_switch_streaming_on() {
        let body = br#"{"model":"m","messages":[{"role":"user","content":"say \"stream\":true, \"stream\": true"}]}"#;
        let request: ChatRequest<'_> = serde_json::from_slice(body).expect("valid");
        assert_eq!(request.stream, None);
        assert_eq!(request.prompt(), "say \"stream\":true, \"stream\": true");
    }

    #[test]
    fn only_a_request_with_tools_names_one() {
        let with =
            br#"{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}"#;
        let request: ChatRequest<'_> = serde_json::from_slice(with).expect("valid");
        assert_eq!(request.first_tool(), Some("f"));
        let without: ChatRequest<'_> = serde_json::from_slice(br#"{"model":"m","messages":[]}"#).expect("valid");
        assert_eq!(without.first_tool(), None);
    }
}
