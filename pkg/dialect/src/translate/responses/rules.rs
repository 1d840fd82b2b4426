//! What becomes of the fields of a request for a response.

use crate::translate::rules::Fate::{Hint, Mapped, Refused};
use crate::translate::rules::Fields;

/// Whichever API it is said in, in chat, in messages.
pub(crate) const LISTS: [&Fields; 3] = [ALWAYS, IN_CHAT, IN_MESSAGES];

/// Whichever API it is said in.
const ALWAYS: &Fields = &[
    ("model", Mapped("model")),
    ("stream", Mapped("stream, with usage")),
    ("stream_options", Hint("any")),
    ("instructions", Mapped("the first text for the system")),
    ("input: a text", Mapped("one message of the user")),
    ("input[].role: user, assistant", Mapped("messages[].role")),
    ("input[].role: system, developer", Mapped("text for the system, if before the first turn")),
    ("input[].role", Refused("system and developer messages behind the first turn, and unknown roles, have no place")),
    ("input[].id", Hint("any")),
    ("input[].status", Hint("any")),
    ("input[].type", Refused("only messages, function calls, their outputs and reasoning can be said")),
    ("input[].content[].text", Mapped("text")),
    ("input[].content[].annotations", Refused("there are no citations; an empty list is left out")),
    ("input[].content[].logprobs", Hint("any")),
    ("input[].content[].image_url", Mapped("an image, by URL or with its bytes")),
    ("input[].content[].detail", Refused("images have one resolution; auto is left out")),
    ("input[].content[].file_data", Mapped("a document with its bytes; filename is its name")),
    ("input[].content[].file_id", Refused("the file is at another vendor")),
    ("input[].content[].type", Refused("no such content")),
    ("input[].call_id, name, arguments", Mapped("a call of a tool, in one message with what else the model said")),
    ("input[].output", Mapped("the result of a tool")),
    ("input[].output[].detail", Refused("images have one resolution; auto is left out")),
    ("input[].output[].file_id", Refused("the file is at another vendor")),
    ("input[].output[].type", Refused("no such content")),
    ("tools[]", Mapped("tools[]; strict only where it is true")),
    ("tools[].type", Refused("only functions of the caller can be offered, no built-in tools")),
    ("tool_choice: none, auto, required, function", Mapped("tool_choice")),
    ("tool_choice.type", Refused("no such choice")),
    ("parallel_tool_calls", Mapped("whether several calls at once are allowed")),
    ("max_tool_calls", Hint("any: it limits built-in tools")),
    ("top_p", Mapped("top_p")),
    ("top_logprobs", Refused("probabilities are not told; 0 is left out")),
    ("include", Refused("message.output_text.logprobs; others tell of built-in tools, or what is told anyway")),
    ("reasoning.summary", Hint("any")),
    ("reasoning.generate_summary", Hint("any")),
    ("text.format.type", Refused("no such format; text is left out")),
    ("text.verbosity", Refused("only medium, which is left out")),
    ("previous_response_id", Refused("no response is kept: send the conversation as input")),
    ("conversation", Refused("no conversation is kept: send it as input")),
    ("prompt", Refused("no prompt is kept: send its text")),
    ("background", Refused("nothing runs in the background; false is left out")),
    ("store", Refused("no response is kept; false is left out, and so is no word of it")),
    ("truncation", Refused("input is not shortened; disabled is left out")),
    ("service_tier", Refused("only auto and default, which are left out")),
    ("metadata", Hint("any: the answer repeats it")),
    ("prompt_cache_key", Hint("any")),
    ("prompt_cache_retention", Hint("any")),
];

/// In chat.
const IN_CHAT: &Fields = &[
    ("input[]", Refused("sealed reasoning (encrypted_content); reasoning behind text")),
    ("input[].content", Refused("text behind calls")),
    ("input[].content[]", Refused("documents by URL")),
    ("input[].output[]", Refused("results of tools are text")),
    ("max_output_tokens", Refused("0; others are max_completion_tokens")),
    ("temperature", Mapped("temperature")),
    ("reasoning.effort", Refused("max; others are reasoning_effort")),
    ("text.format", Mapped("response_format")),
    ("user, safety_identifier", Mapped("user")),
];

/// In messages.
const IN_MESSAGES: &Fields = &[
    ("input[]", Refused("reasoning without its seal (encrypted_content); a last message of the assistant")),
    ("input[].content[]", Refused("refusals; documents that are not PDF with their bytes")),
    ("input[].output[]", Refused("documents that are not PDF with their bytes")),
    ("max_output_tokens", Mapped("max_tokens; the model's default if absent")),
    ("temperature", Refused("over 1; up to 1 it is temperature")),
    (
        "reasoning.effort",
        Refused("minimal; none is thinking: disabled, others are thinking: adaptive and output_config.effort"),
    ),
    ("text.format", Refused("JSON without a schema; with one it is output_config.format")),
    ("text.format.description", Refused("a format has no description")),
    ("user, safety_identifier", Mapped("metadata.user_id")),
];
