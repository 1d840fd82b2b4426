//! Embeddings of several inputs. Each input has an entry of its own, the one that a request for it alone has, so the provider
//! is asked for those that no cache knows, and for equal ones once.
//!
//! Only vectors of one model are joined: if the model that answers is not the one of the stored vectors, all are asked for.
//! What cannot be taken apart goes the way of every other request, with the caller's own body. Where the provider fails, stored
//! vectors past their lifetime stand for the whole batch or not at all.

use crate::control::Fetch;
use crate::exchange::{Ending, Exchange};
use crate::fault::Fault;
use crate::fill::Filling;
use crate::flight::Seat;
use crate::head::Head;
use crate::landing::{self, Answered, Landed, Whole};
use crate::pipeline::Pipeline;
use crate::replay::Basis;
use crate::reply::{self, Hit, Reply, ReplyBody, names};
use crate::serve::{Arrival, Plan, too_late};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use sha2::{Digest as _, Sha256};
use signet_cache::{Ask, CacheKey, Entry, Miss, Partition, Source};
use signet_dialect::{Kept, Request, Usage};
use signet_lineage::{CacheFacts, Parent, Relation};
use signet_openai::{Batch, Embeddings, EmbeddingsRequest};
use signet_provider::Auth;
use signet_telemetry::Step;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most inputs that are looked for one by one; common providers take no more.
const INPUTS_MAX: usize = 2048;
/// Most bytes that are read to tell where each input is kept. What stands around the inputs is read with each of them, so that
/// its size times their number is what a caller may choose.
const READ_MAX: usize = 16 << 20;
/// Most entries that a record names as its parents.
const PARENTS_MAX: usize = 64;
/// What an answer costs that cost nothing.
const NOTHING: Usage = Usage { input: 0, output: 0, cached_input: 0, reasoning: 0 };

/// A batch, and where each of its inputs is kept.
pub(crate) struct Asked {
    batch: Batch,
    /// Of each first input of its kind; none for one that comes again.
    places: Vec<Option<(Partition, CacheKey)>>,
}

/// A stored vector.
struct Known {
    entry: Arc<Entry>,
    answer: Embeddings,
}

/// What is stored of a batch and what is not.
struct Sorted {
    /// By input.
    known: Vec<Option<Known>>,
    /// The inputs to ask for.
    wanted: Vec<usize>,
}

impl Sorted {
    fn of(batch: &Batch, mut known: Vec<Option<Known>>) -> Self {
        let mut models = known.iter().flatten().map(|known| known.answer.model());
        let first = models.next();
        if models.any(|model| Some(model) != first) {
            known.fill_with(|| None);
        }
        let wanted = (0..batch.len()).filter(|i| batch.first(*i) == *i && known[*i].is_none()).collect();
        Self { known, wanted }
    }

    fn hits(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().flatten()
    }

    /// The vectors of all inputs in their order, out of the stored ones and of `fresh`, the answer to the wanted ones.
    /// None where that is not of the same model, or says more than vectors.
    fn vectors<'a>(&'a self, batch: &Batch, fresh: Option<&'a Embeddings>) -> Option<Vec<&'a [u8]>> {
        if let (Some(fresh), Some(known)) = (fresh, self.hits().next())
            && fresh.model() != known.answer.model()
        {
            return None;
        }
        let vector = |i: usize| match &self.known[batch.first(i)] {
            Some(known) => known.answer.vector(0),
            None => fresh?.vector(self.wanted.binary_search(&batch.first(i)).ok()?),
        };
        (0..batch.len()).map(vector).collect()
    }
}

impl Pipeline {
    /// The request by its inputs, if it has several and the caches may have a part in it.
    pub(crate) fn batch(&self, exchange: &Exchange, head: &Head, plan: &Plan) -> Option<Asked> {
        let Request::Embeddings(request) = &*plan.request else { return None };
        if !(2..=INPUTS_MAX).contains(&request.inputs())
            || plan.controls.fetch == Fetch::Bypass
            || exchange.keys().unstored.is_some()
        {
            return None;
        }
        let batch = Some(request.batch()).filter(|batch| batch.reading_each() <= READ_MAX)?;
        let whose = (exchange.keys().tenant, plan.controls.namespace.as_str());
        let place = |i: usize| {
            let alone = EmbeddingsRequest::parse(&batch.alone(i)).ok().filter(|_| batch.first(i) == i)?;
            Some(self.placed(head, whose, &plan.route, &Request::Embeddings(alone)))
        };
        let places = (0..batch.len()).map(place).collect();
        Some(Asked { batch, places })
    }

    /// Answers a batch: out of the caches, from the provider, or both.
    pub(crate) async fn answer_batch(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        (head, auth): (&Head, Auth),
        plan: Plan,
        asked: Asked,
    ) -> Result<Reply, Fault> {
        let sorted = self.sort(exchange, &plan, &asked).await;
        if sorted.wanted.is_empty()
            && let Some(vectors) = sorted.vectors(&asked.batch, None)
        {
            return self.all_known(exchange, head, (&sorted, &vectors), Basis::Exact);
        }
        if plan.controls.only_if_cached {
            return Err(Fault::NotCached);
        }
        let filling = self.filling(exchange, &plan, Miss::default());
        let received = plan.asked.body().clone();
        let part = self.part(exchange, head, &plan, &asked.batch.asking(&sorted.wanted, None))?;
        let call = Arc::new(self.ready(exchange, (head, auth.clone()), &part, &received)?);
        let (started, shares) = (Instant::now(), plan.controls.fetch == Fetch::IfNeeded);
        let seat = self.board(exchange, &part, &call, shares)?;
        let Ok(arrival) = tokio::time::timeout_at(self.latest(&plan), self.arrival(exchange, &seat)).await else {
            let fault = too_late(exchange, &plan, seat.leads.then_some(&*call), started);
            drop(seat);
            return self.stale_batch(exchange, head, &plan, &asked).await.unwrap_or(Err(fault));
        };
        let Arrival::Landed(landed) = arrival else { return Err(Fault::NotCached) };
        exchange.timing.upstream = landed.total;
        self.parts.metrics.step(Step::Upstream, started.elapsed());
        let course = Course { head, asked: &asked, sorted: &sorted, filling };
        if let Some(reply) = self.join(exchange, &plan, &course, (&seat, &landed)) {
            return reply;
        }
        if seat.leads && says_nothing_of_inputs(&landed) {
            return self.land(exchange, (head, &plan), None, &seat, &landed).await;
        }
        // It cannot be joined, or was somebody else's failure: all of it is asked for, as the caller did.
        drop(seat);
        let call = self.ready(exchange, (head, auth), &plan, &received)?;
        Box::pin(self.fetch(exchange, head, &plan, call, None)).await
    }

    /// The plan of the request for the wanted inputs. Its key is that of its flight: whoever lacks the same inputs waits for
    /// the same call.
    fn part(&self, exchange: &Exchange, head: &Head, plan: &Plan, body: &Bytes) -> Result<Plan, Fault> {
        let request = Arc::new(Request::parse(plan.request.api(), body)?);
        let whose = (exchange.keys().tenant, plan.controls.namespace.as_str());
        let (partition, key) = self.placed(head, whose, &plan.route, &request);
        let (route, controls) = (plan.route.clone(), plan.controls.clone());
        let (rules, deadline) = (plan.rules, plan.deadline);
        Ok(Plan { asked: request.clone(), request, route, controls, rules, partition, key, deadline })
    }

    /// Asks the caches for each input.
    async fn sort(&self, exchange: &mut Exchange, plan: &Plan, asked: &Asked) -> Sorted {
        let started = Instant::now();
        let refreshes = plan.controls.fetch == Fetch::Refresh;
        exchange.x_cache = if refreshes { "REFRESH" } else { "MISS" };
        exchange.cache = CacheFacts {
            decision: if refreshes { "refresh" } else { "miss" },
            key_fp: Some(exchange.fingerprint("key", plan.key.as_bytes())),
            ..CacheFacts::default()
        };
        let known = self.known(plan, asked, Duration::ZERO).await;
        exchange.timing.cache = started.elapsed();
        self.parts.metrics.step(Step::Cache, started.elapsed());
        Sorted::of(&asked.batch, known)
    }

    /// What is stored of each input, at most `stale` past its lifetime.
    async fn known(&self, plan: &Plan, asked: &Asked, stale: Duration) -> Vec<Option<Known>> {
        let (now_ms, read) = (self.parts.clock.now_ms(), plan.controls.read_policy(plan.rules));
        let placed = || asked.places.iter().enumerate().filter_map(|(i, place)| Some((i, place.as_ref()?)));
        let asks: Vec<_> = placed()
            .map(|(_, (partition, key))| Ask { partition, key, question: Err("operation"), read, now_ms })
            .collect();
        let found = if stale.is_zero() {
            self.parts.cache.exact_many(&asks).await
        } else {
            self.parts.cache.stale_many(&asks, stale).await
        };
        let mut known: Vec<Option<Known>> = asked.places.iter().map(|_| None).collect();
        for ((i, _), entry) in placed().zip(found) {
            known[i] = entry.and_then(readable);
        }
        known
    }

    /// In place of an answer that no provider gave: the stored vectors, if there is one for each input and all are of one
    /// model.
    pub(crate) async fn stale_batch(
        &self,
        exchange: &mut Exchange,
        head: &Head,
        plan: &Plan,
        asked: &Asked,
    ) -> Option<Result<Reply, Fault>> {
        let window = plan.controls.stale_if_error;
        if window.is_zero() {
            return None;
        }
        let sorted = Sorted::of(&asked.batch, self.known(plan, asked, window).await);
        let vectors = sorted.vectors(&asked.batch, None)?;
        Some(self.all_known(exchange, head, (&sorted, &vectors), Basis::Stale))
    }

    /// Serves a batch of which every input is stored. Nothing was computed for it, so it counts no tokens.
    fn all_known(
        &self,
        exchange: &mut Exchange,
        head: &Head,
        (sorted, vectors): (&Sorted, &[&[u8]]),
        basis: Basis<'_>,
    ) -> Result<Reply, Fault> {
        let now_ms = self.parts.clock.now_ms();
        let entries = || sorted.hits().map(|known| &known.entry);
        let Some(oldest) = entries().min_by_key(|entry| entry.created_ms) else { return Err(Fault::NotCached) };
        let expires_ms = entries().map(|entry| entry.expires_ms).min().unwrap_or_default();
        let detail;
        (exchange.x_cache, exchange.cache.decision, detail) = basis.names();
        let hit = Hit {
            detail,
            similarity: 1.0,
            source: oldest.source.id,
            age_ms: now_ms.saturating_sub(oldest.created_ms),
            ttl_ms: expires_ms.saturating_sub(now_ms),
            past_ms: now_ms.saturating_sub(expires_ms),
        };
        exchange.cache.tier = Some(detail);
        (exchange.cache.age_ms, exchange.cache.ttl_ms) = (Some(hit.age_ms), Some(hit.ttl_ms));
        name_parents(exchange, sorted);
        let body = Embeddings::join(model(sorted), vectors, Some(NOTHING)).to_json().clone();
        let mut headers = HeaderMap::with_capacity(24);
        reply::common(&mut headers, exchange, head.request_id.as_str(), false);
        reply::hit(&mut headers, &hit);
        reply::fixed(&mut headers, CONTENT_TYPE, "application/json");
        let answer_digest = Some(Sha256::digest(&body).into());
        let attested = exchange.close(&Ending { answer_digest, ..Ending::whole(200, &body) })?;
        reply::receipt(&mut headers, attested.as_ref());
        Ok(Reply { status: 200, headers, body: ReplyBody::Whole(body) })
    }

    /// Joins what came with what was stored, if that can be done: record, caches, bytes.
    fn join(
        &self,
        exchange: &mut Exchange,
        plan: &Plan,
        course: &Course<'_>,
        (seat, landed): (&Seat, &Landed),
    ) -> Option<Result<Reply, Fault>> {
        let Ok(Answered::Whole(whole)) = &landed.outcome else { return None };
        let Some(Kept::Json(body)) = whole.reading.storable().filter(|_| whole.status == 200) else { return None };
        let fresh = Embeddings::from_json(body, course.sorted.wanted.len()).ok()?;
        let vectors = course.sorted.vectors(&course.asked.batch, Some(&fresh))?;
        exchange.asked_of(&landed.provider, &landed.attempts, Some(&whole.headers));
        exchange.sent_on(plan.asked.body(), landed.sent_body.as_ref());
        (exchange.ttfb, exchange.served) = (Some(whole.ttfb), whole.reading.served.clone());
        let kept = course.filling.as_ref().filter(|_| whole.tier == 0 && landed.api == plan.request.api());
        let joined = Joined { whole, landed, fresh: &fresh, vectors: &vectors, filling: kept };
        Some(seat.attest(|first| self.finish_batch(exchange, course, &joined, first)))
    }

    fn finish_batch(
        &self,
        exchange: &mut Exchange,
        course: &Course<'_>,
        joined: &Joined<'_>,
        first: &mut Option<Source>,
    ) -> Result<Reply, Fault> {
        let (keys, billed, whole) = (exchange.keys().clone(), first.is_none(), joined.whole);
        if let Some(source) = first {
            exchange.x_cache = "COALESCED";
            exchange.follow(source);
        } else {
            self.parts.metrics.upstream(joined.landed.provider.as_str(), whole.ttfb, joined.landed.total);
        }
        let is_all = course.sorted.wanted.len() == course.asked.batch.len();
        name_parents(exchange, course.sorted);
        if !is_all {
            exchange.parents.iter_mut().for_each(|parent| parent.response_fp = None);
        }
        let fills = if billed { self.fillings(course, joined) } else { Vec::new() };
        exchange.cache.ttl_ms = fills.first().map(|(filling, _)| filling.ttl_ms());
        let usage = joined.whole.reading.usage;
        let body = if is_all {
            whole.body.clone()
        } else {
            Embeddings::join(joined.fresh.model(), joined.vectors, usage).to_json().clone()
        };
        let mut headers = whole.headers.clone();
        reply::common(&mut headers, exchange, course.head.request_id.as_str(), false);
        let status = if is_all { reply::forwarded } else { reply::forwarded_part };
        reply::fixed(&mut headers, names::CACHE_STATUS, status(exchange.x_cache, !fills.is_empty()));
        self.count_tokens(usage, billed);
        let digest = if is_all { whole.reading.digest } else { Some(Sha256::digest(&body).into()) };
        let attested = exchange.close(&Ending {
            answer_digest: digest,
            usage: usage.map(|usage| landing::usage_facts(usage, billed)),
            ..Ending::whole(200, &body)
        })?;
        reply::receipt(&mut headers, attested.as_ref());
        if let (true, Some(attested)) = (billed, &attested) {
            // Others have the same vectors in answers of their own.
            let source = landing::source(attested, &keys, digest.filter(|_| is_all));
            *first = Some(source);
            for (filling, kept) in fills {
                self.fill(&keys, filling, kept, false, source);
            }
        }
        Ok(Reply { status: 200, headers, body: ReplyBody::Whole(body) })
    }

    /// What is kept of the answer: a vector for each input that was asked for. The tokens were counted for the batch, so an
    /// entry counts none.
    fn fillings(&self, course: &Course<'_>, joined: &Joined<'_>) -> Vec<(Filling, Kept)> {
        let Some(filling) = joined.filling else { return Vec::new() };
        let one = |(at, i): (usize, &usize)| {
            let (partition, key) = course.asked.places[*i]?;
            let vector = joined.fresh.vector(at)?;
            let kept = Kept::Json(Embeddings::join(joined.fresh.model(), &[vector], Some(NOTHING)).to_json().clone());
            let filling = Filling { partition, key, ..filling.clone() };
            self.will_keep(&filling, Some(&kept)).then_some((filling, kept))
        };
        course.sorted.wanted.iter().enumerate().filter_map(one).collect()
    }
}

/// What does not change while a batch is answered.
struct Course<'a> {
    head: &'a Head,
    asked: &'a Asked,
    sorted: &'a Sorted,
    filling: Option<Filling>,
}

/// What is sent and what is kept of it.
struct Joined<'a> {
    whole: &'a Whole,
    landed: &'a Landed,
    fresh: &'a Embeddings,
    vectors: &'a [&'a [u8]],
    filling: Option<&'a Filling>,
}

/// Whether what came is the same failure whatever was asked for, so that it may be passed on.
fn says_nothing_of_inputs(landed: &Landed) -> bool {
    match &landed.outcome {
        Ok(Answered::Whole(whole)) => whole.status >= 400,
        Ok(Answered::Stream(_)) => false,
        Err(_) => !landed.is_large(),
    }
}

/// A stored answer that is one vector and says nothing else.
fn readable(entry: Arc<Entry>) -> Option<Known> {
    let Kept::Json(body) = &entry.body else { return None };
    let answer = Embeddings::from_json(body, 1).ok().filter(|answer| answer.vector(0).is_some())?;
    Some(Known { entry, answer })
}

fn model(sorted: &Sorted) -> &str {
    sorted.hits().next().map_or("", |known| known.answer.model())
}

/// Names the records behind the stored vectors, each once; of many the first, and how many there are. What is put together is
/// the answer of none of them.
fn name_parents(exchange: &mut Exchange, sorted: &Sorted) {
    let mut seen = HashSet::new();
    let sources = sorted.hits().map(|known| &known.entry.source).filter(|source| seen.insert(source.id));
    let mut parents: Vec<Parent> =
        sources.map(|source| Parent { response_fp: None, ..landing::parent(source, Relation::CacheSource) }).collect();
    if parents.len() > PARENTS_MAX {
        exchange.cache.sources = Some(parents.len() as u64);
        parents.truncate(PARENTS_MAX);
    }
    exchange.parents.append(&mut parents);
}

#[cfg(test)]
#[path = "embed_batch_tests.rs"]
mod tests;
