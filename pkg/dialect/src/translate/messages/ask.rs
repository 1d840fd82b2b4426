//! Reading a messages request.

use crate::Api;
use crate::pivot::{Ask, Content, Format, Mode, Part, Role, Source, ThinkingMode, Tool, Turn};
use crate::translate::fields::Fields;
use bytes::Bytes;
use signet_openai::BadRequest;
use signet_openai::wire::{Json, object};
use std::borrow::Cow;

/// What a messages request asks.
///
/// # Errors
/// It is not one.
pub(crate) fn read(body: &Bytes) -> Result<Ask<'_>, BadRequest> {
    let mut fields = Fields::new("", object(body)?)?;
    let mut ask = Ask::new(Api::Messages);
    ask.model = fields.needed("model")?;
    ask.stream = fields.flag("stream")?.unwrap_or(false);
    ask.system = content(&mut fields, "system", body, &mut ask.rest)?;
    for (i, message) in
        fields.array("messages")?.ok_or_else(|| BadRequest::missing("messages"))?.into_iter().enumerate()
    {
        let path = format!("messages[{i}]");
        let mut message = Fields::of(path.clone(), message)?;
        let role = match &*message.needed("role")? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            _ => {
                ask.rest.push(message.path("role"));
                continue;
            }
        };
        let parts = content(&mut message, "content", body, &mut ask.rest)?;
        ask.turns.push(Turn { role, path, parts });
        message.left_over(&mut ask.rest);
    }
    sampling(&mut fields, &mut ask)?;
    tools(&mut fields, &mut ask)?;
    thinking(&mut fields, &mut ask)?;
    output(&mut fields, &mut ask)?;
    if let Some(mut metadata) = fields.object("metadata")? {
        ask.end_user = metadata.text("user_id")?;
        metadata.left_over(&mut ask.rest);
    }
    fields.skip("cache_control", |_| true);
    fields.skip("service_tier", |value| value.as_str() == Some("auto"));
    for absent in ["container", "context_management", "mcp_servers", "inference_geo"] {
        fields.skip(absent, |_| false);
    }
    fields.left_over(&mut ask.rest);
    Ok(ask)
}

fn sampling<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    ask.sampling.max_tokens = fields.number("max_tokens")?;
    if ask.sampling.max_tokens.is_none() {
        return Err(BadRequest::missing("max_tokens"));
    }
    ask.sampling.temperature = fields.number("temperature")?;
    ask.sampling.top_p = fields.number("top_p")?;
    ask.sampling.top_k = fields.number("top_k")?;
    for stop in fields.array("stop_sequences")?.unwrap_or_default() {
        let Json::String(stop) = stop else {
            return Err(BadRequest::wrong_type("stop_sequences", "an array of strings"));
        };
        ask.sampling.stop.push(stop);
    }
    Ok(())
}

fn tools<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    for (i, tool) in fields.array("tools")?.unwrap_or_default().into_iter().enumerate() {
        let mut tool = Fields::of(format!("tools[{i}]"), tool)?;
        if tool.text("type")?.is_some_and(|kind| kind != "custom") {
            ask.rest.push(tool.path("type"));
            continue;
        }
        ask.tools.push(Tool {
            name: tool.needed("name")?,
            description: tool.text("description")?,
            schema: tool.value("input_schema"),
            strict: tool.flag("strict")?.unwrap_or(false),
        });
        tool.skip("cache_control", |_| true);
        tool.left_over(&mut ask.rest);
    }
    let Some(mut choice) = fields.object("tool_choice")? else { return Ok(()) };
    let kind = choice.needed("type")?;
    ask.choice.mode = Some(match &*kind {
        "auto" => Mode::Auto,
        "none" => Mode::None,
        "any" => Mode::Any,
        "tool" => Mode::Named(choice.needed("name")?),
        _ => return Err(BadRequest::wrong_value("tool_choice.type", "'auto', 'any', 'tool' or 'none'")),
    });
    ask.choice.parallel = choice.flag("disable_parallel_tool_use")?.map(|disabled| !disabled);
    choice.left_over(&mut ask.rest);
    Ok(())
}

fn thinking<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let Some(mut thinking) = fields.object("thinking")? else { return Ok(()) };
    ask.thinking.mode = Some(match &*thinking.needed("type")? {
        "disabled" => ThinkingMode::Off,
        "adaptive" => ThinkingMode::Adaptive,
        "enabled" => {
            let budget = thinking.number("budget_tokens")?;
            ThinkingMode::Budget(budget.ok_or_else(|| BadRequest::missing("thinking.budget_tokens"))?)
        }
        _ => return Err(BadRequest::wrong_value("thinking.type", "'enabled', 'adaptive' or 'disabled'")),
    });
    thinking.left_over(&mut ask.rest);
    Ok(())
}

fn output<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let Some(mut output) = fields.object("output_config")? else { return Ok(()) };
    ask.thinking.effort = output.text("effort")?;
    if let Some(mut format) = output.object("format")? {
        match &*format.needed("type")? {
            "json_schema" => {
                let schema =
                    format.value("schema").ok_or_else(|| BadRequest::missing("output_config.format.schema"))?;
                ask.format = Format::Schema { name: None, description: None, schema, strict: Some(true) };
            }
            _ => ask.rest.push(format.path("type")),
        }
        format.left_over(&mut ask.rest);
    }
    output.left_over(&mut ask.rest);
    Ok(())
}

/// A text or blocks.
fn content<'a>(
    fields: &mut Fields<'a>,
    key: &str,
    body: &'a [u8],
    rest: &mut Vec<String>,
) -> Result<Vec<Part<'a>>, BadRequest> {
    let path = fields.path(key);
    match fields.value(key) {
        None => Ok(Vec::new()),
        Some(Json::String(text)) => Ok(vec![Part { path, what: Content::Text(text) }]),
        Some(Json::Array(blocks)) => {
            let mut parts = Vec::with_capacity(blocks.len());
            for (j, block) in blocks.into_iter().enumerate() {
                parts.extend(part(format!("{path}[{j}]"), block, body, rest)?);
            }
            Ok(parts)
        }
        Some(_) => Err(BadRequest::wrong_type(&path, "a string or an array")),
    }
}

fn part<'a>(
    path: String,
    block: Json<'a>,
    body: &'a [u8],
    rest: &mut Vec<String>,
) -> Result<Option<Part<'a>>, BadRequest> {
    let mut fields = Fields::of(path.clone(), block)?;
    let what = match &*fields.needed("type")? {
        "text" => {
            fields.skip("citations", |citations| citations.as_array().is_some_and(<[_]>::is_empty));
            Some(Content::Text(fields.needed("text")?))
        }
        "image" => source(&mut fields, rest)?.map(Content::Image),
        "document" => {
            let name = fields.text("title")?;
            fields.skip("context", |_| false);
            fields.skip("citations", |value| value.get("enabled").is_none_or(|enabled| *enabled != Json::Bool(true)));
            source(&mut fields, rest)?.map(|source| Content::File { source, name })
        }
        "tool_use" => Some(Content::Call {
            id: fields.needed("id")?,
            name: fields.needed("name")?,
            arguments: input(&mut fields, body)?,
        }),
        "tool_result" => Some(Content::Result {
            of: fields.needed("tool_use_id")?,
            failed: fields.flag("is_error")?.unwrap_or(false),
            parts: content(&mut fields, "content", body, rest)?,
        }),
        "thinking" => {
            let seal = fields.text("signature")?.filter(|seal| !seal.is_empty());
            Some(Content::Thinking { text: fields.needed("thinking")?, seal })
        }
        "redacted_thinking" => Some(Content::Sealed(fields.needed("data")?)),
        _ => {
            rest.push(fields.path("type"));
            return Ok(None);
        }
    };
    fields.skip("cache_control", |_| true);
    fields.left_over(rest);
    Ok(what.map(|what| Part { path, what }))
}

/// A call's input as it was written.
fn input<'a>(fields: &mut Fields<'a>, body: &'a [u8]) -> Result<Cow<'a, str>, BadRequest> {
    let path = fields.path("input");
    let member = fields.take("input").ok_or_else(|| BadRequest::missing(&path))?;
    if member.value.as_object().is_none() {
        return Err(BadRequest::wrong_type(&path, "an object"));
    }
    let text = body.get(member.span).and_then(|text| std::str::from_utf8(text).ok());
    Ok(Cow::Borrowed(text.expect("a value lies in the body that it was read from")))
}

fn source<'a>(fields: &mut Fields<'a>, rest: &mut Vec<String>) -> Result<Option<Source<'a>>, BadRequest> {
    let mut source = fields.object("source")?.ok_or_else(|| BadRequest::missing(&fields.path("source")))?;
    let read = match &*source.needed("type")? {
        "base64" => Source::Base64 { media: source.needed("media_type")?, data: source.needed("data")? },
        "url" => Source::Url(source.needed("url")?),
        _ => {
            rest.push(source.path("type"));
            return Ok(None);
        }
    };
    source.left_over(rest);
    Ok(Some(read))
}
