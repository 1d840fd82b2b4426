//! One API's words said in another's: requests, whole answers, event streams, errors.
//!
//! Each API has a folder with what reads it into the [pivot](crate::pivot) and what writes it from there; a pair is a
//! reader of one and a writer of the other. Whole answers go through the same event translators as streams, so that both
//! forms of an answer say the same by construction.

pub(crate) mod chat;
mod completions;
pub(crate) mod error;
mod fields;
pub(crate) mod messages;
pub(crate) mod object;
mod responses;
mod rules;
mod whole;

use crate::Api;
use crate::pivot::Delta;
use bytes::{Bytes, BytesMut};
use signet_openai::BadRequest;
use signet_openai::sse::Event;

pub use error::translate_error;
pub use rules::{Fate, RULES, Rule};
pub use whole::{translate_sse, translate_whole};

/// Values for what one API requires and another leaves open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Defaults {
    /// `max_tokens` for the messages API, where the caller gave no limit.
    pub max_tokens: Option<u32>,
}

/// What the caller's side of a stream needs to know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Whether a chat or completions caller asked for usage in the stream.
    pub usage: bool,
    /// The time of the answer in seconds since the Unix epoch, for APIs that tell it where the provider's does not.
    pub created: u64,
    /// The caller's request, for APIs whose answers repeat parts of it.
    pub asked: Option<&'a Bytes>,
}

/// An answer cannot be said in the caller's API. The fault is the gateway's or the provider's, never the caller's: HTTP
/// 502, not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the provider's answer cannot be translated: {0}")]
pub struct Untranslatable(pub &'static str);

/// An event stream of one API, event by event into another's.
pub trait Translate: Send {
    /// Appends the caller's events for one of the provider's; perhaps none.
    ///
    /// # Errors
    /// What it says cannot be said to the caller. The stream must end with an error event.
    fn event(&mut self, event: &Event, out: &mut BytesMut) -> Result<(), Untranslatable>;

    /// The provider's stream has ended cleanly: appends what the caller's still lacks. Nothing where the answer is not
    /// complete, and nothing a second time.
    fn end(&mut self, out: &mut BytesMut);
}

/// Where a reader puts what it reads.
pub type Sink<'s> = dyn FnMut(Delta<'_>) -> Result<(), Untranslatable> + 's;

/// Reads one API's events.
pub trait ReadEvents: Send {
    /// Gives everything that `event` says to `sink`, in the order of [`Delta`].
    ///
    /// # Errors
    /// It is malformed or cannot be understood, or `sink` refuses.
    fn read(&mut self, event: &Event, sink: &mut Sink<'_>) -> Result<(), Untranslatable>;

    /// The stream has ended cleanly: gives [`Delta::End`], if the answer is complete and it has not been given.
    ///
    /// # Errors
    /// `sink` refuses.
    fn end(&mut self, sink: &mut Sink<'_>) -> Result<(), Untranslatable>;
}

/// Writes one API's events.
pub trait WriteEvents: Send {
    /// Appends the events that say `delta`; perhaps none yet.
    ///
    /// # Errors
    /// It cannot be said.
    fn write(&mut self, delta: Delta<'_>, out: &mut BytesMut) -> Result<(), Untranslatable>;
}

/// A reader of one API and a writer of another.
pub(crate) struct Pair<R, W> {
    reader: R,
    writer: W,
}

impl<R: ReadEvents + 'static, W: WriteEvents + 'static> Pair<R, W> {
    pub(crate) fn boxed(reader: R, writer: W) -> Box<dyn Translate> {
        Box::new(Self { reader, writer })
    }
}

impl<R: ReadEvents, W: WriteEvents> Translate for Pair<R, W> {
    fn event(&mut self, event: &Event, out: &mut BytesMut) -> Result<(), Untranslatable> {
        let writer = &mut self.writer;
        self.reader.read(event, &mut |delta| writer.write(delta, out))
    }

    fn end(&mut self, out: &mut BytesMut) {
        let writer = &mut self.writer;
        // Writers can say the end of whatever they have begun; were it not so, the caller's stream would lack its end.
        let _ = self.reader.end(&mut |delta| writer.write(delta, out));
    }
}

/// A request of API `from`, said in API `to`: the body for the provider, with the same model.
///
/// # Errors
/// Not a request of `from`, or it cannot be said in `to`: HTTP 400.
pub fn translate_request(from: Api, to: Api, body: &Bytes, defaults: &Defaults) -> Result<Bytes, BadRequest> {
    match (from, to) {
        (Api::Chat, Api::Messages) => messages::write(&chat::read(body)?, *defaults),
        (Api::Messages, Api::Chat) => chat::write(&messages::read(body)?),
        (Api::Responses, Api::Chat) => chat::write(&responses::read(body)?),
        (Api::Responses, Api::Messages) => messages::write(&responses::read(body)?, *defaults),
        (Api::Completions, Api::Chat) => chat::write(&completions::read(body)?),
        (Api::Completions, Api::Messages) => messages::write(&completions::read(body)?, *defaults),
        _ => Err(no_pair(from, to)),
    }
}

/// The translator of event streams of API `from` for a caller who speaks `to`; none where they are the same, or where
/// [`translate_request`] refuses the pair.
pub fn translate_stream(from: Api, to: Api, wanted: Wanted<'_>) -> Option<Box<dyn Translate>> {
    match (from, to) {
        (Api::Messages, Api::Chat) => Some(Pair::boxed(messages::Reader::default(), chat::Writer::new(wanted))),
        (Api::Chat, Api::Messages) => Some(Pair::boxed(chat::Reader::default(), messages::Writer::default())),
        (Api::Chat, Api::Responses) => Some(Pair::boxed(chat::Reader::default(), responses::Writer::new(wanted))),
        (Api::Messages, Api::Responses) => {
            Some(Pair::boxed(messages::Reader::default(), responses::Writer::new(wanted)))
        }
        (Api::Chat, Api::Completions) => Some(Pair::boxed(chat::Reader::default(), completions::Writer::new(wanted))),
        (Api::Messages, Api::Completions) => {
            Some(Pair::boxed(messages::Reader::default(), completions::Writer::new(wanted)))
        }
        _ => None,
    }
}

/// There is no translation of requests of `from` into `to`.
fn no_pair(from: Api, to: Api) -> BadRequest {
    let message = format!(
        "This model is not served over the {} API, and its provider's {} API cannot stand in.",
        from.name(),
        to.name()
    );
    BadRequest { message, param: Some("model".to_owned()), code: Some("unsupported_for_model") }
}
