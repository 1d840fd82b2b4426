//! The lineage record: statement, envelope, leaf, tree, receipt and their verification. Pure: no files, no clocks, no
//! runtime. What is signed is the exact bytes (DSSE), so correctness never depends on canonicalisation.

mod draft;
mod port;
mod position;
mod record;

pub use draft::*;
pub use port::{LogRow, RecordStore, ShipFault};
pub use position::{Position, TreeHead};
pub use record::{Leaf, Record};
