//! What of a new configuration a running process can take.
//!
//! Providers, models and their keys are snapshots that each request takes one of. All else is wired in at a start: a change
//! of it is refused together with everything else in the file, or the process would run by half of one.

use crate::settings::{AuthMode, Config, Model};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

impl Config {
    /// What differs from `running` and is read at a start only. Keys, in order; none where a running process can take it.
    pub fn needs_restart(&self, running: &Self) -> Vec<String> {
        let keys = self.effective.keys().chain(running.effective.keys());
        let secrets = self.prints.keys().chain(running.prints.keys());
        let keys: BTreeSet<&String> = keys.chain(secrets).filter(|key| !is_routing(key)).collect();
        let differs = |key: &&String| {
            self.effective.get(*key) != running.effective.get(*key) || self.prints.get(*key) != running.prints.get(*key)
        };
        let mut found: Vec<String> = keys.into_iter().filter(differs).cloned().collect();
        if self.data_dir != running.data_dir {
            found.push("the data folder".to_owned());
        }
        if self.has_own_key() != running.has_own_key() && self.auth.mode == AuthMode::Passthrough {
            found.push("provider.*.api_key (the first or last key changes who callers are)".to_owned());
        }
        found.extend(self.models.iter().filter_map(|model| running.rebound(model)));
        found
    }

    /// A digest over all that reaches the provider at `at`, its secrets included: an equal one may keep its connections.
    pub fn provider_print(&self, at: usize) -> [u8; 32] {
        let prefix = format!("provider.{at}.");
        let own = |key: &str| key.strip_prefix(&prefix).map(str::to_owned);
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        for (key, value) in self.effective.iter().filter_map(|(key, value)| Some((own(key)?, value))) {
            part(key.as_bytes());
            part(value.as_bytes());
        }
        for (key, print) in self.prints.iter().filter_map(|(key, print)| Some((own(key)?, print))) {
            part(key.as_bytes());
            part(print);
        }
        hash.finalize().into()
    }

    fn has_own_key(&self) -> bool {
        self.providers.iter().any(|provider| provider.api_key.is_some())
    }

    /// A model's bound on wrong hits, where it differs: another one looks further back, at labels that only a start reads.
    fn rebound(&self, model: &Model) -> Option<String> {
        let before = self.models.iter().find(|before| before.name == model.name);
        let share = before.map_or(self.semantic.max_false_share, |before| before.max_false_share);
        (model.max_false_share.to_bits() != share.to_bits())
            .then(|| format!("max_false_share of the model {}", model.name))
    }
}

fn is_routing(key: &str) -> bool {
    key.starts_with("provider.") || key.starts_with("model.")
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
