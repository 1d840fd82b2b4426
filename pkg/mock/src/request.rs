//! Reads just enough of a request to answer it, in one typed pass.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// What every API's request comes down to.
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct Ask<'a> {
    /// Absent only where the path names a deployment.
    pub(crate) model: Option<&'a str>,
    pub(crate) prompt: &'a str,
    /// Further prompts of a completion.
    pub(crate) others: &'a [Cow<'a, str>],
    pub(crate) stream: bool,
    /// A usage chunk at the end of the stream.
    pub(crate) usage: bool,
    /// The first tool.
    pub(crate) tool: Option<&'a str>,
    /// The last message brings the result of a tool.
    pub(crate) has_result: bool,
    pub(crate) thinking: bool,
    pub(crate) sealed: bool,
    pub(crate) store: bool,
    pub(crate) previous: Option<&'a str>,
}

impl<'a> Ask<'a> {
    fn plain(model: Option<&'a Cow<'a, str>>, prompt: &'a str, stream: Option<bool>) -> Self {
        Self {
            model: model.map(|model| &**model),
            prompt,
            others: &[],
            stream: stream == Some(true),
            usage: false,
            tool: None,
            has_result: false,
            thinking: false,
            sealed: false,
            store: true,
            previous: None,
        }
    }
}

/// A chat request as far as the mock cares.
#[derive(serde::Deserialize)]
pub(crate) struct ChatRequest<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[serde(borrow)]
    tools: Option<Vec<Tool<'a>>>,
}

/// A legacy completion request.
#[derive(serde::Deserialize)]
pub(crate) struct CompletionRequest<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    prompt: Inputs<'a>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

/// An Anthropic request, for an answer or for a count of tokens.
#[derive(serde::Deserialize)]
pub(crate) struct MessagesRequest<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    pub(crate) max_tokens: Option<u64>,
    stream: Option<bool>,
    #[serde(borrow)]
    tools: Option<Vec<Tool<'a>>>,
    #[serde(borrow)]
    thinking: Option<Kind<'a>>,
}

/// A request of the Responses API.
#[derive(serde::Deserialize)]
pub(crate) struct ResponsesRequest<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Input<'a>,
    stream: Option<bool>,
    #[serde(borrow)]
    tools: Option<Vec<Tool<'a>>>,
    reasoning: Option<IgnoredAny>,
    #[serde(borrow)]
    include: Option<Vec<OneText<'a>>>,
    store: Option<bool>,
    #[serde(borrow)]
    previous_response_id: Option<Cow<'a, str>>,
}

#[derive(serde::Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// A message, or an item of the Responses API.
#[derive(serde::Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Text<'a>,
}

/// An object of which the type says enough.
#[derive(serde::Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// Chat wraps the name of a function, the other APIs do not.
#[derive(serde::Deserialize)]
struct Tool<'a> {
    #[serde(borrow)]
    function: Option<Function<'a>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(serde::Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

impl ChatRequest<'_> {
    pub(crate) fn ask(&self) -> Ask<'_> {
        Ask {
            usage: wants_usage(self.stream_options.as_ref()),
            tool: first_tool(self.tools.as_deref()),
            has_result: has_result(&self.messages),
            ..Ask::plain(self.model.as_ref(), prompt(&self.messages), self.stream)
        }
    }
}

impl CompletionRequest<'_> {
    pub(crate) fn ask(&self) -> Ask<'_> {
        let (first, others) = self.prompt.0.split_first().map_or(("", &[][..]), |(first, rest)| (&**first, rest));
        Ask {
            others,
            usage: wants_usage(self.stream_options.as_ref()),
            ..Ask::plain(self.model.as_ref(), first, self.stream)
        }
    }
}

impl MessagesRequest<'_> {
    pub(crate) fn ask(&self) -> Ask<'_> {
        Ask {
            tool: first_tool(self.tools.as_deref()),
            has_result: has_result(&self.messages),
            thinking: self.thinking.as_ref().is_some_and(|thinking| thinking.kind != "disabled"),
            ..Ask::plain(self.model.as_ref(), prompt(&self.messages), self.stream)
        }
    }
}

impl ResponsesRequest<'_> {
    pub(crate) fn ask(&self) -> Ask<'_> {
        let include = self.include.as_deref().unwrap_or_default();
        Ask {
            tool: first_tool(self.tools.as_deref()),
            has_result: has_result(&self.input.0),
            thinking: self.reasoning.is_some(),
            sealed: include.iter().any(|what| what.0 == "reasoning.encrypted_content"),
            store: self.store != Some(false),
            previous: self.previous_response_id.as_deref(),
            ..Ask::plain(self.model.as_ref(), prompt(&self.input.0), self.stream)
        }
    }
}

/// The text of the last user message that has one: the part that answers are made from.
fn prompt<'a>(messages: &'a [Message<'a>]) -> &'a str {
    messages.iter().rev().find(|m| m.role == "user" && !m.content.text.is_empty()).map_or("", |m| &m.content.text)
}

fn has_result(messages: &[Message<'_>]) -> bool {
    let is_result = |m: &Message<'_>| m.role == "tool" || m.kind == "function_call_output" || m.content.has_result;
    messages.last().is_some_and(is_result)
}

fn wants_usage(options: Option<&StreamOptions>) -> bool {
    options.is_some_and(|options| options.include_usage == Some(true))
}

fn first_tool<'a>(tools: Option<&'a [Tool<'a>]>) -> Option<&'a str> {
    let name = |tool: &'a Tool<'a>| tool.function.as_ref().map(|function| &function.name).or(tool.name.as_ref());
    tools?.iter().find_map(name).map(|name| &**name)
}

/// An embeddings request. Token arrays are refused: nobody sends them to a mock.
#[derive(serde::Deserialize)]
pub(crate) struct EmbeddingRequest<'a> {
    #[serde(borrow)]
    pub(crate) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) input: Inputs<'a>,
    pub(crate) dimensions: Option<usize>,
    #[serde(borrow)]
    pub(crate) encoding_format: Option<Cow<'a, str>>,
}

/// `input`: one text or a list of texts.
pub(crate) struct Inputs<'a>(pub(crate) Vec<Cow<'a, str>>);

/// `input` of the Responses API: a text or a list of items.
struct Input<'a>(Vec<Message<'a>>);

/// `content`: a text, null, or a list of parts whose texts are put together.
#[derive(Default)]
struct Text<'a> {
    text: Cow<'a, str>,
    /// One of the parts is what a tool returned.
    has_result: bool,
}

#[derive(serde::Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
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
                Ok(Text { text: Cow::Borrowed(text), has_result: false })
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text { text: Cow::Owned(text.to_owned()), has_result: false })
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
                let (mut text, mut has_result) = (String::new(), false);
                while let Some(part) = parts.next_element::<Part<'de>>()? {
                    text.push_str(&part.text);
                    has_result |= part.kind == "tool_result";
                }
                Ok(Text { text: Cow::Owned(text), has_result })
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

impl<'de: 'a, 'a> Deserialize<'de> for Input<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Input<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of items")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(one(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(one(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element::<Message<'de>>()? {
                    all.push(item);
                }
                Ok(Input(all))
            }
        }
        fn one(text: Cow<'_, str>) -> Input<'_> {
            let content = Text { text, has_result: false };
            Input(vec![Message { role: Cow::Borrowed("user"), kind: Cow::Borrowed("message"), content }])
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

    fn read<'a, T: Deserialize<'a>>(body: &'a str) -> T {
        serde_json::from_str(body).expect("valid")
    }

    #[test]
    fn the_last_user_message_is_the_prompt_in_every_form_of_content() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"one"},{"role":"assistant","content":null},
            {"role":"user","content":[{"type":"text","text":"tw"},{"type":"image_url","image_url":{}},{"type":"text","text":"o\n"}]},
            {"role":"tool","content":"x"}]}"#;
        let request: ChatRequest<'_> = read(body);
        assert_eq!((request.ask().prompt, request.ask().has_result), ("two\n", true));
        let items = r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"one"}]},
            {"type":"reasoning","summary":[]},{"type":"function_call","name":"f","arguments":"{}"},
            {"type":"function_call_output","call_id":"c","output":"x"}],"store":false,"include":["reasoning.encrypted_content"]}"#;
        let request: ResponsesRequest<'_> = read(items);
        let ask = request.ask();
        assert_eq!((ask.prompt, ask.has_result, ask.sealed, ask.store), ("one", true, true, false));
        let request: ResponsesRequest<'_> = read(r#"{"model":"m","input":"a \"b\"","reasoning":{"effort":"low"}}"#);
        assert_eq!((request.ask().prompt, request.ask().thinking), ("a \"b\"", true));
    }

    #[test]
    fn a_message_that_only_brings_a_result_is_not_the_prompt() {
        let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"one"},
            {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}],
            "tools":[{"name":"f","input_schema":{}}],"thinking":{"type":"enabled","budget_tokens":1024}}"#;
        let request: MessagesRequest<'_> = read(body);
        let ask = request.ask();
        assert_eq!((ask.prompt, ask.has_result, ask.tool, ask.thinking), ("one", true, Some("f"), true));
    }

    #[test]
    fn a_completion_may_bring_several_prompts() {
        let request: CompletionRequest<'_> =
            read(r#"{"model":"m","prompt":["a","b"],"stream_options":{"include_usage":true}}"#);
        let ask = request.ask();
        assert_eq!((ask.prompt, ask.others, ask.usage), ("a", &["b".into()][..], true));
    }

    #[test]
    fn words_in_a_prompt_do_not_switch_streaming_on() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"say \"stream\":true, \"stream\": true"}]}"#;
        let request: ChatRequest<'_> = read(body);
        let ask = request.ask();
        assert_eq!((ask.stream, ask.prompt), (false, "say \"stream\":true, \"stream\": true"));
    }

    #[test]
    fn only_a_request_with_tools_names_one() {
        let with =
            r#"{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}"#;
        let request: ChatRequest<'_> = read(with);
        assert_eq!(request.ask().tool, Some("f"));
        let without: ChatRequest<'_> = read(r#"{"model":"m","messages":[]}"#);
        assert_eq!(without.ask().tool, None);
    }
}
