//! Frames and segment headers as bytes; the format is described in the crate's documentation.

use signet_lineage::{Record, Tree};
use signet_types::{LineageId, LogId};

pub(crate) type Hash = [u8; 32];

const MAGIC: &[u8; 8] = b"SIGNETL1";
const VERSION: u32 = 1;
/// Bytes of a frame before its body.
pub(crate) const FRAME_HEAD: usize = 20;
/// Longest body; anything longer is damage.
pub(crate) const MAX_BODY: usize = 16 << 20;
/// Bytes of a segment header before the peaks.
pub(crate) const SEGMENT_HEAD: usize = 64;
const CLOSE_HEAD: usize = 16 + 32 + 64;
/// Bytes of the body of a PROGRESS.
pub(crate) const PROGRESS_BODY: usize = 16 + 8;
/// Flag of the last frame of a log that was ended properly.
pub(crate) const FLAG_CLEAN: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Open = 1,
    Close = 2,
    GroupEnd = 3,
    Progress = 4,
}

impl Kind {
    const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Open,
            2 => Self::Close,
            3 => Self::GroupEnd,
            4 => Self::Progress,
            _ => return None,
        })
    }
}

/// The checksum's start value in one segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn new(log: LogId, first_seq: u64) -> Self {
        Self(crc32c::crc32c_append(crc32c::crc32c(log.as_bytes()), &first_seq.to_le_bytes()))
    }
}

/// Bytes that a frame with a body of `body` bytes takes: frames stand at multiples of 8.
pub(crate) const fn frame_len(body: usize) -> usize {
    (FRAME_HEAD + body).next_multiple_of(8)
}

pub(crate) const fn open_body(facts: usize) -> usize {
    16 + facts
}

fn put(out: &mut Vec<u8>, seed: Seed, kind: Kind, flags: u8, seq: u64, body: &[&[u8]]) {
    let len: usize = body.iter().map(|part| part.len()).sum();
    assert!(len <= MAX_BODY, "a frame body of {len} bytes");
    let at = out.len();
    out.extend_from_slice(&u32::try_from(len).expect("at most MAX_BODY").to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[kind as u8, flags, 0, 0]);
    out.extend_from_slice(&seq.to_le_bytes());
    for part in body {
        out.extend_from_slice(part);
    }
    let crc = checksum(seed, &out[at..]);
    out[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    out.resize(at + frame_len(len), 0);
}

fn checksum(seed: Seed, frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed.0, &frame[..4]), &frame[8..])
}

pub(crate) fn put_open(out: &mut Vec<u8>, seed: Seed, next_seq: u64, id: LineageId, facts: &[u8]) {
    put(out, seed, Kind::Open, 0, next_seq, &[id.as_bytes(), facts]);
}

pub(crate) fn put_progress(out: &mut Vec<u8>, seed: Seed, next_seq: u64, id: LineageId, bytes: u64) {
    put(out, seed, Kind::Progress, 0, next_seq, &[id.as_bytes(), &bytes.to_le_bytes()]);
}

pub(crate) fn put_close(out: &mut Vec<u8>, seed: Seed, record: &Record) {
    let body = [&record.id.as_bytes()[..], &record.key_id, &record.sig, &record.payload];
    put(out, seed, Kind::Close, 0, record.seq, &body);
}

/// Whether a frame can hold the record.
pub(crate) fn fits(record: &Record) -> bool {
    CLOSE_HEAD + record.payload.len() <= MAX_BODY
}

/// `leaves` are those of the group, the last of them that of seq `tree.size() - 1`.
pub(crate) fn put_group_end(out: &mut Vec<u8>, seed: Seed, flags: u8, next_seq: u64, tree: &Tree, leaves: &[Hash]) {
    // A group so long that its leaves do not fit goes without them: the peaks alone continue the tree.
    let leaves = if leaves.len() * 32 > MAX_BODY / 2 { &[] } else { leaves };
    let count = u64::try_from(leaves.len()).expect("bounded above");
    let head = [tree.size().to_le_bytes(), count.to_le_bytes()];
    put(out, seed, Kind::GroupEnd, flags, next_seq, &[head.as_flattened(), leaves.as_flattened(), &peaks(tree)]);
}

/// The hashes of a tree's perfect subtrees, largest first; its size says how many there are.
fn peaks(tree: &Tree) -> Vec<u8> {
    tree.to_bytes().split_off(8)
}

fn tree_of(size: u64, peaks: &[u8]) -> Option<Tree> {
    Tree::from_bytes(&[&size.to_be_bytes(), peaks].concat()).ok()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// A checked frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) seq: u64,
    pub(crate) body: &'a [u8],
}

/// The body's length if these first [`FRAME_HEAD`] bytes may begin a frame.
pub(crate) fn body_len(head: &[u8]) -> Option<usize> {
    let len = u32_at(head, 0) as usize;
    let least = match Kind::of(head[8])? {
        Kind::Open | Kind::GroupEnd => 16,
        Kind::Close => CLOSE_HEAD,
        Kind::Progress => PROGRESS_BODY,
    };
    (head[9] <= FLAG_CLEAN && head[10..12] == [0, 0] && (least..=MAX_BODY).contains(&len)).then_some(len)
}

/// Whether the checksum of the frame in `bytes` (head and body) holds.
pub(crate) fn is_good(seed: Seed, bytes: &[u8]) -> bool {
    checksum(seed, bytes) == u32_at(bytes, 4)
}

impl<'a> Frame<'a> {
    /// The frame in `bytes`, which [`body_len`] and [`is_good`] accept.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let kind = Kind::of(bytes[8]).expect("checked by body_len");
        Self { kind, flags: bytes[9], seq: u64_at(bytes, 12), body: &bytes[FRAME_HEAD..] }
    }

    /// The bytes of a PROGRESS.
    pub(crate) fn bytes(&self) -> u64 {
        u64_at(self.body, 16)
    }

    /// The id of an OPEN, CLOSE or PROGRESS.
    pub(crate) fn id(&self) -> LineageId {
        LineageId::from_bytes(self.body[..16].try_into().expect("checked by body_len"))
    }

    /// The facts of an OPEN.
    pub(crate) fn facts(&self) -> &'a [u8] {
        &self.body[16..]
    }

    /// The record of a CLOSE.
    pub(crate) fn record(&self, log: LogId, epoch: u32) -> Record {
        Record {
            id: self.id(),
            log,
            epoch,
            seq: self.seq,
            key_id: self.body[16..48].try_into().expect("checked by body_len"),
            sig: self.body[48..CLOSE_HEAD].try_into().expect("checked by body_len"),
            payload: self.body[CLOSE_HEAD..].into(),
        }
    }

    /// Leaves and tree of a GROUP_END; none if its parts do not fit each other.
    pub(crate) fn group(&self) -> Option<(Vec<Hash>, Tree)> {
        let (hashes, rest) = self.body[16..].as_chunks::<32>();
        let split = usize::try_from(u64_at(self.body, 8)).ok().filter(|&n| n <= hashes.len() && rest.is_empty())?;
        let tree = tree_of(u64_at(self.body, 0), hashes[split..].as_flattened())?;
        (split as u64 <= tree.size()).then(|| (hashes[..split].to_vec(), tree))
    }
}

/// What stands at the head of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub(crate) log: LogId,
    pub(crate) epoch: u32,
    pub(crate) boot: [u8; 16],
    /// The tree below the segment; its size is the segment's first seq.
    pub(crate) tree: Tree,
}

impl SegmentHead {
    pub(crate) const fn len(&self) -> usize {
        SEGMENT_HEAD + self.tree.size().count_ones() as usize * 32 + 8
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.len()).expect("below 4 KiB").to_le_bytes());
        out.extend_from_slice(self.log.as_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.tree.size().to_le_bytes());
        out.extend_from_slice(&self.boot);
        out.extend_from_slice(&peaks(&self.tree));
        let crc = crc32c::crc32c(&out[at..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
    }

    /// The header at the start of `bytes`, or what is wrong with it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() < SEGMENT_HEAD || &bytes[..8] != MAGIC {
            return Err("it does not begin like a segment");
        }
        let len = u32_at(bytes, 12) as usize;
        if !(SEGMENT_HEAD + 8..=bytes.len()).contains(&len) {
            return Err("the length of its header is wrong");
        }
        if crc32c::crc32c(&bytes[..len - 8]) != u32_at(bytes, len - 8) {
            return Err("the checksum of its header is wrong");
        }
        if u32_at(bytes, 8) != VERSION {
            return Err("its version is unknown; a newer Signet wrote it");
        }
        Ok(Self {
            log: LogId::from_bytes(bytes[16..32].try_into().expect("16 bytes")),
            epoch: u32_at(bytes, 32),
            boot: bytes[48..64].try_into().expect("16 bytes"),
            tree: tree_of(u64_at(bytes, 40), &bytes[SEGMENT_HEAD..len - 8])
                .ok_or("its tree does not fit its first seq")?,
        })
    }
}

pub(crate) fn segment_name(first_seq: u64) -> String {
    format!("seg-{first_seq:020}.lsp")
}

pub(crate) fn segment_first_seq(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("seg-")?.strip_suffix(".lsp")?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

/// Whether we gave a file this suffix; we write them in lower case only.
pub(crate) fn has_suffix(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some()
}
