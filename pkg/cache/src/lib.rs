//! May a stored answer be served?
//!
//! A wrong hit is worse than a miss: it answers a question nobody asked. So every key is made from a [`Partition`], every
//! lookup that fails or is late is a miss, and a semantic hit must pass every gate. This crate knows no Redis, no SQL
//! and no HTTP.

mod breaker;
mod cache;
mod entry;
pub mod gates;
mod hide;
mod key;
mod keyring;
mod ports;
mod question;
mod seal;
mod semantic;
mod shared;
mod trust;
mod withdrawal;

pub use breaker::Breaker;
pub use cache::{Ask, Cache, Config, Faults, Lookup, Miss, ReadPolicy};
pub use entry::{Entry, EntryFault, Origin, Source};
pub use hide::HideKey;
pub use key::{CacheKey, Partition, PartitionParts};
pub use keyring::{Keyring, TenantKeys};
pub use ports::{
    EmbedFault, Embedder, EntryRow, EntryStore, ExactStore, KeyStore, LabelStore, Near, Nearest, Neighbour, Notice,
    NoticeStore, Place, Rescorer, SharedIndex, StoreFault, VectorIndex, VectorRow,
};
pub use question::{Ineligible, MAX_BYTES, MAX_TOKENS, Question};
pub use seal::{SealFault, SealKey, epoch_of};
pub use semantic::{Decision, Mode, Prepared, Semantic, SemanticConfig, Terms};
pub use shared::{Findable, SharedSearch};
pub use signet_dialect::Kept as Stored;
pub use trust::{
    Counts, Evidence, Finding, KEPT, Label, LabelRow, Ledger, Mark, RouteBase, RouteId, RouteView, Standing, State,
    Tier, Trust, TrustPolicy, UNIT, Verdict, same_text,
};
pub use withdrawal::{Withdrawal, Withdrawals};
