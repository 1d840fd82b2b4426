//! Was it answered before?

use crate::control::Fetch;
use crate::exchange::Exchange;
use crate::pipeline::Pipeline;
use crate::questions::Drawn;
use crate::serve::Plan;
use signet_cache::{Ask, Decision, Lookup, Miss};
use signet_lineage::CacheFacts;
use signet_telemetry::Step;
use std::time::Instant;

impl Pipeline {
    /// Asks the caches. A broken cache is a miss.
    pub(crate) async fn lookup(&self, exchange: &mut Exchange, plan: &Plan) -> Lookup {
        let started = Instant::now();
        exchange.x_cache = match plan.controls.fetch {
            Fetch::IfNeeded => "MISS",
            Fetch::Refresh => "REFRESH",
            Fetch::Bypass => "BYPASS",
        };
        exchange.cache = CacheFacts {
            decision: decision_name(exchange.x_cache),
            key_fp: Some(exchange.fingerprint("key", plan.key.as_bytes())),
            ..CacheFacts::default()
        };
        if plan.controls.fetch == Fetch::Bypass || exchange.keys().unstored.is_some() {
            return Lookup::Miss(Miss::default());
        }
        let ask = Ask {
            partition: &plan.partition,
            key: &plan.key,
            question: plan.question(),
            read: plan.controls.read_policy(plan.rules),
            now_ms: self.parts.clock.now_ms(),
        };
        let found = self.lookup_sampled(exchange, &ask, !plan.controls.only_if_cached).await;
        exchange.timing.cache = started.elapsed();
        self.parts.metrics.step(Step::Cache, started.elapsed());
        if let Lookup::Miss(Miss { decision, .. }) | Lookup::Semantic(_, decision) = &found {
            self.note(exchange, decision);
        }
        self.draw_question(exchange, &ask, &found);
        found
    }

    /// Keeps the question for the operator, if it is drawn.
    fn draw_question(&self, exchange: &Exchange, ask: &Ask<'_>, found: &Lookup) {
        let Some(draw) = self.parts.questions.as_ref().filter(|draw| draw.takes(exchange.id)) else { return };
        let Ok(question) = ask.question else { return };
        let (decision, matched) = match found {
            Lookup::Exact(_) => (Decision::default(), None),
            Lookup::Semantic(entry, decision) => (decision.clone(), Some(entry.clone())),
            Lookup::Miss(miss) if !ask.read.semantic || miss.decision.ineligible.is_some() => return,
            Lookup::Miss(miss) => {
                let candidate = miss.decision.candidate.and_then(|key| self.parts.cache.held(&key));
                (miss.decision.clone(), candidate)
            }
        };
        draw.send(Drawn {
            id: exchange.id,
            keys: exchange.keys().clone(),
            model: exchange.asked.clone(),
            partition: *ask.partition,
            question: question.to_owned(),
            decision,
            is_exact: matches!(found, Lookup::Exact(_)),
            matched,
        });
    }

    /// Looks up under the terms of the route; what is drawn to be checked stays with the exchange.
    async fn lookup_sampled(&self, exchange: &mut Exchange, ask: &Ask<'_>, may_sample: bool) -> Lookup {
        let Some(sampler) = &self.parts.sampler else { return self.parts.cache.lookup(ask).await };
        let terms = sampler.terms(&exchange.asked, exchange.id, may_sample);
        let mut found = self.parts.cache.lookup_under(ask, &terms).await;
        if let Lookup::Miss(miss) = &mut found
            && let (Some(candidate), Ok(question)) = (miss.candidate.take(), ask.question)
        {
            exchange.sample = Some(sampler.sample(&exchange.asked, &miss.decision, question, candidate));
        }
        found
    }

    /// Keeps the semantic decision as it was made.
    fn note(&self, exchange: &mut Exchange, decision: &Decision) {
        let millionths = |value: f32| (f64::from(value.clamp(0.0, 1.0)) * 1e6).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
        let e6 = |value: f32| millionths(value) as u64;
        let facts = &mut exchange.cache;
        facts.tier = decision.tier;
        facts.score_e6 = decision.similarity.map(e6);
        facts.floor_e6 = decision.floor.map(e6);
        facts.refused_by = decision.refused_by;
        facts.ineligible = decision.ineligible;
        facts.encoder = self.parts.cache.semantic().map(|layer| layer.encoder().to_owned());
        let verdict = match (decision.tier, decision.refused_by, decision.ineligible) {
            (Some(_), ..) if decision.sampled => "sampled",
            (Some(_), ..) if decision.shadowed => "shadow",
            (Some(_), ..) => "hit",
            (None, Some(_), _) => "refused",
            (None, None, Some(_)) => "ineligible",
            (None, None, None) => "none",
        };
        self.parts.metrics.semantic(decision.tier.unwrap_or("none"), verdict);
    }
}

fn decision_name(x_cache: &str) -> &'static str {
    match x_cache {
        "BYPASS" => "bypass",
        "REFRESH" => "refresh",
        _ => "miss",
    }
}
