//! Whole answers, translated as the streams that they could have been: what both forms say is the same by construction.

use super::{Translate, Untranslatable, Wanted, translate_stream};
use crate::Api;
use crate::completions::CompletionsFold;
use crate::messages::{Message, MessageFold};
use crate::responses::ResponsesFold;
use bytes::{Bytes, BytesMut};
use signet_openai::sse::Decoder;
use signet_openai::wire::Json;
use signet_openai::{Accumulator, Answer};

/// A whole answer of API `from` for a caller who speaks `to`.
///
/// # Errors
/// It is no answer of `from`, or cannot be said in `to`: HTTP 502.
pub fn translate_whole(from: Api, to: Api, wanted: Wanted<'_>, body: &Bytes) -> Result<Bytes, Untranslatable> {
    let wanted = Wanted { usage: true, ..wanted };
    let translator = translate_stream(from, to, wanted);
    let translator = translator.ok_or(Untranslatable("there is no translation between these APIs"))?;
    let tree = Json::parse(body).map_err(|_| Untranslatable("the answer is not JSON"))?;
    let id = tree.get("id").and_then(Json::as_str).unwrap_or_default();
    let stream = match from {
        Api::Chat => {
            let answer = Answer::from_json(body, 1).map_err(|_| Untranslatable("the answer is malformed"))?;
            answer.to_sse(id, wanted.created, true)
        }
        Api::Messages => {
            let message = Message::from_json(body).map_err(|_| Untranslatable("the answer is malformed"))?;
            message.to_sse(id)
        }
        _ => return Err(Untranslatable("there is no translation of these answers")),
    };
    let choices = tree.get("choices").and_then(Json::as_array).map_or(1, <[_]>::len);
    fold((to, choices), &translated(translator, stream)?, id, wanted.created)
}

/// A whole event stream of API `from` for a caller who speaks `to`.
///
/// # Errors
/// As [`translate_whole`].
pub fn translate_sse(from: Api, to: Api, wanted: Wanted, stream: Bytes) -> Result<Bytes, Untranslatable> {
    let translator = translate_stream(from, to, wanted);
    translated(translator.ok_or(Untranslatable("there is no translation between these APIs"))?, stream)
}

/// The events of `stream`, translated.
pub(crate) fn translated(mut translator: Box<dyn Translate>, stream: Bytes) -> Result<Bytes, Untranslatable> {
    let mut out = BytesMut::with_capacity(stream.len());
    let mut decoder = Decoder::new(usize::MAX);
    decoder.push(stream);
    while let Ok(Some(event)) = decoder.next_event() {
        translator.event(&event, &mut out)?;
    }
    translator.end(&mut out);
    Ok(out.freeze())
}

/// The whole answer that a stream of API `to` makes.
fn fold((to, choices): (Api, usize), stream: &Bytes, id: &str, created: u64) -> Result<Bytes, Untranslatable> {
    let events = signet_openai::sse::events(stream);
    match to {
        Api::Chat => {
            let mut fold = Accumulator::new(1);
            events.for_each(|data| fold.push(&data));
            // What a caller's SDK makes of the stream. The kept form is the provider's and has the order of its blocks.
            fold.finish_unordered()
                .map(|answer| answer.to_json(id, created))
                .map_err(|_| Untranslatable("the answer is not whole"))
        }
        Api::Messages => {
            let mut fold = MessageFold::new();
            events.for_each(|data| fold.push(&data));
            fold.finish().map(|message| message.to_json(id)).map_err(|_| Untranslatable("the answer is not whole"))
        }
        Api::Responses => {
            let mut fold = ResponsesFold::new();
            events.for_each(|data| fold.push(&data));
            fold.finish()
                .map(|response| response.to_json(&format!("resp_{id}"), created))
                .map_err(|_| Untranslatable("the answer is not whole"))
        }
        Api::Completions => {
            let mut fold = CompletionsFold::new(u32::try_from(choices).unwrap_or(u32::MAX));
            events.for_each(|data| fold.push(&data));
            fold.finish()
                .map(|answer| answer.to_json(&format!("cmpl-{id}"), created))
                .map_err(|_| Untranslatable("the answer is not whole"))
        }
        _ => Err(Untranslatable("there is no translation into these answers")),
    }
}
