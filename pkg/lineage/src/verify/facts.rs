//! What the auditor reads in a statement. Its own reading, of the proved bytes, without the writer's types for it.

use crate::{Columns, Kind, LOST_BY_DATABASE, TreeHead};
use serde_json::Value;
use signet_types::{LineageId, LogId, TenantId};

#[derive(Debug)]
pub(super) struct Facts {
    pub(super) log: LogId,
    pub(super) epoch: u32,
    pub(super) seq: u64,
    pub(super) base: TreeHead,
    pub(super) response: Response,
    pub(super) parents: Vec<Edge>,
    pub(super) control: Control,
    pub(super) columns: Columns,
    /// What is wrong with the order of those who were asked.
    pub(super) broken: Option<&'static str>,
}

/// The fingerprint of an answer and the epoch of the tenant key that made it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Response {
    pub(super) fp: Option<[u8; 16]>,
    pub(super) key_epoch: u32,
}

#[derive(Debug)]
pub(super) struct Edge {
    pub(super) log: LogId,
    pub(super) seq: u64,
    pub(super) leaf_hash: [u8; 32],
    pub(super) response: Response,
}

/// What a control statement says that verification acts on.
#[derive(Debug)]
pub(super) enum Control {
    None,
    Open {
        key: [u8; 32],
        checkpoint: Option<[u8; 32]>,
        origin: String,
        strict: bool,
    },
    /// Seqs, both included, that are gone, and the seq from which on more may be.
    Recovery {
        lost: Option<(u64, u64)>,
        tail: Option<u64>,
        /// Whether the epoch that it begins promises `strict`, if it says so.
        strict: Option<bool>,
    },
    Gap {
        from: u64,
        to: u64,
        leaves: Vec<[u8; 32]>,
        by_database: bool,
    },
    Unrecorded {
        count: u64,
    },
    /// A record whose payload is gone by order.
    Erasure {
        log: LogId,
        seq: u64,
    },
    /// Records below a seq that are gone by age, and the roots of the perfect subtrees over them, largest first.
    Prune {
        log: LogId,
        below: u64,
        peaks: Vec<[u8; 32]>,
    },
    /// The key that signs from the next record on, and its own signature under that.
    Rotate {
        usage: Usage,
        old: Option<[u8; 32]>,
        new: [u8; 32],
        proof: [u8; 64],
    },
}

/// What a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    Attest,
    Checkpoint,
}

/// The facts, or the field that is missing or malformed.
pub(super) fn read(payload: &[u8]) -> Result<Facts, &'static str> {
    let statement: Value = serde_json::from_slice(payload).map_err(|_| "JSON")?;
    let is = |key: &str, text: &str| statement.get(key).and_then(Value::as_str) == Some(text);
    if !is("_type", "https://in-toto.io/Statement/v1") {
        return Err("_type");
    }
    let p = statement.get("predicate").ok_or("predicate")?;
    if !is("predicateType", "urn:signet:lineage:v1") || int(p, &["v"]) != Some(1) {
        return Err("predicateType and v: another version of the statement");
    }
    let columns = read_columns(p)?;
    let caller_epoch = int(p, &["caller", "key_epoch"]).and_then(|n| n.try_into().ok());
    Ok(Facts {
        log: id(p, &["log", "id"]).ok_or("log.id")?,
        epoch: int(p, &["log", "epoch"]).and_then(|n| n.try_into().ok()).ok_or("log.epoch")?,
        seq: int(p, &["log", "seq"]).ok_or("log.seq")?,
        base: TreeHead {
            size: int(p, &["log", "base_size"]).ok_or("log.base_size")?,
            root: bytes(p, &["log", "base_root"]).ok_or("log.base_root")?,
        },
        response: Response { fp: bytes(p, &["response", "fp"]), key_epoch: caller_epoch.unwrap_or_default() },
        parents: read_edges(p)?,
        control: read_control(columns.kind, p)?,
        broken: broken_chain(p),
        columns,
    })
}

/// Within a record the attempts are the chain: each but the first stands on the failure of the one before, and the last one
/// gave the answer.
fn broken_chain(p: &Value) -> Option<&'static str> {
    let (last, earlier) = at(p, &["provider", "attempts"])?.as_array()?.split_last()?;
    if earlier.iter().any(|attempt| int(attempt, &["status"]).is_none_or(|status| (1..400).contains(&status))) {
        return Some("went on to another provider behind one that answered");
    }
    if text(last, &["model"]) != text(p, &["model", "routed"]) {
        return Some("names another model than the last attempt's as the one it was routed to");
    }
    let same = text(last, &["provider"]) == text(p, &["provider", "name"]);
    (!same).then_some("names another provider than the last attempt's")
}

fn read_edges(p: &Value) -> Result<Vec<Edge>, &'static str> {
    let parents = p.get("parents").map_or(Some([].as_slice()), |v| v.as_array().map(Vec::as_slice));
    let edge = |e: &Value| {
        let key_epoch = int(e, &["key_epoch"])?.try_into().ok()?;
        Some(Edge {
            log: id(e, &["log_id"])?,
            seq: int(e, &["seq"])?,
            leaf_hash: bytes(e, &["leaf_hash"])?,
            response: Response { fp: bytes(e, &["response_fp"]), key_epoch },
        })
    };
    parents.and_then(|parents| parents.iter().map(edge).collect()).ok_or("parents")
}

fn read_control(kind: Kind, p: &Value) -> Result<Control, &'static str> {
    let number = |name| int(p, &["control", name]);
    let flag = |name| at(p, &["control", name]).and_then(Value::as_bool);
    Ok(match kind {
        Kind::LogOpen => Control::Open {
            key: bytes(p, &["control", "key"]).ok_or("control.key")?,
            checkpoint: some_bytes(p, &["control", "checkpoint_key"]).ok_or("control.checkpoint_key")?,
            origin: text(p, &["control", "origin"]).ok_or("control.origin")?.to_owned(),
            strict: text(p, &["control", "mode"]).ok_or("control.mode")?.starts_with("strict"),
        },
        Kind::Recovery => {
            let tail = flag("lost_tail_possible").ok_or("control.lost_tail_possible")?;
            let survived = number("last_seq").map_or(0, |seq| seq + 1);
            let strict = text(p, &["control", "mode"]).map(|mode| mode.starts_with("strict"));
            Control::Recovery {
                lost: number("lost_from").zip(number("lost_to")),
                tail: tail.then_some(survived),
                strict,
            }
        }
        Kind::Gap if number("count").is_some() => Control::Unrecorded { count: number("count").unwrap_or_default() },
        Kind::Gap => Control::Gap {
            from: number("from").ok_or("control.from")?,
            to: number("to").ok_or("control.to")?,
            leaves: text(p, &["control", "leaves"]).map_or(Some(Vec::new()), many).ok_or("control.leaves")?,
            by_database: text(p, &["control", "reason"]) == Some(LOST_BY_DATABASE),
        },
        Kind::Erasure if number("seq").is_some() => Control::Erasure {
            log: id(p, &["control", "log_id"]).ok_or("control.log_id")?,
            seq: number("seq").unwrap_or_default(),
        },
        Kind::Prune => Control::Prune {
            log: id(p, &["control", "log_id"]).ok_or("control.log_id")?,
            below: number("below_seq").ok_or("control.below_seq")?,
            peaks: text(p, &["control", "peaks"]).and_then(many).ok_or("control.peaks")?,
        },
        Kind::KeyRotate => Control::Rotate {
            usage: match text(p, &["control", "use"]) {
                Some("attest") => Usage::Attest,
                Some("checkpoint") => Usage::Checkpoint,
                _ => return Err("control.use"),
            },
            old: some_bytes(p, &["control", "old_key"]).ok_or("control.old_key")?,
            new: bytes(p, &["control", "new_key"]).ok_or("control.new_key")?,
            proof: bytes(p, &["control", "proof"]).ok_or("control.proof")?,
        },
        Kind::Request
        | Kind::LogSeal
        | Kind::Denials
        | Kind::Clock
        | Kind::Feedback
        | Kind::Purge
        | Kind::Config
        | Kind::Erasure
        | Kind::Label
        | Kind::Open => Control::None,
    })
}

/// What the index columns must be.
fn read_columns(p: &Value) -> Result<Columns, &'static str> {
    let kind = match text(p, &["kind"]).ok_or("kind")? {
        "request" => Kind::Request,
        "log_open" => Kind::LogOpen,
        "log_seal" => Kind::LogSeal,
        "recovery" => Kind::Recovery,
        "gap" => Kind::Gap,
        "denials" => Kind::Denials,
        "clock" => Kind::Clock,
        "feedback" => Kind::Feedback,
        "purge" => Kind::Purge,
        "config" => Kind::Config,
        "erasure" => Kind::Erasure,
        "label" => Kind::Label,
        "key_rotate" => Kind::KeyRotate,
        "prune" => Kind::Prune,
        "open" => Kind::Open,
        _ => return Err("kind"),
    };
    let model = text(p, &["model", "routed"]).or_else(|| text(p, &["model", "asked"]));
    let parent = at(p, &["parents"]).and_then(|parents| parents.get(0));
    Ok(Columns {
        kind,
        ts_ms: int(p, &["time", "completed_ms"]).ok_or("time.completed_ms")?,
        id: id(p, &["id"]).ok_or("id")?,
        tenant: bytes(p, &["caller", "tenant"]).map(TenantId::from_bytes),
        model: model.filter(|name| !name.contains('\0')).map(str::to_owned),
        cache: text(p, &["cache", "decision"]).map(str::to_owned),
        status: int(p, &["http", "status"]).and_then(|n| n.try_into().ok()),
        tok_in: int(p, &["usage", "in"]),
        tok_out: int(p, &["usage", "out"]),
        parent: parent.and_then(|parent| Some((id(parent, &["log_id"])?, int(parent, &["seq"])?))),
    })
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

fn int(value: &Value, path: &[&str]) -> Option<u64> {
    at(value, path)?.as_u64()
}

fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

fn id<T: std::str::FromStr>(value: &Value, path: &[&str]) -> Option<T> {
    text(value, path)?.parse().ok()
}

fn bytes<const N: usize>(value: &Value, path: &[&str]) -> Option<[u8; N]> {
    let digits = text(value, path)?;
    if digits.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (at, byte) in out.iter_mut().enumerate() {
        let pair = digits.get(2 * at..2 * at + 2).filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(out)
}

/// A field that may be missing; none if it is malformed.
#[expect(clippy::option_option, reason = "missing and malformed differ")]
fn some_bytes<const N: usize>(value: &Value, path: &[&str]) -> Option<Option<[u8; N]>> {
    at(value, path).map_or(Some(None), |_| bytes(value, path).map(Some))
}

/// Hashes one after the other in hexadecimal.
fn many(digits: &str) -> Option<Vec<[u8; 32]>> {
    let one = |at: usize| bytes(&Value::from(digits.get(at..at + 64)?), &[]);
    (0..digits.len()).step_by(64).map(one).collect()
}

impl Facts {
    pub(super) fn id(&self) -> LineageId {
        self.columns.id
    }
}
