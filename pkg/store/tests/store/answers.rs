//! Answers from providers as a gateway signs them, each unlike the other.

use signet_lineage::{
    AttemptFacts, CacheFacts, Caller, Draft, Exchange, Forwarded, Gateway, HttpFacts, Kind, Leaf, LimitFacts, LogRow,
    ModelFacts, Outcome, Position, ProviderFacts, Record, RequestFacts, ResponseFacts, Signer, Times, Tree, TreeHead,
    UsageFacts,
};
use signet_types::{LineageId, LogId, TenantId};
use std::sync::Arc;

const AT_MS: u64 = 1_796_067_843_000;
const MODELS: [(&str, &str, &str); 4] = [
    ("fast", "gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
    ("claude-sonnet-4-5", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
    ("large", "llama-3.3-70b-instruct", "llama-3.3-70b-instruct"),
    ("gpt-5.1", "gpt-5.1", "gpt-5.1-2025-11-13"),
];

/// Numbers without a pattern (splitmix64): what is random in a statement must not pack.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next().to_le_bytes()[0])
    }

    /// One in `n`.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// An answer from a provider as the gateway signs it: most are plain, some streamed, traced, or renamed on the way.
fn miss(n: u64, of: &mut Random, gateway: &Arc<Gateway>) -> Draft {
    let (stream, took) = (of.one_in(2), 300 + of.below(9_000));
    let began = AT_MS + n / 2;
    Draft {
        kind: Kind::Request,
        id: LineageId::generate(began),
        trace_id: of.one_in(4).then(|| format!("{:032x}", u128::from(of.next()) << 64 | u128::from(of.next()))),
        time: Times {
            received_ms: began,
            first_byte_ms: stream.then_some(began + took / 3),
            completed_ms: began + took,
            upstream_ttfb_us: Some(took * 330),
            total_us: took * 1000 + of.below(1000),
        },
        gateway: Arc::clone(gateway),
        exchange: Some(Box::new(exchange(of, stream, took))),
        control: Vec::new(),
    }
}

fn exchange(of: &mut Random, stream: bool, took: u64) -> Exchange {
    let (asked, routed, served) = MODELS[usize::try_from(of.below(4)).expect("small")];
    let (cm, bytes) = (of.bytes(), 200 + of.below(40_000));
    let changed = asked != routed;
    let attempt = AttemptFacts {
        provider: "main".to_owned(),
        model: routed.to_owned(),
        status: 200,
        ms: took,
        reason: None,
        wait_ms: None,
    };
    let mut tenant = [7; 16];
    tenant[..8].copy_from_slice(&of.below(50).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    Exchange {
        caller: Caller { tenant: TenantId::from_bytes(tenant), auth: "passthrough", key_epoch: 1, wrapped_key: None },
        http: HttpFacts { route: "/v1/chat/completions", status: 200, stream, request_id: None },
        request: RequestFacts {
            cm,
            bytes,
            fp: None,
            op: "chat",
            forwarded: Some(Forwarded { cm: if changed { of.bytes() } else { cm }, bytes: bytes + 9, changed }),
        },
        model: ModelFacts { asked: asked.to_owned(), routed: Some(routed.to_owned()), served: Some(served.to_owned()) },
        provider: Some(ProviderFacts {
            name: "main".to_owned(),
            endpoint: "https://api.provider.example".to_owned(),
            request_id: of.one_in(4).then(|| of.bytes()),
            attempts: vec![attempt],
        }),
        cache: CacheFacts {
            decision: "miss",
            key_fp: Some(of.bytes()),
            ttl_ms: Some(3_600_000),
            ..CacheFacts::default()
        },
        parents: Vec::new(),
        capture: None,
        limit: LimitFacts { decision: "allow", retry_after_ms: None },
        usage: Some(UsageFacts {
            input: 20 + of.below(9_000),
            output: 1 + of.below(2_000),
            cached_input: 0,
            reasoning: 0,
            billed: true,
        }),
        response: ResponseFacts {
            cm: of.bytes(),
            bytes: 400 + of.below(9_000),
            fp: Some(of.bytes()),
            chunks: if stream { 1 + of.below(500) } else { 0 },
            finish: Some("stop".to_owned()),
            outcome: Outcome::Complete,
            upstream: None,
        },
    }
}

/// A log of such answers, in the order in which they end.
pub(crate) struct Answers {
    signer: Signer,
    tree: Tree,
    base: TreeHead,
    random: Random,
    gateway: Arc<Gateway>,
    log: LogId,
}

impl Answers {
    pub(crate) fn new(epoch_seed: u64) -> Self {
        let mut random = Random(epoch_seed);
        let gateway = Arc::new(Gateway {
            version: "0.1.0".to_owned(),
            config_sha256: random.bytes(),
            instance: "5cd56cde408b1190".to_owned(),
            durability: "spool".to_owned(),
        });
        let tree = Tree::new();
        let (base, log) = (tree.head(), LogId::generate(AT_MS));
        Self { signer: Signer::generate(), base, tree, random, gateway, log }
    }

    pub(crate) fn row(&self) -> LogRow {
        let attest_key = *self.signer.public_key().as_bytes();
        LogRow { log: self.log, origin: "gateway.example/lineage".to_owned(), epoch: 3, attest_key, next_seq: 0 }
    }

    /// The next `count` records.
    pub(crate) fn take(&mut self, count: u64) -> Vec<Record> {
        let from = self.tree.size();
        let mut drafts: Vec<Draft> = (from..from + count).map(|n| miss(n, &mut self.random, &self.gateway)).collect();
        drafts.sort_by_key(|draft| draft.time.completed_ms);
        drafts.iter().map(|draft| self.seal(draft)).collect()
    }

    fn seal(&mut self, draft: &Draft) -> Record {
        if self.random.one_in(20) {
            self.base = self.tree.head();
        }
        let place = Position { log: self.log, epoch: 3, seq: self.tree.size(), base: self.base };
        let record = draft.seal(&place, &self.signer);
        self.tree.push(Leaf::of(&record).hash());
        record
    }
}
