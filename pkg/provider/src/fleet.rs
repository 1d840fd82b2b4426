//! Which provider answers for a model, and what is tried next if it cannot.
//!
//! For now: targets in order, moving on only where the failed attempt cannot have been billed. Breakers, weights and
//! retries on 429 come with a later issue; they change [`Fleet::send`] alone.

use crate::call::{Auth, Call, Provider, Reply};
use crate::error::UpstreamError;
use crate::headers::RequestHeaders;
use bytes::Bytes;
use futures_util::future::join_all;
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};
use signet_dialect::Api;
use signet_types::{ModelName, ProviderName};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A model that callers may name, and who serves it.
#[derive(Debug, Clone)]
pub struct ModelRoute {
    /// As callers name it.
    pub name: ModelName,
    /// Provider and the model's name there, the preferred one first.
    pub targets: Vec<(ProviderName, ModelName)>,
}

/// One place where a request may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The provider.
    pub provider: ProviderName,
    /// The model's name there.
    pub model: ModelName,
    index: usize,
}

/// The resolved targets of a model.
#[derive(Debug, Clone)]
pub struct Route {
    /// In the order in which they are tried; never empty.
    pub targets: Arc<[Target]>,
    /// SHA-256 over name, base URL, model and variant (if there is one) of all targets in order, each with its length: equal
    /// digests mean that answers come from the same places.
    pub digest: [u8; 32],
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
    /// Names are unique.
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

/// What is asked, whoever will answer.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The method.
    pub method: Method,
    /// See [`Call::api`].
    pub api: Api,
    /// See [`Call::query`].
    pub query: Option<PathAndQuery>,
    /// The caller's end-to-end headers.
    pub headers: RequestHeaders,
    /// Whose credentials. A caller's own go to the first provider only and never to a fallback.
    pub authorization: Auth,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
}

/// One attempt, for the record and for `x-signet-attempts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The provider asked.
    pub provider: ProviderName,
    /// The model's name there.
    pub model: ModelName,
    /// Its status, or the [`UpstreamError::class`] of the failure.
    pub outcome: Result<StatusCode, &'static str>,
    /// Until the head, or the failure.
    pub elapsed: Duration,
}

/// All attempts of one request, in order.
pub type Attempts = Vec<Attempt>;

/// A request that was answered.
#[derive(Debug)]
pub struct Sent {
    /// The answer; its status may be an error.
    pub reply: Reply,
    /// The attempts up to it.
    pub attempts: Attempts,
    /// Which of the route's targets answered; 0 is the preferred one.
    pub target: usize,
}

/// A request that nobody answered.
#[derive(Debug, thiserror::Error)]
#[error("no provider answered")]
pub struct Refused {
    /// The last failure.
    #[source]
    pub error: UpstreamError,
    /// All attempts.
    pub attempts: Attempts,
}

/// All providers.
#[derive(Debug)]
pub struct Fleet {
    providers: Vec<Arc<dyn Provider>>,
    routes: HashMap<ModelName, Route>,
}

impl Fleet {
    /// Joins providers and models. Without models every name goes to the first provider unchanged.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn new(providers: Vec<Arc<dyn Provider>>, models: Vec<ModelRoute>) -> Result<Self, FleetError> {
        if providers.is_empty() {
            return Err(FleetError::NoProvider);
        }
        let mut index = HashMap::new();
        for (at, provider) in providers.iter().enumerate() {
            if index.insert(provider.name().clone(), at).is_some() {
                return Err(FleetError::DuplicateProvider(provider.name().clone()));
            }
        }
        let mut fleet = Self { providers, routes: HashMap::with_capacity(models.len()) };
        for model in models {
            let route = fleet.route(targets(&model, &index)?);
            if fleet.routes.insert(model.name.clone(), route).is_some() {
                return Err(FleetError::DuplicateModel(model.name));
            }
        }
        Ok(fleet)
    }

    /// Where requests for `model` go.
    ///
    /// # Errors
    /// Models are configured and this is none of them.
    pub fn resolve(&self, model: &ModelName) -> Result<Route, UnknownModel> {
        if self.routes.is_empty() {
            let first = &self.providers[0];
            return Ok(self.route(vec![Target { provider: first.name().clone(), model: model.clone(), index: 0 }]));
        }
        self.routes.get(model).cloned().ok_or_else(|| UnknownModel(model.clone()))
    }

    /// Asks the route's targets in order until one answers. Moves on only where the failed attempt cannot have been billed.
    ///
    /// `body` makes the bytes for a target, since the model may have another name there.
    ///
    /// # Errors
    /// The last failure, with all attempts.
    pub async fn send(
        &self,
        route: &Route,
        ask: &Ask,
        body: &(dyn Fn(&Target) -> Bytes + Send + Sync),
    ) -> Result<Sent, Refused> {
        let mut attempts = Attempts::new();
        let mut last = UpstreamError::NoCredentials;
        for (at, target) in route.targets.iter().enumerate() {
            if !may_ask(&ask.authorization, at, target) {
                continue;
            }
            let started = Instant::now();
            let result = self.providers[target.index].send(ask.call(Some(&target.model), at > 0, body(target))).await;
            attempts.push(Attempt {
                provider: target.provider.clone(),
                model: target.model.clone(),
                outcome: result.as_ref().map(|reply| reply.status).map_err(UpstreamError::class),
                elapsed: started.elapsed(),
            });
            match result {
                Ok(reply) => return Ok(Sent { reply, attempts, target: at }),
                Err(error) if error.is_unbilled() => last = error,
                Err(error) => return Err(Refused { error, attempts }),
            }
        }
        Err(Refused { error: last, attempts })
    }

    /// Asks all providers for their models at once. Each answer is given as it came, at most `max_bytes` long; a dead
    /// provider is an error beside the others' answers. With a caller's credentials only the first provider is asked. Those
    /// that have no such list are not asked.
    pub async fn models(
        &self,
        ask: &Ask,
        max_bytes: usize,
    ) -> Vec<(ProviderName, Result<(StatusCode, Bytes), UpstreamError>)> {
        let asked = match ask.authorization {
            Auth::Provider => self.providers.len(),
            Auth::Caller { .. } => 1,
        };
        let asked = self.providers[..asked].iter().filter(|provider| provider.speaks(ask.api));
        let answers = asked.map(|provider| async move {
            let answer = match provider.send(ask.call(None, false, Bytes::new())).await {
                Ok(reply) => reply.body.collect(max_bytes).await.map(|body| (reply.status, body)),
                Err(error) => Err(error),
            };
            (provider.name().clone(), answer)
        });
        join_all(answers).await
    }

    fn route(&self, targets: Vec<Target>) -> Route {
        let mut hash = Sha256::new();
        hash.update(b"signet/targets/v1");
        for target in &targets {
            let provider = &self.providers[target.index];
            let (name, url, model) = (target.provider.as_str(), provider.base_url(), target.model.as_str());
            let parts = [name.as_bytes(), url.as_bytes(), model.as_bytes()];
            let variant = provider.variant(); // nothing for the providers that there were before there were kinds
            for part in parts.into_iter().chain(variant.as_ref().map(|variant| &variant[..])) {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
        Route { targets: targets.into(), digest: hash.finalize().into() }
    }
}

impl Ask {
    fn call(&self, model: Option<&ModelName>, fallback: bool, body: Bytes) -> Call {
        Call {
            api: self.api,
            model: model.cloned(),
            method: self.method.clone(),
            query: self.query.clone(),
            fallback,
            headers: self.headers.clone(),
            body,
            authorization: self.authorization.clone(),
            deadline: self.deadline,
        }
    }
}

fn targets(model: &ModelRoute, index: &HashMap<ProviderName, usize>) -> Result<Vec<Target>, FleetError> {
    if model.targets.is_empty() {
        return Err(FleetError::NoTarget(model.name.clone()));
    }
    let known = model.targets.iter().map(|(provider, name)| match index.get(provider) {
        Some(&index) => Ok(Target { provider: provider.clone(), model: name.clone(), index }),
        None => Err(FleetError::UnknownProvider { model: model.name.clone(), provider: provider.clone() }),
    });
    known.collect()
}

/// A caller's own credentials are meant for the first provider; no other origin and no fallback may see them, and a key
/// of ours must not be spent on a caller whom nobody has authenticated.
fn may_ask(authorization: &Auth, at: usize, target: &Target) -> bool {
    match authorization {
        Auth::Provider => true,
        Auth::Caller { .. } => at == 0 && target.index == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::UpstreamBody;
    use crate::call::{Credential, Timings};
    use crate::error::{ClosedWhen, ConnectCause};
    use async_trait::async_trait;
    use http::header::AUTHORIZATION;
    use http::{HeaderMap, HeaderValue, Version};
    use parking_lot::Mutex;

    /// Fails as told, or answers 200 with the body that it was asked.
    #[derive(Debug)]
    struct Fake {
        name: ProviderName,
        base_url: String,
        fails: Option<fn() -> UpstreamError>,
        asked: Mutex<Vec<Call>>,
    }

    #[async_trait]
    impl Provider for Fake {
        fn name(&self) -> &ProviderName {
            &self.name
        }

        fn base_url(&self) -> &str {
            &self.base_url
        }

        async fn send(&self, call: Call) -> Result<Reply, UpstreamError> {
            self.asked.lock().push(call.clone());
            if let Some(fail) = self.fails {
                return Err(fail());
            }
            Ok(Reply {
                status: StatusCode::OK,
                headers: HeaderMap::new(),
                body: UpstreamBody::whole(call.body),
                timings: Timings { connect: None, ttfb: Duration::ZERO },
                reused: false,
                version: Version::HTTP_11,
            })
        }
    }

    fn provider(name: &str) -> ProviderName {
        name.parse().expect("a name")
    }

    fn model(name: &str) -> ModelName {
        name.parse().expect("a name")
    }

    fn fake(name: &str, fails: Option<fn() -> UpstreamError>) -> Arc<Fake> {
        let base_url = format!("https://{name}.example/v1");
        Arc::new(Fake { name: provider(name), base_url, fails, asked: Mutex::default() })
    }

    fn fleet(providers: &[&Arc<Fake>]) -> Fleet {
        let targets = providers.iter().map(|p| (p.name.clone(), model(&format!("m-{}", p.name)))).collect();
        let routes = vec![ModelRoute { name: model("m"), targets }];
        let providers = providers.iter().map(|p| Arc::clone(p) as Arc<dyn Provider>).collect();
        Fleet::new(providers, routes).expect("a good configuration")
    }

    fn ask(authorization: Auth) -> Ask {
        let (method, headers) = (Method::POST, RequestHeaders::default());
        Ask { api: Api::Chat, method, query: None, headers, authorization, deadline: None }
    }

    fn mine(value: &'static str) -> Auth {
        Auth::Caller(Credential { name: AUTHORIZATION, value: HeaderValue::from_static(value) })
    }

    async fn send(fleet: &Fleet, authorization: Auth) -> Result<Sent, Refused> {
        let route = fleet.resolve(&model("m")).expect("configured");
        fleet.send(&route, &ask(authorization), &|target| Bytes::from(target.model.to_string())).await
    }

    fn refused() -> UpstreamError {
        UpstreamError::Connect { cause: ConnectCause::Refused, source: None }
    }

    fn lost() -> UpstreamError {
        UpstreamError::Closed { when: ClosedWhen::BeforeHead, source: None }
    }

    #[tokio::test]
    async fn the_next_target_is_asked_only_if_the_failed_one_cannot_have_billed() {
        let (a, b) = (fake("a", Some(refused)), fake("b", None));
        let sent = send(&fleet(&[&a, &b]), Auth::Provider).await.expect("b answers");
        assert_eq!(sent.target, 1);
        let outcomes: Vec<_> = sent.attempts.iter().map(|attempt| attempt.outcome).collect();
        assert_eq!(outcomes, [Err("connect_refused"), Ok(StatusCode::OK)]);
        assert_eq!(sent.reply.body.collect(100).await.expect("complete"), "m-b");

        let (a, b) = (fake("a", Some(lost)), fake("b", None));
        let failed = send(&fleet(&[&a, &b]), Auth::Provider).await.expect_err("a may have done the work");
        assert_eq!(failed.error.class(), "closed_before_head");
        assert!(b.asked.lock().is_empty());
    }

    #[tokio::test]
    async fn when_nobody_can_be_reached_the_last_failure_and_all_attempts_are_told() {
        let (a, b) = (fake("a", Some(refused)), fake("b", Some(refused)));
        let failed = send(&fleet(&[&a, &b]), Auth::Provider).await.expect_err("nobody is there");
        assert_eq!((failed.error.class(), failed.attempts.len()), ("connect_refused", 2));
    }

    #[tokio::test]
    async fn a_callers_credentials_never_reach_a_fallback() {
        let mine = || mine("Bearer mine");
        let (a, b) = (fake("a", Some(refused)), fake("b", None));
        let failed = send(&fleet(&[&a, &b]), mine()).await.expect_err("no fallback");
        assert_eq!((failed.error.class(), failed.attempts.len()), ("connect_refused", 1));
        assert_eq!((a.asked.lock().len(), b.asked.lock().len()), (1, 0));
        assert!(matches!(a.asked.lock()[0].authorization, Auth::Caller { .. }));
    }

    #[tokio::test]
    async fn a_callers_credentials_go_to_the_first_provider_only() {
        let (a, b) = (fake("a", None), fake("b", None));
        let routes = vec![ModelRoute { name: model("m"), targets: vec![(provider("b"), model("x"))] }];
        let fleet = Fleet::new(vec![a.clone(), b.clone()], routes).expect("a good configuration");
        let mine = mine("Bearer mine");
        let failed = send(&fleet, mine.clone()).await.expect_err("b is another origin");
        assert_eq!((failed.error.class(), failed.attempts.len()), ("no_credentials", 0));
        assert_eq!(fleet.models(&ask(mine), 100).await.len(), 1);
        assert_eq!((a.asked.lock().len(), b.asked.lock().len()), (1, 0));
    }

    #[tokio::test]
    async fn a_dead_provider_does_not_hide_the_models_of_the_others() {
        let (a, b) = (fake("a", Some(refused)), fake("b", None));
        let answers = fleet(&[&a, &b]).models(&ask(Auth::Provider), 100).await;
        let told: Vec<_> = answers.iter().map(|(name, answer)| (name.as_str(), answer.is_ok())).collect();
        assert_eq!(told, [("a", false), ("b", true)]);
    }

    #[test]
    fn without_models_every_name_goes_to_the_first_provider_unchanged() {
        let (a, b) = (fake("a", None), fake("b", None));
        let fleet = Fleet::new(vec![a, b], Vec::new()).expect("a good configuration");
        let route = fleet.resolve(&model("anything")).expect("passes");
        let places: Vec<_> = route.targets.iter().map(|t| (t.provider.as_str(), t.model.as_str())).collect();
        assert_eq!(places, [("a", "anything")]);
    }

    #[test]
    fn with_models_only_listed_names_exist() {
        let unknown = fleet(&[&fake("a", None)]).resolve(&model("other")).expect_err("not listed");
        assert_eq!(unknown, UnknownModel(model("other")));
    }

    #[test]
    fn the_digest_changes_with_every_part_of_the_targets_and_their_order() {
        let digest = |providers: &[&Arc<Fake>]| fleet(providers).resolve(&model("m")).expect("listed").digest;
        let (a, b) = (fake("a", None), fake("b", None));
        let moved = Arc::new(Fake {
            name: provider("a"),
            base_url: "https://elsewhere.example/v1".to_owned(),
            fails: None,
            asked: Mutex::default(),
        });
        let all = [digest(&[&a]), digest(&[&b]), digest(&[&moved]), digest(&[&a, &b]), digest(&[&b, &a])];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other != one), "{i} equals an earlier one");
        }
        assert_eq!(digest(&[&a, &b]), digest(&[&a, &b]));
        let free = Fleet::new(vec![a], Vec::new()).expect("a good configuration");
        let resolved = |name: &str| free.resolve(&model(name)).expect("passes").digest;
        assert_ne!(resolved("x"), resolved("y"));
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused() {
        let a = || fake("a", None) as Arc<dyn Provider>;
        let route = |to: &[&str]| ModelRoute {
            name: model("m"),
            targets: to.iter().map(|&name| (provider(name), model("m"))).collect(),
        };
        let fault = |providers, routes| Fleet::new(providers, routes).expect_err("must be refused");
        assert_eq!(fault(vec![], vec![]), FleetError::NoProvider);
        assert_eq!(fault(vec![a(), a()], vec![]), FleetError::DuplicateProvider(provider("a")));
        assert_eq!(fault(vec![a()], vec![route(&[])]), FleetError::NoTarget(model("m")));
        assert_eq!(fault(vec![a()], vec![route(&["a"]), route(&["a"])]), FleetError::DuplicateModel(model("m")));
        let unknown = FleetError::UnknownProvider { model: model("m"), provider: provider("z") };
        assert_eq!(fault(vec![a()], vec![route(&["z"])]), unknown);
    }
}
