//! What a log publishes of its tree, in the formats that transparency logs share: signed notes and checkpoints
//! (C2SP signed-note, tlog-checkpoint), tiles (C2SP tlog-tiles), inclusion and consistency proofs (RFC 6962 §2.1) and the
//! proof file that holds offline (C2SP tlog-proof).
//!
//! This is the writer's side. Who checks any of it uses [`crate::verify`], which shares no code with it.

mod anchors;
mod checkpoint;
mod note;
mod proof;
mod tile;

pub use anchors::{anchored, notes_in};
pub use checkpoint::{Checkpoint, proof_file};
pub use note::{NoteKey, NoteKeyFault};
pub use proof::{Subtrees, consistency, inclusion};
pub use tile::{FromTiles, TILE_WIDTH, Tile, TileFault, Tiles, push_entry};
