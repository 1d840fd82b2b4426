//! The life of one request, top to bottom: who asks, may they, was it answered before, who answers now, what is the
//! record, what is kept. It knows no status code of its own making, no Redis, no SQL and no server.

mod anchor;
mod chat;
mod checkpoint;
mod control;
mod embed;
mod exchange;
mod fault;
mod fill;
mod flight;
mod head;
mod judge;
mod landing;
mod live;
mod persist;
mod pipeline;
mod poured;
mod questions;
mod recorder;
mod records;
mod refill;
mod reply;
mod sample;
mod ship;
mod tree;
mod tree_files;
mod withdraw;

pub use anchor::{Anchor, AnchorFault, Anchoring, FileAnchor, HttpAnchor, StoreAnchor};
pub use checkpoint::{Cadence, CheckpointFault, CheckpointParts, Checkpointer, Published, Shown};
pub use embed::RemoteEmbedder;
pub use fault::{BoxError, Fault, is_timeout};
pub use head::{BodyFault, Head};
pub use judge::Judge;
pub use live::{Cut, Live};
pub use persist::{Carrier, Outbox, Tail, outbox};
pub use pipeline::{AuthMode, Face, Faces, Parts, Pipeline, RouteRules, Settings};
pub use poured::Poured;
pub use questions::{AskedQuestion, Line, Matched, QuestionDraw, QuestionFiles, QuestionWriter, question_log};
pub use recorder::{Attested, Durability, Recorder, Voice};
pub use refill::Refill;
pub use reply::{Reply, ReplyBody};
pub use sample::{LabelFollower, Labeller, Sampler, Sampling};
pub use ship::{Hole, Regression, ShipEnd, Shipper};
pub use tree::{TreeParts, TreeView, ViewFault};
pub use tree_files::{PersistedFault, TreeFiles};
pub use withdraw::Follower;
