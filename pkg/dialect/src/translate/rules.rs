//! What is mapped, left out or refused where one API's request is said in another: one list, from which the refusals, the
//! documentation's tables and their tests take their words.

use super::{completions, responses};
use crate::Api;
use signet_openai::BadRequest;

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Said as this.
    Mapped(&'static str),
    /// Left out, since it changes no answer; the text tells for which values.
    Hint(&'static str),
    /// HTTP 400; the text tells why, or for which values.
    Refused(&'static str),
}

/// One line of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The caller's API.
    pub from: Api,
    /// The provider's API.
    pub to: Api,
    /// The field as the caller writes it, `[]` for any place in an array.
    pub field: &'static str,
    /// What becomes of it.
    pub fate: Fate,
}

const fn chat(field: &'static str, fate: Fate) -> Rule {
    Rule { from: Api::Chat, to: Api::Messages, field, fate }
}

const fn messages(field: &'static str, fate: Fate) -> Rule {
    Rule { from: Api::Messages, to: Api::Chat, field, fate }
}

use Fate::{Hint, Mapped, Refused};

/// What becomes of the fields of one API, by their names.
pub(crate) type Fields = [(&'static str, Fate)];

/// The list. A field of a request that is in no line is refused too.
pub const RULES: &[Rule] = &all();

const COUNT: usize = FIRST.len() + count(&responses::rules::LISTS) + count(&completions::rules::LISTS);

/// Lines of lists for any API, for chat, for messages.
const fn count(lists: &[&Fields; 3]) -> usize {
    2 * lists[0].len() + lists[1].len() + lists[2].len()
}

const fn all() -> [Rule; COUNT] {
    let (mut out, mut at) = ([FIRST[0]; COUNT], 0);
    while at < FIRST.len() {
        out[at] = FIRST[at];
        at += 1;
    }
    let from = [(Api::Responses, &responses::rules::LISTS), (Api::Completions, &completions::rules::LISTS)];
    let mut place = 0;
    while place < from.len() {
        let (api, [always, in_chat, in_messages]) = from[place];
        (out, at) = add(out, at, (api, Api::Chat), always);
        (out, at) = add(out, at, (api, Api::Chat), in_chat);
        (out, at) = add(out, at, (api, Api::Messages), always);
        (out, at) = add(out, at, (api, Api::Messages), in_messages);
        place += 1;
    }
    out
}

const fn add(mut out: [Rule; COUNT], mut at: usize, (from, to): (Api, Api), fields: &Fields) -> ([Rule; COUNT], usize) {
    let mut line = 0;
    while line < fields.len() {
        let (field, fate) = fields[line];
        out[at] = Rule { from, to, field, fate };
        (at, line) = (at + 1, line + 1);
    }
    (out, at)
}

/// Between chat and messages.
const FIRST: &[Rule] = &[
    chat("model", Mapped("model")),
    chat("stream", Mapped("stream")),
    chat("stream_options.include_usage", Mapped("usage is always told there; the chunk is for who asked")),
    chat("stream_options.include_obfuscation", Hint("any")),
    chat("messages[].role: system, developer", Mapped("system, if before the first turn")),
    chat(
        "messages[].role",
        Refused("system and developer messages behind the first turn, and unknown roles, have no place"),
    ),
    chat("messages[].role: user, assistant", Mapped("messages[].role")),
    chat("messages[].role: tool", Mapped("tool_result; results in a row are one message")),
    chat("messages[]", Refused("a last message of the assistant would be continued, not answered")),
    chat("messages[].name", Refused("speakers have no names")),
    chat("messages[].content[].text", Mapped("text")),
    chat("messages[].content[].image_url.url", Mapped("image, by URL or base64")),
    chat("messages[].content[].image_url.detail", Refused("images have one resolution; auto is left out")),
    chat("messages[].content[].file", Mapped("document; filename is its title")),
    chat("messages[].content[].file.file_id", Refused("the file is at another vendor")),
    chat("messages[].content[]", Refused("only PDF documents with their bytes can be said; and no refusal")),
    chat("messages[].content[].type", Refused("no such content")),
    chat("messages[].tool_calls[]", Mapped("tool_use")),
    chat("messages[].tool_calls[].type", Refused("only functions can be called")),
    chat("messages[].tool_calls[].function.arguments", Mapped("input; must be an object, empty is {}")),
    chat("messages[].refusal", Refused("there is no such block")),
    chat("messages[].reasoning_content", Refused("thoughts need the provider's signature")),
    chat("messages[].reasoning", Refused("thoughts need the provider's signature")),
    chat("messages[].audio", Refused("there is no audio")),
    chat("messages[].function_call", Refused("superseded by tool_calls")),
    chat("tools[].function", Mapped("tools[]; parameters are input_schema")),
    chat("tools[].type", Refused("only functions can be offered")),
    chat("tool_choice: none, auto, required, function", Mapped("tool_choice: none, auto, any, tool")),
    chat("tool_choice.type", Refused("no such choice")),
    chat("parallel_tool_calls", Mapped("tool_choice.disable_parallel_tool_use")),
    chat("max_completion_tokens", Mapped("max_tokens; the model's default if absent")),
    chat("max_tokens", Mapped("max_tokens, as max_completion_tokens")),
    chat("temperature", Refused("over 1; up to 1 it is temperature")),
    chat("top_p", Mapped("top_p")),
    chat("stop", Refused("only white space; others are stop_sequences")),
    chat("n", Refused("there is one answer; 1 is left out")),
    chat("seed", Refused("sampling cannot be repeated")),
    chat("frequency_penalty", Refused("there are no penalties; 0 is left out")),
    chat("presence_penalty", Refused("there are no penalties; 0 is left out")),
    chat("logit_bias", Refused("there is no bias; {} is left out")),
    chat("logprobs", Refused("probabilities are not told; false is left out")),
    chat("top_logprobs", Refused("probabilities are not told")),
    chat(
        "reasoning_effort",
        Refused("minimal; none is thinking: disabled, others are thinking: adaptive and output_config.effort"),
    ),
    chat("response_format.type", Refused("no such format; text is left out")),
    chat("response_format", Refused("JSON without a schema")),
    chat("response_format.json_schema.schema", Mapped("output_config.format, always strict")),
    chat("response_format.json_schema.name", Hint("any")),
    chat("response_format.json_schema.description", Refused("a format has no description")),
    chat("user", Mapped("metadata.user_id")),
    chat("metadata", Refused("there is no place for it")),
    chat("store", Refused("only false, which is left out")),
    chat("service_tier", Refused("only auto, which is left out")),
    chat("prompt_cache_key", Hint("any")),
    chat("modalities", Refused("only text, which is left out")),
    chat("audio", Refused("there is no audio")),
    chat("prediction", Refused("answers cannot be predicted")),
    chat("web_search_options", Refused("the provider's own search is another tool")),
    chat("functions", Refused("superseded by tools")),
    chat("function_call", Refused("superseded by tool_choice")),
    messages("model", Mapped("model")),
    messages("stream", Mapped("stream, with usage")),
    messages("system", Mapped("a first message of role system")),
    messages("messages[].role: user, assistant", Mapped("messages[].role")),
    messages("messages[].role", Refused("no such role")),
    messages("messages[]", Refused("a last message of the assistant would be answered, not continued")),
    messages("messages[].content[].text", Mapped("content")),
    messages("messages[].content[].image", Mapped("image_url, by URL or data URL")),
    messages("messages[].content[].document", Mapped("file, with its bytes; title is its name")),
    messages("messages[].content[].context", Refused("a file has no context")),
    messages("messages[].content[].citations", Refused("there are no citations; off is left out")),
    messages("messages[].content[].source.type", Refused("files of the vendor, and texts as documents, have no place")),
    messages("messages[].content[].tool_use", Mapped("tool_calls[]; input is arguments")),
    messages("messages[].content[].tool_result", Mapped("a message of role tool")),
    messages("messages[].content[].is_error", Mapped("true is a first part of the content, the text is_error: true")),
    messages("messages[].content[].content[]", Refused("results of tools are text")),
    messages("messages[].content[].thinking", Mapped("reasoning_content, without a signature")),
    messages(
        "messages[].content[]",
        Refused(
            "signed and redacted thinking; documents by URL; images of the assistant; results behind text; text behind calls",
        ),
    ),
    messages("messages[].content[].type", Refused("no such content")),
    messages("messages[].content[].cache_control", Hint("any")),
    messages("tools[]", Mapped("tools[].function; input_schema is parameters")),
    messages("tools[].type", Refused("the provider's own tools have no place")),
    messages("tools[].cache_control", Hint("any")),
    messages("tool_choice: none, auto, any, tool", Mapped("tool_choice: none, auto, required, function")),
    messages("tool_choice.disable_parallel_tool_use", Mapped("parallel_tool_calls")),
    messages("max_tokens", Refused("0; others are max_completion_tokens")),
    messages("temperature", Mapped("temperature")),
    messages("top_p", Mapped("top_p")),
    messages("top_k", Refused("there is no such limit")),
    messages("stop_sequences", Refused("over 4; up to 4 they are stop")),
    messages("thinking.type: disabled", Mapped("reasoning_effort: none")),
    messages("thinking.type: adaptive", Mapped("the model's own measure")),
    messages("thinking.budget_tokens", Refused("an effort is not a budget")),
    messages("thinking.display", Refused("thoughts cannot be shortened")),
    messages("output_config.effort", Refused("max, and any with thinking disabled; others are reasoning_effort")),
    messages("output_config.format", Mapped("response_format: json_schema, strict")),
    messages("output_config.format.type", Refused("no such format")),
    messages("metadata.user_id", Mapped("user")),
    messages("cache_control", Hint("any")),
    messages("service_tier", Refused("only auto, which is left out")),
    messages("container", Refused("containers are at the vendor")),
    messages("context_management", Refused("there is no such management")),
    messages("mcp_servers", Refused("servers are called by the vendor")),
    messages("inference_geo", Refused("the place cannot be chosen")),
];

/// The refusal of the field at `path`.
pub(crate) fn refused(from: Api, to: Api, path: &str) -> BadRequest {
    let field = general(path);
    let why = RULES.iter().find_map(|rule| match rule.fate {
        Fate::Refused(why) if rule.from == from && rule.to == to && rule.field == field => Some(why),
        _ => None,
    });
    let why = why.unwrap_or("the field is not known");
    let message =
        format!("Unsupported value: '{path}' cannot be said in the {} API that serves this model ({why}).", to.name());
    BadRequest { message, param: Some(path.to_owned()), code: Some("unsupported_value") }
}

/// What a field of the pivot is called by callers of `from`.
pub(crate) fn named(from: Api, field: &'static str) -> &'static str {
    match (from, field) {
        (Api::Chat, "max_tokens") => "max_completion_tokens",
        (Api::Chat, "response_format.description") => "response_format.json_schema.description",
        (Api::Responses, "max_tokens") => "max_output_tokens",
        (Api::Responses, "reasoning_effort") => "reasoning.effort",
        (Api::Responses, "response_format") => "text.format",
        (Api::Responses, "response_format.description") => "text.format.description",
        (Api::Messages, "stop") => "stop_sequences",
        (Api::Messages, "reasoning_effort") => "output_config.effort",
        (Api::Messages, "response_format") => "output_config.format",
        (_, field) => field,
    }
}

/// `path` without the places in its arrays.
fn general(path: &str) -> String {
    let mut pieces = path.split('[');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.extend(["[]", piece.split_once(']').map_or(piece, |(_, behind)| behind)]);
    }
    out
}
