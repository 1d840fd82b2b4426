//! What the mock says to a prompt: a pure function, so that a client can compute what it should have been told.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::pen::StreamForm;
use crate::route::Api;
use crate::template::json_string;
use crate::{chat, completions, messages, responses};

const ECHO_BYTES: usize = 64;

/// What identifies a prompt: the first 16 hex digits of its SHA-256, easily had from any language.
pub fn marker(prompt: &str) -> String {
    let digest = Sha256::digest(prompt.as_bytes());
    digest
        .iter()
        .take(8)
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|d| char::from(b"0123456789abcdef"[usize::from(d)]))
        .collect()
}

/// The assistant text for a prompt (the text of the last user message that has any), equal in every API, in JSON and
/// streamed answers.
pub fn answer_text(prompt: &str) -> String {
    let echo = &prompt[..prompt.floor_char_boundary(ECHO_BYTES)];
    let marker = marker(prompt);
    format!("Mock answer [{marker}] to: {echo} -- the same words for the same question, made of literal bytes.")
}

/// A text padded to at least so many bytes, as `answer_bytes` does it.
pub fn padded(mut text: String, bytes: usize) -> String {
    while text.len() < bytes {
        text.push_str(" and so on");
    }
    text
}

/// The exact body of a plain JSON chat answer to a prompt when no behaviour changes it.
pub fn chat_body(model: &str, prompt: &str) -> Vec<u8> {
    chat_body_with(model, prompt, answer_text(prompt))
}

/// The exact body of a plain JSON chat answer with this text.
pub fn chat_body_with(model: &str, prompt: &str, text: String) -> Vec<u8> {
    chat::json(&Said { text, ..Said::nothing(model, prompt) })
}

/// One answer before it is written in the form of an API.
#[derive(Clone)]
pub(crate) struct Said<'a> {
    pub(crate) model: &'a str,
    pub(crate) prompt: &'a str,
    pub(crate) text: String,
    /// The answers to the further prompts of a completion.
    pub(crate) others: Vec<String>,
    /// Answer with a call of this function instead of text.
    pub(crate) tool: Option<&'a str>,
    /// What is thought before the answer.
    pub(crate) thinking: Option<String>,
    /// The reasoning item carries its encrypted form.
    pub(crate) sealed: bool,
    /// The limit of tokens ended the answer.
    pub(crate) length: bool,
    /// The stop reason in the API's own words, over all others.
    pub(crate) stop: Option<&'a str>,
    /// Prompt tokens read from and written to the provider's cache, beside those of the prompt.
    pub(crate) cached: u64,
    pub(crate) written: u64,
    /// `store` and `previous_response_id` as asked.
    pub(crate) store: bool,
    pub(crate) previous: Option<&'a str>,
}

impl<'a> Said<'a> {
    /// An empty answer.
    pub(crate) fn nothing(model: &'a str, prompt: &'a str) -> Self {
        Self {
            model,
            prompt,
            text: String::new(),
            others: Vec::new(),
            tool: None,
            thinking: None,
            sealed: false,
            length: false,
            stop: None,
            cached: 0,
            written: 0,
            store: true,
            previous: None,
        }
    }

    /// The body of a whole answer.
    pub(crate) fn json(&self, api: Api) -> Vec<u8> {
        match api {
            Api::Messages => messages::json(self),
            Api::Responses => responses::json(self),
            Api::Completions => completions::json(self),
            _ => chat::json(self),
        }
    }

    /// The events of a streamed answer.
    pub(crate) fn events(&self, api: Api, form: &StreamForm) -> Vec<Bytes> {
        match api {
            Api::Messages => messages::events(self, form),
            Api::Responses => responses::events(self, form),
            Api::Completions => completions::events(self, form),
            _ => chat::events(self, form),
        }
    }

    /// How many events at the end of a stream follow the last words, or chat's finish reason, at once: no pace applies to
    /// them, for a provider has nothing to think about there.
    pub(crate) fn tail(&self, api: Api, form: &StreamForm) -> usize {
        let closing = match api {
            Api::Messages => 2,
            Api::Responses if self.tool.is_some() => 2,
            Api::Responses => 3,
            _ => usize::from(form.usage),
        };
        closing + usize::from(form.done)
    }

    /// What a failing provider says after `sent` events.
    pub(crate) fn failure(&self, api: Api, sent: usize, form: &StreamForm) -> Vec<Bytes> {
        match api {
            Api::Messages => messages::failure(form),
            Api::Responses => responses::failure(self, sent, form),
            _ => chat::failure(form),
        }
    }

    /// The reason for the end, in the words of an API for: done, length, tool call.
    pub(crate) fn stop(&self, [done, length, tool]: [&'a str; 3]) -> &'a str {
        self.stop.unwrap_or(if self.tool.is_some() {
            tool
        } else if self.length {
            length
        } else {
            done
        })
    }

    /// The arguments of a tool call.
    pub(crate) fn arguments(&self) -> String {
        format!("{{\"marker\":\"{}\"}}", marker(self.prompt))
    }

    /// Values that hold for all of the answer, by the names that the fixtures give their holes. Anthropic counts cached
    /// tokens beside the input, OpenAI within the prompt.
    pub(crate) fn values(&self) -> Vec<(&'static str, String)> {
        let input = tokens(self.prompt);
        let thought = self.thinking.as_deref().map_or(0, tokens);
        let output = tokens(&self.text) + self.others.iter().map(|text| tokens(text)).sum::<u64>() + thought;
        let asked = input + self.cached + self.written;
        let numbers = [
            ("input", input),
            ("cached", self.cached),
            ("written", self.written),
            ("output", output),
            ("prompt_tokens", asked),
            ("completion_tokens", output),
            ("reasoning_tokens", thought),
            ("total_tokens", asked + output),
        ];
        let texts = [
            ("id", marker(self.prompt)),
            ("model", json_string(self.model)),
            ("tool", self.tool.map_or_else(|| "null".to_owned(), json_string)),
        ];
        texts.into_iter().chain(numbers.map(|(name, number)| (name, number.to_string()))).collect()
    }
}

/// Four bytes a token is the usual rule of thumb; a mock needs it only to be stable and above zero.
pub(crate) fn tokens(text: &str) -> u64 {
    text.len() as u64 / 4 + 1
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    pub(crate) fn form(chunks: usize) -> StreamForm {
        StreamForm { chunks, usage: false, choices_null: false, azure: false, done: true, line_end: "\n" }
    }

    pub(crate) fn said<'a>(prompt: &'a str, tool: Option<&'a str>) -> Said<'a> {
        Said { text: answer_text(prompt), tool, ..Said::nothing("gpt-4o-mini", prompt) }
    }

    /// The `data` of an event.
    pub(crate) fn data(event: &Bytes) -> Value {
        let text = std::str::from_utf8(event).expect("events are UTF-8");
        let line = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event has data");
        serde_json::from_str(line).expect("data is JSON")
    }

    /// The value after `event:`.
    pub(crate) fn name(event: &Bytes) -> String {
        let text = std::str::from_utf8(event).expect("events are UTF-8");
        text.lines().find_map(|line| line.strip_prefix("event: ")).unwrap_or_default().to_owned()
    }

    fn joined(events: &[Bytes], pick: impl Fn(&Value) -> Option<&str>) -> String {
        let said = events.iter().filter(|event| !event.ends_with(b"[DONE]\n\n"));
        said.filter_map(|event| pick(&data(event)).map(str::to_owned)).collect()
    }

    proptest! {
        #[test]
        fn a_stream_says_what_the_json_answer_says_in_every_api(prompt in any::<String>(), chunks in 1usize..200) {
            let said = said(&prompt, None);
            let text = Some(answer_text(&prompt));
            let body = |api| serde_json::from_slice::<Value>(&said.json(api)).expect("the body is JSON");
            let events = |api| said.events(api, &form(chunks));
            let whole = [
                body(Api::Chat)["choices"][0]["message"]["content"].as_str().map(str::to_owned),
                body(Api::Completions)["choices"][0]["text"].as_str().map(str::to_owned),
                body(Api::Messages)["content"][0]["text"].as_str().map(str::to_owned),
                body(Api::Responses)["output"][0]["content"][0]["text"].as_str().map(str::to_owned),
            ];
            let streamed = [
                joined(&events(Api::Chat), |data| data["choices"][0]["delta"]["content"].as_str()),
                joined(&events(Api::Completions), |data| data["choices"][0]["text"].as_str()),
                joined(&events(Api::Messages), |data| data["delta"]["text"].as_str()),
                joined(&events(Api::Responses), |data| data["delta"].as_str()),
            ];
            prop_assert!(whole.iter().all(|whole| *whole == text));
            prop_assert!(streamed.iter().all(|streamed| Some(streamed) == text.as_ref()));
        }
    }

    #[test]
    fn the_tail_begins_behind_the_last_words() {
        let form = StreamForm { usage: true, ..form(5) };
        for (api, tool, last) in [
            (Api::Chat, None, "\"finish_reason\":\"stop\""),
            (Api::Completions, None, "\"finish_reason\":\"stop\""),
            (Api::Messages, None, "text_delta"),
            (Api::Messages, Some("f"), "input_json_delta"),
            (Api::Responses, None, "output_text.delta"),
            (Api::Responses, Some("f"), "arguments.delta"),
        ] {
            let said = said("q", tool);
            let events = said.events(api, &form);
            let (body, tail) = events.split_at(events.len() - said.tail(api, &form));
            let has = |event: &Bytes| String::from_utf8_lossy(event).contains(last);
            assert!(body.last().is_some_and(has) && !tail.iter().any(has), "{api:?}");
        }
    }
}
