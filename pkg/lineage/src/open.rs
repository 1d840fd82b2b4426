//! What is written before a request goes to a provider: enough to say later, if the process dies, that it had gone.
//!
//! The bytes never leave the machine and are not signed; the `interrupted` record made from them is.

use crate::draft::{CacheFacts, Caller, Forwarded, HttpFacts, LimitFacts, ModelFacts, RequestFacts, ResponseFacts};
use crate::statement::NO_COMMITMENT;
use crate::{Draft, Exchange, Gateway, Kind, Outcome, Times};
use signet_types::{LineageId, TenantId};
use std::sync::Arc;

const VERSION: u8 = 1;
const STREAM: u8 = 1;
const FP: u8 = 1 << 1;
const FORWARDED: u8 = 1 << 2;
const CHANGED: u8 = 1 << 3;
const TRACE: u8 = 1 << 4;
const WRAPPED: u8 = 1 << 5;

/// The words that a draft holds as constants; one written by a later version reads as `other`.
const WORDS: [&str; 31] = [
    "passthrough",
    "open",
    "none",
    "keys",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/models",
    "/v1/models/{model}",
    "chat",
    "embeddings",
    "completions",
    "responses",
    "messages",
    "models",
    "miss",
    "hit_exact",
    "hit_semantic",
    "coalesced",
    "bypass",
    "refresh",
    "stale",
    "allow",
    "deny",
    "off",
    "exact",
    "same-words",
    "vector",
    "other",
];

/// The facts of a request at the moment it goes upstream.
#[derive(Debug, Clone)]
pub struct OpenFacts {
    /// The id of the record to come.
    pub id: LineageId,
    /// The request's head had arrived, milliseconds since the Unix epoch.
    pub received_ms: u64,
    /// W3C trace id, 32 hex digits.
    pub trace_id: Option<String>,
    /// Who asked.
    pub caller: Caller,
    /// Path template.
    pub route: &'static str,
    /// Whether the caller asked for a stream.
    pub stream: bool,
    /// The request as received, and as it is about to be sent.
    pub request: RequestFacts,
    /// The model asked for.
    pub asked: String,
    /// What the cache had decided.
    pub cache: &'static str,
}

/// Bytes that are not an OPEN. The fault is with the disk or with a later version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenFault {
    /// Written by a version that this one does not know.
    #[error("an OPEN of version {0} cannot be read by this version")]
    Version(u8),
    /// Cut or damaged.
    #[error("a damaged OPEN")]
    Damaged,
}

impl OpenFacts {
    /// The bytes of an OPEN frame: fixed fields, then texts with a u32 length, all big endian.
    pub fn encode(&self) -> Vec<u8> {
        let (caller, request) = (&self.caller, &self.request);
        let mut out = Vec::with_capacity(256 + self.asked.len());
        out.push(VERSION);
        out.push(self.flags());
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(&self.received_ms.to_be_bytes());
        out.extend_from_slice(caller.tenant.as_bytes());
        out.extend_from_slice(&caller.key_epoch.to_be_bytes());
        out.extend_from_slice(&request.cm);
        out.extend_from_slice(&request.bytes.to_be_bytes());
        request.fp.iter().for_each(|fp| out.extend_from_slice(fp));
        if let Some(forwarded) = &request.forwarded {
            out.extend_from_slice(&forwarded.cm);
            out.extend_from_slice(&forwarded.bytes.to_be_bytes());
        }
        for text in [caller.auth, self.route, request.op, self.cache, &self.asked] {
            push_bytes(&mut out, text.as_bytes());
        }
        self.trace_id.iter().for_each(|text| push_bytes(&mut out, text.as_bytes()));
        caller.wrapped_key.iter().for_each(|key| push_bytes(&mut out, key));
        out
    }

    /// Reads an OPEN frame back.
    ///
    /// # Errors
    /// The version is unknown, or the bytes are cut, longer or not text where they should be.
    pub fn decode(bytes: &[u8]) -> Result<Self, OpenFault> {
        match bytes.split_first() {
            Some((&VERSION, body)) => read(body).ok_or(OpenFault::Damaged),
            Some((&version, _)) => Err(OpenFault::Version(version)),
            None => Err(OpenFault::Damaged),
        }
    }

    /// The record that recovery writes for a request whose end nobody saw, under the id that its caller may hold.
    /// `at_ms` is the time of recovery; of the answer nothing is known, so it has neither status nor commitment.
    pub fn interrupted(&self, at_ms: u64, gateway: &Arc<Gateway>) -> Draft {
        let exchange = Exchange {
            caller: self.caller.clone(),
            http: HttpFacts { route: self.route, status: 0, stream: self.stream, request_id: None },
            request: self.request.clone(),
            model: ModelFacts { asked: self.asked.clone(), routed: None, served: None },
            provider: None,
            cache: CacheFacts { decision: self.cache, ..CacheFacts::default() },
            parents: Vec::new(),
            limit: LimitFacts { decision: "allow", retry_after_ms: None },
            usage: None,
            capture: None,
            response: ResponseFacts {
                cm: NO_COMMITMENT,
                bytes: 0,
                fp: None,
                chunks: 0,
                finish: None,
                outcome: Outcome::Interrupted,
                upstream: None,
            },
        };
        Draft {
            kind: Kind::Request,
            id: self.id,
            trace_id: self.trace_id.clone(),
            time: Times { received_ms: self.received_ms, completed_ms: at_ms, ..Times::default() },
            gateway: Arc::clone(gateway),
            exchange: Some(Box::new(exchange)),
            control: Vec::new(),
        }
    }

    fn flags(&self) -> u8 {
        let forwarded = self.request.forwarded;
        [
            (STREAM, self.stream),
            (FP, self.request.fp.is_some()),
            (FORWARDED, forwarded.is_some()),
            (CHANGED, forwarded.is_some_and(|f| f.changed)),
            (TRACE, self.trace_id.is_some()),
            (WRAPPED, self.caller.wrapped_key.is_some()),
        ]
        .into_iter()
        .filter_map(|(bit, set)| set.then_some(bit))
        .sum()
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("bounded by the request's own size limit");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn read(body: &[u8]) -> Option<OpenFacts> {
    let mut from = Reader(body);
    let [flags] = from.array()?;
    let has = |bit: u8| flags & bit != 0;
    let id = LineageId::from_bytes(from.array()?);
    let received_ms = from.u64()?;
    let (tenant, key_epoch) = (TenantId::from_bytes(from.array()?), u32::from_be_bytes(from.array()?));
    let (cm, bytes) = (from.array()?, from.u64()?);
    let fp = if has(FP) { Some(from.array()?) } else { None };
    let forwarded = if has(FORWARDED) {
        Some(Forwarded { cm: from.array()?, bytes: from.u64()?, changed: has(CHANGED) })
    } else {
        None
    };
    let (auth, route, op, cache) = (from.word()?, from.word()?, from.word()?, from.word()?);
    let asked = from.text()?;
    let trace_id = if has(TRACE) { Some(from.text()?) } else { None };
    let wrapped_key = if has(WRAPPED) { Some(from.bytes()?.to_vec()) } else { None };
    let caller = Caller { tenant, auth, key_epoch, wrapped_key };
    let request = RequestFacts { cm, bytes, fp, op, forwarded };
    let facts = OpenFacts { id, received_ms, trace_id, caller, route, stream: has(STREAM), request, asked, cache };
    from.0.is_empty().then_some(facts)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_be_bytes(self.array()?);
        let (head, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn word(&mut self) -> Option<&'static str> {
        let text = std::str::from_utf8(self.bytes()?).ok()?;
        Some(WORDS.into_iter().find(|word| *word == text).unwrap_or("other"))
    }
}
