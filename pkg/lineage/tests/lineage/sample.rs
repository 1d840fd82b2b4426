//! A small writer log as a gateway would leave it.

use signet_lineage::verify::{Options, Report, Verifier};
use signet_lineage::{
    AttemptFacts, CacheFacts, Caller, Columns, ControlStamp, Draft, Exchange, Forwarded, Gateway, HttpFacts, KeySet,
    Kind, Leaf, LimitFacts, LogRow, ModelFacts, Outcome, Parent, Position, ProviderFacts, Receipt, Record, Relation,
    RequestFacts, ResponseFacts, Signer, Times, Tree, TreeHead, UsageFacts,
};
use signet_types::{LineageId, LogId, TenantId};
use std::fmt::Write as _;
use std::sync::Arc;

pub(crate) const ORIGIN: &str = "gateway.example/lineage";
pub(crate) const START_MS: u64 = 1_780_000_000_000;
pub(crate) const ALICE: TenantId = TenantId::from_bytes([0xa1; 16]);
pub(crate) const BOB: TenantId = TenantId::from_bytes([0xb0; 16]);

/// Seed-only PKCS#8 (RFC 8410 §7).
pub(crate) fn signer(seed: u8) -> Signer {
    let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
    der.extend_from_slice(&[seed; 32]);
    Signer::from_pkcs8(&der).expect("a seed is a key")
}

pub(crate) fn id(log: u8, n: u64) -> LineageId {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&(START_MS + n).to_be_bytes()[2..]);
    bytes[6] = 0x70;
    bytes[8] = 0x80 | log;
    bytes[15] = u8::try_from(n % 256).expect("below 256");
    LineageId::from_bytes(bytes)
}

/// Lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all");
        text
    })
}

pub(crate) struct Writer {
    pub(crate) name: u8,
    pub(crate) log: LogId,
    pub(crate) epoch: u32,
    pub(crate) signer: Signer,
    pub(crate) tree: Tree,
    pub(crate) base: TreeHead,
    pub(crate) records: Vec<Record>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) ids: u64,
}

impl Writer {
    /// A log whose first record is written. `name` makes its id and its key.
    pub(crate) fn open(name: u8, mode: &str) -> Self {
        let durability = mode.to_owned();
        let (version, instance) = ("0.1.0".to_owned(), "i-1".to_owned());
        let mut log = Self {
            name,
            log: LogId::from_bytes([name; 16]),
            epoch: 1,
            signer: signer(name),
            tree: Tree::new(),
            base: Tree::new().head(),
            records: Vec::new(),
            gateway: Arc::new(Gateway { version, config_sha256: [7; 32], instance, durability }),
            ids: 0,
        };
        let first = Draft::log_open(&log.stamp(), ORIGIN, &log.signer.public_key());
        log.append(&first);
        log
    }

    /// A log with `n` records in all.
    pub(crate) fn filled(name: u8, n: u64) -> Self {
        let mut log = Self::open(name, "spool");
        while log.tree.size() < n {
            log.ask(ALICE);
        }
        log
    }

    pub(crate) fn next_id(&mut self) -> LineageId {
        self.ids += 1;
        id(self.name, self.ids)
    }

    pub(crate) fn stamp(&mut self) -> ControlStamp {
        let id = self.next_id();
        ControlStamp { id, at_ms: START_MS, gateway: Arc::clone(&self.gateway) }
    }

    pub(crate) fn position(&self) -> Position {
        Position { log: self.log, epoch: self.epoch, seq: self.tree.size(), base: self.base }
    }

    /// Seals at the next place; the base follows every third record, as with groups.
    pub(crate) fn append(&mut self, draft: &Draft) -> Record {
        let record = draft.seal(&self.position(), &self.signer);
        self.tree.push(Leaf::of(&record).hash());
        if self.tree.size().is_multiple_of(3) {
            self.base = self.tree.head();
        }
        self.records.push(record.clone());
        record
    }

    pub(crate) fn ask(&mut self, tenant: TenantId) -> Record {
        let draft = self.request(tenant);
        self.append(&draft)
    }

    /// An answer from the cache that stands on `source`.
    pub(crate) fn hit(&mut self, tenant: TenantId, source: &Record) -> Record {
        let draft = self.hit_draft(tenant, source);
        self.append(&draft)
    }

    pub(crate) fn hit_draft(&mut self, tenant: TenantId, source: &Record) -> Draft {
        let mut draft = self.request(tenant);
        let exchange = draft.exchange.as_mut().expect("a request");
        exchange.cache.decision = "hit_exact";
        exchange.parents = vec![parent(source)];
        draft
    }

    pub(crate) fn request(&mut self, tenant: TenantId) -> Draft {
        Draft {
            kind: Kind::Request,
            id: self.next_id(),
            trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
            time: Times {
                received_ms: START_MS,
                first_byte_ms: Some(START_MS + 20),
                completed_ms: START_MS + 30,
                upstream_ttfb_us: Some(19_000),
                total_us: 30_000,
            },
            gateway: Arc::clone(&self.gateway),
            exchange: Some(Box::new(exchange(tenant))),
            control: Vec::new(),
        }
    }

    pub(crate) fn keys(&self) -> KeySet {
        KeySet::new([self.signer.public_key()]).expect("one key")
    }

    pub(crate) fn row(&self) -> LogRow {
        LogRow {
            log: self.log,
            origin: ORIGIN.to_owned(),
            epoch: self.epoch,
            attest_key: *self.signer.public_key().as_bytes(),
            next_seq: self.records.len() as u64,
        }
    }
}

pub(crate) fn parent(source: &Record) -> Parent {
    Parent {
        rel: Relation::CacheSource,
        log: source.log,
        epoch: source.epoch,
        seq: source.seq,
        id: source.id,
        leaf_hash: Leaf::of(source).hash(),
        response_fp: Some([5; 16]),
        key_epoch: 1,
    }
}

fn exchange(tenant: TenantId) -> Exchange {
    let name = "gpt-4o-mini".to_owned();
    let attempt = AttemptFacts {
        provider: "main".to_owned(),
        model: name.clone(),
        status: 200,
        ms: 19,
        reason: None,
        wait_ms: None,
    };
    Exchange {
        caller: Caller { tenant, auth: "passthrough", key_epoch: 1, wrapped_key: None },
        http: HttpFacts { route: "/v1/chat/completions", status: 200, stream: false, request_id: None },
        request: RequestFacts {
            cm: [1; 32],
            bytes: 120,
            fp: Some([2; 16]),
            op: "chat",
            forwarded: Some(Forwarded { cm: [3; 32], bytes: 140, changed: true }),
        },
        model: ModelFacts { asked: "fast".to_owned(), routed: Some(name.clone()), served: Some(name) },
        provider: Some(ProviderFacts {
            name: "main".to_owned(),
            endpoint: "https://provider.example".to_owned(),
            request_id: Some([4; 16]),
            attempts: vec![attempt],
        }),
        cache: CacheFacts { decision: "miss", key_fp: Some([9; 16]), ttl_ms: Some(3_600_000), ..CacheFacts::default() },
        parents: Vec::new(),
        limit: LimitFacts { decision: "allow", retry_after_ms: None },
        capture: None,
        usage: Some(UsageFacts { input: 12, output: 34, cached_input: 0, reasoning: 0, billed: true }),
        response: ResponseFacts {
            cm: [6; 32],
            bytes: 400,
            fp: Some([5; 16]),
            chunks: 0,
            finish: Some("stop".to_owned()),
            outcome: Outcome::Complete,
            upstream: None,
        },
    }
}

pub(crate) fn verify(keys: &KeySet, records: &[Record]) -> Report {
    verify_with(keys, records, |_| {})
}

/// Verifies `records`, each with its own columns, after `more` was told.
pub(crate) fn verify_with(keys: &KeySet, records: &[Record], more: impl FnOnce(&mut Verifier)) -> Report {
    let mut verifier = Verifier::new(keys, Options { threads: 1, ..Options::default() });
    for record in records {
        verifier.record(record.clone(), Columns::read(&record.payload).ok().as_ref());
    }
    more(&mut verifier);
    verifier.finish()
}

pub(crate) fn receipt(record: &Record) -> Receipt {
    Receipt::of(record, ORIGIN)
}
