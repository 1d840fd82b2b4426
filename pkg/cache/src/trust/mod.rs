//! How far semantic hits are trusted, route by route: a floor from labelled decisions, and shadow where they turn out wrong.
//!
//! Pure: labels come in, a floor comes out. Labels are made in the background from sampled decisions, and a complaint may
//! only make a route stricter. A floor under the configured one has to be allowed by the operator.

mod drift;
mod floor;
mod label;
mod ledger;
mod texts;

pub use label::{Evidence, Finding, Label, LabelRow, RouteId, Tier, UNIT, Verdict};
pub use ledger::{Counts, KEPT, Ledger, Mark, Standing, State, TrustPolicy};
pub use texts::same_text;

use crate::semantic::Mode;
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

/// Models with a ledger of their own. Callers may invent names where no models are configured; what comes later shares one.
const ROUTES_MAX: usize = 256;
/// The name of the ledger that they share. No model can be called so: names hold no control characters.
const SHARED: &str = "\nother";

/// Findings of a route after which what its ledger knows is written down.
const MARK_AFTER: u64 = 1_000;

/// Where the trust in a model begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteBase {
    /// The bound, and the floors that labels may move between.
    pub policy: TrustPolicy,
    /// Whether what is trusted is served.
    pub mode: Mode,
}

impl From<TrustPolicy> for RouteBase {
    fn from(policy: TrustPolicy) -> Self {
        Self { policy, mode: Mode::On }
    }
}

/// A route as operators see it.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteView {
    /// The model as it was asked for.
    pub model: String,
    /// Its mode.
    pub mode: Mode,
    /// What its labels allow.
    pub standing: Standing,
    /// The labels that count, by tier.
    pub tiers: BTreeMap<Option<Tier>, Counts>,
}

/// The trust in every route of one encoder and one generation of key rules.
#[derive(Debug)]
pub struct Trust {
    base: RouteBase,
    /// Models whose base is another. Locked for a moment, perhaps while `routes` is.
    own: RwLock<HashMap<String, RouteBase>>,
    encoder: String,
    generation: u64,
    routes: RwLock<Routes>,
    /// Whether the stored labels have been read.
    known: AtomicBool,
}

type Routes = HashMap<String, Route, ahash::RandomState>;

#[derive(Debug)]
struct Route {
    ledger: Ledger,
    standing: Standing,
    /// The findings that a mark was made of are still being read.
    resuming: Option<(Mark, Vec<Finding>)>,
    /// Number of the last finding, and of findings since the last mark.
    last: u64,
    unmarked: u64,
}

impl Route {
    fn new(policy: TrustPolicy) -> Self {
        let ledger = Ledger::new(policy);
        Self { standing: ledger.standing(), ledger, resuming: None, last: 0, unmarked: 0 }
    }

    fn learn(&mut self, policy: TrustPolicy, number: u64, finding: &Finding) {
        if let Some((mark, kept)) = &mut self.resuming {
            if number <= mark.upto {
                return kept.push(*finding);
            }
            self.settle(policy);
        }
        self.ledger.learn(finding);
        self.last = number;
        self.unmarked += 1;
    }

    /// All that was kept of what is in the mark has been read.
    fn settle(&mut self, policy: TrustPolicy) {
        if let Some((mark, kept)) = self.resuming.take() {
            self.ledger = Ledger::resume(policy, &mark, &kept);
            self.last = mark.upto;
        }
    }
}

impl Trust {
    /// Nothing is served until [`Trust::set_known`] says that the stored labels were read: a route may have been in alarm.
    pub fn new(base: impl Into<RouteBase>, encoder: impl Into<String>, generation: u64) -> Self {
        let (routes, known) = (RwLock::default(), AtomicBool::new(false));
        Self { base: base.into(), own: RwLock::default(), encoder: encoder.into(), generation, routes, known }
    }

    /// With models whose trust begins elsewhere. They always have a ledger of their own.
    #[must_use]
    pub fn with_own(self, own: HashMap<String, RouteBase>) -> Self {
        self.rebase(own);
        self
    }

    /// Judges what was found on these models by other bases from now on: whoever asks next gets the new floors. A base stays
    /// where it is not among them.
    pub fn rebase(&self, own: HashMap<String, RouteBase>) {
        self.own.write().extend(own);
        for (model, route) in self.routes.write().iter_mut().filter(|(_, route)| route.resuming.is_none()) {
            route.ledger.judge_by(self.base(model).policy);
            route.standing = route.ledger.standing();
        }
    }

    /// Takes in what ledgers knew when they were last written down, before any finding is learnt.
    pub fn resume(&self, marks: Vec<(RouteId, Mark)>) {
        let mut routes = self.routes.write();
        for (id, mark) in marks.into_iter().filter(|(id, _)| self.is_ours(id)) {
            let mut route = Route::new(self.base(&id.model).policy);
            route.resuming = Some((mark, Vec::new()));
            routes.insert(id.model, route);
        }
    }

    /// The stored labels have been read.
    pub fn set_known(&self) {
        for (model, route) in self.routes.write().iter_mut().filter(|(_, route)| route.resuming.is_some()) {
            route.settle(self.base(model).policy);
            route.standing = route.ledger.standing();
        }
        self.known.store(true, Ordering::Release);
    }

    /// The encoder whose decisions these are.
    pub fn encoder(&self) -> &str {
        &self.encoder
    }

    /// Where the trust in `model` begins.
    pub fn base(&self, model: &str) -> RouteBase {
        self.own.read().get(model).copied().unwrap_or(self.base)
    }

    fn is_ours(&self, id: &RouteId) -> bool {
        id.encoder == self.encoder && id.generation == self.generation
    }

    /// The name of the ledger of `model`.
    fn ledger_of<'a>(&self, routes: &Routes, model: &'a str) -> &'a str {
        let named = routes.len() - usize::from(routes.contains_key(SHARED));
        let own = named < ROUTES_MAX || routes.contains_key(model) || self.own.read().contains_key(model);
        if own { model } else { SHARED }
    }

    /// Where labels of decisions for `model` belong.
    pub fn route(&self, model: &str) -> RouteId {
        let model = self.ledger_of(&self.routes.read(), model).to_owned();
        RouteId { model, encoder: self.encoder.clone(), generation: self.generation }
    }

    /// What may be served for `model`, if its mode is on.
    pub fn standing(&self, model: &str) -> Standing {
        if !self.known.load(Ordering::Acquire) {
            return Standing { state: State::Shadow, floor_e6: None };
        }
        let routes = self.routes.read();
        let route = routes.get(self.ledger_of(&routes, model));
        route.map_or_else(|| Ledger::new(self.base(model).policy).standing(), |route| route.standing)
    }

    /// Takes in findings in the order of their numbers; those of other encoders and generations are passed over.
    pub fn learn(&self, rows: &[(u64, LabelRow)]) {
        let mut routes = self.routes.write();
        let mut touched = Vec::new();
        for (number, row) in rows.iter().filter(|(_, row)| self.is_ours(&row.route)) {
            let name = self.ledger_of(&routes, &row.route.model);
            let policy = self.base(name).policy;
            let route = routes.entry(name.to_owned()).or_insert_with(|| Route::new(policy));
            route.learn(policy, *number, &row.finding);
            if !touched.contains(&name) {
                touched.push(name);
            }
        }
        for name in touched {
            if let Some(route) = routes.get_mut(name).filter(|route| route.resuming.is_none()) {
                route.standing = route.ledger.standing();
            }
        }
    }

    /// What is to be written down of ledgers that have learnt much since they last were.
    pub fn marks_due(&self) -> Vec<(RouteId, Mark)> {
        let routes = self.routes.read();
        let due = routes.iter().filter(|(_, route)| route.unmarked >= MARK_AFTER);
        let id = |model: &String| RouteId {
            model: model.clone(),
            encoder: self.encoder.clone(),
            generation: self.generation,
        };
        due.map(|(model, route)| (id(model), route.ledger.mark(route.last))).collect()
    }

    /// It was written down.
    pub fn marked(&self, id: &RouteId) {
        if let Some(route) = self.routes.write().get_mut(&id.model) {
            route.unmarked = 0;
        }
    }

    /// Every route that labels are known of. A floor is shown only where something is served.
    pub fn routes(&self) -> Vec<RouteView> {
        let view = |(model, route): (&String, &Route)| {
            let mode = self.base(model).mode;
            let floor_e6 = route.standing.floor_e6.filter(|_| mode == Mode::On);
            let standing = Standing { floor_e6, ..route.standing };
            RouteView { model: model.clone(), mode, standing, tiers: route.ledger.tiers() }
        };
        self.routes.read().iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests;
