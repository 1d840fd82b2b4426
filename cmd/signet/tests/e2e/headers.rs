//! A drop-in for the provider: what crosses in each direction.

use crate::client::ask;
use crate::gateway::{CHAT, PROVIDER_KEY, Setup, chat, mock, with};
use serde_json::json;
use signet_mock::{Behaviour, Config, MockUpstream};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn the_callers_key_is_replaced_by_the_providers_and_what_is_ours_stays_here() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let answer = gateway.chat(
        &chat("What is a lynx?"),
        &[
            ("Authorization", "Bearer gw-key"),
            ("X-Api-Key", "gw-key"),
            ("Cookie", "session=gw-key"),
            ("Connection", "keep-alive, X-Hop"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Authorization", "Basic Z3cta2V5"),
            ("TE", "trailers"),
            ("X-Hop", "1"),
            ("X-Cache-Namespace", "ours"),
            ("X-Forwarded-For", "203.0.113.9"),
            ("Accept-Encoding", "gzip, br"),
            ("OpenAI-Organization", "org-1"),
            ("X-Something-New", "stays here"),
        ],
    );
    answer.is(200, "MISS");
    let seen = mock.requests().remove(0);
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {PROVIDER_KEY}").as_str()));
    assert_eq!(seen.header("openai-organization"), Some("org-1"));
    assert_eq!(seen.header("host"), Some(mock.addr().to_string().as_str()));
    assert!(!format!("{:?}", seen.headers).contains("gw-key"), "{:?}", seen.headers);
    for gone in [
        "x-hop",
        "keep-alive",
        "proxy-authorization",
        "te",
        "x-cache-namespace",
        "x-forwarded-for",
        "cookie",
        "x-something-new",
    ] {
        assert_eq!(seen.header(gone), None, "{gone}");
    }
    assert!(!gateway.log().contains("gw-key") && !gateway.log().contains(PROVIDER_KEY));
}

#[test]
fn in_passthrough_a_key_in_x_api_key_is_a_caller_and_is_said_where_the_provider_reads_it() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).start();
    let as_ann = [("X-Api-Key", "sk-ann")];
    gateway.chat(&chat("What is an otter?"), &as_ann).is(200, "MISS");
    let seen = mock.requests().remove(0);
    assert_eq!((seen.header("x-api-key"), seen.header("authorization")), (None, Some("Bearer sk-ann")));
    gateway.chat(&chat("What is an otter?"), &as_ann).is(200, "EXACT");
    gateway.chat(&chat("What is an otter?"), &[("X-Api-Key", "sk-bob")]).is(200, "MISS");
    gateway
        .chat(&chat("What is an otter?"), &[("X-Api-Key", "sk-bob"), ("Authorization", "Bearer sk-eve")])
        .is(200, "MISS");
    let seen = mock.requests().remove(2);
    assert_eq!((seen.header("x-api-key"), seen.header("authorization")), (None, Some("Bearer sk-eve")));
    gateway.chat(&chat("What is an otter?"), &[("X-Api-Key", " ")]).refusal(401);
}

#[test]
fn in_passthrough_a_key_reaches_anthropic_in_its_own_header_and_a_token_as_a_bearer_however_the_sdk_sends_them() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).set("provider.0.kind", "anthropic").start();
    let body = json!({"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "What is an otter?"}]});
    let sent = [
        (("Authorization", "Bearer sk-ant-api03-new"), (Some("sk-ant-api03-new"), None)),
        (("X-Api-Key", "sk-ant-api03-old"), (Some("sk-ant-api03-old"), None)),
        (("Authorization", "Bearer sk-ant-oat01-x"), (None, Some("Bearer sk-ant-oat01-x"))),
    ];
    for (at, (credential, expected)) in sent.into_iter().enumerate() {
        let ask = || gateway.post("/v1/messages", &[credential], body.to_string().as_bytes());
        ask().is(200, "MISS");
        ask().is(200, "EXACT");
        let seen = mock.requests().remove(at);
        assert_eq!((seen.header("x-api-key"), seen.header("authorization")), expected, "{credential:?}");
    }
}

#[test]
fn the_query_of_the_url_reaches_the_provider_and_keeps_answers_apart() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let ask = |query: &str| {
        let body = chat("What is a stoat?").to_string();
        gateway.post(&format!("{CHAT}{query}"), &[("X-Cache-Mode", "exact")], body.as_bytes())
    };
    for (query, x_cache) in
        [("", "MISS"), ("?", "EXACT"), ("?beta=true", "MISS"), ("?beta=false", "MISS"), ("?beta=true", "EXACT")]
    {
        ask(query).is(200, x_cache);
    }
    let seen: Vec<_> = mock.requests().into_iter().map(|seen| (seen.path, seen.query)).collect();
    let at = |query: &str| (CHAT.to_owned(), query.to_owned());
    assert_eq!(seen, [at(""), at("beta=true"), at("beta=false")]);
}

#[test]
fn in_passthrough_the_callers_own_key_goes_to_the_provider() {
    let mock = MockUpstream::start(Config { api_key: Some("sk-ann".to_owned()), ..Config::default() }).expect("a port");
    let gateway = Setup::passthrough(&mock).start();
    gateway.chat(&chat("What is an otter?"), &[("Authorization", "Bearer sk-ann")]).is(200, "MISS");
    let wrong = gateway.chat(&chat("What is an otter?"), &[("Authorization", "Bearer sk-bob")]);
    assert_eq!(wrong.refusal(401)["code"], "invalid_api_key");
    // What clients send that have no key: nothing, or a scheme and nothing behind it.
    for nobody in [vec![], vec![""], vec!["Bearer"], vec!["Bearer "], vec!["bearer  "], vec!["Basic "]] {
        let headers: Vec<_> = nobody.iter().map(|value| ("Authorization", *value)).collect();
        assert_eq!(gateway.chat(&chat("What is an otter?"), &headers).refusal(401)["code"], "invalid_api_key");
    }
    assert_eq!(mock.counts().requests, 2, "without a key nothing is sent on");
}

#[test]
fn the_providers_own_ids_and_limits_are_renamed_beside_ours() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let answer = gateway.chat(&chat("What is a marten?"), &[("X-Request-Id", "mine-17")]);
    assert_eq!(answer.need("x-request-id"), "mine-17");
    assert_eq!(answer.need("x-upstream-request-id"), "req_mock_1");
    assert_eq!(answer.need("x-upstream-ratelimit-remaining-requests"), "9999");
    assert_eq!(answer.need("openai-processing-ms"), "1");
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), None);
    let other = gateway.chat(&chat("What is a marten?"), &[]);
    assert!(!other.need("x-request-id").is_empty() && other.need("x-request-id") != "mine-17");
    assert_eq!(other.header("x-upstream-request-id"), None, "a hit has no provider's id");
}

#[test]
fn a_trace_passes_to_the_provider_and_lands_in_its_own_record_only() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let traced = gateway.chat(&chat("What is a badger?"), &[("traceparent", &parent)]);
    let plain = gateway.chat(&chat("What is a shrew?"), &[]);
    let seen = mock.requests();
    assert_eq!(seen[0].header("traceparent"), Some(parent.as_str()));
    assert_eq!(seen[1].header("traceparent"), None);
    assert_eq!(gateway.record(&traced.id())["predicate"]["trace_id"], TRACE);
    assert!(gateway.record(&plain.id())["predicate"].get("trace_id").is_none());
    for bad in ["00-xyz-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "x"] {
        let answer = gateway.chat(&chat("What is a hare?"), &[("traceparent", bad)]);
        assert!(gateway.record(&answer.id())["predicate"].get("trace_id").is_none(), "{bad}");
    }
}

#[test]
fn the_callers_bytes_go_upstream_as_they_are() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let body = "{ \"messages\" : [ {\"role\":\"user\", \"content\":\"caf\\u00e9 \\/ 1.0e2\"} ],\n \"model\":\"m\", \"future\": [1.10, {}], \"temperature\": 1.0 }";
    let answer = gateway.post(CHAT, &[], body.as_bytes());
    answer.is(200, "MISS");
    assert_eq!(mock.requests()[0].body, body.as_bytes());
    let request = gateway.record(&answer.id())["predicate"]["request"].clone();
    assert_eq!((&request["forwarded"], &request["bytes"]), (&json!({ "changed": false }), &json!(body.len())));
}

#[test]
fn models_of_all_providers_are_listed_once() {
    let (one, two) = (mock(), mock());
    let gateway = Setup::on(&one).set("provider.1.name", "second").set("provider.1.base_url", &two.base_url()).start();
    let list = gateway.get("/v1/models");
    assert_eq!(list.status, 200);
    let direct = ask(one.addr(), "GET", "/v1/models", &[], b"").json();
    let ids = |list: &serde_json::Value| {
        list["data"].as_array().expect("a list").iter().map(|model| model["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&list.json()), ids(&direct));
    assert_eq!((one.counts().requests, two.counts().requests), (2, 1));
    let first = &list.json()["data"][0];
    let alone = gateway.get(&format!("/v1/models/{}", first["id"].as_str().expect("an id")));
    assert_eq!((alone.status, &alone.json()), (200, first));
    assert_eq!(gateway.record(&alone.id())["predicate"]["response"]["outcome"], "complete");
    assert_eq!(gateway.post("/v1/models/m", &[], b"{}").refusal(405)["code"], "method_not_allowed");
}

#[test]
fn a_provider_that_fails_is_a_502_that_says_whether_to_retry() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for fault in [signet_mock::Fault::CloseBeforeHead, signet_mock::Fault::Reset] {
        mock.script([Behaviour::fault(fault)]);
        let answer = gateway.chat(&chat("What is a newt?"), &[]);
        assert_eq!(answer.refusal(502)["type"], "upstream_error");
        assert_eq!(answer.need("x-should-retry"), "false", "the provider may have worked");
    }
    assert_eq!(mock.counts().requests, 2, "what may be billed is not sent again");
    let addr =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port that is free again");
    let nobody = Setup::on(&mock).set("provider.0.base_url", &format!("http://{addr}/v1")).start();
    let answer = nobody.chat(&with(chat("What is a toad?"), json!({"stream": true})), &[]);
    answer.refusal(502);
    assert_eq!(answer.need("x-should-retry"), "true", "nothing was sent");
}

#[test]
fn idle_connections_that_the_provider_closed_cost_no_request() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for n in 0..20 {
        let answer = gateway.chat(&chat(&format!("What is bird {n}?")), &[("X-Cache-Mode", "off")]);
        answer.is(200, "BYPASS");
        mock.close_idle();
    }
    assert_eq!(mock.counts().requests, 20);
}

#[test]
fn a_provider_over_tls_and_http2_is_asked_on_a_connection_that_stays() {
    let behaviour = Behaviour { chunks: Some(6), ..Behaviour::default() };
    let mock = MockUpstream::start(Config { tls: true, h2: true, behaviour, ..Config::default() }).expect("a port");
    let folder = tempfile::TempDir::new().expect("a folder");
    let trusted = folder.path().join("ca.pem");
    std::fs::write(&trusted, mock.ca_pem().expect("it serves TLS")).expect("a file");
    let gateway = Setup::on(&mock).env("SSL_CERT_FILE", trusted.to_str().expect("plain")).start();
    for n in 0..5 {
        let prompt = format!("What is fish {n}?");
        let answer = gateway.chat(&chat(&prompt), &[("X-Cache-Mode", "off")]);
        assert_eq!(answer.said(), signet_mock::answer_text(&prompt));
        let stream = gateway.chat(&crate::gateway::streamed(&prompt), &[("X-Cache-Mode", "off")]);
        assert_eq!(stream.streamed(), signet_mock::answer_text(&prompt));
    }
    let counts = mock.counts();
    // Each core that serves has a connection of its own.
    let cores = std::thread::available_parallelism().expect("a number of cores").get() as u64;
    assert!(counts.requests == 10 && counts.connections <= cores, "{counts:?}");
    let other = MockUpstream::start(Config { tls: true, ..Config::default() }).expect("a port");
    std::fs::write(&trusted, other.ca_pem().expect("it serves TLS")).expect("a file");
    let untrusting = Setup::on(&mock).env("SSL_CERT_FILE", trusted.to_str().expect("plain")).start();
    let answer = untrusting.chat(&chat("What is a carp?"), &[]);
    assert!(answer.refusal(502)["message"].as_str().is_some_and(|text| text.contains("TLS")), "{}", answer.text());
}

#[test]
fn an_open_gateway_is_one_tenant_on_any_address_and_a_keyed_one_stays_on_loopback() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("auth.mode", "open").set("server.listen", "0.0.0.0:0").start();
    gateway.chat(&chat("What is a perch?"), &[("Authorization", "Bearer a")]).is(200, "MISS");
    gateway.chat(&chat("What is a perch?"), &[]).is(200, "EXACT");
    let folder = tempfile::TempDir::new().expect("a folder");
    let out = Setup::on(&mock).set("server.listen", "0.0.0.0:0").run(folder.path());
    assert_eq!(out.status.code(), Some(78), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn a_query_that_does_not_fit_behind_the_path_of_a_provider_is_the_callers_fault_and_no_panic() {
    let mock = mock();
    let base = format!("{}/{}", mock.base_url(), "long/".repeat(40));
    let gateway = Setup::on(&mock).set("provider.0.base_url", &base).start();
    for length in [8 * 1024 + 1, 65_300] {
        let path = format!("{CHAT}?{}", "q".repeat(length));
        let answer = gateway.post(&path, &[], chat("What is a weir?").to_string().as_bytes());
        answer.refusal(400);
        assert_eq!(gateway.record(&answer.id())["predicate"]["response"]["outcome"], "invalid");
    }
    assert_eq!((mock.counts().requests, gateway.metric("signet_panics_total")), (0, 0));
}
