//! Requests to `/v1/responses`, read into the typed form.
//!
//! Items of the model that stand in a row are one turn, as are results of tools: other APIs have them in one message.

use crate::Api;
use crate::pivot::{Ask, Content, Format, Mode, Part, Role, Source, ThinkingMode, Tool, Turn};
use crate::translate::fields::Fields;
use bytes::Bytes;
use signet_openai::BadRequest;
use signet_openai::wire::{Json, object};
use std::borrow::Cow;

/// What may be asked to be told besides, without a change to the answer: all but this is about tools that are refused, or is
/// told anyway.
const TOLD_ONLY_HERE: &str = "message.output_text.logprobs";

/// Reads a body.
pub(crate) fn read(body: &Bytes) -> Result<Ask<'_>, BadRequest> {
    let mut fields = Fields::new("", object(body)?)?;
    let mut ask = Ask::new(Api::Responses);
    ask.model = fields.needed("model")?;
    if let Some(text) = fields.text("instructions")? {
        ask.system.push(Part { path: fields.path("instructions"), what: Content::Text(text) });
    }
    input(&mut fields, &mut ask)?;
    tools(&mut fields, &mut ask)?;
    choice(&mut fields, &mut ask)?;
    ask.sampling.max_tokens = fields.number("max_output_tokens")?;
    ask.sampling.temperature = fields.number("temperature")?;
    ask.sampling.top_p = fields.number("top_p")?;
    thinking(&mut fields, &mut ask)?;
    format(&mut fields, &mut ask)?;
    ask.stream = fields.flag("stream")?.unwrap_or(false);
    let (user, person) = (fields.text("user")?, fields.text("safety_identifier")?);
    ask.end_user = person.or(user);
    hints(&mut fields);
    fields.left_over(&mut ask.rest);
    Ok(ask)
}

/// Leaves out what changes no answer.
fn hints(fields: &mut Fields<'_>) {
    for key in ["metadata", "prompt_cache_key", "prompt_cache_retention", "stream_options", "max_tool_calls"] {
        fields.skip(key, |_| true);
    }
    for key in ["store", "background"] {
        fields.skip(key, |value| *value == Json::Bool(false));
    }
    for key in ["previous_response_id", "conversation", "prompt"] {
        fields.skip(key, Json::is_null);
    }
    fields.skip("service_tier", |tier| matches!(tier.as_str(), Some("auto" | "default")));
    fields.skip("truncation", |how| how.as_str() == Some("disabled"));
    fields.skip("top_logprobs", |count| count.as_u64() == Some(0));
    fields.skip("include", |list| {
        list.as_array().is_some_and(|list| list.iter().all(|what| what.as_str().is_some_and(|w| w != TOLD_ONLY_HERE)))
    });
}

fn input<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let items = match fields.value("input") {
        None => return Ok(()),
        Some(Json::String(text)) => {
            let part = Part { path: "input".to_owned(), what: Content::Text(text) };
            ask.turns.push(Turn { role: Role::User, path: "input".to_owned(), parts: vec![part] });
            return Ok(());
        }
        Some(Json::Array(items)) => items,
        Some(_) => return Err(BadRequest::wrong_type("input", "a string or an array of objects")),
    };
    for (i, item) in items.into_iter().enumerate() {
        let mut item = Fields::of(format!("input[{i}]"), item)?;
        let path = item.path("type");
        for key in ["id", "status"] {
            item.skip(key, |value| value.as_str().is_some());
        }
        match item.text("type")?.as_deref() {
            None | Some("message") => message(item, ask)?,
            Some("function_call") => call(item, ask)?,
            Some("function_call_output") => result(item, ask)?,
            Some("reasoning") => reasoning(item, ask)?,
            Some(_) => ask.rest.push(path),
        }
    }
    Ok(())
}

fn message<'a>(mut item: Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let (path, role_path) = (item.path(""), item.path("role"));
    let path = path.trim_end_matches('.').to_owned();
    let role = item.needed("role")?;
    let content = item.value("content").ok_or_else(|| BadRequest::missing(&item.path("content")))?;
    let parts = parts(item.path("content"), content, &mut ask.rest)?;
    item.left_over(&mut ask.rest);
    match &*role {
        "user" => ask.turns.push(Turn { role: Role::User, path, parts }),
        "assistant" => {
            let said = |part: &Part<'_>| matches!(part.what, Content::Text(_) | Content::Refusal(_));
            match ask.turns.last_mut() {
                Some(turn) if turn.role == Role::Assistant && !turn.parts.iter().any(said) => turn.parts.extend(parts),
                _ => ask.turns.push(Turn { role: Role::Assistant, path, parts }),
            }
        }
        "system" | "developer" if ask.turns.is_empty() => ask.system.extend(parts),
        _ => ask.rest.push(role_path),
    }
    Ok(())
}

fn parts<'a>(path: String, content: Json<'a>, rest: &mut Vec<String>) -> Result<Vec<Part<'a>>, BadRequest> {
    let items = match content {
        Json::String(text) => return Ok(vec![Part { path, what: Content::Text(text) }]),
        Json::Array(items) => items,
        _ => return Err(BadRequest::wrong_type(&path, "a string or an array of objects")),
    };
    let mut parts = Vec::with_capacity(items.len());
    for (i, item) in items.into_iter().enumerate() {
        let path = format!("{path}[{i}]");
        let mut part = Fields::of(&*path, item)?;
        let what = match &*part.needed("type")? {
            "input_text" | "output_text" => {
                part.skip("annotations", |list| list.as_array().is_some_and(<[_]>::is_empty));
                part.skip("logprobs", |_| true);
                Content::Text(part.needed("text")?)
            }
            "refusal" => Content::Refusal(part.needed("refusal")?),
            "input_image" => {
                part.skip("detail", |detail| detail.as_str() == Some("auto"));
                let Some(url) = part.text("image_url")? else {
                    part.left_over(rest);
                    continue;
                };
                Content::Image(Source::of_url(url))
            }
            "input_file" => {
                let Some(file) = file(&mut part)? else {
                    part.left_over(rest);
                    continue;
                };
                file
            }
            _ => {
                rest.push(part.path("type"));
                continue;
            }
        };
        part.left_over(rest);
        parts.push(Part { path, what });
    }
    Ok(parts)
}

/// A document by its URL or in itself; one that is known by an id is not there.
fn file<'a>(part: &mut Fields<'a>) -> Result<Option<Content<'a>>, BadRequest> {
    let name = part.text("filename")?;
    let source = match part.text("file_url")? {
        Some(url) => Some(Source::Url(url)),
        None => part.text("file_data")?.map(Source::of_url),
    };
    Ok(source.map(|source| Content::File { source, name }))
}

/// Adds to the model's turn, which may have begun with an earlier item.
fn assistant<'a>(ask: &mut Ask<'a>, path: String, what: Content<'a>) {
    let part = Part { path: path.clone(), what };
    match ask.turns.last_mut() {
        Some(turn) if turn.role == Role::Assistant => turn.parts.push(part),
        _ => ask.turns.push(Turn { role: Role::Assistant, path, parts: vec![part] }),
    }
}

fn call<'a>(mut item: Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let path = item.path("").trim_end_matches('.').to_owned();
    let (id, name) = (item.needed("call_id")?, item.needed("name")?);
    let arguments = item.needed("arguments")?;
    item.left_over(&mut ask.rest);
    assistant(ask, path, Content::Call { id, name, arguments });
    Ok(())
}

fn result<'a>(mut item: Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let path = item.path("").trim_end_matches('.').to_owned();
    let of = item.needed("call_id")?;
    let output = item.value("output").ok_or_else(|| BadRequest::missing(&item.path("output")))?;
    let parts = parts(item.path("output"), output, &mut ask.rest)?;
    item.left_over(&mut ask.rest);
    let part = Part { path: path.clone(), what: Content::Result { of, parts, failed: false } };
    let result = |part: &Part<'_>| matches!(part.what, Content::Result { .. });
    match ask.turns.last_mut() {
        Some(turn) if turn.role == Role::User && turn.parts.iter().all(result) => turn.parts.push(part),
        _ => ask.turns.push(Turn { role: Role::User, path, parts: vec![part] }),
    }
    Ok(())
}

/// Thoughts come back as they were told (see [`super::Writer`]): the provider's seal is in `encrypted_content`.
fn reasoning<'a>(mut item: Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let path = item.path("").trim_end_matches('.').to_owned();
    let seal = item.text("encrypted_content")?;
    let mut texts = Vec::new();
    for list in ["summary", "content"] {
        for (i, part) in item.array(list)?.unwrap_or_default().into_iter().enumerate() {
            let mut part = Fields::of(format!("{}[{i}]", item.path(list)), part)?;
            part.skip("type", |kind| matches!(kind.as_str(), Some("summary_text" | "reasoning_text")));
            texts.push(part.needed("text")?);
            part.left_over(&mut ask.rest);
        }
    }
    item.left_over(&mut ask.rest);
    let text = match <[Cow<'a, str>; 1]>::try_from(texts) {
        Ok([text]) => text,
        Err(texts) => texts.join("\n\n").into(),
    };
    match (text, seal) {
        (text, Some(seal)) if text.is_empty() => assistant(ask, path, Content::Sealed(seal)),
        (text, None) if text.is_empty() => {}
        (text, seal) => assistant(ask, path, Content::Thinking { text, seal }),
    }
    Ok(())
}

fn tools<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    for (i, tool) in fields.array("tools")?.unwrap_or_default().into_iter().enumerate() {
        let mut tool = Fields::of(format!("tools[{i}]"), tool)?;
        if &*tool.needed("type")? != "function" {
            ask.rest.push(tool.path("type"));
            continue;
        }
        ask.tools.push(Tool {
            name: tool.needed("name")?,
            description: tool.text("description")?,
            schema: tool.value("parameters"),
            strict: tool.flag("strict")?.unwrap_or(false),
        });
        tool.left_over(&mut ask.rest);
    }
    Ok(())
}

fn choice<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    ask.choice.parallel = fields.flag("parallel_tool_calls")?;
    ask.choice.mode = match fields.value("tool_choice") {
        None => None,
        Some(Json::String(word)) => match &*word {
            "auto" => Some(Mode::Auto),
            "none" => Some(Mode::None),
            "required" => Some(Mode::Any),
            _ => return Err(BadRequest::wrong_value("tool_choice", "\"auto\", \"none\", \"required\" or an object")),
        },
        Some(named) => {
            let mut named = Fields::of("tool_choice", named)?;
            if &*named.needed("type")? == "function" {
                let name = named.needed("name")?;
                named.left_over(&mut ask.rest);
                Some(Mode::Named(name))
            } else {
                ask.rest.push("tool_choice.type".to_owned());
                None
            }
        }
    };
    Ok(())
}

/// How thoughts are summed up changes no answer; whether there are any does.
fn thinking<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let Some(mut reasoning) = fields.object("reasoning")? else { return Ok(()) };
    match reasoning.text("effort")? {
        Some(effort) if effort == "none" => ask.thinking.mode = Some(ThinkingMode::Off),
        Some(effort) => (ask.thinking.mode, ask.thinking.effort) = (Some(ThinkingMode::Adaptive), Some(effort)),
        None => {}
    }
    for key in ["summary", "generate_summary"] {
        reasoning.skip(key, |how| how.as_str().is_some());
    }
    reasoning.left_over(&mut ask.rest);
    Ok(())
}

fn format<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let Some(mut text) = fields.object("text")? else { return Ok(()) };
    text.skip("verbosity", |how| how.as_str() == Some("medium"));
    if let Some(mut format) = text.object("format")? {
        ask.format = match &*format.needed("type")? {
            "text" => Format::Text,
            "json_object" => Format::Json,
            "json_schema" => Format::Schema {
                name: format.text("name")?,
                description: format.text("description")?,
                schema: format.value("schema").ok_or_else(|| BadRequest::missing("text.format.schema"))?,
                strict: format.flag("strict")?,
            },
            _ => {
                ask.rest.push("text.format.type".to_owned());
                return Ok(());
            }
        };
        format.left_over(&mut ask.rest);
    }
    text.left_over(&mut ask.rest);
    Ok(())
}
