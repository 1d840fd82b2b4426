//! `signet cache sample`: what is kept of the questions, who can read it, and that `signet cache eval` takes it.

use crate::gateway::{Gateway, Setup, chat, eventually, mock, signet, with};
use serde_json::{Value, json};
use signet_mock::MockUpstream;
use std::fs;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

const STORED: &str = "How do I choose a lawyer in a small town?";
const NEAR: &str = "How do I select an attorney in a small town?";
const OTHER: &str = "How do I turn on dark mode in the editor?";
const OPPOSITE: &str = "How do I turn off dark mode in the editor?";

fn keeping(mock: &MockUpstream) -> Setup {
    let setup = Setup::on(mock).set("semantic.question_log", "on").set("semantic.question_log_share", "1");
    setup.set("semantic.similarity_min", "0.8")
}

fn sample(data: &Path, arguments: &[&str]) -> Output {
    signet(&["cache", "sample", "--data"]).arg(data).args(arguments).output().expect("it runs")
}

#[track_caller]
fn rows(data: &Path, arguments: &[&str]) -> Vec<Value> {
    let out = sample(data, arguments);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[track_caller]
fn until_kept(data: &Path, count: usize) -> Vec<Value> {
    eventually("questions", || Some(rows(data, &["--form", "stream"])).filter(|rows| rows.len() == count))
}

fn ask(gateway: &Gateway, prompt: &str) -> String {
    gateway.chat(&chat(prompt), &[]).id()
}

/// Every byte that lies in the folder of the questions.
fn bytes_of(data: &Path) -> String {
    let files = fs::read_dir(data.join("questions")).expect("a folder");
    files.map(|file| fs::read_to_string(file.expect("an entry").path()).expect("text")).collect()
}

#[test]
fn candidates_come_out_as_pairs_to_be_labelled_and_eval_reads_them() {
    let mock = mock();
    let gateway = keeping(&mock).start();
    ask(&gateway, STORED);
    let hit = ask(&gateway, NEAR);
    ask(&gateway, OTHER);
    let refused = ask(&gateway, OPPOSITE);
    ask(&gateway, OTHER);
    ask(&gateway, "Where is my order?");
    until_kept(&gateway.data, 5);
    assert!(!bytes_of(&gateway.data).contains("lawyer"), "it is sealed");

    let pairs = rows(&gateway.data, &[]);
    let [first, second] = &pairs[..] else { panic!("two pairs: {pairs:?}") };
    assert_eq!((&first["a"], &first["b"], &first["label"]), (&json!(STORED), &json!(NEAR), &json!("")));
    assert_eq!((&first["tier"], &first["decision"], &first["id"]), (&json!("vector"), &json!("hit"), &json!(hit)));
    assert!(first["similarity"].as_f64().is_some_and(|similarity| (0.8..1.0).contains(&similarity)), "{first}");
    assert_eq!((&second["a"], &second["b"], &second["id"]), (&json!(OTHER), &json!(OPPOSITE), &json!(refused)));
    assert_eq!((&second["tier"], &second["decision"]), (&json!(null), &json!("refused")));
    assert!(second["refused_by"].is_string() && second["floor"].is_number(), "{second}");

    let file = gateway.data.join("pairs.jsonl");
    let label = |row: &Value, label: &str| with(row.clone(), json!({ "label": label })).to_string();
    fs::write(&file, [label(first, "1"), label(second, "0"), second.to_string()].join("\n")).expect("a file");
    let report = eval(&file);
    assert_eq!((&report["rows"], &report["passed_over"], &report["bad_lines"]), (&json!(2), &json!(1), &json!(0)));

    let stream: Vec<String> = rows(&gateway.data, &["--form", "stream"]).iter().map(Value::to_string).collect();
    fs::write(&file, stream.join("\n")).expect("a file");
    let shipped = eval(&file)["replay"]["shipped"].clone();
    assert_eq!((&shipped["arrivals"], &shipped["exact"]), (&json!(5), &json!(1)), "{shipped}");
}

#[track_caller]
fn eval(file: &Path) -> Value {
    let out = signet(&["cache", "eval", "--json"]).arg(file.with_extension("out")).arg(file).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&fs::read(file.with_extension("out")).expect("figures")).expect("JSON")
}

#[test]
fn nothing_is_kept_unless_the_operator_wants_it() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    ask(&gateway, STORED);
    ask(&gateway, NEAR);
    let data = gateway.data.clone();
    let folder = gateway.stop();
    assert!(!data.join("questions").exists());
    assert!(rows(&data, &["--form", "stream"]).is_empty());
    drop(folder);
}

#[test]
fn the_rows_survive_a_crash_and_may_be_chosen_and_removed() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = keeping(&mock).within(folder.path());
    let gateway = setup.start();
    ask(&gateway, STORED);
    gateway.chat(&with(chat(OTHER), json!({"model": "n"})), &[]);
    until_kept(folder.path(), 2);
    drop(gateway.kill());
    let gateway = setup.start();
    ask(&gateway, "What is a watershed?");
    until_kept(folder.path(), 3);
    let asked = |arguments: &[&str]| {
        let rows = rows(folder.path(), &[&["--form", "stream"], arguments].concat());
        rows.iter().map(|row| row["question"]["messages"][0]["content"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&["--limit", "2"]), [json!(OTHER), json!("What is a watershed?")]);
    assert_eq!(asked(&["--model", "n"]), [json!(OTHER)]);
    assert_eq!(asked(&["--since", "1h"]).len(), 3);
    assert!(asked(&["--since", "0s"]).is_empty());
    assert_eq!(sample(folder.path(), &["--since", "soon"]).status.code(), Some(64));
    assert!(sample(folder.path(), &["--erase"]).status.success());
    assert!(asked(&[]).is_empty());
    ask(&gateway, "What is a delta?");
    until_kept(folder.path(), 1);
}

#[test]
fn without_the_secret_or_the_tenants_key_nobody_reads_them() {
    let mock = mock();
    let setup = Setup::passthrough(&mock).set("semantic.question_log", "on").set("semantic.question_log_share", "1");
    let gateway = setup.start();
    let one = gateway.chat(&chat(STORED), &[("Authorization", "Bearer one")]).id();
    gateway.chat(&chat(OTHER), &[("Authorization", "Bearer two")]);
    until_kept(&gateway.data, 2);
    let tenant = gateway.record_as(&one, &[("Authorization", "Bearer one")])["predicate"]["caller"]["tenant"].clone();
    let tenant = tenant.as_str().expect("a tenant");
    let erase = |tenant: &str| {
        let admin = gateway.admin.to_string();
        let out =
            signet(&["cache", "erase", "--admin", &admin, "--tenant", tenant, "--data"]).arg(&gateway.data).output();
        out.expect("it runs")
    };
    let done = erase(tenant);
    assert_eq!((done.status.code(), &*String::from_utf8_lossy(&done.stdout)), (Some(0), "{\"keys\":1}\n"));
    assert_eq!(erase("nobody").status.code(), Some(64));
    let left = until_kept(&gateway.data, 1);
    assert_eq!(left[0]["question"]["messages"][0]["content"], OTHER);
    let order = gateway.record_where(|record| record["predicate"]["kind"] == "erasure");
    assert_eq!(order["predicate"]["control"]["tenant"], tenant);

    let secret = gateway.data.join("tenant.secret");
    let bytes = fs::read(&secret).expect("a secret");
    fs::write(&secret, [9; 32]).expect("another secret");
    let out = sample(&gateway.data, &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("wrapped by another secret"), "{out:?}");
    fs::remove_file(&secret).expect("removable");
    let out = sample(&gateway.data, &[]);
    assert_eq!((out.status.code(), out.stdout.is_empty()), (Some(66), true));
    assert!(String::from_utf8_lossy(&out.stderr).contains("the tenant secret is not here"), "{out:?}");
    fs::write(&secret, bytes).expect("the secret");
    assert_eq!(rows(&gateway.data, &["--form", "stream"]).len(), 1);
}
