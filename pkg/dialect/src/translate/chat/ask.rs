//! Reading a chat request.

use crate::Api;
use crate::pivot::{Ask, Content, Format, Mode, Part, Role, Source, ThinkingMode, Tool, Turn};
use crate::translate::fields::Fields;
use bytes::Bytes;
use signet_openai::BadRequest;
use signet_openai::wire::{Json, object};
use std::borrow::Cow;

/// What a chat request asks.
///
/// # Errors
/// It is not one.
pub(crate) fn read(body: &Bytes) -> Result<Ask<'_>, BadRequest> {
    let mut fields = Fields::new("", object(body)?)?;
    let mut ask = Ask::new(Api::Chat);
    ask.model = fields.needed("model")?;
    for (i, message) in
        fields.array("messages")?.ok_or_else(|| BadRequest::missing("messages"))?.into_iter().enumerate()
    {
        message_of(format!("messages[{i}]"), message, &mut ask)?;
    }
    stream(&mut fields, &mut ask)?;
    sampling(&mut fields, &mut ask)?;
    tools(&mut fields, &mut ask)?;
    format(&mut fields, &mut ask)?;
    match fields.text("reasoning_effort")? {
        Some(effort) if effort == "none" => ask.thinking.mode = Some(ThinkingMode::Off),
        Some(effort) => {
            ask.thinking.mode = Some(ThinkingMode::Adaptive);
            ask.thinking.effort = Some(effort);
        }
        None => {}
    }
    ask.end_user = fields.text("user")?;
    let text_only = Json::Array(vec![Json::String("text".into())]);
    fields.skip("store", |value| *value == Json::Bool(false));
    fields.skip("service_tier", |value| value.as_str() == Some("auto"));
    fields.skip("prompt_cache_key", |_| true);
    fields.skip("modalities", |value| *value == text_only);
    for absent in ["metadata", "audio", "prediction", "web_search_options", "function_call", "functions"] {
        fields.skip(absent, |_| false);
    }
    fields.left_over(&mut ask.rest);
    Ok(ask)
}

fn stream<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    ask.stream = fields.flag("stream")?.unwrap_or(false);
    ask.usage = false;
    if let Some(mut options) = fields.object("stream_options")? {
        ask.usage = options.flag("include_usage")?.unwrap_or(false);
        options.skip("include_obfuscation", |_| true);
        options.left_over(&mut ask.rest);
    }
    Ok(())
}

fn sampling<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let sampling = &mut ask.sampling;
    let old_limit = fields.number("max_tokens")?;
    sampling.max_tokens = match fields.number("max_completion_tokens")? {
        Some(limit) if old_limit.as_ref().is_none_or(|old| *old == limit) => Some(limit),
        Some(_) => return Err(BadRequest::wrong_value("max_tokens", "the value of 'max_completion_tokens', or none")),
        None => old_limit,
    };
    sampling.temperature = fields.number("temperature")?;
    sampling.top_p = fields.number("top_p")?;
    sampling.n = fields.number("n")?;
    sampling.seed = fields.number("seed")?;
    sampling.frequency_penalty = fields.number("frequency_penalty")?;
    sampling.presence_penalty = fields.number("presence_penalty")?;
    sampling.top_logprobs = fields.number("top_logprobs")?;
    sampling.logprobs = fields.value("logprobs").filter(|value| *value != Json::Bool(false));
    sampling.logit_bias = fields.value("logit_bias").filter(|value| value.as_object().is_none_or(|b| !b.is_empty()));
    sampling.stop = match fields.value("stop") {
        None => Vec::new(),
        Some(Json::String(stop)) => vec![stop],
        Some(Json::Array(stops)) => stops.into_iter().map(stop_text).collect::<Result<_, _>>()?,
        Some(_) => return Err(BadRequest::wrong_type("stop", "a string or an array of strings")),
    };
    Ok(())
}

fn stop_text(stop: Json<'_>) -> Result<Cow<'_, str>, BadRequest> {
    match stop {
        Json::String(stop) => Ok(stop),
        _ => Err(BadRequest::wrong_type("stop", "a string or an array of strings")),
    }
}

fn tools<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    for (i, tool) in fields.array("tools")?.unwrap_or_default().into_iter().enumerate() {
        let mut tool = Fields::of(format!("tools[{i}]"), tool)?;
        let kind = tool.needed("type")?;
        let Some(mut function) = tool.object("function")?.filter(|_| kind == "function") else {
            ask.rest.push(tool.path("type"));
            continue;
        };
        ask.tools.push(Tool {
            name: function.needed("name")?,
            description: function.text("description")?,
            schema: function.value("parameters"),
            strict: function.flag("strict")?.unwrap_or(false),
        });
        function.left_over(&mut ask.rest);
        tool.left_over(&mut ask.rest);
    }
    ask.choice.parallel = fields.flag("parallel_tool_calls")?;
    ask.choice.mode = match fields.value("tool_choice") {
        None => None,
        Some(Json::String(word)) => match &*word {
            "auto" => Some(Mode::Auto),
            "none" => Some(Mode::None),
            "required" => Some(Mode::Any),
            _ => return Err(BadRequest::wrong_value("tool_choice", "'none', 'auto', 'required' or an object")),
        },
        Some(object) => named_tool(object, ask)?,
    };
    Ok(())
}

fn named_tool<'a>(object: Json<'a>, ask: &mut Ask<'a>) -> Result<Option<Mode<'a>>, BadRequest> {
    let mut choice = Fields::of("tool_choice", object)?;
    let kind = choice.needed("type")?;
    let Some(mut function) = choice.object("function")?.filter(|_| kind == "function") else {
        ask.rest.push(choice.path("type"));
        return Ok(None);
    };
    let name = function.needed("name")?;
    function.left_over(&mut ask.rest);
    choice.left_over(&mut ask.rest);
    Ok(Some(Mode::Named(name)))
}

fn format<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let Some(mut format) = fields.object("response_format")? else { return Ok(()) };
    match &*format.needed("type")? {
        "text" => {}
        "json_object" => ask.format = Format::Json,
        "json_schema" => {
            let mut schema =
                format.object("json_schema")?.ok_or_else(|| BadRequest::missing(&format.path("json_schema")))?;
            ask.format = Format::Schema {
                name: schema.text("name")?,
                description: schema.text("description")?,
                strict: schema.flag("strict")?,
                schema: schema.value("schema").unwrap_or(Json::Object(Vec::new())),
            };
            schema.left_over(&mut ask.rest);
        }
        _ => ask.rest.push(format.path("type")),
    }
    format.left_over(&mut ask.rest);
    Ok(())
}

fn message_of<'a>(path: String, message: Json<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let mut fields = Fields::of(path.clone(), message)?;
    let role = fields.needed("role")?;
    match &*role {
        "system" | "developer" if ask.turns.is_empty() => {
            let parts = content(&mut fields, &mut ask.rest)?;
            ask.system.extend(parts);
        }
        "user" => {
            let parts = content(&mut fields, &mut ask.rest)?;
            ask.turns.push(Turn { role: Role::User, path, parts });
        }
        "assistant" => {
            let parts = assistant(&mut fields, &mut ask.rest)?;
            ask.turns.push(Turn { role: Role::Assistant, path, parts });
        }
        "tool" => tool_result(path, &mut fields, ask)?,
        _ => ask.rest.push(fields.path("role")),
    }
    fields.left_over(&mut ask.rest);
    Ok(())
}

/// Results of calls that were made at once are one turn.
fn tool_result<'a>(path: String, fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let of = fields.needed("tool_call_id")?;
    let parts = content(fields, &mut ask.rest)?;
    let part = Part { path: path.clone(), what: Content::Result { of, parts, failed: false } };
    match ask.turns.last_mut() {
        Some(Turn { role: Role::User, parts, .. })
            if parts.iter().all(|part| matches!(part.what, Content::Result { .. })) =>
        {
            parts.push(part);
        }
        _ => ask.turns.push(Turn { role: Role::User, path, parts: vec![part] }),
    }
    Ok(())
}

fn assistant<'a>(fields: &mut Fields<'a>, rest: &mut Vec<String>) -> Result<Vec<Part<'a>>, BadRequest> {
    let mut parts = Vec::new();
    for key in ["reasoning_content", "reasoning"] {
        if let Some(text) = fields.text(key)?.filter(|text| !text.is_empty()) {
            parts.push(Part { path: fields.path(key), what: Content::Thinking { text, seal: None } });
        }
    }
    let said = content(fields, rest)?;
    parts.extend(said.into_iter().filter(|part| !matches!(&part.what, Content::Text(text) if text.is_empty())));
    if let Some(refusal) = fields.text("refusal")? {
        parts.push(Part { path: fields.path("refusal"), what: Content::Refusal(refusal) });
    }
    for (i, call) in fields.array("tool_calls")?.unwrap_or_default().into_iter().enumerate() {
        let mut call = Fields::of(fields.path(&format!("tool_calls[{i}]")), call)?;
        let kind = call.text("type")?;
        let Some(mut function) = call.object("function")?.filter(|_| kind.is_none_or(|kind| kind == "function")) else {
            rest.push(call.path("type"));
            continue;
        };
        let arguments = function.text("arguments")?.unwrap_or_default();
        let path = function.path("arguments");
        let what = Content::Call { id: call.needed("id")?, name: function.needed("name")?, arguments };
        parts.push(Part { path, what });
        function.left_over(rest);
        call.left_over(rest);
    }
    for absent in ["audio", "function_call", "annotations"] {
        fields.skip(absent, |value| value.as_array().is_some_and(<[_]>::is_empty));
    }
    Ok(parts)
}

/// A message's `content`: a text or parts.
fn content<'a>(fields: &mut Fields<'a>, rest: &mut Vec<String>) -> Result<Vec<Part<'a>>, BadRequest> {
    let path = fields.path("content");
    match fields.value("content") {
        None => Ok(Vec::new()),
        Some(Json::String(text)) => Ok(vec![Part { path, what: Content::Text(text) }]),
        Some(Json::Array(parts)) => {
            let mut out = Vec::with_capacity(parts.len());
            for (j, part) in parts.into_iter().enumerate() {
                out.extend(content_part(format!("{path}[{j}]"), part, rest)?);
            }
            Ok(out)
        }
        Some(_) => Err(BadRequest::wrong_type(&path, "a string or an array")),
    }
}

fn content_part<'a>(path: String, part: Json<'a>, rest: &mut Vec<String>) -> Result<Option<Part<'a>>, BadRequest> {
    let mut fields = Fields::of(path.clone(), part)?;
    let what = match &*fields.needed("type")? {
        "text" => Some(Content::Text(fields.needed("text")?)),
        "refusal" => Some(Content::Refusal(fields.needed("refusal")?)),
        "image_url" => {
            let mut image =
                fields.object("image_url")?.ok_or_else(|| BadRequest::missing(&fields.path("image_url")))?;
            let url = image.needed("url")?;
            image.skip("detail", |detail| detail.as_str() == Some("auto"));
            image.left_over(rest);
            Some(Content::Image(Source::of_url(url)))
        }
        "file" => {
            let mut file = fields.object("file")?.ok_or_else(|| BadRequest::missing(&fields.path("file")))?;
            let (data, name) = (file.text("file_data")?, file.text("filename")?);
            file.left_over(rest);
            data.map(|data| Content::File { source: Source::of_url(data), name })
        }
        _ => {
            rest.push(fields.path("type"));
            return Ok(None);
        }
    };
    fields.left_over(rest);
    Ok(what.map(|what| Part { path, what }))
}
