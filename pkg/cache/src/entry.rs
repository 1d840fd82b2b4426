//! One cached answer, and its encoding. The encoding is versioned and always sealed before it leaves the process.

use crate::key::{CacheKey, Partition};
use signet_dialect::Kept;
use signet_types::{EntryId, LineageId, LogId};

/// The record that stands behind a cached answer. An entry without one cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Its id, sent as `X-Cache-Source`.
    pub id: LineageId,
    /// Its log.
    pub log: LogId,
    /// The writer's epoch.
    pub epoch: u32,
    /// Its place in the log.
    pub seq: u64,
    /// Its leaf hash.
    pub leaf_hash: [u8; 32],
    /// Fingerprint of the answer under the tenant's key.
    pub response_fp: [u8; 16],
    /// Epoch of that key.
    pub key_epoch: u32,
}

/// What an entry was asked with, so that it can be taken back by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The model as it was asked for.
    pub model: Box<str>,
    /// `X-Cache-Namespace`, empty where none was sent.
    pub namespace: Box<str>,
}

/// One cached answer.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The entry's own id.
    pub id: EntryId,
    /// Its exact key.
    pub key: CacheKey,
    /// Where it may be served.
    pub partition: Partition,
    /// The answer.
    pub body: Kept,
    /// The question, if the answer may serve rephrased questions too.
    pub question: Option<String>,
    /// When its request came, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Milliseconds since the Unix epoch; never served from this moment on.
    pub expires_ms: u64,
    /// The record behind it.
    pub source: Source,
    /// Where it came from.
    pub origin: Origin,
}

const VERSION: u8 = 2;
/// What an origin takes in memory, about.
const ORIGIN_BYTES: usize = 32;

/// Bytes that are not an entry of this version: from another version, or damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cache entry of version {VERSION}: {0}")]
pub struct EntryFault(&'static str);

impl Entry {
    /// Bytes that this entry occupies in memory, about.
    pub fn weight(&self) -> usize {
        Self::weight_of(&self.body, self.question.as_deref())
    }

    /// The weight of an entry that is still to be made.
    pub fn weight_of(body: &Kept, question: Option<&str>) -> usize {
        size_of::<Self>() + body.weight() + question.map_or(0, str::len) + ORIGIN_BYTES
    }

    /// The entry as bytes: `version | kind | id | created | expires | source | model | namespace | question | body`, integers big endian,
    /// texts length-prefixed with u32. Key, partition and tenant are bound by the seal, not repeated here.
    pub fn encode(&self) -> Vec<u8> {
        let body = self.body.encode();
        let question = self.question.as_deref().unwrap_or_default();
        let mut out = Vec::with_capacity(224 + question.len() + body.len());
        out.push(VERSION);
        out.push(self.body.kind());
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(&self.created_ms.to_be_bytes());
        out.extend_from_slice(&self.expires_ms.to_be_bytes());
        self.source.encode(&mut out);
        put_text(&mut out, self.origin.model.as_bytes());
        put_text(&mut out, self.origin.namespace.as_bytes());
        out.push(u8::from(self.question.is_some()));
        put_text(&mut out, question.as_bytes());
        put_text(&mut out, &body);
        out
    }

    /// Reads what [`Entry::encode`] wrote, for the place it was stored under.
    ///
    /// # Errors
    /// If the bytes are of another version, cut or damaged.
    pub fn decode(key: CacheKey, partition: Partition, bytes: &[u8]) -> Result<Self, EntryFault> {
        let mut from = Reader(bytes);
        if from.byte()? != VERSION {
            return Err(EntryFault("version"));
        }
        let kind = from.byte()?;
        let id = EntryId::from_bytes(from.array()?);
        let (created_ms, expires_ms) = (from.u64()?, from.u64()?);
        let source = Source::decode(&mut from)?;
        let mut word = || Ok(std::str::from_utf8(from.text()?).map_err(|_| EntryFault("origin"))?.into());
        let origin = Origin { model: word()?, namespace: word()? };
        let has_question = from.byte()?;
        let question = String::from_utf8(from.text()?.to_vec()).map_err(|_| EntryFault("question"))?;
        let question = match has_question {
            0 if question.is_empty() => None,
            1 => Some(question),
            _ => return Err(EntryFault("question")),
        };
        let body = from.text()?;
        if !from.0.is_empty() {
            return Err(EntryFault("trailing bytes"));
        }
        if !Kept::is_kind(kind) {
            return Err(EntryFault("kind"));
        }
        let body = Kept::decode(kind, body).map_err(|_| EntryFault("answer"))?;
        Ok(Self { id, key, partition, body, question, created_ms, expires_ms, source, origin })
    }
}

impl Source {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(self.log.as_bytes());
        out.extend_from_slice(&self.epoch.to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.leaf_hash);
        out.extend_from_slice(&self.response_fp);
        out.extend_from_slice(&self.key_epoch.to_be_bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, EntryFault> {
        Ok(Self {
            id: LineageId::from_bytes(from.array()?),
            log: LogId::from_bytes(from.array()?),
            epoch: u32::from_be_bytes(from.array()?),
            seq: from.u64()?,
            leaf_hash: from.array()?,
            response_fp: from.array()?,
            key_epoch: u32::from_be_bytes(from.array()?),
        })
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let len = u32::try_from(text.len()).expect("entries are bounded far below 4 GiB");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(text);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], EntryFault> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(EntryFault("cut"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EntryFault> {
        self.take(N).map(|bytes| bytes.try_into().expect("take gives N bytes"))
    }

    fn byte(&mut self) -> Result<u8, EntryFault> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u64(&mut self) -> Result<u64, EntryFault> {
        self.array().map(u64::from_be_bytes)
    }

    fn text(&mut self) -> Result<&'a [u8], EntryFault> {
        let len = u32::from_be_bytes(self.array()?);
        self.take(usize::try_from(len).map_err(|_| EntryFault("length"))?)
    }
}
