//! Taking answers back: by a caller's feedback or an operator's order, on every replica within a second.

use crate::exchange::{Exchange, operations};
use crate::fault::Fault;
use crate::head::{BodyFault, Head};
use crate::pipeline::Pipeline;
use crate::reply::Reply;
use crate::sample::Complaint;
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use signet_cache::{Cache, Keyring, Notice, NoticeStore, StoreFault, Tier, Withdrawal};
use signet_lineage::{ControlValue, Draft, Kind, Record};
use signet_types::{Clock, LineageId, TenantId};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How far another replica's notice may be behind: well within the promised second.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);

/// What a caller says of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Wrong,
    Right,
}

impl Verdict {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Right => "right",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Feedback {
    cache: Verdict,
}

#[derive(Serialize)]
struct Taken {
    id: String,
    cache: Verdict,
    source: String,
    withdrawn: bool,
}

/// The part of a statement that says what the answer stands on.
#[derive(Deserialize)]
struct Statement {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    #[serde(default)]
    parents: Vec<ParentId>,
    provider: Option<IgnoredAny>,
}

/// What a hit was decided by.
#[derive(Deserialize)]
struct Decided {
    predicate: Decision,
}

#[derive(Deserialize)]
struct Decision {
    model: Model,
    cache: CacheDecision,
}

#[derive(Deserialize)]
struct Model {
    asked: String,
}

#[derive(Deserialize)]
struct CacheDecision {
    decision: String,
    score_e6: Option<u32>,
    encoder: Option<String>,
    tier: Option<String>,
}

#[derive(Deserialize)]
struct ParentId {
    id: LineageId,
}

impl Pipeline {
    /// `POST /v1/lineage/{id}/feedback`: a caller's verdict on one of its own answers. A wrong one is served to nobody any more.
    pub async fn feedback(
        self: &Arc<Self>,
        head: &Head,
        id: &str,
        body: impl Future<Output = Result<Bytes, BodyFault>> + Send,
    ) -> Reply {
        let mut exchange = self.begin(operations::FEEDBACK, head);
        let body = self.take_verdict(&mut exchange, head, id, body).await;
        self.answer_json(exchange, head, body)
    }

    async fn take_verdict(
        &self,
        exchange: &mut Exchange,
        head: &Head,
        id: &str,
        body: impl Future<Output = Result<Bytes, BodyFault>> + Send,
    ) -> Result<Bytes, Fault> {
        self.admit(exchange, head)?;
        self.identify(exchange, head).await?;
        let body = self.read(exchange, body).await?;
        let Feedback { cache: verdict } = serde_json::from_slice(&body).map_err(|error| {
            let message = format!("Feedback is {{\"cache\": \"wrong\"}} or {{\"cache\": \"right\"}}: {error}.");
            Fault::invalid(message, Some("cache"))
        })?;
        let tenant = exchange.keys().tenant;
        let id: LineageId = id.parse().map_err(|_| Fault::UnknownRecord)?;
        let record =
            self.find(id).await?.filter(|record| Self::belongs_to(record, tenant)).ok_or(Fault::UnknownRecord)?;
        let (source, others) = sources_of(&record);
        if verdict == Verdict::Wrong {
            for source in std::iter::once(source).chain(others) {
                self.withdraw(Withdrawal::of_source(source, self.parts.clock.now_ms())).await?;
            }
        }
        self.attest(
            Kind::Feedback,
            vec![
                ("of", ControlValue::Text(id.to_string())),
                ("source", ControlValue::Text(source.to_string())),
                ("tenant", ControlValue::Text(tenant.to_string())),
                ("verdict", ControlValue::Text(verdict.as_str().to_owned())),
            ],
        )?;
        if verdict == Verdict::Wrong {
            self.note_complaint(&record);
        }
        self.parts.metrics.feedback(verdict.as_str());
        let withdrawn = verdict == Verdict::Wrong;
        let taken = Taken { id: id.to_string(), cache: verdict, source: source.to_string(), withdrawn };
        serde_json::to_vec(&taken).map(Bytes::from).map_err(|error| Fault::Internal(error.into()))
    }

    /// A complaint of a semantic hit tells against its route.
    fn note_complaint(&self, record: &Record) {
        let Some(sampler) = &self.parts.sampler else { return };
        let Ok(Decided { predicate }) = serde_json::from_slice(&record.payload) else { return };
        let CacheDecision { decision, score_e6, encoder, tier } = predicate.cache;
        if let ("hit_semantic", Some(score_e6), Some(encoder)) = (decision.as_str(), score_e6, encoder) {
            let tier = tier.as_deref().and_then(Tier::named);
            let hit = Complaint { model: &predicate.model.asked, encoder: &encoder, score_e6, tier };
            sampler.complain(record.id, &hit, self.parts.clock.now_ms());
        }
    }

    /// An operator's order: what labels said of `model` so far counts no more, and its alarm is over.
    ///
    /// # Errors
    /// [`Fault::NotReady`] where semantic answers are off or the store is away; nothing has changed then.
    pub async fn reset_trust(&self, model: &str) -> Result<(), Fault> {
        let sampler = self.parts.sampler.as_ref().ok_or(Fault::NotReady("semantic answers are off"))?;
        let of = self.parts.recorder.stamp().id;
        sampler.reset(of, model, self.parts.clock.now_ms()).await.map_err(|fault| {
            tracing::error!(%fault, "the order was not stored");
            Fault::NotReady("the store is away")
        })?;
        self.attest(Kind::Config, vec![("trust_reset", ControlValue::Text(model.to_owned()))])
    }

    /// An operator's order to take answers back. A `source` may name a hit: what it was served from is meant, and of a batch all
    /// of that.
    ///
    /// # Errors
    /// [`Fault::NotReady`] where the other replicas could not be told; this one serves the answers no more all the same.
    pub async fn purge(&self, mut rule: Withdrawal) -> Result<Withdrawal, Fault> {
        if let Some(named) = rule.source {
            let record = self.find(named).await?;
            let (source, others) = record.map_or((named, Vec::new()), |record| sources_of(&record));
            for other in others {
                self.purge_by(&Withdrawal { source: Some(other), ..rule.clone() }).await?;
            }
            rule.source = Some(source);
        }
        self.purge_by(&rule).await?;
        Ok(rule)
    }

    async fn purge_by(&self, rule: &Withdrawal) -> Result<(), Fault> {
        self.withdraw(rule.clone()).await?;
        let text = |name, value: &Option<String>| value.clone().map(|value| (name, ControlValue::Text(value)));
        let facts = [
            text("source", &rule.source.map(|id| id.to_string())),
            text("tenant", &rule.tenant.map(|tenant| tenant.to_string())),
            text("model", &rule.model),
            text("namespace", &rule.namespace),
            Some(("stored_by_ms", ControlValue::Int(rule.stored_by_ms))),
        ];
        self.attest(Kind::Purge, facts.into_iter().flatten().collect())
    }

    /// Destroys a tenant's keys: what was sealed for it, wherever a copy lies, can be read by nobody any more. Bodies that were
    /// sealed for the break-glass key are removed. How many keys there were.
    ///
    /// # Errors
    /// [`Fault::NotReady`] where the keys could not be destroyed, or the other replicas could not be told.
    pub async fn erase(&self, tenant: TenantId) -> Result<u64, Fault> {
        let now_ms = self.parts.clock.now_ms();
        let erased = self.parts.keys.erase(tenant).await.map_err(|fault| {
            tracing::error!(%tenant, %fault, "a tenant's keys were not destroyed");
            Fault::NotReady("the store is away; nothing was erased")
        })?;
        self.parts.cache.drop_tenant(tenant);
        let rule = Withdrawal::of_tenant(tenant, now_ms);
        let until_ms = self.outlives(&rule);
        self.parts.cache.withdrawals().add(rule);
        self.tell(&Notice::Erase { tenant, stored_by_ms: now_ms }, until_ms).await?;
        // Signed times may be ahead of the clock, and no answer's is behind this one.
        let signed_ms = self.parts.recorder.stamp().at_ms;
        let bodies = self.parts.captures.erase_captures(*tenant.as_bytes(), signed_ms).await;
        bodies.map_err(|fault| {
            tracing::error!(%tenant, %fault, "a tenant's sealed bodies were not erased");
            Fault::NotReady("the store is away; sealed bodies are still there")
        })?;
        let facts = vec![("keys", ControlValue::Int(erased)), ("tenant", ControlValue::Text(tenant.to_string()))];
        self.attest(Kind::Erasure, facts)?;
        Ok(erased)
    }

    /// Switches semantic answers off or on for the whole fleet.
    ///
    /// # Errors
    /// As [`Pipeline::purge`].
    pub async fn switch_semantic(&self, off: bool) -> Result<(), Fault> {
        self.parts.cache.withdrawals().switch_semantic(off);
        self.tell(&Notice::Semantic { off }, u64::MAX).await?;
        self.attest(Kind::Config, vec![("semantic_off", ControlValue::Bool(off))])
    }

    async fn withdraw(&self, rule: Withdrawal) -> Result<(), Fault> {
        let until_ms = self.outlives(&rule);
        self.parts.cache.withdrawals().add(rule.clone());
        self.tell(&Notice::Withdraw(rule), until_ms).await
    }

    /// From when on no entry that the rule takes can be left.
    fn outlives(&self, rule: &Withdrawal) -> u64 {
        let longest = u64::try_from(self.parts.cache.config().kept_max().as_millis()).unwrap_or(u64::MAX);
        rule.stored_by_ms.saturating_add(longest)
    }

    async fn tell(&self, notice: &Notice, until_ms: u64) -> Result<(), Fault> {
        let posted = self.parts.notices.post(notice, self.parts.clock.now_ms(), until_ms.min(i64::MAX.unsigned_abs()));
        posted.await.map_err(|fault| {
            tracing::error!(%fault, "the other replicas were not told");
            Fault::NotReady("the store is away; only this replica knows")
        })
    }

    fn attest(&self, kind: Kind, facts: Vec<(&'static str, ControlValue)>) -> Result<(), Fault> {
        let recorder = &self.parts.recorder;
        let written = recorder.write(&Draft::control(kind, &recorder.stamp(), facts));
        if written { Ok(()) } else { Err(Fault::LineageUnavailable) }
    }
}

/// The records that filled the entries which an answer stands on, one at least: those it was served from, of a batch perhaps
/// several, and itself if a provider had a part in it.
fn sources_of(record: &Record) -> (LineageId, Vec<LineageId>) {
    let Ok(Statement { predicate }) = serde_json::from_slice(&record.payload) else { return (record.id, Vec::new()) };
    let mut parents = predicate.parents.into_iter().map(|parent| parent.id);
    match parents.next() {
        None => (record.id, Vec::new()),
        Some(first) => (first, parents.chain(predicate.provider.map(|_| record.id)).collect()),
    }
}

/// Follows the notices of all replicas.
pub struct Follower {
    store: Arc<dyn NoticeStore>,
    cache: Arc<Cache>,
    keys: Arc<Keyring>,
    clock: Arc<dyn Clock>,
    cursor: u64,
}

impl Follower {
    /// A follower from the first notice on. Until it has read once, nothing that was stored before now is served: it may have
    /// been taken back.
    pub fn new(store: Arc<dyn NoticeStore>, cache: Arc<Cache>, keys: Arc<Keyring>, clock: Arc<dyn Clock>) -> Self {
        cache.withdrawals().distrust_before(clock.now_ms());
        Self { store, cache, keys, clock, cursor: 0 }
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// The store is away, or a notice cannot be understood.
    pub async fn catch_up(&mut self) -> Result<(), StoreFault> {
        let (notices, cursor) = self.store.notices(self.cursor, self.clock.now_ms()).await?;
        let withdrawals = self.cache.withdrawals();
        for notice in notices {
            match notice {
                Notice::Withdraw(rule) => drop(withdrawals.add(rule)),
                Notice::Erase { tenant, stored_by_ms } => {
                    if withdrawals.add(Withdrawal::of_tenant(tenant, stored_by_ms)) {
                        self.keys.forget(tenant);
                        self.cache.drop_tenant(tenant);
                    }
                }
                Notice::Semantic { off } => withdrawals.switch_semantic(off),
            }
        }
        self.cursor = cursor;
        withdrawals.trust();
        let longest = u64::try_from(self.cache.config().kept_max().as_millis()).unwrap_or(u64::MAX);
        withdrawals.forget_before(self.clock.now_ms().saturating_sub(longest));
        Ok(())
    }

    /// Follows until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut away = false;
        loop {
            match self.catch_up().await {
                Ok(()) => away = false,
                Err(fault) if !away => {
                    away = true;
                    tracing::warn!(%fault, "notices of other replicas cannot be read");
                }
                Err(_) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(FOLLOW_EVERY) => {}
            }
        }
    }
}
