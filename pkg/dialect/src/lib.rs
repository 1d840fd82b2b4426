//! What callers and providers speak, and how one API's words are said in another's.
//!
//! Where caller and provider speak the same API, bytes pass untouched and nothing here is built. Where they differ, the
//! request is read into one typed form, written for the provider, and every answer, event and error comes back the same way.
//! What cannot be said in the other API is refused by name, never dropped.
//!
//! A request ([`Request`]) knows what form its answer has ([`Form`]). From a form come the readers of a whole body
//! ([`Form::read`]) and of a stream ([`Fold`]); both end in what may be kept ([`Kept`]). Another API is one more variant of
//! each, and nobody else has to know it.

mod api;
pub mod completions;
mod failure;
mod fold;
mod form;
mod kept;
pub mod kinds;
pub mod messages;
pub mod pivot;
mod request;
pub mod responses;
mod template;
mod translate;

pub use api::Api;
pub use failure::Failure;
pub use fold::{Events, Fold};
pub use form::{Form, Reading};
pub use kept::Kept;
pub use request::Request;
pub use signet_openai::{BadRequest as Refusal, Layer, NotStorable, Usage, sse};
pub use translate::{
    Defaults, Fate, RULES, ReadEvents, Rule, Sink, Translate, Untranslatable, Wanted, WriteEvents, translate_error,
    translate_request, translate_sse, translate_stream, translate_whole,
};
