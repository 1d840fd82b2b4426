//! Requests to `/v1/completions`, read into the typed form: the prompt is what the user says.

use crate::Api;
use crate::pivot::{Ask, Content, Part, Role, Turn};
use crate::translate::fields::Fields;
use bytes::Bytes;
use signet_openai::BadRequest;
use signet_openai::wire::{Json, object};

/// How much is written where the caller sets no limit, by the API reference.
const MAX_TOKENS: &str = "16";

/// Reads a body.
pub(crate) fn read(body: &Bytes) -> Result<Ask<'_>, BadRequest> {
    let mut fields = Fields::new("", object(body)?)?;
    let mut ask = Ask::new(Api::Completions);
    ask.model = fields.needed("model")?;
    prompt(&mut fields, &mut ask);
    let sampling = &mut ask.sampling;
    sampling.max_tokens = Some(fields.number("max_tokens")?.unwrap_or(MAX_TOKENS.into()));
    sampling.temperature = fields.number("temperature")?;
    sampling.top_p = fields.number("top_p")?;
    sampling.n = fields.number("n")?;
    sampling.seed = fields.number("seed")?;
    sampling.frequency_penalty = fields.number("frequency_penalty")?;
    sampling.presence_penalty = fields.number("presence_penalty")?;
    sampling.logit_bias = fields.value("logit_bias");
    stop(&mut fields, &mut ask)?;
    ask.end_user = fields.text("user")?;
    ask.stream = fields.flag("stream")?.unwrap_or(false);
    ask.usage = false;
    if let Some(mut options) = fields.object("stream_options")? {
        ask.usage = options.flag("include_usage")?.unwrap_or(false);
        options.skip("include_obfuscation", |_| true);
        options.left_over(&mut ask.rest);
    }
    fields.skip("echo", |echo| *echo == Json::Bool(false));
    fields.skip("best_of", |best| best.as_u64() == Some(1));
    for key in ["suffix", "logprobs"] {
        fields.skip(key, Json::is_null);
    }
    fields.left_over(&mut ask.rest);
    Ok(ask)
}

/// Several prompts and prompts of tokens have no counterpart.
fn prompt<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) {
    let text = match fields.value("prompt") {
        Some(Json::String(text)) => Some(text),
        Some(Json::Array(items)) => match <[Json<'a>; 1]>::try_from(items) {
            Ok([Json::String(text)]) => Some(text),
            _ => None,
        },
        _ => None,
    };
    match text {
        Some(text) => {
            let part = Part { path: "prompt".to_owned(), what: Content::Text(text) };
            ask.turns.push(Turn { role: Role::User, path: "prompt".to_owned(), parts: vec![part] });
        }
        None => ask.rest.push("prompt".to_owned()),
    }
}

fn stop<'a>(fields: &mut Fields<'a>, ask: &mut Ask<'a>) -> Result<(), BadRequest> {
    let wrong = || BadRequest::wrong_type("stop", "a string or an array of strings");
    match fields.value("stop") {
        None => {}
        Some(Json::String(text)) => ask.sampling.stop.push(text),
        Some(Json::Array(items)) => {
            for item in items {
                let Json::String(text) = item else { return Err(wrong()) };
                ask.sampling.stop.push(text);
            }
        }
        Some(_) => return Err(wrong()),
    }
    Ok(())
}
