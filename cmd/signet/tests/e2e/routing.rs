//! Which of several providers is asked, how often, and what is said of it.

use crate::client::{Answer, ask};
use crate::gateway::{Gateway, Setup, chat, mock, mock_with, streamed, with};
use crate::keeper::Keeper;
use crate::stack::free_address;
use serde_json::{Value, json};
use signet_mock::{Behaviour, Fault, MockUpstream};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What each provider's limits are where a fault has to show soon.
const SOON_MS: &str = "400";

/// A gateway before two providers, and these models at both: `m0`, `m1`, …. Each has its own breaker.
fn before(first: &str, second: &str, models: usize) -> Setup {
    let mut setup = Setup::on(&mock());
    for (at, (name, base_url)) in [("a", first), ("b", second)].into_iter().enumerate() {
        let key = |key: &str| format!("provider.{at}.{key}");
        setup = setup.set(&key("name"), name).set(&key("base_url"), base_url).set(&key("api_key_env"), "MOCK_KEY");
        for limit in ["first_byte", "idle", "connect"] {
            setup = setup.set(&key(&format!("{limit}_timeout_ms")), SOON_MS);
        }
        setup = setup.set(&key("total_timeout_ms"), "1500");
    }
    for model in 0..models {
        setup = setup.set(&format!("model.{model}.name"), &format!("m{model}"));
        for (target, provider) in ["a", "b"].into_iter().enumerate() {
            let key = |key: &str| format!("model.{model}.targets.{target}.{key}");
            setup = setup.set(&key("provider"), provider).set(&key("model"), &format!("{provider}-{model}"));
        }
    }
    setup
}

fn to(model: &str, request: Value) -> Value {
    with(request, json!({"model": model}))
}

/// How many attempts the answer says there were, and why.
fn attempts(answer: &Answer) -> (usize, String) {
    let text = answer.need("x-signet-attempts");
    let (count, why) = text.split_once(';').unwrap_or((text, ""));
    (count.parse().expect("a number"), why.to_owned())
}

/// The attempts of a record: provider, status, failure and pause.
fn recorded(gateway: &Gateway, id: &str) -> Vec<(String, u64, Option<String>, Option<u64>)> {
    let found = gateway.record(id)["predicate"]["provider"]["attempts"].take();
    let line = |it: &Value| {
        let provider = it["provider"].as_str().expect("a name").to_owned();
        let (status, reason) = (it["status"].as_u64().expect("a status"), it["reason"].as_str().map(str::to_owned));
        (provider, status, reason, it["wait_ms"].as_u64())
    };
    found.as_array().expect("a list").iter().map(line).collect()
}

#[test]
fn header_and_record_tell_as_many_attempts_as_the_providers_saw_whatever_goes_wrong() {
    let faults: Vec<Behaviour> = Fault::all().map(Behaviour::fault).collect();
    let statuses = [400, 401, 404, 408, 429, 500, 502, 503, 504, 529].map(Behaviour::status);
    let rows: Vec<Behaviour> = faults.into_iter().chain(statuses).collect();
    let (a, b, data) = (mock(), mock(), TempDir::new().expect("a folder"));
    let gateway = before(&a.base_url(), &b.base_url(), 2 * rows.len()).within(data.path()).start();
    for (at, row) in rows.iter().enumerate() {
        for (form, request) in [chat("Which bird?"), streamed("Which bird?")].into_iter().enumerate() {
            // A model of its own, so that nothing is held against its targets.
            let request = to(&format!("m{}", 2 * at + form), request);
            a.script([row.clone()]);
            let before = (a.counts().requests, b.counts().requests);
            let answer = gateway.chat(&request, &[("Cache-Control", "no-store")]);
            let calls = (a.counts().requests - before.0, b.counts().requests - before.1);
            let busy = matches!(row.status, Some(429 | 503 | 529));
            let what = format!("{row:?} as {form}: {} {calls:?}", answer.status);
            assert_eq!(calls, (1, u64::from(busy)), "only a refusal for want of capacity goes on: {what}");
            assert_eq!(attempts(&answer).0 as u64, calls.0 + calls.1, "{what}");
            assert_eq!(recorded(&gateway, &answer.id()).len() as u64, calls.0 + calls.1, "{what}");
            assert!(!busy || answer.status == 200, "{what}");
        }
    }
    drop(gateway.stop());
    Keeper::of(data.path()).accepts(data.path());
}

#[test]
fn a_pause_that_the_caller_waits_for_is_made_once_and_told() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let busy = |retry_after: &str| Behaviour { retry_after: Some(retry_after.to_owned()), ..Behaviour::status(429) };
    mock.script([busy("1")]);
    let started = Instant::now();
    let answer = gateway.chat(&chat("What is a rail?"), &[("x-stainless-read-timeout", "20")]);
    answer.is(200, "MISS");
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(attempts(&answer), (2, r#"why="mock/m 429, mock/m 200 +1000ms""#.to_owned()));
    let told = recorded(&gateway, &answer.id());
    assert_eq!(told[0], ("mock".to_owned(), 429, None, None));
    assert_eq!(told[1], ("mock".to_owned(), 200, None, Some(1000)));
    for (headers, retry_after) in
        [(&[][..], "1"), (&[("X-Signet-Timeout-Ms", "900")], "1"), (&[("x-stainless-timeout", "600")], "11")]
    {
        mock.script([busy(retry_after)]);
        let before = mock.counts().requests;
        let refused = gateway.chat(&chat(&format!("What is a crake? {retry_after} {headers:?}")), headers);
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some(retry_after)), "{headers:?}");
        assert_eq!(mock.counts().requests - before, 1);
    }
}

#[test]
fn a_caller_gets_its_504_in_time_and_a_stream_that_runs_is_not_ended_by_its_deadline() {
    let mock = mock_with(Behaviour { chunks: Some(8), ..Behaviour::default() });
    let gateway = Setup::on(&mock).start();
    // Others may wait for the same call, so it is the caller who goes and not the call that ends.
    let class = "abandoned";
    for request in [chat("What is a rail?"), streamed("What is a rail?")] {
        mock.script([Behaviour::fault(Fault::Hang)]);
        let started = Instant::now();
        let answer = gateway.chat(&request, &[("X-Signet-Timeout-Ms", "600")]);
        assert!(started.elapsed() < Duration::from_millis(600), "{:?}", started.elapsed());
        assert_eq!(answer.refusal(504)["type"], "upstream_error");
        assert_eq!(attempts(&answer), (1, format!("why=\"mock/m {class}\"")));
        let record = gateway.record(&answer.id())["predicate"].take();
        assert_eq!(record["response"]["outcome"], "timeout");
        assert_eq!(record["provider"]["attempts"][0]["reason"], class);
    }
    mock.script([Behaviour { chunk_ms: Some(100), ..Behaviour::default() }]);
    let answer = gateway.chat(&streamed("What is a crake?"), &[("X-Signet-Timeout-Ms", "300")]);
    answer.is(200, "MISS");
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    let nonsense = gateway.chat(&chat("What is a coot?"), &[("X-Signet-Timeout-Ms", "soon")]);
    assert_eq!(nonsense.refusal(400)["param"], "X-Signet-Timeout-Ms");
    let ignored = gateway.chat(&chat("What is a coot?"), &[("x-stainless-timeout", "soon")]);
    ignored.is(200, "MISS");
    let seen = mock.requests();
    assert!(seen.iter().all(|seen| seen.header("x-signet-timeout-ms").is_none()), "it was meant for us");
}

#[test]
fn a_dead_target_is_left_alone_after_five_failures_and_its_fallbacks_answers_are_not_stored() {
    let b = mock();
    let gateway = before(&format!("http://{}/v1", free_address()), &b.base_url(), 1).start();
    let mut told = Vec::new();
    for _ in 0..8 {
        let answer = gateway.chat(&to("m0", chat("What is a rail?")), &[]);
        answer.is(200, "MISS");
        told.push(attempts(&answer));
    }
    let both = (2, r#"why="a/a-0 connect_refused, b/b-0 200""#.to_owned());
    assert!(told[..5].iter().all(|attempts| *attempts == both), "{told:?}");
    let skipped = (1, r#"why="a/a-0 circuit_open, b/b-0 200""#.to_owned());
    assert!(told[5..].iter().all(|attempts| *attempts == skipped), "{told:?}");
    assert_eq!(b.counts().requests, 8);
}

/// Two providers of one order.
fn shared(a: &MockUpstream, b: &MockUpstream, weights: [&str; 2]) -> Setup {
    let mut setup = before(&a.base_url(), &b.base_url(), 1).set("model.0.aliases", "small, tiny");
    for (target, weight) in weights.into_iter().enumerate() {
        setup = setup
            .set(&format!("model.0.targets.{target}.order"), "0")
            .set(&format!("model.0.targets.{target}.weight"), weight);
    }
    setup
}

#[test]
fn a_conversation_stays_with_one_of_equal_providers_and_conversations_are_shared() {
    let (a, b) = (mock(), mock());
    let gateway = shared(&a, &b, ["1", "1"]).start();
    let mut of: BTreeMap<u64, usize> = BTreeMap::new();
    for conversation in 0..16 {
        let first = json!({"role": "user", "content": format!("Tell me of the bird {conversation}.")});
        let before = a.counts().requests;
        for turns in 1..4 {
            let more = (1..turns).map(|turn| json!({"role": "user", "content": format!("And then, {turn}?")}));
            let messages: Vec<Value> = std::iter::once(first.clone()).chain(more).collect();
            let request = json!({"model": "m0", "messages": messages});
            gateway.chat(&request, &[("X-Cache-Mode", "exact")]).is(200, "MISS");
        }
        *of.entry(a.counts().requests - before).or_default() += 1;
    }
    assert_eq!(of.keys().copied().collect::<Vec<_>>(), [0, 3], "never both in one conversation: {of:?}");
    assert!(of.values().all(|&share| share >= 2), "{of:?}");
}

#[test]
fn answers_of_every_member_of_the_first_tier_are_stored_under_one_key_and_an_alias_is_listed() {
    let (a, b) = (mock(), mock());
    let gateway = shared(&a, &b, ["1", "1"]).start();
    for bird in 0..12 {
        let request = to("small", chat(&format!("Which bird is number {bird}?")));
        gateway.chat(&request, &[("X-Cache-Mode", "exact")]).is(200, "MISS");
        gateway.chat(&request, &[("X-Cache-Mode", "exact")]).is(200, "EXACT");
    }
    let (a, b) = (a.counts().requests, b.counts().requests);
    assert!(a > 0 && b > 0 && a + b == 12, "{a} and {b}");
    let listed = gateway.get("/v1/models").json();
    let names: Vec<_> = listed["data"].as_array().expect("a list").iter().filter_map(|it| it["id"].as_str()).collect();
    assert_eq!(names, ["m0", "small", "tiny"]);
    assert_eq!(gateway.get("/v1/models/small").json(), listed["data"][1]);
    let unknown = gateway.get("/v1/models/large%20one");
    let error = unknown.refusal(404);
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!("model_not_found"), &json!("The model `large one` does not exist here."))
    );
    assert_eq!(gateway.get("/v1/models/").refusal(404)["code"], "unknown_url");
}

#[test]
fn peers_that_accept_and_close_are_asked_once_for_each_request() {
    let accepting = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (addr, count) = (listener.local_addr().expect("bound"), Arc::new(AtomicUsize::new(0)));
        let counted = count.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(stream);
            }
        });
        (format!("http://{addr}/v1"), count)
    };
    let ((a, a_count), (b, b_count)) = (accepting(), accepting());
    let gateway = before(&a, &b, 1).start();
    let answer = gateway.chat(&to("m0", chat("What is a rail?")), &[]);
    let (a, b) = (a_count.load(Ordering::SeqCst), b_count.load(Ordering::SeqCst));
    assert_eq!(answer.refusal(502)["type"], "upstream_error");
    assert_eq!(attempts(&answer).0, a + b, "{a} and {b}");
    assert!(a == 1 && b <= 1, "{a} and {b}");
}

fn explain(gateway: &Gateway, asked: &Value) -> Answer {
    let token = std::fs::read_to_string(gateway.data.join("admin.token")).expect("a token");
    let headers = [("Authorization", &*format!("Bearer {token}")), ("Content-Type", "application/json")];
    ask(gateway.admin, "POST", "/admin/v1/route/explain", &headers, asked.to_string().as_bytes())
}

#[test]
fn explain_tells_where_a_request_would_go_and_why_and_asks_nobody() {
    let b = mock();
    let gateway = before(&format!("http://{}/v1", free_address()), &b.base_url(), 1).start();
    for _ in 0..5 {
        gateway.chat(&to("m0", chat("What is a rail?")), &[]).is(200, "MISS");
    }
    for _ in 0..2 {
        let told = explain(&gateway, &json!({"model": "m0", "headers": {"X-Signet-Timeout-Ms": "2500"}})).json();
        assert_eq!(
            (&told["attempts_max"], &told["deadline_ms"], &told["affinity"]),
            (&3.into(), &2450.into(), &"none".into())
        );
        let [first, second] = &told["targets"].as_array().expect("a list")[..] else { panic!("{told}") };
        assert_eq!(
            (&first["provider"], &first["why"], &first["stored"]),
            (&"b".into(), &"ready".into(), &false.into())
        );
        assert_eq!((&second["provider"], &second["why"]), (&"a".into(), &"open".into()));
        assert!((1..6000).contains(&second["for_ms"].as_u64().expect("a time")), "{second}");
    }
    assert_eq!(b.counts().requests, 5);
    let state = gateway.admin_get("/admin/v1/route/state").json();
    let [a, b] = &state.as_array().expect("a list")[..] else { panic!("{state}") };
    assert_eq!(
        (&a["circuit"], &a["failures"], &a["retries"]["connect_refused"]),
        (&"open".into(), &5.into(), &5.into())
    );
    assert_eq!((&b["circuit"], &b["failures"], &b["in_flight"]), (&"closed".into(), &0.into(), &0.into()));
    assert_eq!(gateway.metric(r#"signet_upstream_circuit{provider="a",model="a-0",state="open"}"#), 1);
    assert_eq!(
        gateway.metric(r#"signet_upstream_retries_total{provider="a",model="a-0",reason="connect_refused"}"#),
        5
    );
    assert_eq!(explain(&gateway, &json!({"model": "other"})).status, 404);
    for nonsense in [
        json!({}),
        json!({"api": "speech", "model": "m0"}),
        json!({"body": {"model": "m0"}}),
        json!({"model": "m0", "headers": {"a b": "c"}}),
        json!({"model": "m0", "headers": {"X-Signet-Timeout-Ms": "0"}}),
        json!({"model": "m0", "tenant": "me"}),
        json!({"model": "m0", "more": 1}),
    ] {
        assert_eq!(explain(&gateway, &nonsense).status, 400, "{nonsense}");
    }
    for name in ["speech", "models"] {
        let told = String::from_utf8(explain(&gateway, &json!({"api": name, "model": "m0"})).body).expect("text");
        let names = "chat, completions, responses, embeddings, messages, count_tokens";
        assert_eq!(told, format!("api: {name:?} is none of {names}\n"));
    }
    assert_eq!(ask(gateway.admin, "POST", "/admin/v1/route/explain", &[], b"{}").status, 401);
}

#[test]
fn what_explain_says_of_a_conversation_is_what_is_done_with_it() {
    let (a, b) = (mock(), mock());
    let gateway = shared(&a, &b, ["1", "3"]).start();
    for conversation in 0..10 {
        let request = to("tiny", chat(&format!("Tell me of the bird {conversation}.")));
        let told = explain(&gateway, &json!({"body": request})).json();
        assert_eq!(told["affinity"], "prefix");
        let before = a.counts().requests;
        gateway.chat(&request, &[("X-Cache-Mode", "exact")]).is(200, "MISS");
        let asked = if a.counts().requests > before { "a" } else { "b" };
        assert_eq!(told["targets"][0]["provider"], asked, "{told}");
    }
}

#[test]
fn explain_says_the_refusal_that_the_caller_gets_and_what_a_fallback_could_not_be_asked() {
    let mock = mock();
    let gateway = Setup::on(&mock)
        .set("provider.0.kind", "anthropic")
        .set("provider.1.name", "other")
        .set("provider.1.base_url", &mock.base_url())
        .set("provider.1.api_key_env", "MOCK_KEY")
        .set("model.0.name", "m")
        .set("model.0.targets.0.provider", "mock")
        .set("model.0.targets.0.model", "claude")
        .set("model.0.targets.1.provider", "other")
        .set("model.0.targets.1.model", "gpt")
        .start();
    let request = with(chat("What is a rail?"), json!({"max_tokens": 9, "seed": 1}));
    let told = explain(&gateway, &json!({"body": request})).json();
    let refused = gateway.chat(&request, &[]).refusal(400);
    for field in ["message", "param", "code"] {
        assert_eq!(told["refusal"][field], refused[field], "{told}");
    }
    assert_eq!((&told["refusal"]["param"], &told["key_fp"]), (&json!("seed"), &Value::Null));
    let sayable = with(chat("What is a rail?"), json!({"max_tokens": 9}));
    let told = explain(&gateway, &json!({"body": sayable})).json();
    let [first, second] = &told["targets"].as_array().expect("a list")[..] else { panic!("{told}") };
    assert_eq!((&told["refusal"], &first["refusal"]), (&Value::Null, &Value::Null));
    assert_eq!((&first["api"], &first["stored"]), (&json!("messages"), &json!(true)));
    assert_eq!((&second["api"], &second["stored"], &second["refusal"]), (&json!("chat"), &json!(false), &Value::Null));
    let message = with(sayable, json!({"top_k": 5}));
    let told = explain(&gateway, &json!({"api": "messages", "body": message})).json();
    let [first, second] = &told["targets"].as_array().expect("a list")[..] else { panic!("{told}") };
    assert_eq!((&told["refusal"], &first["refusal"]), (&Value::Null, &Value::Null), "its own API");
    assert_eq!(second["refusal"]["param"], "top_k", "{told}");
    assert_eq!(mock.counts().requests, 0);
}

#[test]
fn explain_names_the_key_as_the_record_does_and_tells_headers_by_name_alone() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).set("provider.0.forward_headers", "x-team").start();
    let headers = [
        ("Authorization", "Bearer sk-a-secret"),
        ("OpenAI-Beta", "secret-beta"),
        ("X-Team", "secret-red"),
        ("X-Else", "secret-else"),
        ("X-Cache-Namespace", "secret-ns"),
    ];
    let request = chat("What is a rail?");
    let answer = gateway.chat(&request, &headers);
    answer.is(200, "MISS");
    let record = gateway.record_as(&answer.id(), &headers[..1])["predicate"].take();
    let map: Value = headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let asked = |headers: &Value| {
        explain(&gateway, &json!({"body": request, "headers": headers, "tenant": record["caller"]["tenant"]}))
    };
    let answer = asked(&map);
    let told = answer.json();
    assert_eq!(told["key_fp"], record["cache"]["key_fp"], "{told}");
    let crossing = |list: &str| {
        let names = told["targets"][0]["headers"][list].as_array().expect("a list").clone();
        let mut names: Vec<String> = names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(crossing("forwarded"), ["authorization", "openai-beta", "x-team"]);
    assert_eq!(crossing("dropped"), ["x-cache-namespace", "x-else"]);
    assert!(!answer.text().contains("secret") && !answer.text().contains("rail"), "{}", answer.text());
    assert_ne!(asked(&json!({})).json()["key_fp"], record["cache"]["key_fp"], "another namespace is another key");
    let stranger = json!({"body": request, "tenant": "00".repeat(16)});
    assert_eq!(explain(&gateway, &stranger).json()["key_fp"], Value::Null, "nobody has seen this tenant");
    assert_eq!(mock.counts().requests, 1);
}
