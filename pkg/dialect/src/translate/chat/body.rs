//! Writing a chat request.

use crate::Api;
use crate::pivot::{Ask, Content, Format, Mode, Part, Role, Source, ThinkingMode, Turn};
use crate::translate::object::Writer;
use crate::translate::rules::{named, refused};
use bytes::Bytes;
use signet_openai::BadRequest;
use signet_openai::wire::write_str;

/// Most stop sequences that the API takes.
const STOPS_MAX: usize = 4;

/// What a schema is called whose caller gave it no name.
const SCHEMA_NAME: &str = "output";

/// What says that a tool failed: a result has no field for it, and its text is where the API's documentation wants it said.
const FAILED: &str = "is_error: true";

/// What a document is called whose caller gave it no name.
const FILE_NAME: &str = "document.pdf";

/// The body that asks this.
///
/// # Errors
/// It cannot be said.
pub(crate) fn write(ask: &Ask<'_>) -> Result<Bytes, BadRequest> {
    let refuse = |path: &str| refused(ask.from, Api::Chat, path);
    if let Some(path) = ask.rest.first() {
        return Err(refuse(path));
    }
    if let Some(last) = ask.turns.last().filter(|turn| turn.role == Role::Assistant && ask.from == Api::Messages) {
        return Err(refuse(&last.path));
    }
    let mut out = Vec::with_capacity(1024);
    let mut body = Writer::object(&mut out);
    body.text("model", &ask.model);
    let mut messages = Writer::array(body.key("messages"));
    if !ask.system.is_empty() {
        let mut system = Writer::object(messages.item());
        system.text("role", "system");
        content(&ask.system, ask, system.key("content"))?;
        system.end();
    }
    for turn in &ask.turns {
        match turn.role {
            Role::User => user(turn, ask, &mut messages)?,
            Role::Assistant => assistant(turn, ask, messages.item())?,
        }
    }
    messages.end();
    tools(ask, &mut body);
    sampling(ask, &mut body)?;
    thinking(ask, &mut body)?;
    format(ask, &mut body);
    if let Some(user) = &ask.end_user {
        body.text("user", user);
    }
    if ask.stream {
        body.raw("stream", "true");
        if ask.usage {
            body.raw("stream_options", r#"{"include_usage":true}"#);
        }
    }
    body.end();
    Ok(out.into())
}

/// Results of tools are messages of their own, directly behind their calls; what else is said follows.
fn user(turn: &Turn<'_>, ask: &Ask<'_>, messages: &mut Writer<'_>) -> Result<(), BadRequest> {
    let results = turn.parts.iter().take_while(|part| matches!(part.what, Content::Result { .. })).count();
    let (results, said) = turn.parts.split_at(results);
    for part in results {
        let Content::Result { of, parts, failed } = &part.what else { continue };
        if let Some(image) = parts.iter().find(|part| !matches!(part.what, Content::Text(_))) {
            return Err(refused(ask.from, Api::Chat, &image.path));
        }
        let mut message = Writer::object(messages.item());
        message.text("role", "tool").text("tool_call_id", of);
        if *failed {
            failure(parts, ask, message.key("content"))?;
        } else {
            content(parts, ask, message.key("content"))?;
        }
        message.end();
    }
    if !said.is_empty() || results.is_empty() {
        let mut message = Writer::object(messages.item());
        message.text("role", "user");
        content(said, ask, message.key("content"))?;
        message.end();
    }
    Ok(())
}

/// Thoughts, texts and calls, in this order: the API has a field for each.
fn assistant(turn: &Turn<'_>, ask: &Ask<'_>, out: &mut Vec<u8>) -> Result<(), BadRequest> {
    let rank = |part: &Part<'_>| match &part.what {
        Content::Thinking { seal: None, .. } => Some(0),
        Content::Text(_) => Some(1),
        Content::Refusal(_) => Some(2),
        Content::Call { .. } => Some(3),
        _ => None,
    };
    let mut highest = 0;
    for part in &turn.parts {
        highest = match rank(part) {
            Some(rank) if rank >= highest => rank,
            _ => return Err(refused(ask.from, Api::Chat, &part.path)),
        };
    }
    let of = |wanted: u8| move |part: &&Part<'_>| rank(part) == Some(wanted);
    let mut message = Writer::object(out);
    message.text("role", "assistant");
    let thoughts: String = turn.parts.iter().filter(of(0)).filter_map(text_of).collect();
    if !thoughts.is_empty() {
        message.text("reasoning_content", &thoughts);
    }
    let first_text = turn.parts.iter().filter(of(0)).count();
    let texts = turn.parts.iter().filter(of(1)).count();
    match &turn.parts[first_text..first_text + texts] {
        [] => message.raw("content", "null"),
        texts => {
            content(texts, ask, message.key("content"))?;
            &mut message
        }
    };
    if let Some(refusal) = turn.parts.iter().find(of(2)).and_then(text_of) {
        message.text("refusal", refusal);
    }
    if highest == 3 {
        calls(&turn.parts, message.key("tool_calls"));
    }
    message.end();
    Ok(())
}

fn text_of<'p>(part: &'p Part<'_>) -> Option<&'p str> {
    match &part.what {
        Content::Text(text) | Content::Refusal(text) | Content::Thinking { text, .. } => Some(text),
        _ => None,
    }
}

fn calls(parts: &[Part<'_>], out: &mut Vec<u8>) {
    let mut calls = Writer::array(out);
    for part in parts {
        let Content::Call { id, name, arguments } = &part.what else { continue };
        let mut call = Writer::object(calls.item());
        call.text("id", id).text("type", "function");
        let mut function = Writer::object(call.key("function"));
        function.text("name", name).text("arguments", arguments);
        function.end();
        call.end();
    }
    calls.end();
}

/// A single text as a string, anything else as parts.
fn content(parts: &[Part<'_>], ask: &Ask<'_>, out: &mut Vec<u8>) -> Result<(), BadRequest> {
    match parts {
        [] => out.extend_from_slice(b"\"\""),
        [Part { what: Content::Text(text), .. }] => write_str(text, out),
        parts => {
            let mut list = Writer::array(out);
            parts.iter().try_for_each(|part| content_part(part, ask, list.item()))?;
            list.end();
        }
    }
    Ok(())
}

/// What a tool said that failed, behind a part of ours that says so: the tool's own words stay as they are.
fn failure(parts: &[Part<'_>], ask: &Ask<'_>, out: &mut Vec<u8>) -> Result<(), BadRequest> {
    let mut list = Writer::array(out);
    let mut mark = Writer::object(list.item());
    mark.text("type", "text").text("text", FAILED);
    mark.end();
    parts.iter().try_for_each(|part| content_part(part, ask, list.item()))?;
    list.end();
    Ok(())
}

fn content_part(part: &Part<'_>, ask: &Ask<'_>, out: &mut Vec<u8>) -> Result<(), BadRequest> {
    let mut fields = Writer::object(out);
    match &part.what {
        Content::Text(text) => {
            fields.text("type", "text").text("text", text);
        }
        Content::Image(source) => {
            fields.text("type", "image_url");
            let mut image = Writer::object(fields.key("image_url"));
            image.text("url", &source.to_url());
            image.end();
        }
        Content::File { source: source @ Source::Base64 { .. }, name } => {
            fields.text("type", "file");
            let mut file = Writer::object(fields.key("file"));
            file.text("filename", name.as_deref().unwrap_or(FILE_NAME)).text("file_data", &source.to_url());
            file.end();
        }
        _ => return Err(refused(ask.from, Api::Chat, &part.path)),
    }
    fields.end();
    Ok(())
}

fn tools(ask: &Ask<'_>, body: &mut Writer<'_>) {
    if !ask.tools.is_empty() {
        let mut tools = Writer::array(body.key("tools"));
        for tool in &ask.tools {
            let mut fields = Writer::object(tools.item());
            fields.text("type", "function");
            let mut function = Writer::object(fields.key("function"));
            function.text("name", &tool.name);
            if let Some(description) = &tool.description {
                function.text("description", description);
            }
            if let Some(schema) = &tool.schema {
                function.value("parameters", schema);
            }
            if tool.strict {
                function.raw("strict", "true");
            }
            function.end();
            fields.end();
        }
        tools.end();
    }
    let word = match &ask.choice.mode {
        None => None,
        Some(Mode::Auto) => Some("auto"),
        Some(Mode::None) => Some("none"),
        Some(Mode::Any) => Some("required"),
        Some(Mode::Named(name)) => {
            let mut choice = Writer::object(body.key("tool_choice"));
            choice.text("type", "function");
            let mut function = Writer::object(choice.key("function"));
            function.text("name", name);
            function.end();
            choice.end();
            None
        }
    };
    if let Some(word) = word {
        body.text("tool_choice", word);
    }
    if ask.choice.parallel == Some(false) {
        body.raw("parallel_tool_calls", "false");
    }
}

fn sampling(ask: &Ask<'_>, body: &mut Writer<'_>) -> Result<(), BadRequest> {
    let refuse = |field: &'static str| refused(ask.from, Api::Chat, named(ask.from, field));
    let sampling = &ask.sampling;
    if sampling.top_k.is_some() {
        return Err(refuse("top_k"));
    }
    if sampling.stop.len() > STOPS_MAX {
        return Err(refuse("stop"));
    }
    if sampling.max_tokens.as_deref() == Some("0") {
        return Err(refuse("max_tokens"));
    }
    body.number("max_completion_tokens", sampling.max_tokens.as_deref());
    body.number("temperature", sampling.temperature.as_deref());
    body.number("top_p", sampling.top_p.as_deref());
    body.number("n", sampling.n.as_deref());
    body.number("seed", sampling.seed.as_deref());
    body.number("frequency_penalty", sampling.frequency_penalty.as_deref());
    body.number("presence_penalty", sampling.presence_penalty.as_deref());
    body.number("top_logprobs", sampling.top_logprobs.as_deref());
    for (key, value) in [("logit_bias", &sampling.logit_bias), ("logprobs", &sampling.logprobs)] {
        if let Some(value) = value {
            body.value(key, value);
        }
    }
    if !sampling.stop.is_empty() {
        let mut stops = Writer::array(body.key("stop"));
        sampling.stop.iter().for_each(|stop| write_str(stop, stops.item()));
        stops.end();
    }
    Ok(())
}

fn thinking(ask: &Ask<'_>, body: &mut Writer<'_>) -> Result<(), BadRequest> {
    let refuse = |field: &str| refused(ask.from, Api::Chat, field);
    let effort = match (&ask.thinking.mode, ask.thinking.effort.as_deref()) {
        (Some(ThinkingMode::Budget(_)), _) => return Err(refuse("thinking.budget_tokens")),
        (_, Some("max")) | (Some(ThinkingMode::Off), Some(_)) => {
            return Err(refuse(named(ask.from, "reasoning_effort")));
        }
        (Some(ThinkingMode::Off), None) => Some("none"),
        (_, effort) => effort,
    };
    if let Some(effort) = effort {
        body.text("reasoning_effort", effort);
    }
    Ok(())
}

fn format(ask: &Ask<'_>, body: &mut Writer<'_>) {
    match &ask.format {
        Format::Text => {}
        Format::Json => {
            body.raw("response_format", r#"{"type":"json_object"}"#);
        }
        Format::Schema { name, description, schema, strict } => {
            let mut format = Writer::object(body.key("response_format"));
            format.text("type", "json_schema");
            let mut fields = Writer::object(format.key("json_schema"));
            fields.text("name", name.as_deref().unwrap_or(SCHEMA_NAME));
            if let Some(description) = description {
                fields.text("description", description);
            }
            fields.value("schema", schema);
            if let Some(strict) = strict {
                fields.raw("strict", if *strict { "true" } else { "false" });
            }
            fields.end();
            format.end();
        }
    }
}
