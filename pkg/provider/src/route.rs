//! Where a model's requests may go.

use crate::board::{Board, Member, View};
use crate::call::Provider;
use sha2::{Digest, Sha256};
use signet_types::{ModelName, ProviderName};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::time::Instant;

/// A model that callers may name, and who serves it.
#[derive(Debug, Clone)]
pub struct ModelRoute {
    /// As callers name it.
    pub name: ModelName,
    /// Other names for the same.
    pub aliases: Vec<ModelName>,
    /// Who serves it.
    pub targets: Vec<ModelTarget>,
    /// Most requests that go upstream for one of a caller's, at least 1.
    pub attempts_max: u32,
    /// Longest that a provider's `Retry-After` is waited for.
    pub retry_wait_max: Duration,
}

/// A place in a [`ModelRoute`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelTarget {
    /// A provider.
    pub provider: ProviderName,
    /// The model's name there.
    pub model: ModelName,
    /// Its share among those of the same order, at least 1.
    pub weight: u32,
    /// Lower ones are asked first.
    pub order: u32,
}

impl ModelRoute {
    /// Three attempts, and a wait of at most ten seconds.
    pub const ATTEMPTS_MAX: u32 = 3;
    /// See [`Self::ATTEMPTS_MAX`].
    pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);

    /// A model whose targets are asked one after the other.
    pub fn in_order(name: ModelName, targets: impl IntoIterator<Item = (ProviderName, ModelName)>) -> Self {
        let target = |(order, (provider, model))| ModelTarget { provider, model, weight: 1, order };
        Self {
            name,
            aliases: Vec::new(),
            targets: (0..).zip(targets).map(target).collect(),
            attempts_max: Self::ATTEMPTS_MAX,
            retry_wait_max: Self::RETRY_WAIT_MAX,
        }
    }
}

/// One place where a request may go.
#[derive(Debug, Clone)]
pub struct Target {
    /// The provider.
    pub provider: ProviderName,
    /// The model's name there.
    pub model: ModelName,
    /// 0 is asked first. Only answers of tier 0 may be stored: what others say is what somebody else would say.
    pub tier: usize,
    /// Its share of the tier.
    pub weight: u32,
    pub(crate) index: usize,
    pub(crate) member: Arc<Member>,
}

impl Target {
    /// What is known of it.
    pub fn view(&self, now: Instant) -> View {
        self.member.view(now)
    }
}

impl PartialEq for Target {
    /// Whether it is the same place: what else a target knows follows from that within one route.
    fn eq(&self, other: &Self) -> bool {
        (&self.provider, &self.model, self.tier) == (&other.provider, &other.model, other.tier)
    }
}

impl Eq for Target {}

/// The resolved targets of a model.
#[derive(Debug, Clone)]
pub struct Route {
    /// In the order of their tiers; never empty.
    pub targets: Arc<[Target]>,
    /// SHA-256 over name, base URL and model of all targets in order, and their tiers where they share one: equal digests
    /// mean that answers come from the same places. Weights are not in it.
    pub digest: [u8; 32],
    pub(crate) tiers: Arc<[Tier]>,
    pub(crate) attempts_max: u32,
    pub(crate) retry_wait_max: Duration,
}

/// Targets of one order.
#[derive(Debug, Clone)]
pub(crate) struct Tier {
    pub(crate) range: Range<usize>,
    /// Whose members were outliers when it was last looked at; shared by all fleets.
    pub(crate) outliers: Arc<AtomicU64>,
}

impl Route {
    /// Whether a choice has to be made among equals, so that an affinity is worth computing.
    pub fn has_choice(&self) -> bool {
        self.tiers.len() < self.targets.len()
    }

    /// Most attempts, and the longest pause between two.
    pub const fn limits(&self) -> (u32, Duration) {
        (self.attempts_max, self.retry_wait_max)
    }
}

/// A model that is not configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model `{0}` does not exist")]
pub struct UnknownModel(pub ModelName);

/// A configuration that no fleet can be made of.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// At least one provider is needed.
    #[error("no provider is configured")]
    NoProvider,
    /// Names are unique.
    #[error("two providers are named `{0}`")]
    DuplicateProvider(ProviderName),
    /// Names and aliases are unique.
    #[error("two models are named `{0}`")]
    DuplicateModel(ModelName),
    /// A model needs a target.
    #[error("the model `{0}` has no target")]
    NoTarget(ModelName),
    /// A target names a provider that is not configured.
    #[error("the model `{model}` names the provider `{provider}`, which is not configured")]
    UnknownProvider {
        /// The model.
        model: ModelName,
        /// The provider it names.
        provider: ProviderName,
    },
}

/// Makes routes of configured models.
pub(crate) struct Routes<'a> {
    pub(crate) providers: &'a [Arc<dyn Provider>],
    pub(crate) index: &'a HashMap<ProviderName, usize>,
    pub(crate) board: &'a Board,
}

impl Routes<'_> {
    pub(crate) fn route(&self, model: &ModelRoute) -> Result<Route, FleetError> {
        if model.targets.is_empty() {
            return Err(FleetError::NoTarget(model.name.clone()));
        }
        let mut places: Vec<&ModelTarget> = model.targets.iter().collect();
        places.sort_by_key(|target| target.order);
        let mut targets: Vec<Target> = Vec::with_capacity(places.len());
        let (mut tier, mut order) = (0, places[0].order);
        for place in places {
            if place.order != order {
                (tier, order) = (tier + 1, place.order);
            }
            targets.push(self.target(model, place, tier)?);
        }
        Ok(self.join(targets, model.attempts_max, model.retry_wait_max))
    }

    fn target(&self, model: &ModelRoute, place: &ModelTarget, tier: usize) -> Result<Target, FleetError> {
        let unknown = || FleetError::UnknownProvider { model: model.name.clone(), provider: place.provider.clone() };
        Ok(Target {
            provider: place.provider.clone(),
            model: place.model.clone(),
            tier,
            weight: place.weight.max(1),
            index: *self.index.get(&place.provider).ok_or_else(unknown)?,
            member: self.board.member(&place.provider, Some(&place.model)),
        })
    }

    fn join(&self, targets: Vec<Target>, attempts_max: u32, retry_wait_max: Duration) -> Route {
        let mut tiers: Vec<Tier> = Vec::new();
        for tier in targets.chunk_by(|a, b| a.tier == b.tier) {
            let first = tiers.last().map_or(0, |last| last.range.end);
            let ids = tier.iter().map(|target| target.member.id).collect();
            tiers.push(Tier { range: first..first + tier.len(), outliers: self.board.outliers(ids) });
        }
        let digest = digest(&targets, self.providers);
        Route { targets: targets.into(), digest, tiers: tiers.into(), attempts_max, retry_wait_max }
    }
}

/// The route of a name that was not configured, to this one provider.
pub(crate) fn free(
    provider: &dyn Provider,
    member: Arc<Member>,
    model: &ModelName,
    providers: &[Arc<dyn Provider>],
) -> Route {
    let name = provider.name().clone();
    let target = Target { provider: name, model: model.clone(), tier: 0, weight: 1, index: 0, member };
    Route {
        digest: digest(std::slice::from_ref(&target), providers),
        targets: [target].into(),
        tiers: [Tier { range: 0..1, outliers: Arc::default() }].into(),
        attempts_max: ModelRoute::ATTEMPTS_MAX,
        retry_wait_max: ModelRoute::RETRY_WAIT_MAX,
    }
}

/// Targets that are asked one after the other have the digest that they had before there were tiers, so that an upgrade
/// finds what was stored. The second form says of each target in which tier it is.
fn digest(targets: &[Target], providers: &[Arc<dyn Provider>]) -> [u8; 32] {
    let in_order = targets.iter().enumerate().all(|(at, target)| target.tier == at);
    let domain: &[u8] = if in_order { b"signet/targets/v1" } else { b"signet/targets/v2" };
    let mut hash = Sha256::new_with_prefix(domain);
    for target in targets {
        let provider = &providers[target.index];
        let variant = provider.variant(); // nothing for the providers that there were before there were kinds
        if !in_order {
            hash.update((target.tier as u64).to_be_bytes());
        }
        let (name, url, model) = (target.provider.as_str(), provider.base_url(), target.model.as_str());
        let parts = [name.as_bytes(), url.as_bytes(), model.as_bytes()];
        for part in parts.into_iter().chain(variant.as_ref().map(|variant| &variant[..])) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().into()
}
