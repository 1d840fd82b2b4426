//! What reached the mock, and the script of what to do next.
//!
//! Holds a bounded number of the newest requests; counts are kept of all of them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::behaviour::Behaviour;
use crate::io::Fate;

/// Longer bodies are kept up to here; their digest is of the whole.
const KEPT_BODY_BYTES: usize = 1 << 20;

/// One request that reached the mock.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Position among all requests since the start, from 1.
    pub seq: u64,
    /// Which connection carried it, from 1.
    pub connection: u64,
    /// Milliseconds since the mock started.
    pub at_ms: u64,
    /// Request method.
    pub method: http::Method,
    /// Path without query.
    pub path: String,
    /// What follows the `?`; empty if nothing does.
    pub query: String,
    /// As received.
    pub headers: HeaderMap,
    /// The first megabyte of the body.
    pub body: Bytes,
    /// The answer was given out completely.
    pub finished: bool,
    /// The client left before it was.
    pub cancelled: bool,
    body_len: usize,
    digest: Option<[u8; 32]>,
}

impl Seen {
    pub(crate) fn new(connection: u64, head: http::request::Parts, body: &Bytes) -> Self {
        // A copy of exact size: a slice of hyper's read buffer would keep the whole buffer alive.
        let kept = Bytes::copy_from_slice(&body[..body.len().min(KEPT_BODY_BYTES)]);
        let digest = (body.len() > KEPT_BODY_BYTES).then(|| Sha256::digest(body).into());
        Self {
            seq: 0,
            connection,
            at_ms: 0,
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers,
            body: kept,
            finished: false,
            cancelled: false,
            body_len: body.len(),
            digest,
        }
    }

    /// Hex SHA-256 of the whole body.
    pub fn body_sha256(&self) -> String {
        let digest = self.digest.unwrap_or_else(|| Sha256::digest(&self.body).into());
        digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
            hex
        })
    }

    /// A header's value as text; `None` if absent or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        let headers: Vec<_> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
            .collect();
        serde_json::json!({
            "seq": self.seq, "connection": self.connection, "at_ms": self.at_ms, "method": self.method.as_str(),
            "path": self.path, "query": self.query, "headers": headers, "body": String::from_utf8_lossy(&self.body),
            "body_bytes": self.body_len, "body_sha256": self.body_sha256(), "finished": self.finished,
            "cancelled": self.cancelled,
        })
    }
}

/// Totals since the start or the last reset.
#[derive(Clone, Debug, Default, Serialize, PartialEq, Eq)]
pub struct Counts {
    /// Requests whose body was read to its end.
    pub requests: u64,
    /// Answers given out completely.
    pub finished: u64,
    /// Requests whose client left before the end of the answer.
    pub cancelled: u64,
    /// Accepted connections.
    pub connections: u64,
    /// Requests by known path; others are under `other`.
    pub by_path: BTreeMap<String, u64>,
}

pub(crate) struct Journal {
    started: Instant,
    keep: usize,
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Inner {
    seen: VecDeque<Seen>,
    last_seq: u64,
    last_connection: u64,
    counts: Counts,
    script: VecDeque<Behaviour>,
    /// How often a path and prompt came with headers that say how often they apply.
    asked: HashMap<(String, String), u64>,
}

impl Journal {
    pub(crate) fn new(keep: usize) -> Self {
        Self { started: Instant::now(), keep, inner: Mutex::default(), changed: watch::Sender::new(()) }
    }

    pub(crate) fn connected(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.counts.connections += 1;
        inner.last_connection += 1;
        inner.last_connection
    }

    /// Enters a request and takes what the script has for it.
    pub(crate) fn enter(&self, mut seen: Seen, prompt: &str) -> (u64, Option<Behaviour>) {
        seen.at_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut inner = self.inner.lock();
        inner.last_seq += 1;
        seen.seq = inner.last_seq;
        inner.counts.requests += 1;
        count_path(&mut inner.counts.by_path, &seen.path);
        let scripted = take_matching(&mut inner.script, &seen.path, prompt);
        while inner.seen.len() >= self.keep.max(1) {
            inner.seen.pop_front();
        }
        if self.keep > 0 {
            inner.seen.push_back(seen);
        }
        let seq = inner.last_seq;
        drop(inner);
        self.changed.send_replace(());
        (seq, scripted)
    }

    fn close(&self, seq: u64, end: Ended) {
        let mut inner = self.inner.lock();
        let found = inner.seen.front().map(|first| first.seq).and_then(|first| seq.checked_sub(first));
        if let Some(seen) = found.and_then(|index| inner.seen.get_mut(usize::try_from(index).ok()?)) {
            seen.finished = end == Ended::Finished;
            seen.cancelled = end == Ended::Cancelled;
        }
        match end {
            Ended::Finished => inner.counts.finished += 1,
            Ended::Cancelled => inner.counts.cancelled += 1,
            Ended::ByUs => {}
        }
        drop(inner);
        self.changed.send_replace(());
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inner.lock().seen.iter().cloned().collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.inner.lock().counts.clone()
    }

    pub(crate) fn script(&self, more: impl IntoIterator<Item = Behaviour>) {
        self.inner.lock().script.extend(more);
    }

    /// Whether headers that apply `times` times apply to one more request with this path and prompt.
    pub(crate) fn applies(&self, path: &str, prompt: &str, times: u64) -> bool {
        let mut inner = self.inner.lock();
        let asked = inner.asked.entry((path.to_owned(), crate::marker(prompt))).or_default();
        *asked += 1;
        *asked <= times
    }

    /// Forgets requests, counts and script; numbers go on.
    pub(crate) fn reset(&self) {
        let mut inner = self.inner.lock();
        inner.seen.clear();
        inner.script.clear();
        inner.asked.clear();
        inner.counts = Counts::default();
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

fn count_path(by_path: &mut BTreeMap<String, u64>, path: &str) {
    let path = if crate::route::of_path(path).is_some() { path } else { "other" };
    match by_path.get_mut(path) {
        Some(count) => *count += 1,
        None => _ = by_path.insert(path.to_owned(), 1),
    }
}

fn take_matching(script: &mut VecDeque<Behaviour>, path: &str, prompt: &str) -> Option<Behaviour> {
    let fits = |b: &Behaviour| {
        b.path.as_deref().is_none_or(|p| p == path) && b.when.as_deref().is_none_or(|part| prompt.contains(part))
    };
    let at = script.iter().position(fits)?;
    let left = script[at].times.unwrap_or(1);
    if left > 1 {
        script[at].times = Some(left - 1);
        return Some(script[at].clone());
    }
    script.remove(at)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Finished,
    Cancelled,
    ByUs,
}

/// A request being answered. It rides in the answer's body; dropped early, the client has left.
pub(crate) struct Ticket {
    journal: Arc<Journal>,
    fate: Arc<Fate>,
    seq: u64,
    open: bool,
}

impl Ticket {
    pub(crate) fn new(journal: Arc<Journal>, fate: Arc<Fate>, seq: u64) -> Self {
        fate.request_begins();
        Self { journal, fate, seq, open: true }
    }

    pub(crate) fn fate(&self) -> &Fate {
        &self.fate
    }

    /// Everything was given out.
    pub(crate) fn finish(&mut self) {
        self.end(Ended::Finished);
    }

    /// The mock itself breaks the answer off.
    pub(crate) fn abandon(&mut self) {
        self.end(Ended::ByUs);
    }

    fn end(&mut self, end: Ended) {
        if std::mem::take(&mut self.open) {
            self.fate.request_ends();
            self.journal.close(self.seq, end);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(Ended::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_entry_waits_for_its_request_and_serves_as_often_as_it_says() {
        let entry = |status, when: Option<&str>, times| Behaviour {
            status: Some(status),
            when: when.map(str::to_owned),
            times,
            ..Behaviour::default()
        };
        let mut script = VecDeque::from([entry(500, Some("tides"), Some(2)), entry(429, None, None)]);
        let mut ask = |prompt| take_matching(&mut script, "/v1/chat/completions", prompt).and_then(|b| b.status);
        assert_eq!(ask("bread"), Some(429));
        assert_eq!(ask("bread"), None);
        assert_eq!([ask("why tides"), ask("tides"), ask("tides")], [Some(500), Some(500), None]);
    }
}
