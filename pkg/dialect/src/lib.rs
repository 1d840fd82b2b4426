//! What callers and providers speak, and how one API's words are said in another's.
//!
//! Where caller and provider speak the same API, bytes pass untouched and nothing here is built. Where they differ, the
//! request is read into one typed form, written for the provider, and every answer, event and error comes back the same way.
//! What cannot be said in the other API is refused by name, never dropped.

mod api;
pub mod kinds;

pub use api::Api;
