//! What a fleet does with failures, over providers that fail as told.

use super::*;
use crate::body::UpstreamBody;
use crate::breaker::Circuit;
use crate::call::{Credential, Timings};
use crate::error::{ClosedWhen, ConnectCause};
use crate::route::ModelTarget;
use async_trait::async_trait;
use http::{HeaderValue, Version};
use signet_types::ManualClock;

/// Fails as told, or answers 200 with the body that it was asked.
#[derive(Debug)]
struct Fake {
    name: ProviderName,
    base_url: String,
    fails: Option<fn() -> UpstreamError>,
    /// The one API that it has not.
    has: Option<&'static [Api]>,
    /// What it does before that, call by call.
    script: Mutex<VecDeque<Does>>,
    asked: Mutex<Vec<Call>>,
}

#[derive(Debug, Clone, Copy)]
enum Does {
    Fail(fn() -> UpstreamError),
    Answer(u16, &'static [(&'static str, &'static str)]),
    Hang,
}

impl Fake {
    fn then(self: Arc<Self>, does: impl IntoIterator<Item = Does>) -> Arc<Self> {
        self.script.lock().extend(does);
        self
    }

    fn calls(&self) -> usize {
        self.asked.lock().len()
    }
}

#[async_trait]
impl Provider for Fake {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    fn base_url(&self) -> &str {
        &self.base_url
    }

    fn speaks(&self, api: Api) -> bool {
        self.has.is_none_or(|has| has.contains(&api))
    }

    fn forwards(&self, header: &str, fallback: bool) -> bool {
        header.strip_prefix("x-") == Some(self.name.as_str()) || (header == "beta" && !fallback)
    }

    async fn send(&self, call: Call) -> Result<Reply, UpstreamError> {
        self.asked.lock().push(call.clone());
        let usual = self.fails.map_or(Does::Answer(200, &[]), Does::Fail);
        let does = self.script.lock().pop_front().unwrap_or(usual);
        let (status, headers) = match does {
            Does::Fail(fail) => return Err(fail()),
            Does::Hang => return std::future::pending().await,
            Does::Answer(status, headers) => (status, headers),
        };
        Ok(Reply {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: headers.iter().map(|&(n, v)| (n.parse().expect("a name"), HeaderValue::from_static(v))).collect(),
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
    Arc::new(Fake {
        name: provider(name),
        base_url,
        fails,
        has: None,
        script: Mutex::default(),
        asked: Mutex::default(),
    })
}

fn fleet(providers: &[&Arc<Fake>]) -> Fleet {
    let targets = providers.iter().map(|p| (p.name.clone(), model(&format!("m-{}", p.name))));
    joined(providers, ModelRoute::in_order(model("m"), targets))
}

fn joined(providers: &[&Arc<Fake>], route: ModelRoute) -> Fleet {
    let providers = providers.iter().map(|p| Arc::clone(p) as Arc<dyn Provider>).collect();
    Fleet::new(providers, vec![route], board()).expect("a good configuration")
}

fn board() -> Arc<Board> {
    Arc::new(Board::new(Arc::new(ManualClock::at(784_111_777_000)))) // Sun, 06 Nov 1994 08:49:37 GMT
}

fn own() -> Credential {
    Credential { name: http::header::AUTHORIZATION, value: HeaderValue::from_static("Bearer mine") }
}

fn ask(authorization: Auth) -> Ask {
    Ask {
        method: Method::POST,
        api: Api::Chat,
        query: None,
        headers: RequestHeaders::default(),
        authorization,
        deadline: None,
        patience: None,
        affinity: None,
        trail: Arc::default(),
    }
}

async fn send(fleet: &Fleet, authorization: Auth) -> Result<Sent, Refused> {
    let route = fleet.resolve(&model("m")).expect("configured");
    fleet.send(&route, &ask(authorization), &|target: &Target, _| Bytes::from(target.model.to_string())).await
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
    let mine = || Auth::Caller(own());
    let (a, b) = (fake("a", Some(refused)), fake("b", None));
    let failed = send(&fleet(&[&a, &b]), mine()).await.expect_err("no fallback");
    assert_eq!((failed.error.class(), failed.attempts.len()), ("connect_refused", 1));
    assert_eq!((a.asked.lock().len(), b.asked.lock().len()), (1, 0));
    assert!(matches!(a.asked.lock()[0].authorization, Auth::Caller(_)));
}

#[tokio::test]
async fn a_callers_credentials_go_to_the_first_provider_only() {
    let (a, b) = (fake("a", None), fake("b", None));
    let routes = vec![ModelRoute::in_order(model("m"), [(provider("b"), model("x"))])];
    let fleet = Fleet::new(vec![a.clone(), b.clone()], routes, board()).expect("a good configuration");
    let mine = Auth::Caller(own());
    let failed = send(&fleet, mine.clone()).await.expect_err("b is another origin");
    assert_eq!((failed.error.class(), failed.attempts.len()), ("no_credentials", 0));
    assert_eq!(fleet.models(&ask(mine), 100).await.len(), 1);
    assert_eq!((a.asked.lock().len(), b.asked.lock().len()), (1, 0));
}

#[tokio::test]
async fn a_callers_credentials_go_to_another_model_of_the_provider_that_they_are_meant_for() {
    let (a, b) = (fake("a", None).then([Does::Answer(503, &[])]), fake("b", None));
    let targets = [("a", "x"), ("b", "y"), ("a", "z")].map(|(at, name)| (provider(at), model(name)));
    let fleet = joined(&[&a, &b], ModelRoute::in_order(model("m"), targets));
    let sent = send(&fleet, Auth::Caller(own())).await.expect("the other model answers");
    assert_eq!(sent.attempts.iter().map(|attempt| attempt.model.as_str()).collect::<Vec<_>>(), ["x", "z"]);
    assert_eq!(b.calls(), 0);
}

#[tokio::test]
async fn a_target_whose_provider_has_not_the_api_is_not_asked() {
    let (mut a, b) = (fake("a", None), fake("b", None));
    Arc::get_mut(&mut a).expect("not shared yet").has = Some(&[Api::Embeddings]);
    let answered = send(&fleet(&[&a, &b]), Auth::Provider).await.expect("b answers");
    assert_eq!(tried(&answered.attempts), ["b 200"]);
    let refused = send(&fleet(&[&a]), Auth::Provider).await.expect_err("nobody has it");
    assert_eq!((refused.error.class(), refused.attempts.len(), a.calls()), ("not_spoken", 0, 0));
}

#[tokio::test]
async fn a_target_is_asked_in_the_api_that_stands_in_where_its_provider_has_not_the_callers() {
    let (mut a, b) = (fake("a", None), fake("b", Some(refused)));
    Arc::get_mut(&mut a).expect("not shared yet").has = Some(&[Api::Messages]);
    let fleet = fleet(&[&b, &a]);
    let route = fleet.resolve(&model("m")).expect("configured");
    let ask = Ask { query: Some(PathAndQuery::from_static("/?x=1")), ..ask(Auth::Provider) };
    let body = |_: &Target, api: Api| Bytes::from_static(api.name().as_bytes());
    let sent = fleet.send(&route, &ask, &body).await.expect("a answers");
    assert_eq!((sent.target, sent.api), (1, Api::Messages));
    let (asked, other) = (a.asked.lock(), b.asked.lock());
    assert_eq!((asked[0].api, &asked[0].body[..], &asked[0].query), (Api::Messages, &b"messages"[..], &None));
    assert_eq!((other[0].api, &other[0].body[..], other[0].query.is_some()), (Api::Chat, &b"chat"[..], true));
}

#[tokio::test]
async fn a_target_to_which_the_request_cannot_be_said_is_left_out() {
    struct ChatOnly;
    impl Words for ChatOnly {
        fn to(&self, _: &Target, _: Api) -> Bytes {
            Bytes::new()
        }
        fn can_say(&self, api: Api) -> bool {
            api == Api::Chat
        }
    }
    let (mut a, b) = (fake("a", None), fake("b", Some(refused)));
    Arc::get_mut(&mut a).expect("not shared yet").has = Some(&[Api::Messages]);
    for order in [[&a, &b], [&b, &a]] {
        let fleet = fleet(&order);
        let route = fleet.resolve(&model("m")).expect("configured");
        let failed = fleet.send(&route, &ask(Auth::Provider), &ChatOnly).await.expect_err("b is not there");
        assert_eq!(
            (failed.error.class(), tried(&failed.attempts)),
            ("connect_refused", vec!["b connect_refused".to_owned()])
        );
    }
    assert_eq!(a.calls(), 0);
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
    let fleet = Fleet::new(vec![a, b], Vec::new(), board()).expect("a good configuration");
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
        has: None,
        script: Mutex::default(),
        asked: Mutex::default(),
    });
    let all = [digest(&[&a]), digest(&[&b]), digest(&[&moved]), digest(&[&a, &b]), digest(&[&b, &a])];
    for (i, one) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other != one), "{i} equals an earlier one");
    }
    assert_eq!(digest(&[&a, &b]), digest(&[&a, &b]));
    let free = Fleet::new(vec![a], Vec::new(), board()).expect("a good configuration");
    let resolved = |name: &str| free.resolve(&model(name)).expect("passes").digest;
    assert_ne!(resolved("x"), resolved("y"));
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let a = || fake("a", None) as Arc<dyn Provider>;
    let route = |to: &[&str]| ModelRoute::in_order(model("m"), to.iter().map(|&name| (provider(name), model("m"))));
    let fault = |providers, routes| Fleet::new(providers, routes, board()).expect_err("must be refused");
    assert_eq!(fault(vec![], vec![]), FleetError::NoProvider);
    assert_eq!(fault(vec![a(), a()], vec![]), FleetError::DuplicateProvider(provider("a")));
    assert_eq!(fault(vec![a()], vec![route(&[])]), FleetError::NoTarget(model("m")));
    assert_eq!(fault(vec![a()], vec![route(&["a"]), route(&["a"])]), FleetError::DuplicateModel(model("m")));
    let unknown = FleetError::UnknownProvider { model: model("m"), provider: provider("z") };
    assert_eq!(fault(vec![a()], vec![route(&["z"])]), unknown);
}

/// What was tried: provider, outcome and pause, in order.
fn tried(attempts: &Attempts) -> Vec<String> {
    let outcome = |attempt: &Attempt| match attempt.outcome {
        Ok(status) => status.as_u16().to_string(),
        Err(class) => class.to_owned(),
    };
    let line = |attempt: &Attempt| match attempt.waited.as_millis() {
        0 => format!("{} {}", attempt.provider, outcome(attempt)),
        ms => format!("{} {} after {ms}", attempt.provider, outcome(attempt)),
    };
    attempts.iter().map(line).collect()
}

async fn sent(fleet: &Fleet, ask: &Ask) -> Result<Sent, Refused> {
    let route = fleet.resolve(&model("m")).expect("configured");
    fleet.send(&route, ask, &|target: &Target, _| Bytes::from(target.model.to_string())).await
}

fn patient(seconds: u64) -> Ask {
    Ask { patience: Some(Instant::now() + Duration::from_secs(seconds)), ..ask(Auth::Provider) }
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_capacity_is_left_for_the_next_at_once() {
    for status in [429, 503, 529] {
        let a = fake("a", None).then([Does::Answer(status, &[("retry-after", "3")])]);
        let b = fake("b", None);
        let started = Instant::now();
        let sent = sent(&fleet(&[&a, &b]), &patient(60)).await.expect("b answers");
        assert_eq!(tried(&sent.attempts), [format!("a {status}"), "b 200".to_owned()]);
        assert_eq!((sent.target, started.elapsed()), (1, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_waited_for_once_if_nobody_else_is_left_and_the_caller_waits_as_long() {
    let busy = |headers| Does::Answer(429, headers);
    for (headers, ms) in [
        (&[("retry-after", "3")][..], 3000),
        (&[("retry-after-ms", "40")], 40),
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT")], 3000),
    ] {
        let a = fake("a", None).then([busy(headers)]);
        let started = Instant::now();
        let sent = sent(&fleet(&[&a]), &patient(60)).await.expect("it answers");
        assert_eq!(tried(&sent.attempts), ["a 429".to_owned(), format!("a 200 after {ms}")]);
        assert_eq!(started.elapsed().as_millis(), ms);
    }
    let twice = fake("a", None).then([busy(&[("retry-after", "1")]), busy(&[("retry-after", "1")])]);
    let refused = sent(&fleet(&[&twice]), &patient(60)).await.expect("its second refusal is passed on");
    assert_eq!(tried(&refused.attempts), ["a 429", "a 429 after 1000"]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_does_not_fit_is_the_callers_to_wait_for() {
    let cases = [
        (ask(Auth::Provider), &[("retry-after", "1")][..]),
        (patient(3), &[("retry-after", "3")]),
        (Ask { deadline: Some(Instant::now() + Duration::from_secs(2)), ..patient(9) }, &[("retry-after", "2")]),
        (patient(60), &[("retry-after", "10")]),
        (patient(60), &[("retry-after", "1"), ("x-should-retry", "false")]),
        (patient(60), &[]),
    ];
    for (ask, headers) in cases {
        let a = fake("a", None).then([Does::Answer(429, headers)]);
        let refused = sent(&fleet(&[&a]), &ask).await.expect("the refusal is passed on");
        assert_eq!(tried(&refused.attempts), ["a 429"], "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asked_for_a_pause_gets_no_calls_before_it_is_over_while_another_is_left() {
    let a = fake("a", None).then([Does::Answer(429, &[("retry-after", "7")])]);
    let b = fake("b", None);
    let fleet = fleet(&[&a, &b]);
    for (second, provider) in [(0, "b"), (6, "b"), (1, "a")] {
        tokio::time::advance(Duration::from_secs(second)).await;
        let sent = sent(&fleet, &ask(Auth::Provider)).await.expect("somebody answers");
        assert_eq!(sent.attempts.last().map(|attempt| attempt.provider.as_str()), Some(provider));
    }
    assert_eq!((a.calls(), b.calls()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_dead_target_costs_five_attempts_and_is_then_left_alone_until_a_probe_finds_it_alive() {
    let (a, b) = (fake("a", None).then([Does::Fail(refused); 6]), fake("b", None));
    let fleet = fleet(&[&a, &b]);
    for _ in 0..20 {
        sent(&fleet, &ask(Auth::Provider)).await.expect("b answers");
    }
    assert_eq!((a.calls(), b.calls()), (5, 20));
    tokio::time::advance(Duration::from_secs(6)).await;
    let probing = sent(&fleet, &ask(Auth::Provider)).await.expect("b answers");
    assert_eq!(tried(&probing.attempts), ["a connect_refused", "b 200"]);
    assert_eq!(tried(&sent(&fleet, &ask(Auth::Provider)).await.expect("b").attempts), ["b 200"]);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(tried(&sent(&fleet, &ask(Auth::Provider)).await.expect("a").attempts), ["a 200"]);
    assert_eq!(fleet.board().standings(Instant::now())[0].retries, [("connect_refused", 6)].into());
}

#[tokio::test(start_paused = true)]
async fn where_all_are_down_all_are_asked_all_the_same() {
    let (a, b) = (fake("a", Some(refused)), fake("b", Some(refused)));
    let fleet = fleet(&[&a, &b]);
    for _ in 0..10 {
        let failed = sent(&fleet, &ask(Auth::Provider)).await.expect_err("nobody is there");
        assert_eq!(failed.attempts.len(), 2);
    }
    let standings = fleet.board().standings(Instant::now());
    assert!(standings.iter().all(|standing| matches!(standing.view.circuit, Circuit::Open { .. })));
    *b.script.lock() = [Does::Answer(200, &[])].into();
    assert_eq!(sent(&fleet, &ask(Auth::Provider)).await.expect("b is back").target, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_traded_for_the_failure_of_a_target_that_is_known_to_be_down() {
    let (a, b) = (fake("a", None), fake("b", Some(refused)));
    let fleet = fleet(&[&b, &a]);
    for _ in 0..5 {
        sent(&fleet, &ask(Auth::Provider)).await.expect("a answers");
    }
    a.script.lock().push_back(Does::Answer(429, &[]));
    let refused = sent(&fleet, &ask(Auth::Provider)).await.expect("a's refusal is passed on");
    assert_eq!(tried(&refused.attempts), ["a 429"]);
}

#[tokio::test(start_paused = true)]
async fn no_more_attempts_are_made_than_the_model_allows() {
    let all: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| fake(name, Some(refused))).into();
    for attempts_max in [1, 3, 9] {
        let targets = all.iter().map(|p| (p.name.clone(), model("x")));
        let route = ModelRoute { attempts_max, ..ModelRoute::in_order(model("m"), targets) };
        let fleet = joined(&all.iter().collect::<Vec<_>>(), route);
        let failed = sent(&fleet, &ask(Auth::Provider)).await.expect_err("nobody is there");
        assert_eq!(failed.attempts.len(), 5.min(attempts_max as usize));
    }
}

#[tokio::test(start_paused = true)]
async fn a_callers_deadline_ends_the_call_in_time_and_is_not_held_against_the_provider() {
    let (a, b) = (fake("a", None).then([Does::Hang; 30]), fake("b", None));
    let fleet = fleet(&[&a, &b]);
    for _ in 0..30 {
        let started = Instant::now();
        let ask = Ask { deadline: Some(started + Duration::from_millis(300)), ..ask(Auth::Provider) };
        let failed = sent(&fleet, &ask).await.expect_err("a hangs, and may have begun to work");
        assert_eq!(tried(&failed.attempts), ["a deadline_exceeded"]);
        assert_eq!(started.elapsed().as_millis(), 300);
    }
    let standing = &fleet.board().standings(Instant::now())[0];
    assert_eq!((standing.view.circuit, standing.view.tally.calls, standing.view.in_flight), (Circuit::Closed, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_knows_what_has_been_tried() {
    let (a, b) = (fake("a", Some(refused)), fake("b", None).then([Does::Hang]));
    let fleet = fleet(&[&a, &b]);
    let ask = ask(Auth::Provider);
    assert!(sent(&fleet, &ask).now_or_never().is_none());
    assert_eq!(tried(&ask.trail.attempts()), ["a connect_refused", "b abandoned"]);
    sent(&fleet, &ask).await.expect("b answers");
    assert_eq!(tried(&ask.trail.attempts()), ["a connect_refused", "b 200"], "of the later call alone");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_under_way_until_its_end() {
    let a = fake("a", None);
    let fleet = fleet(&[&a]);
    let in_flight = || fleet.board().standings(Instant::now())[0].view.in_flight;
    let sent = sent(&fleet, &ask(Auth::Provider)).await.expect("it answers");
    assert_eq!(in_flight(), 1);
    sent.reply.body.collect(100).await.expect("complete");
    assert_eq!(in_flight(), 0);
}

#[test]
fn an_alias_goes_where_the_model_goes() {
    let a = fake("a", None);
    let mut route = ModelRoute::in_order(model("m"), [(provider("a"), model("x"))]);
    route.aliases = vec![model("n")];
    let fleet = joined(&[&a], route.clone());
    let digest = |name| fleet.resolve(&model(name)).expect("listed").digest;
    assert_eq!(digest("m"), digest("n"));
    let twice = ModelRoute::in_order(model("n"), [(provider("a"), model("x"))]);
    let fault = Fleet::new(vec![a], vec![route, twice], board()).expect_err("two of one name");
    assert_eq!(fault, FleetError::DuplicateModel(model("n")));
}

fn tiered(orders: &[(&str, u32, u32)]) -> Route {
    let fakes: Vec<_> = ["a", "b", "c"].map(|name| fake(name, None)).into();
    let target = |&(name, order, weight): &(&str, u32, u32)| ModelTarget {
        provider: provider(name),
        model: model("x"),
        weight,
        order,
    };
    let targets = orders.iter().map(target).collect();
    let route = ModelRoute { targets, ..ModelRoute::in_order(model("m"), []) };
    joined(&fakes.iter().collect::<Vec<_>>(), route).resolve(&model("m")).expect("listed")
}

#[test]
fn targets_one_after_the_other_keep_the_digest_under_which_their_answers_were_stored() {
    // As computed when targets had an order only.
    let golden = "5d0a3d1ef9c57bac05483d02ae3192060f27ffb29a29ba729fad83d867eb0e72";
    let digest = |orders: &[(&str, u32, u32)]| tiered(orders).digest.map(|byte| format!("{byte:02x}")).concat();
    assert_eq!(digest(&[("a", 0, 1), ("b", 1, 1)]), golden);
    assert_eq!(digest(&[("a", 3, 7), ("b", 70, 2)]), golden, "numbers do not matter, nor do weights");
    assert_eq!(digest(&[("b", 2, 1), ("a", 1, 1)]), golden, "nor where they are written");
    let others = [
        digest(&[("a", 0, 1), ("b", 0, 1)]),
        digest(&[("a", 0, 1), ("b", 0, 1), ("c", 0, 1)]),
        digest(&[("a", 0, 1), ("b", 0, 1), ("c", 1, 1)]),
        digest(&[("a", 0, 1), ("b", 1, 1), ("c", 1, 1)]),
        golden.to_owned(),
    ];
    for (at, one) in others.iter().enumerate() {
        assert!(others[..at].iter().all(|other| other != one), "{at} equals an earlier one");
    }
}

#[test]
fn tiers_stand_in_order_and_share_one_only_by_the_same_order() {
    let route = tiered(&[("c", 5, 1), ("a", 1, 2), ("b", 1, 1)]);
    let tiers: Vec<_> = route.targets.iter().map(|target| (target.provider.as_str(), target.tier)).collect();
    assert_eq!(tiers, [("a", 0), ("b", 0), ("c", 1)]);
    assert!(route.has_choice() && !tiered(&[("a", 0, 1), ("b", 1, 1)]).has_choice());
}

#[test]
fn a_header_that_only_a_fallback_sees_keeps_apart_those_who_would_share_its_answer() {
    let fleet = fleet(&[&fake("a", None), &fake("b", None)]);
    let route = fleet.resolve(&model("m")).expect("configured");
    let seen = |header| fleet.forwards(&route, header);
    assert!(seen("x-a") && seen("x-b") && seen("beta"));
    assert!(!seen("x-c"));
}
