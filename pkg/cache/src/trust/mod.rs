//! How far semantic hits are trusted, route by route: a floor from labelled decisions, and shadow where they turn out wrong.
//!
//! Pure: labels come in, a floor comes out. Labels are made in the background from sampled decisions, and a complaint may
//! only make a route stricter. A floor under the configured one has to be allowed by the operator.

mod drift;
mod floor;
mod label;
mod ledger;
mod texts;

pub use label::{Evidence, Finding, Label, LabelRow, RouteId, UNIT, Verdict};
pub use ledger::{Ledger, Standing, State, TrustPolicy};
pub use texts::same_text;

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Models with a ledger of their own. Callers may invent names where no models are configured; what comes later shares one.
const ROUTES_MAX: usize = 256;
/// The name of the ledger that they share. No model can be called so: names hold no control characters.
const SHARED: &str = "\nother";

/// The trust in every route of one encoder and one generation of key rules.
#[derive(Debug)]
pub struct Trust {
    policy: TrustPolicy,
    encoder: String,
    generation: u64,
    routes: RwLock<HashMap<String, Route, ahash::RandomState>>,
    /// Whether the stored labels have been read.
    known: AtomicBool,
}

#[derive(Debug)]
struct Route {
    ledger: Ledger,
    standing: Standing,
}

impl Trust {
    /// Nothing is served until [`Trust::set_known`] says that the stored labels were read: a route may have been in alarm.
    pub fn new(policy: TrustPolicy, encoder: impl Into<String>, generation: u64) -> Self {
        let (routes, known) = (RwLock::default(), AtomicBool::new(false));
        Self { policy, encoder: encoder.into(), generation, routes, known }
    }

    /// The stored labels have been read.
    pub fn set_known(&self) {
        self.known.store(true, Ordering::Release);
    }

    /// The encoder whose decisions these are.
    pub fn encoder(&self) -> &str {
        &self.encoder
    }

    /// The operator's bound.
    pub const fn policy(&self) -> &TrustPolicy {
        &self.policy
    }

    /// Where labels of decisions for `model` belong.
    pub fn route(&self, model: &str) -> RouteId {
        let routes = self.routes.read();
        let own = routes.len() < ROUTES_MAX || routes.contains_key(model);
        let model = if own { model } else { SHARED };
        RouteId { model: model.to_owned(), encoder: self.encoder.clone(), generation: self.generation }
    }

    /// What may be served for `model`.
    pub fn standing(&self, model: &str) -> Standing {
        if !self.known.load(Ordering::Acquire) {
            return Standing { state: State::Shadow, floor_e6: None };
        }
        let routes = self.routes.read();
        let route = routes.get(model).or_else(|| routes.get(SHARED).filter(|_| routes.len() >= ROUTES_MAX));
        route.map_or_else(|| Ledger::new(self.policy).standing(), |route| route.standing)
    }

    /// Takes in findings in the order of their appearance; those of other encoders and generations are passed over.
    pub fn learn(&self, rows: &[LabelRow]) {
        let mut routes = self.routes.write();
        let mut touched = Vec::new();
        for row in
            rows.iter().filter(|row| row.route.encoder == self.encoder && row.route.generation == self.generation)
        {
            let own = routes.len() < ROUTES_MAX || routes.contains_key(&row.route.model);
            let name = if own { row.route.model.as_str() } else { SHARED };
            let route = routes.entry(name.to_owned()).or_insert_with(|| {
                let ledger = Ledger::new(self.policy);
                Route { standing: ledger.standing(), ledger }
            });
            route.ledger.learn(&row.finding);
            if !touched.contains(&name) {
                touched.push(name);
            }
        }
        for name in touched {
            if let Some(route) = routes.get_mut(name) {
                route.standing = route.ledger.standing();
            }
        }
    }

    /// Every route that labels are known of: model, standing, number of labels that count.
    pub fn routes(&self) -> Vec<(String, Standing, usize)> {
        let routes = self.routes.read();
        routes.iter().map(|(model, route)| (model.clone(), route.standing, route.ledger.len())).collect()
    }
}

#[cfg(test)]
mod tests;
