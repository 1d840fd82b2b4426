//! A stored answer, served.

use crate::exchange::{Ending, Exchange};
use crate::fault::Fault;
use crate::head::Head;
use crate::in_band::InBand;
use crate::landing;
use crate::pipeline::Pipeline;
use crate::reply::{self, Hit, Reply, ReplyBody};
use crate::serve::Plan;
use bytes::Bytes;
use signet_cache::{Ask, Decision, Entry};
use signet_dialect::Kept;
use signet_lineage::Relation;
use signet_types::EntryId;

/// Why a stored answer may serve.
#[derive(Clone, Copy)]
pub(crate) enum Basis<'a> {
    /// The very same request was answered.
    Exact,
    /// A question was that is the same to every gate.
    Semantic(&'a Decision),
    /// The very same request was, longer ago than its answer lives; but no provider answers.
    Stale,
}

impl Basis<'_> {
    /// `X-Cache`, the decision in the record, and what `Cache-Status` tells of it.
    pub(crate) fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Exact => ("EXACT", "hit_exact", "exact"),
            Self::Semantic(decision) => ("SEMANTIC", "hit_semantic", decision.tier.unwrap_or("vector")),
            Self::Stale => ("STALE", "stale", "stale"),
        }
    }

    fn similarity(self) -> f32 {
        if let Self::Semantic(decision) = self { decision.similarity.unwrap_or_default() } else { 1.0 }
    }
}

impl Pipeline {
    /// In place of an answer that no provider gave: the last one to the very same request, where the operator and the
    /// caller allow that and it is not too old (RFC 5861 §4). The attempts stay in its record.
    pub(crate) async fn stale(
        &self,
        exchange: &mut Exchange,
        head: &Head,
        plan: &Plan,
    ) -> Option<Result<Reply, Fault>> {
        if let Some(asked) = self.batch(exchange, head, plan) {
            return self.stale_batch(exchange, head, plan, &asked).await;
        }
        let ask = Ask {
            partition: &plan.partition,
            key: &plan.key,
            question: Err("stale"),
            read: plan.controls.read_policy(plan.rules),
            now_ms: self.parts.clock.now_ms(),
        };
        let entry = self.parts.cache.stale(&ask, plan.controls.stale_if_error).await?;
        self.replay(exchange, head, &entry, Basis::Stale, plan)
    }

    /// Serves a stored answer: record first, then all bytes at once. None where it cannot be said in the caller's API, though
    /// it could in that of whoever it was kept for: then it is none for this caller.
    pub(crate) fn replay(
        &self,
        exchange: &mut Exchange,
        head: &Head,
        entry: &Entry,
        basis: Basis<'_>,
        plan: &Plan,
    ) -> Option<Result<Reply, Fault>> {
        let Ok(bytes) = plan.said_again(&entry.body, plan.request.api(), self.parts.clock.now_ms()) else {
            exchange.cache.tier = None;
            return None;
        };
        Some(self.replay_said(exchange, head, (entry, basis), bytes, plan.controls.in_band))
    }

    fn replay_said(
        &self,
        exchange: &mut Exchange,
        head: &Head,
        (entry, basis): (&Entry, Basis<'_>),
        bytes: Bytes,
        in_band: InBand,
    ) -> Result<Reply, Fault> {
        let now_ms = self.parts.clock.now_ms();
        let detail;
        (exchange.x_cache, exchange.cache.decision, detail) = basis.names();
        let hit = Hit {
            detail,
            similarity: basis.similarity(),
            source: entry.source.id,
            age_ms: now_ms.saturating_sub(entry.created_ms),
            ttl_ms: entry.expires_ms.saturating_sub(now_ms),
            past_ms: now_ms.saturating_sub(entry.expires_ms),
        };
        exchange.cache.tier = Some(hit.detail);
        (exchange.cache.age_ms, exchange.cache.ttl_ms) = (Some(hit.age_ms), Some(hit.ttl_ms));
        exchange.parents.push(landing::parent(&entry.source, Relation::CacheSource));
        let mut headers = http::HeaderMap::with_capacity(24);
        reply::common(&mut headers, exchange, head.request_id.as_str(), exchange.stream);
        reply::hit(&mut headers, &hit);
        let (stream, usage) = (exchange.stream, entry.body.usage());
        self.count_tokens(usage, false);
        let attested = exchange.close(&Ending {
            answer_digest: entry.body.digest(),
            finish: entry.body.finish().map(str::to_owned),
            usage: usage.map(|usage| landing::usage_facts(usage, false)),
            ..Ending::whole(200, &bytes)
        })?;
        reply::receipt(&mut headers, attested.as_ref());
        if stream {
            return Ok(reply::replayed(headers, (bytes, in_band), head, attested.as_ref()));
        }
        reply::fixed(&mut headers, http::header::CONTENT_TYPE, "application/json");
        Ok(Reply { status: 200, headers, body: ReplyBody::Whole(bytes) })
    }
}

/// The answer as this caller asked for it, under an id and a time of its own.
pub(crate) fn rendered(stream: bool, answer: &Kept, now_ms: u64, include_usage: bool) -> Bytes {
    let unique = EntryId::generate(now_ms).as_uuid().simple().to_string();
    if stream { answer.to_sse(unique, now_ms / 1000, include_usage) } else { answer.to_json(unique, now_ms / 1000) }
}
