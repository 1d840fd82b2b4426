//! A sealed sample of the questions that were asked, for an operator who wants to know how the semantic cache does on its
//! own traffic. Off unless the operator asks for it.
//!
//! Drawn on the request path by random bits of the record's id, everything else behind it: a bounded queue, dropped and
//! counted when full, then a row sealed with the tenant's key in bounded files. Destroying a tenant's key makes its rows
//! unreadable. No answer is kept.

mod files;

pub use files::{Line, QuestionFiles};

use serde::{Deserialize, Serialize};
use signet_cache::{Decision, Entry, Keyring, Partition, Question, StoreFault, TenantKeys, epoch_of};
use signet_telemetry::Metrics;
use signet_types::{Clock, LineageId, TenantId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Questions that wait to be written; further ones are dropped and counted.
const QUEUE: usize = 256;
/// How often files are looked at for what has grown too old, where nothing is asked.
const SWEEP_EVERY: Duration = Duration::from_mins(1);
/// Binds a sealed row to what it is.
const KIND: &[u8] = b"signet/question/v1";

/// A question as it was asked and what became of it. The text says nothing of the rest of the chat: `partition` does, as
/// questions of one partition share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedQuestion {
    /// The record of its answer.
    pub id: LineageId,
    /// The model as it was asked for.
    pub model: String,
    /// First eight bytes of the partition, in hexadecimal digits.
    pub partition: String,
    /// The last user text.
    pub question: String,
    /// `exact`, `same-words` or `vector` where a candidate passed.
    pub tier: Option<String>,
    /// `hit`, `shadow`, `sampled`, `refused` or `none`.
    pub verdict: String,
    /// The gate that refused the best candidate.
    pub refused_by: Option<String>,
    /// Similarity of the best candidate, in millionths.
    pub similarity_e6: Option<u32>,
    /// The floor in force, in millionths.
    pub floor_e6: Option<u32>,
    /// The best candidate, passed or refused, if it was held in process.
    pub matched: Option<Matched>,
}

/// A stored question that was compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matched {
    /// Its text.
    pub question: String,
    /// The record of its answer.
    pub source: LineageId,
}

/// A question on its way to the files.
pub(crate) struct Drawn {
    pub(crate) id: LineageId,
    pub(crate) keys: Arc<TenantKeys>,
    pub(crate) model: String,
    pub(crate) partition: Partition,
    pub(crate) question: String,
    pub(crate) decision: Decision,
    pub(crate) is_exact: bool,
    pub(crate) matched: Option<Arc<Entry>>,
}

/// The drawing end, held by every lane.
pub struct QuestionDraw {
    share: f64,
    queue: mpsc::Sender<Drawn>,
    metrics: Arc<Metrics>,
}

/// The writing end. Runs on the services runtime.
pub struct QuestionWriter {
    queue: mpsc::Receiver<Drawn>,
    files: QuestionFiles,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// A draw of `share` of the questions and the writer of what is drawn.
pub fn question_log(
    share: f64,
    files: QuestionFiles,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> (QuestionDraw, QuestionWriter) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let draw = QuestionDraw { share, queue: sender, metrics: metrics.clone() };
    (draw, QuestionWriter { queue, files, clock, metrics })
}

impl QuestionDraw {
    /// Whether a request is drawn. These random bytes of its record's id are not those that draw labels: otherwise every
    /// question that is kept would be one whose hit was not served.
    pub(crate) fn takes(&self, id: LineageId) -> bool {
        let bytes = id.as_bytes();
        let drawn = u32::from_be_bytes([0, bytes[9], bytes[10], bytes[11]]);
        f64::from(drawn) / f64::from(1_u32 << 24) < self.share
    }

    /// Hands a question over; dropped and counted where the queue is full.
    pub(crate) fn send(&self, drawn: Drawn) {
        if self.queue.try_send(drawn).is_err() {
            self.metrics.dropped("questions", 1);
        }
    }
}

impl QuestionWriter {
    /// Writes until every [`QuestionDraw`] is gone or it is told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(QUEUE);
        loop {
            tokio::select! {
                taken = self.queue.recv_many(&mut batch, QUEUE) => if taken == 0 { return },
                () = tokio::time::sleep(SWEEP_EVERY) => {}
                () = stop.cancelled() => {
                    while let Ok(drawn) = self.queue.try_recv() {
                        batch.push(drawn);
                    }
                    return self.write(&mut batch);
                }
            }
            self.write(&mut batch);
        }
    }

    fn write(&self, batch: &mut Vec<Drawn>) {
        let now_ms = self.clock.now_ms();
        let eligible = batch.drain(..).filter(|drawn| Question::read(&drawn.question).is_ok());
        let lines: Vec<Line> = eligible.map(|drawn| sealed(&drawn, now_ms)).collect();
        match self.files.append(now_ms, &lines) {
            Ok(0) => {}
            Ok(left_out) => self.metrics.dropped("questions", left_out),
            Err(fault) => {
                tracing::warn!(%fault, questions = lines.len(), "questions were not kept");
                self.metrics.dropped("questions", lines.len() as u64);
            }
        }
    }
}

fn sealed(drawn: &Drawn, at_ms: u64) -> Line {
    let asked = AskedQuestion::of(drawn);
    let plain = serde_json::to_vec(&asked).expect("texts and numbers become JSON");
    let tenant = drawn.keys.tenant;
    Line { tenant, at_ms, sealed: drawn.keys.seal.seal_as(KIND, tenant, plain) }
}

impl AskedQuestion {
    fn of(drawn: &Drawn) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
        let e6 = |share: f32| (f64::from(share.clamp(0.0, 1.0)) * 1e6).round() as u32;
        let Drawn { decision, is_exact, .. } = drawn;
        let verdict = match (decision.tier, decision.refused_by) {
            _ if *is_exact => "hit",
            (Some(_), _) if decision.sampled => "sampled",
            (Some(_), _) if decision.shadowed => "shadow",
            (Some(_), _) => "hit",
            (None, Some(_)) => "refused",
            (None, None) => "none",
        };
        let head = drawn.partition.as_bytes().first_chunk().expect("32 bytes");
        let matched = drawn
            .matched
            .as_ref()
            .and_then(|entry| entry.question.clone().map(|question| Matched { question, source: entry.source.id }));
        Self {
            id: drawn.id,
            model: drawn.model.clone(),
            partition: format!("{:016x}", u64::from_be_bytes(*head)),
            question: drawn.question.clone(),
            tier: if *is_exact { Some("exact") } else { decision.tier }.map(str::to_owned),
            verdict: verdict.to_owned(),
            refused_by: decision.refused_by.map(str::to_owned),
            similarity_e6: decision.similarity.map(e6),
            floor_e6: decision.floor.map(e6),
            matched,
        }
    }

    /// Opens a line; none if its tenant's key was destroyed or the line is damaged.
    ///
    /// # Errors
    /// The store of the keys was not reached, or they were wrapped by another secret.
    pub async fn open(line: &Line, keys: &Keyring) -> Result<Option<Self>, StoreFault> {
        let Some(epoch) = epoch_of(&line.sealed) else { return Ok(None) };
        let Some(keys) = opening(keys, line.tenant, epoch).await? else { return Ok(None) };
        let plain = keys.seal.open_as(KIND, line.tenant, &line.sealed).ok();
        Ok(plain.and_then(|plain| serde_json::from_slice(&plain).ok()))
    }
}

async fn opening(keys: &Keyring, tenant: TenantId, epoch: u32) -> Result<Option<Arc<TenantKeys>>, StoreFault> {
    match keys.at_epoch(tenant, epoch).await {
        Some(held) => Ok(Some(held)),
        None => keys.fetch(tenant, epoch).await,
    }
}

#[cfg(test)]
mod tests;
