//! May a stored answer be served?
//!
//! A wrong hit is worse than a miss: it answers a question nobody asked. So every key is made from a [`Partition`], every
//! lookup that fails or is late is a miss, and a semantic hit must pass every gate. This crate knows no Redis, no SQL
//! and no HTTP.

mod cache;
mod entry;
pub mod gates;
mod key;
mod keyring;
mod ports;
mod question;
mod seal;
mod semantic;
mod trust;
mod withdrawal;

pub use cache::{Ask, Cache, Config, Faults, Lookup, Miss, ReadPolicy};
pub use entry::{Entry, EntryFault, Origin, Source, Stored};
pub use key::{CacheKey, Partition, PartitionParts};
pub use keyring::{Keyring, TenantKeys};
pub use ports::{
    EmbedFault, Embedder, EntryRow, EntryStore, ExactStore, KeyStore, LabelStore, Neighbour, Notice, NoticeStore,
    Place, Rescorer, StoreFault, VectorIndex,
};
pub use question::{Ineligible, MAX_BYTES, MAX_TOKENS, Question};
pub use seal::{SealFault, SealKey};
pub use semantic::{Decision, Mode, Prepared, Semantic, SemanticConfig, Terms};
pub use trust::{
    Evidence, Finding, Label, LabelRow, Ledger, RouteId, Standing, State, Trust, TrustPolicy, UNIT, Verdict, same_text,
};
pub use withdrawal::{Withdrawal, Withdrawals};
