//! Statements about the log itself: when it was opened, taken up, cut or folded. They are signed like all others, so that
//! nothing can be missing from a log without a signature that says so.

use crate::{ControlValue, Draft, Gateway, Kind, PublicKey, Signer, Times, hex, root_of};
use sha2::{Digest, Sha256};
use signet_types::{LineageId, LogId};
use std::sync::Arc;

/// Who makes a control statement, and when.
#[derive(Debug, Clone)]
pub struct ControlStamp {
    /// The record's id.
    pub id: LineageId,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The process that speaks.
    pub gateway: Arc<Gateway>,
}

/// The reason in a `gap` whose records a database had confirmed and lost, when the log no longer held them.
pub const LOST_BY_DATABASE: &str = "db_regression";

/// What a process found when it took up a log. It is the first record of the process's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// The predecessor had closed the log in order.
    pub clean: bool,
    /// The machine has not been restarted since, so nothing written can be lost.
    pub same_boot: bool,
    /// The last record that survived; none in a log that lost all of them.
    pub last_seq: Option<u64>,
    /// Seqs, both included, that were written but are gone. This epoch may use them again.
    pub lost: Option<(u64, u64)>,
    /// Records after `last_seq` may have been acknowledged and lost; how many is not known.
    pub lost_tail_possible: bool,
}

/// Refusals before authentication, folded into one record a second so that a flood of them cannot fill the log.
#[derive(Debug, Clone, Default)]
pub struct Denials {
    /// How many by reason; a reason is a fixed word such as `ip_rate`.
    pub counts: Vec<(&'static str, u64)>,
    /// The ids that were handed out.
    pub ids: Vec<LineageId>,
    /// The first and the last, in milliseconds since the Unix epoch.
    pub span_ms: (u64, u64),
}

/// What a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyUse {
    /// Records.
    Attest,
    /// Checkpoints.
    Checkpoint,
}

impl KeyUse {
    /// The use as statements name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attest => "attest",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// From this record on, `new` signs instead of `old`. The record's own signature is that of the key in force before it; the
/// new key shows with a signature of its own that it is there and agrees.
#[derive(Debug)]
pub struct KeyRotation<'a> {
    /// What the key signs.
    pub key_use: KeyUse,
    /// The key before; none where there was none.
    pub old: Option<PublicKey>,
    /// The key from here on.
    pub new: &'a Signer,
}

impl KeyRotation<'_> {
    /// What the new key signs as its `proof`: five lines, of which the fourth is empty where there was no key before.
    /// `log_name` is `<lineage.origin>/<log>`.
    pub fn text(log_name: &str, key_use: KeyUse, old: Option<&PublicKey>, new: &PublicKey) -> String {
        let old = old.map(|key| hex::text(key.as_bytes())).unwrap_or_default();
        let (key_use, new) = (key_use.as_str(), hex::text(new.as_bytes()));
        format!("signet-key-rotate/v1\n{log_name}\n{key_use}\n{old}\n{new}\n")
    }
}

impl Draft {
    /// A statement of `kind` about the log; `facts` by name in any order.
    pub fn control(kind: Kind, stamp: &ControlStamp, facts: Vec<(&'static str, ControlValue)>) -> Self {
        Self {
            kind,
            id: stamp.id,
            trace_id: None,
            time: Times { received_ms: stamp.at_ms, completed_ms: stamp.at_ms, ..Times::default() },
            gateway: Arc::clone(&stamp.gateway),
            exchange: None,
            control: facts,
        }
    }

    /// The first record of a log: its origin, its key, and the durability that it promises.
    pub fn log_open(stamp: &ControlStamp, origin: &str, key: &PublicKey) -> Self {
        let mode = stamp.gateway.durability.clone();
        let facts = vec![
            ("key", ControlValue::Text(hex::text(key.as_bytes()))),
            ("mode", ControlValue::Text(mode)),
            ("origin", ControlValue::Text(origin.to_owned())),
        ];
        Self::control(Kind::LogOpen, stamp, facts)
    }

    /// With the key that signs the log's checkpoints, for a `log_open`.
    #[must_use]
    pub fn naming_checkpoint_key(mut self, key: &PublicKey) -> Self {
        self.control.push(("checkpoint_key", ControlValue::Text(hex::text(key.as_bytes()))));
        self
    }

    /// With the log that was set aside in favour of this one, and its size as far as its folder told, for a `log_open`.
    #[must_use]
    pub fn replacing(mut self, log: LogId, size: u64) -> Self {
        let facts = [("replaces", ControlValue::Text(log.to_string())), ("replaces_size", ControlValue::Int(size))];
        self.control.extend(facts);
        self
    }

    /// A change of keys in the log `log_name`, `<lineage.origin>/<log>`.
    pub fn key_rotate(stamp: &ControlStamp, log_name: &str, rotation: &KeyRotation<'_>) -> Self {
        let (old, new) = (rotation.old.as_ref(), rotation.new.public_key());
        let proof = rotation.new.sign(KeyRotation::text(log_name, rotation.key_use, old, &new).as_bytes());
        let mut facts = vec![
            ("new_key", ControlValue::Text(hex::text(new.as_bytes()))),
            ("proof", ControlValue::Text(hex::text(&proof))),
            ("use", ControlValue::Text(rotation.key_use.as_str().to_owned())),
        ];
        facts.extend(old.map(|key| ("old_key", ControlValue::Text(hex::text(key.as_bytes())))));
        Self::control(Kind::KeyRotate, stamp, facts)
    }

    /// The last record of a log that will not be continued.
    pub fn log_seal(stamp: &ControlStamp) -> Self {
        Self::control(Kind::LogSeal, stamp, Vec::new())
    }

    /// The first record of every epoch but the log's first.
    pub fn recovery(stamp: &ControlStamp, found: &Recovery) -> Self {
        let mut facts = vec![
            ("clean", ControlValue::Bool(found.clean)),
            ("lost_tail_possible", ControlValue::Bool(found.lost_tail_possible)),
            ("mode", ControlValue::Text(stamp.gateway.durability.clone())),
            ("same_boot", ControlValue::Bool(found.same_boot)),
        ];
        facts.extend(found.last_seq.map(|seq| ("last_seq", ControlValue::Int(seq))));
        if let Some((from, to)) = found.lost {
            facts.extend([("lost_from", ControlValue::Int(from)), ("lost_to", ControlValue::Int(to))]);
        }
        Self::control(Kind::Recovery, stamp, facts)
    }

    /// Seqs `from..=to` of this log are missing and will stay so. `leaves` are the leaf hashes that the writer's tree
    /// holds for them, one for each in order; without them nobody can check the tree from there on, so they are left
    /// out only where they are not known.
    pub fn gap(stamp: &ControlStamp, from: u64, to: u64, reason: &'static str, leaves: Option<&[[u8; 32]]>) -> Self {
        let reason = ControlValue::Text(reason.to_owned());
        let mut facts = vec![("from", ControlValue::Int(from)), ("to", ControlValue::Int(to)), ("reason", reason)];
        facts.extend(leaves.map(|leaves| ("leaves", ControlValue::Text(hex::text(leaves.as_flattened())))));
        Self::control(Kind::Gap, stamp, facts)
    }

    /// `count` answers were given without a record, because the log was full and configured to degrade.
    pub fn unrecorded(stamp: &ControlStamp, count: u64, reason: &'static str) -> Self {
        let reason = ControlValue::Text(reason.to_owned());
        Self::control(Kind::Gap, stamp, vec![("count", ControlValue::Int(count)), ("reason", reason)])
    }

    /// Folded refusals. `ids_root` is the RFC 6962 root over the ids' 16 bytes as leaves, in the order given.
    pub fn denials(stamp: &ControlStamp, denials: &Denials) -> Self {
        let leaf = |id: &LineageId| Sha256::new().chain_update([0]).chain_update(id.as_bytes()).finalize().into();
        let leaves: Vec<[u8; 32]> = denials.ids.iter().map(leaf).collect();
        let mut facts = vec![
            ("first_ms", ControlValue::Int(denials.span_ms.0)),
            ("ids", ControlValue::Int(leaves.len() as u64)),
            ("ids_root", ControlValue::Text(hex::text(&root_of(&leaves)))),
            ("last_ms", ControlValue::Int(denials.span_ms.1)),
        ];
        facts.extend(denials.counts.iter().map(|(reason, count)| (*reason, ControlValue::Int(*count))));
        Self::control(Kind::Denials, stamp, facts)
    }

    /// The wall clock moved from `before_ms` to `after_ms` while the monotonic one did not.
    pub fn clock(stamp: &ControlStamp, before_ms: u64, after_ms: u64) -> Self {
        let facts = vec![("after_ms", ControlValue::Int(after_ms)), ("before_ms", ControlValue::Int(before_ms))];
        Self::control(Kind::Clock, stamp, facts)
    }
}
