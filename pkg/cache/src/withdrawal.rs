//! Taking back what was stored, on every replica and in every layer at once.
//!
//! An answer that turned out wrong sits in process memories, in Redis and in durable rows. Hunting all copies is slow and
//! never sure to be complete, so nothing is hunted: every copy carries the record that filled it, and before any copy is
//! served it is held against the rules here. The copies stay where they are, as evidence, until they expire.

use crate::entry::Entry;
use parking_lot::RwLock;
use signet_types::{LineageId, TenantId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What is taken back: every entry stored up to a moment that fits all conditions given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Withdrawal {
    /// The entry that this record filled.
    pub source: Option<LineageId>,
    /// Entries of this tenant.
    pub tenant: Option<TenantId>,
    /// Entries that answered for this model, as it was asked for.
    pub model: Option<String>,
    /// Entries of this `X-Cache-Namespace`.
    pub namespace: Option<String>,
    /// Asked for at this moment or before, in milliseconds since the Unix epoch: what was on its way is meant as well.
    pub stored_by_ms: u64,
}

impl Withdrawal {
    /// The withdrawal of what one record filled.
    pub fn of_source(source: LineageId, stored_by_ms: u64) -> Self {
        Self { source: Some(source), stored_by_ms, ..Self::default() }
    }

    /// The withdrawal of all that a tenant has stored.
    pub fn of_tenant(tenant: TenantId, stored_by_ms: u64) -> Self {
        Self { tenant: Some(tenant), stored_by_ms, ..Self::default() }
    }

    fn is_of_source_alone(&self) -> bool {
        self.tenant.is_none() && self.model.is_none() && self.namespace.is_none()
    }

    /// Whether it takes the same entries, whenever they were stored.
    fn is_like(&self, other: &Self) -> bool {
        Self { stored_by_ms: other.stored_by_ms, ..self.clone() } == *other
    }

    fn takes(&self, entry: &Entry) -> bool {
        let fits = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        entry.created_ms <= self.stored_by_ms
            && self.source.is_none_or(|source| source == entry.source.id)
            && self.tenant.is_none_or(|tenant| tenant == entry.partition.tenant())
            && fits(&self.model, &entry.origin.model)
            && fits(&self.namespace, &entry.origin.namespace)
    }
}

/// All withdrawals in force, and whether semantic answers are switched off for the whole fleet.
#[derive(Debug, Default)]
pub struct Withdrawals {
    rules: RwLock<Rules>,
    /// Number of rules, so that serving takes no lock while there are none.
    count: AtomicUsize,
    semantic_off: AtomicBool,
    /// What was stored before this moment may have been taken back without our knowing yet; 0 once that is known.
    trusted_from_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct Rules {
    /// The rules that name a source and nothing else, which are nearly all: one look-up, however many there are. With the
    /// moment by which the entry was stored.
    sources: HashMap<LineageId, u64>,
    others: Vec<Withdrawal>,
}

impl Withdrawals {
    /// Puts a rule into force; whether it is new.
    pub fn add(&self, rule: Withdrawal) -> bool {
        let mut rules = self.rules.write();
        let held = match rule.source.filter(|_| rule.is_of_source_alone()) {
            Some(source) => Some(rules.sources.entry(source).or_insert(0)),
            None => rules.others.iter_mut().find(|held| held.is_like(&rule)).map(|held| &mut held.stored_by_ms),
        };
        // The same rule once more reaches further; it never takes less than before.
        let new = held.as_ref().is_none_or(|held| **held < rule.stored_by_ms);
        match held {
            Some(held) => *held = rule.stored_by_ms.max(*held),
            None => rules.others.push(rule),
        }
        self.count(&rules);
        new
    }

    /// Drops the rules of which no entry can be left: all that they take was stored before `ms`.
    pub fn forget_before(&self, ms: u64) {
        let mut rules = self.rules.write();
        rules.sources.retain(|_, stored_by_ms| *stored_by_ms >= ms);
        rules.others.retain(|rule| rule.stored_by_ms >= ms);
        self.count(&rules);
    }

    fn count(&self, rules: &Rules) {
        self.count.store(rules.sources.len() + rules.others.len(), Ordering::Release);
    }

    /// Entries stored before this moment, in milliseconds since the Unix epoch, are not served until [`Withdrawals::trust`].
    pub fn distrust_before(&self, ms: u64) {
        self.trusted_from_ms.store(ms, Ordering::Release);
    }

    /// All that was taken back is known.
    pub fn trust(&self) {
        self.distrust_before(0);
    }

    /// Whether an entry may not be served.
    pub fn takes(&self, entry: &Entry) -> bool {
        if entry.created_ms < self.trusted_from_ms.load(Ordering::Acquire) {
            return true;
        }
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let rules = self.rules.read();
        let of_source = rules.sources.get(&entry.source.id).is_some_and(|by| entry.created_ms <= *by);
        of_source || rules.others.iter().any(|rule| rule.takes(entry))
    }

    /// Switches semantic answers off or on.
    pub fn switch_semantic(&self, off: bool) {
        self.semantic_off.store(off, Ordering::Release);
    }

    /// Whether semantic answers are switched off.
    pub fn semantic_is_off(&self) -> bool {
        self.semantic_off.load(Ordering::Acquire)
    }

    /// Number of rules in force.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether no rule is in force.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
