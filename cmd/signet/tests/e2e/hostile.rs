//! Callers who mean harm to others: what one tenant does must neither reach nor show another.

use crate::client::{Answer, ask};
use crate::gateway::{Gateway, Setup, chat, eventually, mock, streamed, with};
use serde_json::{Value, json};
use signet_mock::{Behaviour, MockUpstream};
use tempfile::TempDir;

const ASKED: &str = "What is the capital of France?";
const REPHRASED: &str = "What's the capital of France?";
/// As long as [`ASKED`], and asked by nobody else.
const UNASKED: &str = "What is the capital of Norway?";
const UNASKED_REPHRASED: &str = "What's the capital of Norway?";
const MINE: &str = "Bearer mine";
const THEIRS: &str = "Bearer theirs";

/// One text for every question, so that answers do not differ by their question.
fn one_answer() -> MockUpstream {
    let mock = mock();
    let text = Some("It is a city.".to_owned());
    mock.script([Behaviour { text, chunks: Some(3), times: Some(10_000), ..Behaviour::default() }]);
    mock
}

fn asked_by(gateway: &Gateway, who: &str, request: &Value, headers: &[(&str, &str)]) -> Answer {
    gateway.chat(request, &[&[("Authorization", who)], headers].concat())
}

/// All that an answer shows but what is new in each: ids, times, and digests over them.
fn shown(answer: &Answer) -> (u16, Vec<(String, String)>, String) {
    let masked = |(name, value): &(String, String)| {
        let value = match name.to_ascii_lowercase().as_str() {
            "lineage-id"
            | "lineage-receipt"
            | "lineage-opening"
            | "content-digest"
            | "x-request-id"
            | "date"
            | "x-upstream-request-id" => "...".to_owned(),
            "server-timing" => value.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect(),
            _ => value.clone(),
        };
        (name.clone(), value)
    };
    let body = answer.text().replace("France", "...").replace("Norway", "...");
    let trailers = answer.trailers.iter().map(|(name, _)| (name.clone(), String::new()));
    let hidden = |body: String| match serde_json::from_str::<Value>(&body) {
        Ok(mut json) => {
            json["id"].take();
            json.to_string()
        }
        Err(_) => body.split("\"id\":\"").map(|piece| piece.split_once('"').map_or(piece, |(_, rest)| rest)).collect(),
    };
    (answer.status, answer.headers.iter().map(masked).chain(trailers).collect(), hidden(body))
}

#[test]
fn what_another_tenant_asked_before_leaves_no_trace_in_any_answer() {
    let mock = one_answer();
    let gateway = Setup::passthrough(&mock).start();
    for request in [chat(ASKED), streamed(ASKED)] {
        for _ in 0..2 {
            asked_by(&gateway, THEIRS, &request, &[("X-Cache-Namespace", "shop")]);
            asked_by(&gateway, THEIRS, &request, &[]);
        }
    }
    let wishes: [&[(&str, &str)]; 8] = [
        &[("Cache-Control", "only-if-cached")],
        &[("X-Cache-Similarity-Min", "0")],
        &[("X-Cache-Mode", "exact")],
        &[("Cache-Control", "no-cache")],
        &[("Cache-Control", "no-store")],
        &[("Cache-Control", "max-age=1000000")],
        &[("X-Cache-Namespace", "shop")],
        &[("X-Cache-TTL", "9")],
    ];
    for (number, wish) in wishes.iter().enumerate() {
        for (request, unasked) in [
            (chat(ASKED), chat(UNASKED)),
            (chat(REPHRASED), chat(UNASKED_REPHRASED)),
            (streamed(ASKED), streamed(UNASKED)),
        ] {
            // Somebody new each time, who has asked nothing yet.
            let (one, other) = (format!("{MINE} {number} a {request}"), format!("{MINE} {number} b {request}"));
            let after_them = shown(&asked_by(&gateway, &one, &request, wish));
            let after_nobody = shown(&asked_by(&gateway, &other, &unasked, wish));
            assert_eq!(after_them, after_nobody, "{wish:?}");
            assert!(!after_them.1.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-cache-similarity")));
        }
    }
}

#[test]
fn ids_of_another_tenants_answers_are_as_unknown_as_ids_of_none() {
    let mock = one_answer();
    let gateway = Setup::passthrough(&mock).start();
    let theirs = asked_by(&gateway, THEIRS, &chat(ASKED), &[]).id();
    let nobodys = "01930000-0000-7000-8000-000000000000";
    let tell = |id: &str, method: &str, path: &str, body: &[u8]| {
        let headers = [("Authorization", MINE), ("Content-Type", "application/json")];
        let answer = ask(gateway.addr, method, &path.replace("ID", id), &headers, body);
        assert_eq!(answer.status, 404, "{}", answer.text());
        let (status, headers, body) = shown(&answer);
        (status, headers, body.replace(id, "ID"))
    };
    for (method, path, body) in [
        ("GET", "/v1/lineage/ID", &b""[..]),
        ("POST", "/v1/lineage/ID/feedback", br#"{"cache":"wrong"}"#),
        ("POST", "/v1/lineage/ID/feedback", br#"{"cache":"right"}"#),
    ] {
        assert_eq!(tell(&theirs, method, path, body), tell(nobodys, method, path, body), "{method} {path}");
    }
    asked_by(&gateway, THEIRS, &chat(ASKED), &[]).is(200, "EXACT");
}

#[test]
fn a_flood_of_feedback_takes_back_nothing_of_others_and_purging_is_not_for_callers() {
    let mock = one_answer();
    let gateway = Setup::passthrough(&mock).start();
    let theirs = asked_by(&gateway, THEIRS, &chat(ASKED), &[]).id();
    asked_by(&gateway, MINE, &chat(ASKED), &[]).is(200, "MISS");
    let wrong = |id: &str| {
        let path = format!("/v1/lineage/{id}/feedback");
        gateway.post(&path, &[("Authorization", MINE)], br#"{"cache":"wrong"}"#).status
    };
    for _ in 0..40 {
        assert_eq!(wrong(&theirs), 404);
        let own = asked_by(&gateway, MINE, &chat(ASKED), &[]).id();
        assert_eq!(wrong(&own), 200);
    }
    asked_by(&gateway, THEIRS, &chat(ASKED), &[]).is(200, "EXACT");
    asked_by(&gateway, THEIRS, &chat(REPHRASED), &[]).is(200, "SEMANTIC");
    let purge = |to, token: &str| {
        let headers = [("Authorization", token), ("Content-Type", "application/json")];
        ask(to, "POST", "/admin/v1/cache/purge", &headers, br#"{"all":true}"#).status
    };
    assert_eq!(purge(gateway.addr, MINE), 404);
    assert_eq!(purge(gateway.admin, MINE), 401);
    asked_by(&gateway, THEIRS, &chat(ASKED), &[]).is(200, "EXACT");
}

#[test]
fn answers_given_to_anonymous_callers_are_for_anonymous_callers() {
    let mock = one_answer();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::passthrough(&mock).within(folder.path());
    let open = setup.clone().set("auth.mode", "open");
    let gateway = open.start();
    gateway.chat(&chat(ASKED), &[]).is(200, "MISS");
    asked_by(&gateway, MINE, &chat(ASKED), &[]).is(200, "EXACT");
    drop(gateway.stop());
    let gateway = setup.start();
    for name in ["anonymous", "Bearer anonymous", "open", "local", "Bearer local", MINE] {
        asked_by(&gateway, name, &chat(ASKED), &[]).is(200, "MISS");
        asked_by(&gateway, name, &chat(REPHRASED), &[]).is(200, "SEMANTIC");
    }
    asked_by(&gateway, MINE, &chat(UNASKED), &[]).is(200, "MISS");
    drop(gateway.stop());
    let gateway = open.start();
    eventually("stored answers", || {
        let answer = gateway.chat(&chat(ASKED), &[("Cache-Control", "only-if-cached")]);
        (answer.status == 200).then_some(())
    });
    gateway.chat(&chat(UNASKED), &[]).is(200, "MISS");
}

#[test]
fn namespaces_are_taken_byte_by_byte_or_refused() {
    let mock = one_answer();
    let gateway = Setup::passthrough(&mock).start();
    let longest = "n".repeat(128);
    let odd = [
        "team", "Team", "TEAM", "team/", "team/a", "team:a", "../team", "team%2Fa", "..", ".", "-", "\"team\"",
        "team;a", "*", "null", &longest,
    ];
    for expected in ["MISS", "EXACT"] {
        asked_by(&gateway, MINE, &chat(ASKED), &[]).is(200, expected);
        for namespace in odd {
            asked_by(&gateway, MINE, &chat(ASKED), &[("X-Cache-Namespace", namespace)]).is(200, expected);
        }
    }
    let calls = mock.counts().requests;
    assert_eq!(calls, 1 + odd.len() as u64);
    let too_long = "n".repeat(10_240);
    let refused = ["t\u{e9}am", "te\u{301}am", "a b", "a\tb", "\u{202e}team", &longest.replace('n', "nn"), &too_long];
    for namespace in refused {
        let refusal = asked_by(&gateway, MINE, &chat(ASKED), &[("X-Cache-Namespace", namespace)]).refusal(400);
        let param = refusal["param"].as_str();
        assert!(param.is_some_and(|param| param.eq_ignore_ascii_case("X-Cache-Namespace")), "{refusal}");
    }
    let twice = [("X-Cache-Namespace", "a"), ("X-Cache-Namespace", "a")];
    asked_by(&gateway, MINE, &chat(ASKED), &twice).refusal(400);
    assert_eq!(mock.counts().requests, calls);
}

#[test]
fn a_caller_that_raises_the_similarity_raises_its_own() {
    let mock = one_answer();
    let setup = Setup::passthrough(&mock).set("semantic.similarity_min", "0.8");
    let gateway = setup.start();
    let (stored, near) = ("How do I choose a lawyer in a small town?", "How do I select an attorney in a small town?");
    for who in [MINE, THEIRS] {
        asked_by(&gateway, who, &chat(stored), &[]).is(200, "MISS");
    }
    let raised = [("X-Cache-Similarity-Min", "1"), ("Cache-Control", "only-if-cached")];
    for _ in 0..20 {
        asked_by(&gateway, MINE, &chat(near), &raised).refusal(504);
    }
    for who in [THEIRS, MINE] {
        asked_by(&gateway, who, &chat(near), &[]).is(200, "SEMANTIC");
    }
}

#[test]
fn keys_that_look_alike_to_a_reader_are_tenants_of_their_own() {
    let mock = one_answer();
    let gateway = Setup::passthrough(&mock).start();
    let keys = [
        "Bearer caf\u{e9}",
        "Bearer cafe\u{301}",
        "Bearer cafe",
        "bearer cafe",
        "Bearer \u{ff43}afe",
        "Bearer cafe\u{200b}",
    ];
    for expected in ["MISS", "EXACT"] {
        for key in keys {
            asked_by(&gateway, key, &chat(ASKED), &[]).is(200, expected);
        }
    }
}

#[test]
fn a_flood_of_questions_leaves_others_their_share_of_the_semantic_cache() {
    let mock = one_answer();
    let gateway = Setup::passthrough(&mock).set("semantic.max_entries", "20").start();
    let places = ["France", "Norway", "Peru", "Kenya", "Japan", "Chile", "Ghana", "Nepal"];
    for place in places {
        asked_by(&gateway, THEIRS, &chat(&format!("What is the capital of {place}?")), &[]).is(200, "MISS");
    }
    for number in 0..60 {
        asked_by(&gateway, MINE, &chat(&format!("What is the height of building {number}?")), &[]).is(200, "MISS");
    }
    assert_eq!(gateway.status()["semantic_entries"], 20);
    for place in places {
        asked_by(&gateway, THEIRS, &chat(&format!("What's the capital of {place}?")), &[]).is(200, "SEMANTIC");
    }
}

#[test]
fn text_that_imitates_the_borders_between_fields_reaches_nothing_else() {
    let mock = one_answer();
    let gateway = Setup::passthrough(&mock).start();
    let system = |text: &str| {
        with(
            chat(ASKED),
            json!({"messages": [{"role": "system", "content": text}, {"role": "user", "content": ASKED}]}),
        )
    };
    let requests = [
        (system("a"), "x"),
        (system("a\",\"content\":\"b"), "x"),
        (system("a\u{0}x"), ""),
        (system("a"), "xa"),
        (system("ax"), ""),
        (with(chat(ASKED), json!({"model": "mx"})), ""),
        (with(chat(ASKED), json!({"model": "m"})), "x"),
        (with(chat(ASKED), json!({"model": "m/x"})), ""),
        (chat(&format!("{ASKED}\u{0}")), ""),
        (chat(&format!("x{ASKED}")), ""),
    ];
    for expected in ["MISS", "EXACT"] {
        for (request, namespace) in &requests {
            let exact = [("X-Cache-Namespace", *namespace), ("X-Cache-Mode", "exact")];
            asked_by(&gateway, MINE, request, &exact).is(200, expected);
        }
    }
}
