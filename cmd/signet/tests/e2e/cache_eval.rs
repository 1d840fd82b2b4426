//! `signet cache eval`: what it says, what it writes, and whether the gateway does as it says.

use crate::gateway::{Setup, chat, mock};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Stored and asked question, and whether one answer serves both.
const PAIRS: [(&str, &str, bool); 9] = [
    ("What is the capital of France?", "What is the capital of France?", true),
    ("What is the capital of France?", "What's the capital of France?", true),
    ("How do I poach an egg in aluminium foil?", "How do I poach an egg in aluminum foil?", true),
    ("What is a watershed?", "Please tell me: what is a watershed?", true),
    ("How do I turn on dark mode in the editor?", "How do I turn off dark mode in the editor?", false),
    ("How do I convert USD to EUR?", "How do I convert EUR to USD?", false),
    ("What is the status of dispute #D-7781?", "What is the status of dispute #D-7782?", false),
    ("What is the weather like today?", "What is the weather like tomorrow?", false),
    ("What is the capital of Norway?", "Write a haiku about the sea", false),
];

fn eval(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_signet"));
    command.args(["cache", "eval"]).args(arguments).current_dir(folder).env_clear();
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    eval(folder, arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Each pair is a kind of its own.
fn pairs_file(folder: &Path) {
    let line = |(at, (a, b, label)): (usize, &(&str, &str, bool))| {
        json!({ "a": a, "b": b, "label": label, "kind": format!("pair {at}") }).to_string()
    };
    let lines: Vec<_> = PAIRS.iter().enumerate().map(line).collect();
    fs::write(folder.join("pairs.jsonl"), lines.join("\n")).expect("a file");
}

fn read_json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("it was written")).expect("JSON")
}

#[test]
fn what_the_evaluation_says_is_what_the_gateway_does() {
    let folder = TempDir::new().expect("a folder");
    pairs_file(folder.path());
    let out = run(folder.path(), &["pairs.jsonl", "--json", "out.json", "--workers", "2"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report = read_json(&folder.path().join("out.json"));
    let kinds = report["pairs"]["kinds"].as_array().expect("kinds");
    assert_eq!(kinds.len(), PAIRS.len());
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for (at, (kind, (stored, asked, same))) in kinds.iter().zip(PAIRS).enumerate() {
        let namespace = format!("pair-{at}");
        let ask = |prompt| gateway.chat(&chat(prompt), &[("X-Cache-Namespace", &namespace)]).need("x-cache").to_owned();
        assert_eq!(ask(stored), "MISS");
        let hits = &kind[if same { "true_hits" } else { "false_hits" }];
        assert_eq!((hits["of"].as_u64(), hits["hits"] == 1), (Some(1), ask(asked) != "MISS"), "{stored} / {asked}");
    }
    let overall = &report["pairs"]["overall"];
    assert!(overall["true_hits"]["hits"].as_u64().is_some_and(|hits| hits >= 3), "{overall}");
    assert_eq!(overall["false_hits"]["hits"], 0);
}

#[test]
fn the_figures_go_to_a_table_a_json_file_and_a_page() {
    let folder = TempDir::new().expect("a folder");
    pairs_file(folder.path());
    let out = run(
        folder.path(),
        &[
            "pairs.jsonl",
            "--json",
            "a.json",
            "--html",
            "a.html",
            "--both",
            "--base-rate",
            "0.2",
            "--decisions",
            "a.jsonl",
        ],
    );
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    assert!(table.contains("rows 9, bad lines 0") && table.contains("floor 0.970"), "{table}");
    assert!(table.contains("at a base rate of 20.0 % (given)"), "{table}");
    assert!(!text(&out.stderr).contains('\r'), "no bar where nobody looks");
    let page = fs::read_to_string(folder.path().join("a.html")).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg ") && !page.contains("<script"));
    let report = read_json(&folder.path().join("a.json"));
    assert_eq!(report["settings"]["both_ways"], true);
    let decisions = fs::read_to_string(folder.path().join("a.jsonl")).expect("decisions");
    assert_eq!(decisions.lines().count(), PAIRS.len());
    assert!(!decisions.contains("France") && decisions.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    // Standard input gives the same figures.
    let mut child = eval(folder.path(), &["-", "--json", "b.json", "--both", "--base-rate", "0.2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let input = fs::read(folder.path().join("pairs.jsonl")).expect("a file");
    child.stdin.take().expect("piped").write_all(&input).expect("it reads");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(read_json(&folder.path().join("b.json")), report);
}

#[test]
fn floor_and_mode_come_from_the_configuration() {
    let folder = TempDir::new().expect("a folder");
    pairs_file(folder.path());
    let tiers = |semantic: &str| {
        fs::write(folder.path().join("signet.toml"), format!("[semantic]\n{semantic}\n")).expect("a file");
        let out = run(folder.path(), &["pairs.jsonl", "--config", "signet.toml", "--json", "c.json"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let report = read_json(&folder.path().join("c.json"));
        let served = report["pairs"]["tiers"].as_array().expect("tiers").len();
        (report["settings"]["mode"].clone(), report["settings"]["floor"].clone(), served)
    };
    assert_eq!(tiers("mode = 'off'"), (json!("off"), json!(0.97), 1), "exact repeats only");
    assert_eq!(tiers("similarity_min = 0.5").1, json!(0.5));
}

#[test]
fn a_stream_is_replayed_and_a_log_is_a_stream_without_labels() {
    let folder = TempDir::new().expect("a folder");
    let stream =
        "text,cluster\nWhat is a watershed?,1\nwhat is a watershed,1\nWhat is a watershed?,1\nWhat is a delta?,2\n";
    fs::write(folder.path().join("stream.csv"), stream).expect("a file");
    assert!(run(folder.path(), &["stream.csv", "--json", "s.json"]).status.success());
    let shipped = read_json(&folder.path().join("s.json"))["replay"]["shipped"].clone();
    assert_eq!(shipped["arrivals"], 4);
    assert_eq!((&shipped["exact"], &shipped["hits"], &shipped["wrong"]), (&json!(1), &json!(1), &json!(0)));
    let log = |prompt: &str| {
        json!({ "call_type": "acompletion", "status": "success", "model": "m", "model_parameters": { "temperature": 0.2 },
                "messages": [{ "role": "user", "content": prompt }] })
        .to_string()
    };
    let lines =
        [log("What is a watershed?"), log("what is a watershed"), json!({ "call_type": "aembedding" }).to_string()];
    fs::write(folder.path().join("log.jsonl"), lines.join("\n")).expect("a file");
    assert!(run(folder.path(), &["log.jsonl", "--json", "l.json"]).status.success());
    let report = read_json(&folder.path().join("l.json"));
    assert_eq!((&report["rows"], &report["passed_over"]), (&json!(2), &json!(1)));
    assert_eq!((&report["replay"]["shipped"]["hits"], &report["replay"]["shipped"]["judged"]), (&json!(1), &json!(0)));
}

#[test]
fn what_cannot_be_evaluated_is_refused_with_a_code_and_a_reason() {
    let folder = TempDir::new().expect("a folder");
    pairs_file(folder.path());
    fs::write(folder.path().join("odd.jsonl"), "{\"when\": 1}\n").expect("a file");
    fs::write(folder.path().join("bad.jsonl"), "{\"a\": \"x\", \"b\": \"y\", \"label\": 7}\n").expect("a file");
    fs::write(folder.path().join("bad.toml"), "[semantic]\nmode = 'maybe'\n").expect("a file");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["odd.jsonl"], 65, "unknown format: the first row has the fields when"),
        (&["bad.jsonl"], 65, "bad.jsonl: line 1: the label is 7, neither 0 nor 1"),
        (&["absent.jsonl"], 66, "absent.jsonl: "),
        (&["pairs.jsonl", "--base-rate", "2"], 64, "not between 0 and 1"),
        (&["pairs.jsonl", "--format", "parquet"], 64, "parquet"),
        (&["pairs.jsonl", "--config", "bad.toml"], 78, "semantic.mode"),
    ];
    for (arguments, code, reason) in cases {
        let out = run(folder.path(), arguments);
        assert_eq!(out.status.code(), Some(code), "{arguments:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains(reason), "{arguments:?}: {}", text(&out.stderr));
        assert!(out.stdout.is_empty(), "{arguments:?}");
    }
}
