//! The tool as a process, against the mock and against gateways that lie.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use signet_mock::{Behaviour, Config, Fault, MockUpstream, answer_text, chat_body};

fn mock(behaviour: Behaviour) -> MockUpstream {
    MockUpstream::start(Config { behaviour, ..Config::default() }).expect("a free port")
}

fn tool(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_signet-load")).args(arguments).output().expect("the tool runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs `matched` and reads its JSON.
fn matched(arguments: &[&str]) -> (Output, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("figures.json");
    let mut all = vec!["matched", "--json", path.to_str().expect("UTF-8")];
    all.extend(arguments);
    for (name, default) in [("--warmup", "3"), ("--rounds", "3")] {
        if !arguments.contains(&name) {
            all.extend([name, default]);
        }
    }
    let output = tool(&all);
    let figures = std::fs::read(&path).map(|bytes| serde_json::from_slice(&bytes).expect("JSON")).unwrap_or_default();
    (output, figures)
}

#[test]
fn every_mode_is_measured_on_every_side_without_a_fault() {
    let mock = mock(Behaviour::default());
    let url = mock.base_url();
    let modes = ["--mode", "json,sse,sse-burst,hit", "-c", "1,3", "-n", "30", "--api-key", "sk-secret-key"];
    let (output, figures) = matched(&[&["--direct", &url, "--gateway", &url, "--against", &url], &modes[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let runs = figures["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 8);
    for run in runs {
        for side in ["direct", "gateway", "against", "relay"] {
            assert_eq!(run["sides"][side]["ok"], 30, "{side} of {run}");
            assert_eq!(run["sides"][side]["rewritten"], 0);
        }
        assert!(run["deltas"]["gateway_to_relay"].as_f64() > Some(0.0));
        assert!(run["deltas"]["gateway_to_against"].as_f64() > Some(0.0));
        let gap = &run["sides"]["direct"]["gap_us"];
        match run["mode"].as_str().expect("a mode") {
            "sse" => assert!(gap["p50"].as_f64() > Some(0.0)),
            "sse-burst" => {} // one read or some, as the socket likes
            _ => assert!(gap.is_null()),
        }
    }
    assert!(figures["machine"]["cores"].as_u64() > Some(0));
    assert!(!figures.to_string().contains("sk-secret-key"));
    assert!(text(&output).contains("medians over rounds: added p50 us of the gateway"));
    let total = mock.counts();
    assert_eq!(total.requests, total.finished);
}

#[test]
fn behaviour_asked_for_by_flag_reaches_the_mock_through_the_relay() {
    let mock = mock(Behaviour::default());
    let flags = ["--mode", "sse", "--chunks", "5", "-c", "1", "-n", "3", "--chunk-ms", "1", "--latency-ms", "1"];
    let (output, figures) = matched(&[&["--direct", &mock.base_url()], &flags[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(figures["runs"][0]["sides"]["relay"]["ok"], 3);
    let probe = |seen: &signet_mock::Seen| String::from_utf8_lossy(&seen.body).contains("Is anybody there?");
    for seen in mock.requests().into_iter().filter(|seen| !probe(seen)) {
        let asked = ["x-mock-chunks", "x-mock-chunk-ms", "x-mock-latency-ms"].map(|name| seen.header(name));
        assert_eq!(asked, [Some("5"), Some("1"), Some("1")]);
    }
}

#[test]
fn a_profile_asks_for_its_pace_and_says_what_was_added_to_it() {
    let mock = mock(Behaviour::default());
    let url = mock.base_url();
    let flags = ["--profile", "chunks64", "-c", "2", "-n", "2", "--warmup", "0", "--rounds", "1"];
    let (output, figures) = matched(&[&["--direct", &url, "--gateway", &url, "--relay", "none"], &flags[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let run = &figures["runs"][0];
    assert_eq!((&run["mode"], &run["sides"]["gateway"]["ok"]), (&"sse".into(), &2.into()));
    for figure in ["gateway_added_ttft_p50_us", "gateway_added_gap_p99_us"] {
        assert!(run["deltas"][figure].is_f64(), "{figure}");
    }
    let asked = mock.requests().iter().filter(|seen| seen.header("x-mock-chunk-ms") == Some("20")).count();
    assert_eq!(asked, 4, "two a side");
}

#[test]
fn streams_are_held_in_the_middle_while_the_process_is_looked_at() {
    let mock = mock(Behaviour::default());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("held.json");
    let own = std::process::id().to_string();
    let flags = ["--rss-pid", &own, "-c", "2,5", "--events", "3", "--settle-ms", "1", "--no-store"];
    let files = ["held", "--gateway", &mock.base_url(), "--json", path.to_str().expect("UTF-8")];
    let output = tool(&[&files[..], &flags[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let figures: Value = serde_json::from_slice(&std::fs::read(&path).expect("written")).expect("JSON");
    let streams: Vec<_> =
        figures["looks"].as_array().expect("looks").iter().map(|look| look["streams"].as_u64()).collect();
    assert_eq!(streams, [Some(2), Some(5)]);
    assert!(text(&output).contains("5 open streams, 3 events each: "));
    assert!(figures["bytes_at_rest"].as_u64() > Some(0) && figures["looks"][1]["bytes_one_more"].is_f64());
    let held = mock.requests().into_iter().filter(|seen| seen.header("x-mock-fault") == Some("hang-after=3"));
    assert!(held.map(|seen| seen.header("cache-control").map(str::to_owned)).eq(vec![Some("no-store".to_owned()); 5]));
}

#[test]
fn a_profile_fails_where_headers_are_dropped_and_the_mock_has_another_pace() {
    let (direct, gateway) = (mock(Behaviour::default()), Gateway::start(Trust::Right));
    let url = format!("http://{}", gateway.address);
    let flags = ["--profile", "chunks64", "--relay", "none", "-n", "1", "-c", "1", "--rounds", "1", "--warmup", "0"];
    let (output, _) = matched(&[&["--direct", &direct.base_url(), "--gateway", &url], &flags[..]].concat());
    assert!(!output.status.success());
    assert!(text(&output).contains("does not pass on x-mock-"), "{}", text(&output));
}

#[test]
fn a_silence_inside_a_stream_is_counted_as_a_stall() {
    let honest = mock(Behaviour::default());
    let silent = mock(Behaviour { pause_ms: Some(600), ..Behaviour::fault(Fault::HalfEventAfter(5)) });
    let flags = ["--relay", "none", "--mode", "sse", "-c", "1", "-n", "2", "--rounds", "1", "--warmup", "0"];
    let urls = ["--direct", &honest.base_url(), "--gateway", &silent.base_url(), "--stall-ms", "100"];
    let (output, figures) = matched(&[&urls[..], &flags[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(figures["runs"][0]["sides"]["gateway"]["stalls"], 2);
}

#[test]
fn long_bodies_go_both_ways_and_are_still_checked() {
    let mock = mock(Behaviour::default());
    let url = mock.base_url();
    let flags = ["--body-bytes", "200000", "--answer-bytes", "200000", "-n", "6", "-c", "2"];
    let (output, figures) = matched(&[&["--direct", &url, "--gateway", &url], &flags[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let run = &figures["runs"][0];
    assert_eq!((&run["sides"]["relay"]["ok"], &run["sides"]["gateway"]["rewritten"]), (&6.into(), &0.into()));
    assert!(run["deltas"]["gateway_over_relay_p50_us"].is_f64());
    assert!(
        mock.requests().iter().all(|seen| seen.body.len() > 200_000 || seen.header("x-mock-answer-bytes").is_none())
    );
}

#[test]
fn tls_and_h2_reach_the_mock_directly_and_through_the_relay() {
    let mock = MockUpstream::start(Config { tls: true, h2: true, ..Config::default() }).expect("a free port");
    let folder = tempfile::tempdir().expect("a folder");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, mock.ca_pem().expect("TLS")).expect("a file");
    let flags = ["--ca", ca.to_str().expect("UTF-8"), "--mode", "json,sse", "-c", "4", "-n", "12"];
    let (output, figures) = matched(&[&["--direct", &mock.base_url()], &flags[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(figures["runs"][1]["sides"]["relay"]["ok"], 12);
    let connections: HashSet<u64> = mock.requests().iter().map(|seen| seen.connection).collect();
    assert!(connections.len() < 8, "streams share connections: {connections:?}");
}

#[test]
fn answers_that_are_not_the_mocks_fail_the_run() {
    let honest = mock(Behaviour::default());
    let lies = [
        (Behaviour { answer_bytes: Some(400), ..Behaviour::default() }, "wrong answer"),
        (Behaviour::fault(Fault::NoDone), "wrong answer"),
        (Behaviour::fault(Fault::CutAfter(40)), "cut off"),
        (Behaviour::status(503), "status 503"),
    ];
    for (behaviour, code) in lies {
        let liar = mock(Behaviour::default());
        let flags = ["--relay", "none", "--mode", "sse", "-c", "2", "-n", "12", "--warmup", "0"];
        liar.script([Behaviour { times: Some(1), ..behaviour }]);
        let (output, figures) =
            matched(&[&["--direct", &honest.base_url(), "--gateway", &liar.base_url()], &flags[..]].concat());
        assert!(!output.status.success());
        assert_eq!(figures["runs"][0]["sides"]["gateway"]["errors"][code], 1, "{}", text(&output));
        assert_eq!(figures["runs"][0]["sides"]["gateway"]["ok"], 11);
    }
}

#[test]
fn in_an_open_loop_a_slow_answer_makes_the_next_ones_late() {
    let mock = mock(Behaviour { latency_ms: Some(20), ..Behaviour::default() });
    let flags = ["--relay", "none", "-c", "1", "-n", "12", "--rps", "1000", "--rounds", "1", "--warmup", "0"];
    let (output, figures) = matched(&[&["--direct", &mock.base_url()], &flags[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let max = figures["runs"][0]["sides"]["direct"]["latency_us"]["max"].as_f64().expect("a figure");
    // The last of twelve was due after 11 ms and could end after 12 x 20 ms at the earliest.
    assert!(max >= 228_000.0, "{max}");
}

/// How the gateway of these tests answers.
#[derive(Clone, Copy)]
enum Trust {
    /// Repeats are EXACT, the rest MISS.
    Right,
    /// Every repeat is answered with the first answer ever given.
    Mixed(&'static str),
}

/// A cache in front of nothing: knows the mock's answers by heart.
struct Gateway {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Gateway {
    fn start(trust: Trust) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                let service = service_fn(move |request| answer(request, Arc::clone(&seen), trust));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, _runtime: runtime }
    }

    fn replay(&self, more: &[&str]) -> Output {
        let url = format!("http://{}", self.address);
        tool(&[&["replay", "--target", &url, "--rps", "2000", "--duration", "0.1"], more].concat())
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<String>>>,
    trust: Trust,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let prompt = body["messages"][1]["content"].as_str().expect("a prompt").to_owned();
    let mut seen = seen.lock().expect("nobody panics with it");
    let repeated = seen.contains(&prompt);
    seen.push(prompt.clone());
    let (about, cache) = match trust {
        _ if !repeated => (prompt, "MISS"),
        Trust::Right => (prompt, "EXACT"),
        Trust::Mixed(cache) => (seen[0].clone(), cache),
    };
    let body = if body["stream"] == true { streamed(&about) } else { chat_body("gpt-4o-mini", &about) };
    let head = Response::builder().header("x-cache", cache).header("lineage-id", format!("id-{}", seen.len()));
    Ok(head.header("lineage-receipt", "v1;r").body(Full::new(body.into())).expect("a response"))
}

fn streamed(prompt: &str) -> Vec<u8> {
    let text = answer_text(prompt);
    let mut out = String::new();
    for word in text.split_inclusive(' ') {
        let word = serde_json::to_string(word).expect("a string");
        out += "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":";
        out += &word;
        out += "},\"finish_reason\":null}]}\n\n";
    }
    out += "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    out.into_bytes()
}

#[test]
fn two_fresh_replays_count_the_same_and_pass() {
    let [one, two] = [(); 2].map(|()| Gateway::start(Trust::Right).replay(&[]));
    assert!(one.status.success(), "{}", text(&one));
    assert_eq!(one.stdout, two.stdout);
    assert!(text(&one).contains("X-Cache EXACT"));
}

#[test]
fn a_replay_below_the_wanted_hit_rate_fails() {
    let output = Gateway::start(Trust::Right).replay(&["--min-hit-rate", "0.99"]);
    assert_eq!(output.status.code(), Some(1));
    let uncached = mock(Behaviour::default());
    let flags = ["replay", "--target", &uncached.base_url(), "--rps", "1000", "--duration", "0.05"];
    assert_eq!(tool(&flags).status.code(), Some(1), "the mock has no cache");
    assert!(tool(&[&flags[..], &["--min-hit-rate", "0"]].concat()).status.success());
}

#[test]
fn a_hit_that_answers_another_question_fails_the_replay_whatever_it_is_called() {
    for cache in ["EXACT", "SEMANTIC"] {
        let output = Gateway::start(Trust::Mixed(cache)).replay(&["--min-hit-rate", "0"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output).contains(&format!("WRONG {cache}")), "{}", text(&output));
    }
}

#[test]
fn a_miss_in_a_run_of_hits_and_a_hit_in_a_run_of_misses_are_told() {
    let direct = mock(Behaviour::default());
    let gateway = Gateway::start(Trust::Right);
    let url = format!("http://{}", gateway.address);
    let base =
        ["--direct", &direct.base_url(), "--gateway", &url, "--relay", "none", "-c", "1", "-n", "30", "--batch", "7"];
    let (hits, figures) = matched(&[&base[..], &["--mode", "hit"]].concat());
    assert!(hits.status.success(), "{}", text(&hits));
    assert_eq!(figures["runs"][0]["sides"]["gateway"]["x_cache"]["EXACT"], 30);
    let (misses, figures) = matched(&base);
    assert!(!misses.status.success());
    assert!(figures["runs"][0]["sides"]["gateway"]["errors"]["X-Cache EXACT in a run of MISS"].as_u64() > Some(0));
}

#[test]
fn lineage_ids_are_written_for_every_right_gateway_answer() {
    let (direct, gateway) = (mock(Behaviour::default()), Gateway::start(Trust::Right));
    let url = format!("http://{}", gateway.address);
    let folder = tempfile::tempdir().expect("a folder");
    let ids = folder.path().join("ids");
    let flags = ["--relay", "none", "-n", "6", "-c", "1", "--ids", ids.to_str().expect("UTF-8")];
    let (output, _) = matched(&[&["--direct", &direct.base_url(), "--gateway", &url], &flags[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let written = std::fs::read_to_string(&ids).expect("a file");
    // The warm-up had the first three.
    assert_eq!(written, "id-4 v1;r\nid-5 v1;r\nid-6 v1;r\nid-7 v1;r\nid-8 v1;r\nid-9 v1;r\n");
}

#[test]
fn a_gateway_that_drops_the_mocks_headers_is_told_before_the_run() {
    let (direct, gateway) = (mock(Behaviour::default()), Gateway::start(Trust::Right));
    let url = format!("http://{}", gateway.address);
    let flags = ["--relay", "none", "-n", "6", "-c", "1", "--mode", "sse-burst"];
    let (output, _) = matched(&[&["--direct", &direct.base_url(), "--gateway", &url], &flags[..]].concat());
    assert!(!output.status.success());
    assert!(text(&output).contains("does not pass on x-mock-"), "{}", text(&output));
}

#[test]
fn what_a_gateway_computes_for_an_answer_is_told_beside_the_relay() {
    let mock = mock(Behaviour::default());
    let (url, own) = (mock.base_url(), std::process::id().to_string());
    let flags = ["--mode", "sse", "-c", "1", "-n", "6", "--pid", &own];
    let (output, figures) = matched(&[&["--direct", &url, "--gateway", &url], &flags[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    for figure in ["gateway_cpu_us", "relay_cpu_us", "gateway_to_relay_cpu"] {
        assert!(figures["runs"][0]["deltas"][figure].as_f64() > Some(0.0), "{figure}");
    }
}

/// Runs `overload` for a moment and reads its JSON.
fn overloaded(url: &str) -> (Output, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("figures.json");
    let flags = ["--rate", "400", "--factors", "0.5,1", "--duration", "0.1", "--rounds", "2", "-c", "4", "--json"];
    let output = tool(&[&["overload", "--target", url], &flags[..], &[path.to_str().expect("UTF-8")]].concat());
    let figures = std::fs::read(&path).map(|bytes| serde_json::from_slice(&bytes).expect("JSON")).unwrap_or_default();
    (output, figures)
}

#[test]
fn refusals_that_say_when_to_come_back_are_counted_and_the_served_are_timed() {
    let mock = mock(Behaviour::default());
    let refusal = Behaviour { times: Some(30), retry_after: Some("2".to_owned()), ..Behaviour::status(503) };
    mock.script([refusal]);
    let (output, figures) = overloaded(&mock.base_url());
    assert!(output.status.success(), "{}", text(&output));
    let offers = figures["offers"].as_array().expect("offers");
    let sum = |key: &str| offers.iter().map(|offer| offer[key].as_u64().expect("a count")).sum::<u64>();
    assert_eq!((sum("refused"), sum("admitted")), (30, 90), "20 and 40 requests in each of two rounds");
    for offer in offers {
        assert!(offer["latency_us"]["p99"].as_f64() > Some(0.0) && offer["p99_to_first"].is_f64());
    }
}

#[test]
fn a_refusal_that_does_not_say_when_to_come_back_fails_the_run() {
    let mock = mock(Behaviour::default());
    mock.script([Behaviour { times: Some(1), ..Behaviour::status(503) }]);
    let (output, figures) = overloaded(&mock.base_url());
    assert!(!output.status.success());
    assert_eq!(figures["offers"][0]["errors"]["status 503"], 1, "{}", text(&output));
}
