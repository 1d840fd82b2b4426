//! Names and time: the vocabulary that every other crate shares. No I/O, no runtime.

mod clock;
mod ids;
mod secret;

pub use clock::{Clock, ManualClock, SystemClock};
pub use ids::{EntryId, LineageId, LogId, ModelName, NameError, ProviderName, RequestId, TenantId, TenantIdError};
pub use secret::Secret;
