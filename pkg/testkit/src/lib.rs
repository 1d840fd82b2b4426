//! Honest fakes behind the ports of `signet-cache`, for tests only.
//!
//! A fake keeps the whole contract of its port, in memory, and can be told to break it in the ways in which the real thing
//! breaks: not to answer, to refuse, to answer with something wrong. The contract itself is a suite that the fake and the
//! real adapters both run ([`exact_store_contract`]), so that a fake cannot promise more than what it stands for.

pub mod contract;
mod embed;
mod entries;
mod exact;
mod index;
mod keys;
mod labels;
mod notices;
mod shared;
mod switch;

pub use embed::TableEmbedder;
pub use entries::MemoryEntryStore;
pub use exact::MemoryExactStore;
pub use index::BruteForceIndex;
pub use keys::MemoryKeyStore;
pub use labels::MemoryLabelStore;
pub use notices::MemoryNoticeStore;
pub use shared::{MemorySharedIndex, OverShared};
pub use switch::{Switch, Trouble};
