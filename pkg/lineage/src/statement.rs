//! From what is known of an answer to the signed record: an in-toto Statement v1 inside DSSE.
//!
//! Every answer passes here, and the position is known only under the log's lock. So the work is cut in two:
//! [`Draft::prepare`] writes all but the `log` object before the lock is taken, [`Prepared::seal`] splices it in and signs.
//! Each fact stands once: the commitments to both bodies are the subjects, a zero count or an empty list is left out. Half of
//! what a signature costs is hashing the statement, twice (RFC 8032 §5.1.6), so every byte counts.
//!
//! The bytes are canonical (see the `json` module), which makes two statements comparable and odd ones visible; what is
//! proved is the exact bytes, whatever a reader makes of them.
//!
//! Formats: in-toto Attestation Framework, Statement v1; DSSE v1 pre-authentication encoding.

use crate::envelope::{PAYLOAD_TYPE, push_pae_head};
use crate::json::Json;
use crate::{CaptureFacts, ControlValue, Draft, Exchange, Kind, Position, Record, Signer, draft};
use sha2::{Digest, Sha256};
use signet_types::LineageId;

/// The type of an in-toto statement.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of our predicate.
pub const PREDICATE_TYPE: &str = "urn:signet:lineage:v1";
/// Where a body is unknown (an `interrupted` record's answer) there is nothing to commit to, and the field is left out.
pub const NO_COMMITMENT: draft::Commitment = [0; 32];

/// A statement that lacks only its place in the log.
#[derive(Debug, Clone)]
pub struct Prepared {
    id: LineageId,
    /// The statement without its `log` object.
    text: Vec<u8>,
    /// Where that object belongs.
    cut: usize,
}

impl Draft {
    /// Writes everything that does not depend on the record's position. Integers beyond 2^53 - 1 are written as that.
    pub fn prepare(&self) -> Prepared {
        let mut nonce = [0; 16];
        aws_lc_rs::rand::fill(&mut nonce).expect("the operating system gives random bytes");
        self.prepare_with(nonce)
    }

    /// [`Draft::prepare`] with a nonce of the caller's choice, for reproducible bytes in tests.
    #[doc(hidden)]
    pub fn prepare_with(&self, nonce: [u8; 16]) -> Prepared {
        let mut text = Vec::with_capacity(2560);
        let mut json = Json::at_end(&mut text);
        json.start();
        json.text("_type", STATEMENT_TYPE);
        let mut cut = 0;
        json.object("predicate", |p| cut = self.predicate(p, nonce));
        json.text("predicateType", PREDICATE_TYPE);
        self.subject(&mut json);
        json.end();
        Prepared { id: self.id, text, cut }
    }

    /// [`Draft::prepare`] and [`Prepared::seal`] in one.
    pub fn seal(&self, position: &Position, signer: &Signer) -> Record {
        self.prepare().seal(position, signer)
    }

    /// Fields in ascending order; returns where `log` belongs.
    fn predicate(&self, p: &mut Json<'_>, nonce: [u8; 16]) -> usize {
        let exchange = self.exchange.as_deref();
        exchange.inspect(|e| before_log(e, p));
        if self.kind != Kind::Request {
            p.object("control", |c| write_control(&self.control, c));
        }
        p.text("durability", &self.gateway.durability);
        p.object("gateway", |g| {
            g.hex("config_sha256", &self.gateway.config_sha256);
            g.text("instance", &self.gateway.instance);
            g.text("version", &self.gateway.version);
        });
        exchange.inspect(|e| write_http(&e.http, p));
        p.uuid("id", self.id.as_uuid());
        p.text("kind", self.kind.as_str());
        exchange.inspect(|e| write_limit(&e.limit, p));
        let cut = p.len();
        exchange.inspect(|e| write_model(&e.model, p));
        p.hex("nonce", &nonce);
        exchange.filter(|e| !e.parents.is_empty()).inspect(|e| p.objects("parents", &e.parents, write_parent));
        exchange.inspect(|e| after_log(e, p));
        write_time(&self.time, p);
        p.some_text("trace_id", self.trace_id.as_deref());
        exchange.inspect(|e| write_usage(e.usage.as_ref(), p));
        p.int("v", 1);
        cut
    }

    /// What the statement is about: the two bodies, or the facts of a control record.
    fn subject(&self, json: &mut Json<'_>) {
        let subjects = match self.exchange.as_deref() {
            Some(e) => vec![("request", e.request.cm), ("response", e.response.cm)],
            None => vec![("control", control_digest(&self.control))],
        };
        let known: Vec<_> = subjects.into_iter().filter(|(_, digest)| *digest != NO_COMMITMENT).collect();
        json.objects("subject", &known, |s, (name, digest)| {
            s.object("digest", |d| d.hex("sha256", digest));
            s.text("name", name);
        });
    }
}

impl Prepared {
    /// Gives the statement its place and signs it. Called under the log's lock; the signature is most of the cost.
    pub fn seal(self, position: &Position, signer: &Signer) -> Record {
        let mut log = Vec::with_capacity(256);
        log.push(b',');
        Json::at_end(&mut log).object("log", |l| {
            l.hex("base_root", &position.base.root);
            l.int("base_size", position.base.size);
            l.int("epoch", u64::from(position.epoch));
            l.uuid("id", position.log.as_uuid());
            l.int("seq", position.seq);
        });
        let length = self.text.len() + log.len();
        let mut message = Vec::with_capacity(PAYLOAD_TYPE.len() + 32 + length);
        push_pae_head(&mut message, length);
        let payload_at = message.len();
        message.extend_from_slice(&self.text[..self.cut]);
        message.extend_from_slice(&log);
        message.extend_from_slice(&self.text[self.cut..]);
        Record {
            id: self.id,
            log: position.log,
            epoch: position.epoch,
            seq: position.seq,
            sig: signer.sign(&message),
            key_id: *signer.key_id(),
            payload: message[payload_at..].into(),
        }
    }
}

fn before_log(e: &Exchange, p: &mut Json<'_>) {
    p.object("cache", |c| {
        c.some_int("age_ms", e.cache.age_ms);
        c.text("decision", e.cache.decision);
        c.some_text("encoder", e.cache.encoder.as_deref());
        c.some_int("floor_e6", e.cache.floor_e6);
        c.some_text("ineligible", e.cache.ineligible);
        c.some_hex("key_fp", e.cache.key_fp.as_ref().map(<[u8; 16]>::as_slice));
        c.some_text("refused_by", e.cache.refused_by);
        c.some_int("score_e6", e.cache.score_e6);
        c.some_int("sources", e.cache.sources);
        c.some_text("tier", e.cache.tier);
        c.some_int("ttl_ms", e.cache.ttl_ms);
    });
    p.object("caller", |c| {
        c.text("auth", e.caller.auth);
        c.int("key_epoch", u64::from(e.caller.key_epoch));
        c.hex("tenant", e.caller.tenant.as_bytes());
        c.some_hex("wrapped_key", e.caller.wrapped_key.as_deref());
    });
    e.capture.inspect(|capture| write_capture(*capture, p));
}

fn write_capture(capture: CaptureFacts, p: &mut Json<'_>) {
    let (state, sha256) = match &capture {
        CaptureFacts::Sealed(sha256) => ("sealed", Some(sha256.as_slice())),
        CaptureFacts::TooLarge => ("too_large", None),
        CaptureFacts::Dropped => ("dropped", None),
    };
    p.object("capture", |c| {
        c.some_hex("sha256", sha256);
        c.text("state", state);
    });
}

fn after_log(e: &Exchange, p: &mut Json<'_>) {
    if let Some(provider) = &e.provider {
        p.object("provider", |o| write_provider(provider, o));
    }
    p.object("request", |r| {
        r.int("bytes", e.request.bytes);
        write_body("forwarded", e.request.forwarded.as_ref(), r);
        r.some_hex("fp", e.request.fp.as_ref().map(<[u8; 16]>::as_slice));
        r.text("op", e.request.op);
    });
    p.object("response", |r| {
        r.int("bytes", e.response.bytes);
        r.some_int("chunks", Some(e.response.chunks).filter(|_| e.http.stream));
        r.some_text("finish", e.response.finish.as_deref());
        r.some_hex("fp", e.response.fp.as_ref().map(<[u8; 16]>::as_slice));
        r.text("outcome", e.response.outcome.as_str());
        write_body("upstream", e.response.upstream.as_ref(), r);
    });
}

fn write_body(key: &str, body: Option<&draft::Forwarded>, o: &mut Json<'_>) {
    if let Some(body) = body {
        // Of an unchanged body all is said where it is told what stood on our other side.
        let changed = body.changed.then_some(body);
        o.object(key, |b| {
            b.some_int("bytes", changed.map(|body| body.bytes));
            b.bool("changed", body.changed);
            b.some_hex("cm", changed.map(|body| body.cm.as_slice()));
        });
    }
}

fn write_http(http: &draft::HttpFacts, p: &mut Json<'_>) {
    p.object("http", |h| {
        h.some_text("request_id", http.request_id.as_deref());
        h.text("route", http.route);
        h.int("status", u64::from(http.status));
        h.bool("stream", http.stream);
    });
}

fn write_limit(limit: &draft::LimitFacts, p: &mut Json<'_>) {
    p.object("limit", |l| {
        l.text("decision", limit.decision);
        l.some_int("retry_after_ms", limit.retry_after_ms);
    });
}

fn write_model(model: &draft::ModelFacts, p: &mut Json<'_>) {
    p.object("model", |m| {
        m.text("asked", &model.asked);
        m.some_text("routed", model.routed.as_deref());
        m.some_text("served", model.served.as_deref());
    });
}

fn write_parent(p: &mut Json<'_>, parent: &draft::Parent) {
    p.int("epoch", u64::from(parent.epoch));
    p.uuid("id", parent.id.as_uuid());
    p.int("key_epoch", u64::from(parent.key_epoch));
    p.hex("leaf_hash", &parent.leaf_hash);
    p.uuid("log_id", parent.log.as_uuid());
    p.text("rel", parent.rel.as_str());
    p.some_hex("response_fp", parent.response_fp.as_ref().map(<[u8; 16]>::as_slice));
    p.int("seq", parent.seq);
}

fn write_provider(provider: &draft::ProviderFacts, o: &mut Json<'_>) {
    o.objects("attempts", &provider.attempts, |a, attempt| {
        a.text("model", &attempt.model);
        a.int("ms", attempt.ms);
        a.text("provider", &attempt.provider);
        a.some_text("reason", attempt.reason);
        a.int("status", u64::from(attempt.status));
        a.some_int("wait_ms", attempt.wait_ms);
    });
    o.some_text("endpoint", Some(provider.endpoint.as_str()).filter(|endpoint| !endpoint.is_empty()));
    o.text("name", &provider.name);
    o.some_hex("request_id", provider.request_id.as_ref().map(<[u8; 16]>::as_slice));
}

fn write_time(time: &draft::Times, p: &mut Json<'_>) {
    p.object("time", |t| {
        t.int("completed_ms", time.completed_ms);
        t.some_int("first_byte_ms", time.first_byte_ms);
        t.object("mono_us", |m| {
            m.int("total", time.total_us);
            m.some_int("upstream_ttfb", time.upstream_ttfb_us);
        });
        t.int("received_ms", time.received_ms);
    });
}

fn write_usage(usage: Option<&draft::UsageFacts>, p: &mut Json<'_>) {
    if let Some(usage) = usage {
        p.object("usage", |u| {
            u.bool("billed", usage.billed);
            u.some_int("cached_in", Some(usage.cached_input).filter(|&n| n > 0));
            u.int("in", usage.input);
            u.int("out", usage.output);
            u.some_int("reasoning", Some(usage.reasoning).filter(|&n| n > 0));
        });
    }
}

/// Facts in ascending order of name; of two with one name the last counts.
fn write_control(facts: &[(&'static str, ControlValue)], c: &mut Json<'_>) {
    let ordered: std::collections::BTreeMap<_, _> = facts.iter().map(|(name, value)| (*name, value)).collect();
    for (name, value) in ordered {
        match value {
            ControlValue::Int(n) => c.int(name, *n),
            ControlValue::Bool(b) => c.bool(name, *b),
            ControlValue::Text(text) => c.text(name, text),
        }
    }
}

/// SHA-256 of the `control` object's own bytes, so that a control statement has a subject as in-toto demands.
fn control_digest(facts: &[(&'static str, ControlValue)]) -> [u8; 32] {
    let mut text = Vec::with_capacity(256);
    let mut json = Json::at_end(&mut text);
    json.start();
    write_control(facts, &mut json);
    json.end();
    Sha256::digest(&text).into()
}
