//! Writing a messages request.

use crate::Api;
use crate::pivot::{Ask, Content, Format, Mode, Part, Role, Source, ThinkingMode};
use crate::translate::Defaults;
use crate::translate::object::Writer;
use crate::translate::rules::{named, refused};
use bytes::Bytes;
use signet_openai::BadRequest;
use signet_openai::wire::{Json, write_str};

/// The efforts that the API knows.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// The body that asks this.
///
/// # Errors
/// It cannot be said.
pub(crate) fn write(ask: &Ask<'_>, defaults: Defaults) -> Result<Bytes, BadRequest> {
    let refuse = |path: &str| refused(ask.from, Api::Messages, path);
    if let Some(path) = ask.rest.first() {
        return Err(refuse(path));
    }
    check_sampling(ask)?;
    if let Some(last) = ask.turns.last().filter(|turn| turn.role == Role::Assistant) {
        return Err(refuse(&last.path));
    }
    let mut out = Vec::with_capacity(1024);
    let mut body = Writer::object(&mut out);
    body.text("model", &ask.model);
    let default = defaults.max_tokens.map(|limit| limit.to_string());
    let limit = ask.sampling.max_tokens.as_deref().or(default.as_deref());
    body.raw("max_tokens", limit.ok_or_else(|| BadRequest::missing(named(ask.from, "max_tokens")))?);
    if !ask.system.is_empty() {
        content(&ask.system, ask, body.key("system"))?;
    }
    let mut messages = Writer::array(body.key("messages"));
    for turn in &ask.turns {
        let mut message = Writer::object(messages.item());
        message.text("role", if turn.role == Role::User { "user" } else { "assistant" });
        content(&turn.parts, ask, message.key("content"))?;
        message.end();
    }
    messages.end();
    tools(ask, &mut body);
    if !ask.sampling.stop.is_empty() {
        let mut stops = Writer::array(body.key("stop_sequences"));
        ask.sampling.stop.iter().for_each(|stop| write_str(stop, stops.item()));
        stops.end();
    }
    body.number("temperature", ask.sampling.temperature.as_deref());
    body.number("top_p", ask.sampling.top_p.as_deref());
    body.number("top_k", ask.sampling.top_k.as_deref());
    thinking(ask, &mut body)?;
    if let Some(user) = &ask.end_user {
        let mut metadata = Writer::object(body.key("metadata"));
        metadata.text("user_id", user);
        metadata.end();
    }
    if ask.stream {
        body.raw("stream", "true");
    }
    body.end();
    Ok(out.into())
}

fn check_sampling(ask: &Ask<'_>) -> Result<(), BadRequest> {
    let sampling = &ask.sampling;
    let is = |number: &str, value: f64| number.parse::<f64>().is_ok_and(|number| (number - value).abs() < f64::EPSILON);
    let over_one = |number: &str| number.parse::<f64>().is_ok_and(|number| number > 1.0);
    let unless = |number: &Option<_>, value: f64| number.as_deref().is_some_and(|number| !is(number, value));
    let wrong = [
        (unless(&sampling.n, 1.0), "n"),
        (unless(&sampling.frequency_penalty, 0.0), "frequency_penalty"),
        (unless(&sampling.presence_penalty, 0.0), "presence_penalty"),
        (sampling.temperature.as_deref().is_some_and(over_one), "temperature"),
        (sampling.seed.is_some(), "seed"),
        (sampling.logit_bias.is_some(), "logit_bias"),
        (sampling.logprobs.is_some(), "logprobs"),
        (sampling.top_logprobs.is_some(), "top_logprobs"),
        (sampling.stop.iter().any(|stop| stop.trim().is_empty()), "stop"),
    ];
    match wrong.into_iter().find(|(wrong, _)| *wrong) {
        Some((_, field)) => Err(refused(ask.from, Api::Messages, named(ask.from, field))),
        None => Ok(()),
    }
}

/// A single text as a string, anything else as blocks.
fn content(parts: &[Part<'_>], ask: &Ask<'_>, out: &mut Vec<u8>) -> Result<(), BadRequest> {
    match parts {
        [] => out.extend_from_slice(b"\"\""),
        [Part { what: Content::Text(text), .. }] => write_str(text, out),
        parts => {
            let mut blocks = Writer::array(out);
            parts.iter().try_for_each(|part| block(part, ask, blocks.item()))?;
            blocks.end();
        }
    }
    Ok(())
}

fn block(part: &Part<'_>, ask: &Ask<'_>, out: &mut Vec<u8>) -> Result<(), BadRequest> {
    let refuse = |path: &str| refused(ask.from, Api::Messages, path);
    let mut block = Writer::object(out);
    match &part.what {
        Content::Text(text) => {
            block.text("type", "text").text("text", text);
        }
        Content::Image(from) => {
            block.text("type", "image");
            source(from, block.key("source"));
        }
        Content::File { source: from, name } => {
            let Source::Base64 { media, .. } = from else { return Err(refuse(&part.path)) };
            if media != "application/pdf" {
                return Err(refuse(&part.path));
            }
            block.text("type", "document");
            source(from, block.key("source"));
            if let Some(name) = name {
                block.text("title", name);
            }
        }
        Content::Call { id, name, arguments } => {
            block.text("type", "tool_use").text("id", id).text("name", name);
            block.raw("input", object_text(arguments, &part.path)?);
        }
        Content::Result { of, parts, failed } => {
            block.text("type", "tool_result").text("tool_use_id", of);
            content(parts, ask, block.key("content"))?;
            if *failed {
                block.raw("is_error", "true");
            }
        }
        Content::Thinking { text, seal: Some(seal) } => {
            block.text("type", "thinking").text("thinking", text).text("signature", seal);
        }
        Content::Sealed(data) => {
            block.text("type", "redacted_thinking").text("data", data);
        }
        Content::Thinking { seal: None, .. } | Content::Refusal(_) => return Err(refuse(&part.path)),
    }
    block.end();
    Ok(())
}

/// A call's arguments, which have to be an object there; the empty text is none.
fn object_text<'t>(arguments: &'t str, path: &str) -> Result<&'t str, BadRequest> {
    let text = arguments.trim();
    if text.is_empty() {
        return Ok("{}");
    }
    match Json::parse(text.as_bytes()) {
        Ok(Json::Object(_)) => Ok(text),
        _ => Err(BadRequest::wrong_value(path, "the text of a JSON object")),
    }
}

fn source(source: &Source<'_>, out: &mut Vec<u8>) {
    let mut fields = Writer::object(out);
    match source {
        Source::Url(url) => fields.text("type", "url").text("url", url),
        Source::Base64 { media, data } => fields.text("type", "base64").text("media_type", media).text("data", data),
    };
    fields.end();
}

fn tools(ask: &Ask<'_>, body: &mut Writer<'_>) {
    if !ask.tools.is_empty() {
        let mut tools = Writer::array(body.key("tools"));
        for tool in &ask.tools {
            let mut fields = Writer::object(tools.item());
            fields.text("name", &tool.name);
            if let Some(description) = &tool.description {
                fields.text("description", description);
            }
            match &tool.schema {
                Some(schema) => fields.value("input_schema", schema),
                None => fields.raw("input_schema", r#"{"type":"object","properties":{}}"#),
            };
            if tool.strict {
                fields.raw("strict", "true");
            }
            fields.end();
        }
        tools.end();
    }
    let one_by_one = ask.choice.parallel == Some(false) && ask.choice.mode != Some(Mode::None);
    let mode = ask.choice.mode.as_ref().or_else(|| one_by_one.then_some(&Mode::Auto));
    if let Some(mode) = mode {
        let mut choice = Writer::object(body.key("tool_choice"));
        match mode {
            Mode::Auto => choice.text("type", "auto"),
            Mode::None => choice.text("type", "none"),
            Mode::Any => choice.text("type", "any"),
            Mode::Named(name) => choice.text("type", "tool").text("name", name),
        };
        if one_by_one {
            choice.raw("disable_parallel_tool_use", "true");
        }
        choice.end();
    }
}

fn thinking(ask: &Ask<'_>, body: &mut Writer<'_>) -> Result<(), BadRequest> {
    let refuse = |field: &'static str| refused(ask.from, Api::Messages, named(ask.from, field));
    if let Some(mode) = &ask.thinking.mode {
        let mut thinking = Writer::object(body.key("thinking"));
        match mode {
            ThinkingMode::Off => thinking.text("type", "disabled"),
            ThinkingMode::Adaptive => thinking.text("type", "adaptive"),
            ThinkingMode::Budget(tokens) => thinking.text("type", "enabled").raw("budget_tokens", tokens),
        };
        thinking.end();
    }
    let effort = ask.thinking.effort.as_deref();
    if effort.is_some_and(|effort| !EFFORTS.contains(&effort)) {
        return Err(refuse("reasoning_effort"));
    }
    let schema = match &ask.format {
        Format::Text => None,
        Format::Json => return Err(refuse("response_format")),
        Format::Schema { description: Some(_), .. } => return Err(refuse("response_format.description")),
        Format::Schema { schema, .. } => Some(schema),
    };
    if effort.is_some() || schema.is_some() {
        let mut output = Writer::object(body.key("output_config"));
        if let Some(effort) = effort {
            output.text("effort", effort);
        }
        if let Some(schema) = schema {
            let mut format = Writer::object(output.key("format"));
            format.text("type", "json_schema").value("schema", schema);
            format.end();
        }
        output.end();
    }
    Ok(())
}
