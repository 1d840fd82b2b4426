//! The lineage record: statement, envelope, leaf, tree, receipt and their verification. Pure: no files, no clocks, no
//! runtime. What is signed is the exact bytes (DSSE), so correctness never depends on canonicalisation.

mod capture;
mod columns;
mod control;
mod draft;
mod envelope;
mod gap;
mod hex;
mod json;
mod keyring;
mod keys;
mod open;
mod port;
mod position;
mod prune;
mod receipt;
mod record;
mod statement;
mod tenant_key;
pub mod tlog;
mod tree;
pub mod verify;

pub use capture::{BreakGlassKey, BreakGlassSecret, CaptureFault, OpenedBodies};
pub use columns::{Columns, ColumnsFault};
pub use control::{ControlStamp, Denials, KeyRotation, KeyUse, LOST_BY_DATABASE, Recovery};
pub use draft::*;
pub use envelope::{EnvelopeFault, PAYLOAD_TYPE};
pub use gap::DeclaredGap;
pub use keyring::{KEYRING_TYPE, KeyringEntry, draft_keyring, sign_keyring};
pub use keys::{KeyFault, KeySet, PublicKey, Signer};
pub use open::{OpenFacts, OpenFault};
pub use port::{
    CaptureRow, CaptureStore, KeyringStore, LogRow, PruneStore, PrunedLog, RecordStore, ShipFault, TreeFault, TreeStore,
};
pub use position::{Position, TreeHead};
pub use prune::{DeclaredPrune, gap_leaves};
pub use receipt::{Receipt, ReceiptFault};
pub use record::{Leaf, Record};
pub use statement::{NO_COMMITMENT, PREDICATE_TYPE, Prepared, STATEMENT_TYPE};
pub use tenant_key::{CommitmentHasher, CommitmentKey, Opening, OpeningFault, PROVIDER_REQUEST_ID, TenantKey};
pub use tree::{Tree, TreeStateFault, root_of};
