//! What each kind of provider is sent.

use crate::peer::{Peer, call, client, mine, within};
use http::header::HeaderName;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use signet_dialect::Api;
use signet_dialect::kinds::{Anthropic, Azure, Kind, OpenAi};
use signet_provider::{
    Ask, Auth, Board, Call, Fleet, HttpProvider, ModelRoute, Provider, ProviderConfig, RequestHeaders,
    filter_request_headers,
};
use signet_types::{Secret, SystemClock};
use std::sync::Arc;
use tokio::join;

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines.iter().map(|&(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
}

fn azure(base_path: &str) -> Arc<dyn Kind> {
    Arc::new(Azure::new(base_path, Some("2024-10-21")).expect("a version"))
}

fn config(peer: &Peer, kind: Arc<dyn Kind>, base_path: &str) -> ProviderConfig {
    let base_url = format!("http://127.0.0.1:{}{base_path}", peer.port()).parse().expect("a URL");
    ProviderConfig { kind, base_url, api_key: Some(Secret::new("pk-1".to_owned())), ..peer.config() }
}

async fn serve(peer: &Peer) -> String {
    let mut wire = peer.accept().await;
    let request = wire.request().await;
    wire.answer("{}").await;
    request
}

/// The request as it came to the provider.
async fn seen(peer: &Peer, config: ProviderConfig, call: Call) -> String {
    let client = client(config);
    let (reply, request) = within(async { join!(client.send(call), serve(peer)) }).await;
    reply.expect("an answer");
    request
}

fn named(api: Api) -> Call {
    Call { api, model: Some("gpt/4".parse().expect("a name")), ..call("{}") }
}

fn kinds() -> Vec<(Arc<dyn Kind>, &'static str, Api)> {
    vec![
        (Arc::new(OpenAi), "/v1", Api::Chat),
        (azure("/"), "/", Api::Chat),
        (Arc::new(Anthropic::new("/")), "/", Api::Messages),
    ]
}

#[tokio::test]
async fn each_kind_is_asked_at_its_own_path_with_its_own_credential() {
    let expected = [
        ("/v1/chat/completions", "authorization: Bearer pk-1"),
        ("/openai/deployments/gpt%2F4/chat/completions?api-version=2024-10-21", "api-key: pk-1"),
        ("/v1/messages", "x-api-key: pk-1"),
    ];
    for ((kind, base, api), (path, credential)) in kinds().into_iter().zip(expected) {
        let peer = Peer::plain().await;
        let request = seen(&peer, config(&peer, kind, base), named(api)).await;
        assert!(request.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{request}");
        assert!(request.contains(&format!("\r\n{credential}\r\n")), "{request}");
    }
}

#[tokio::test]
async fn a_providers_key_stands_in_place_of_every_form_of_a_callers_credential() {
    let theirs = headers(&[
        ("authorization", "Bearer gw-key"),
        ("x-api-key", "gw-key"),
        ("api-key", "gw-key"),
        ("x-goog-api-key", "gw-key"),
        ("cookie", "session=gw-key"),
        ("proxy-authorization", "Basic gw-key"),
    ]);
    for (kind, base, api) in kinds() {
        let peer = Peer::plain().await;
        let asked = Call { headers: filter_request_headers(&theirs), ..named(api) };
        let request = seen(&peer, config(&peer, kind, base), asked).await;
        assert!(!request.contains("gw-key"), "{request}");
        assert_eq!(request.matches("pk-1").count(), 1, "{request}");
    }
}

#[tokio::test]
async fn a_callers_own_key_is_said_as_the_kind_reads_it() {
    let rows = [
        (0, mine("authorization", "Bearer sk-mine"), "authorization: Bearer sk-mine"),
        (0, mine("x-api-key", "sk-mine"), "authorization: Bearer sk-mine"),
        (1, mine("authorization", "Bearer 0a1b"), "api-key: 0a1b"),
        (1, mine("authorization", "Bearer eyJ0.e30.x"), "authorization: Bearer eyJ0.e30.x"),
        (1, mine("api-key", "0a1b"), "api-key: 0a1b"),
        (2, mine("authorization", "bearer sk-ant-api03-x"), "x-api-key: sk-ant-api03-x"),
        (2, mine("authorization", "Bearer sk-ant-oat01-x"), "authorization: Bearer sk-ant-oat01-x"),
        (2, mine("x-api-key", "sk-ant-api03-x"), "x-api-key: sk-ant-api03-x"),
    ];
    for (at, authorization, expected) in rows {
        let (kind, base, api) = kinds().remove(at);
        let peer = Peer::plain().await;
        let request = seen(&peer, config(&peer, kind, base), Call { authorization, ..named(api) }).await;
        assert!(request.contains(&format!("\r\n{expected}\r\n")), "{request}");
        assert!(!request.contains("pk-1"), "{request}");
    }
}

#[tokio::test]
async fn the_callers_query_is_sent_on_beside_that_of_the_kind() {
    let peer = Peer::plain().await;
    let query = Some(PathAndQuery::from_static("/v1/chat/completions?beta=true"));
    let request = seen(&peer, config(&peer, azure("/"), "/"), Call { query, ..named(Api::Chat) }).await;
    assert!(request.contains("/chat/completions?api-version=2024-10-21&beta=true HTTP/1.1"), "{request}");
}

#[tokio::test]
async fn an_api_that_a_provider_has_not_is_refused_before_anything_is_sent() {
    let peer = Peer::plain().await;
    let asked = |config: ProviderConfig, api| async move { client(config).send(named(api)).await };
    let error = asked(config(&peer, Arc::new(OpenAi), "/v1"), Api::Messages).await.expect_err("not OpenAI's");
    assert!(error.is_unbilled() && error.class() == "not_spoken", "{error:?}");
    let few = ProviderConfig { apis: Some(vec![Api::Chat]), ..config(&peer, Arc::new(OpenAi), "/v1") };
    assert_eq!(asked(few, Api::Responses).await.expect_err("not configured").class(), "not_spoken");
    assert!(peer.is_left_alone().await);
    let more = ProviderConfig { apis: Some(vec![Api::Messages]), ..config(&peer, Arc::new(OpenAi), "/v1") };
    assert!(seen(&peer, more, named(Api::Messages)).await.starts_with("POST /v1/messages HTTP/1.1"));
}

pub(crate) fn fleet(providers: Vec<Arc<HttpProvider>>) -> Fleet {
    let targets = providers.iter().map(|p| (p.name().clone(), "m".parse().expect("a name")));
    let routes = vec![ModelRoute::in_order("m".parse().expect("a name"), targets)];
    let board = Arc::new(Board::new(Arc::new(SystemClock::new())));
    let providers = providers.into_iter().map(|p| p as Arc<dyn Provider>).collect();
    Fleet::new(providers, routes, board).expect("a good configuration")
}

pub(crate) fn ask(headers: RequestHeaders) -> Ask {
    Ask {
        api: Api::Chat,
        method: Method::POST,
        query: None,
        headers,
        authorization: Auth::Provider,
        deadline: None,
        patience: None,
        affinity: None,
        trail: Arc::default(),
    }
}

#[tokio::test]
async fn a_fallback_sees_neither_the_callers_betas_nor_its_accounts() {
    let (dead, peer) = (Peer::plain().await, Peer::plain().await);
    let first = ProviderConfig { name: "first".parse().expect("a name"), ..dead.config() };
    drop(dead); // nobody listens there any more
    let fleet = fleet(vec![client(first), peer.client()]);
    let caller = headers(&[
        ("anthropic-beta", "b"),
        ("openai-beta", "b"),
        ("openai-organization", "org-1"),
        ("openai-project", "p"),
        ("traceparent", "00-11111111111111111111111111111111-1111111111111111-01"),
    ]);
    let ask = ask(filter_request_headers(&caller));
    let route = fleet.resolve(&"m".parse().expect("a name")).expect("configured");
    let body = |_: &signet_provider::Target, _| bytes::Bytes::from_static(b"{}");
    let (sent, request) = within(async { join!(fleet.send(&route, &ask, &body), serve(&peer)) }).await;
    assert_eq!(sent.expect("answered").target, 1);
    assert!(request.contains("traceparent: 00-1111") && !request.contains("openai-"), "{request}");
    assert!(!request.contains("-beta"), "{request}");
}

#[test]
fn what_a_provider_is_always_sent_tells_its_answers_apart_and_old_places_keep_their_digest() {
    let digest = |change: &dyn Fn(&mut ProviderConfig)| {
        let mut config = ProviderConfig::new("p".parse().expect("a name"), "http://h/v1".parse().expect("a URL"));
        change(&mut config);
        fleet(vec![client(config)]).resolve(&"m".parse().expect("a name")).expect("configured").digest
    };
    let all = [
        digest(&|_| {}),
        digest(&|config| config.kind = Arc::new(Anthropic::new("/v1"))),
        digest(&|config| config.kind = azure("/")),
        digest(&|config| config.kind = azure("/openai/v1")),
        digest(&|config| config.headers = headers(&[("x-site", "a")])),
        digest(&|config| config.headers = headers(&[("x-site", "b")])),
    ];
    for (i, one) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other != one), "{i} equals an earlier one");
    }
    // What stands for these places in the keys of entries that are stored already.
    let hex = all[0].map(|byte| format!("{byte:02x}")).concat();
    assert_eq!(hex, "b182e7c2cbbb2e84dbd0957e860027f1a852d981fcb86122516e6a44b90425ae");
}

#[tokio::test]
async fn a_request_of_no_api_is_posted_where_it_was_meant_to_go() {
    let peer = Peer::plain().await;
    let client = client(config(&peer, Arc::new(OpenAi), "/base"));
    let (path, headers) = (PathAndQuery::from_static("/notes?x=1"), RequestHeaders::default());
    let post = client.post(&path, &headers, bytes::Bytes::from_static(b"note"), None);
    let (reply, request) = within(async { join!(post, serve(&peer)) }).await;
    reply.expect("an answer");
    assert!(request.starts_with("POST /base/notes?x=1 HTTP/1.1\r\n") && request.ends_with("note"), "{request}");
    assert!(request.contains("authorization: Bearer pk-1\r\n"), "{request}");
}
