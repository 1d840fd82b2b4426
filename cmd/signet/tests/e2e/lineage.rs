//! Every answer has a record, and a client that distrusts the operator can check it.

use crate::client::{Answer, ask, payload};
use crate::gateway::{CHAT, Folder, Gateway, Setup, chat, mock, records, signet, streamed};
use crate::keeper::Keeper;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::{Digest, Sha256};
use signet_mock::Behaviour;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const PROMPT: &str = "What is a tide table?";

/// One answer of every kind, all of the one tenant.
fn every_kind(gateway: &Gateway, mock: &signet_mock::MockUpstream) -> Vec<Answer> {
    let post = |path: &str, body: &[u8]| gateway.post(path, &[], body);
    let mut answers = vec![gateway.chat(&chat(PROMPT), &[]), gateway.chat(&chat(PROMPT), &[])];
    answers.push(gateway.chat(&streamed(PROMPT), &[]));
    answers.push(gateway.chat(&streamed("What is a neap tide?"), &[]));
    answers.push(gateway.chat(&chat(PROMPT), &[("Cache-Control", "no-store")]));
    answers.push(post(CHAT, b"not json"));
    answers.push(post(CHAT, &vec![b' '; 70_000]));
    answers.push(post("/v1/nothing", b"{}"));
    answers.push(gateway.get(CHAT));
    answers.push(gateway.get("/v1/models"));
    answers.push(gateway.chat(&chat("What is a spring tide?"), &[("Cache-Control", "only-if-cached")]));
    for status in [401, 429, 500] {
        mock.script([Behaviour::status(status)]);
        answers.push(gateway.chat(&chat("What is a tidal bore?"), &[]));
    }
    mock.script([Behaviour::fault(signet_mock::Fault::CloseBeforeHead)]);
    answers.push(gateway.chat(&chat("What is an ebb?"), &[]));
    answers
}

#[test]
fn every_answer_has_a_record_that_is_found_at_once_and_that_a_client_can_check() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("server.max_body_bytes", "65536").start();
    let mut keeper = Keeper::of(&gateway.data);
    let answers = every_kind(&gateway, &mock);
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 400, 413, 404, 405, 200, 504, 502, 429, 500, 502]);
    for answer in &answers {
        let record = gateway.record(&answer.id());
        assert_eq!(record["predicate"]["http"]["status"], answer.status);
        assert_eq!(record["predicate"]["id"], answer.id());
        assert!(answer.header("x-request-id").is_some());
        let told = answer.header("x-cache");
        assert!(told.is_none_or(|told| ["EXACT", "MISS", "BYPASS"].contains(&told)), "{told:?}");
        keeper.keep(answer);
    }
    assert_eq!(keeper.kept(), answers.len() - 1, "only the streamed miss has no receipt in its head");
    keeper.accepts(&gateway.data);
    let folder = gateway.stop();
    keeper.accepts(&folder.path);
}

#[test]
fn refusals_before_the_caller_is_known_have_records_too() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).set("limits.ip_rps", "1").set("limits.ip_burst", "2").start();
    let mut keeper = Keeper::of(&gateway.data);
    let answers = [
        gateway.chat(&chat(PROMPT), &[]),
        gateway.chat(&chat(PROMPT), &[("Authorization", "Bearer a")]),
        gateway.chat(&chat(PROMPT), &[("Authorization", "Bearer a")]),
    ];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [401, 200, 429]);
    for answer in &answers {
        keeper.keep(answer);
    }
    assert_eq!(keeper.kept(), 3);
    keeper.accepts(&gateway.data);
    for answer in &answers {
        let path = format!("/v1/lineage/{}", answer.id());
        let shown = crate::gateway::eventually("a token and the record", || {
            let shown = ask(gateway.addr, "GET", &path, &[("Authorization", "Bearer a")], b"");
            (shown.status != 429).then_some(shown)
        });
        assert_eq!(shown.status, 200, "{}", shown.text());
        assert_eq!(payload(&shown.json()["envelope"])["predicate"]["http"]["status"], answer.status);
    }
}

#[test]
fn a_storm_of_refusals_folds_into_a_signed_count() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("limits.ip_rps", "1").set("limits.ip_burst", "1").start();
    let keeper = Keeper::of(&gateway.data);
    let storm = || (0..100).map(|_| gateway.get("/v1/models")).filter(|answer| answer.status == 429);
    let shared = crate::gateway::eventually("more than fifty refusals in a second", || {
        storm().find(|answer| answer.header("lineage-receipt").is_none())
    });
    let record = gateway.record_where(|record| record["predicate"]["kind"] == "denials");
    assert!(record["predicate"]["control"]["ids"].as_u64().is_some_and(|ids| ids > 0), "{record}");
    assert_ne!(record["predicate"]["id"], shared.id(), "each refusal has an id of its own");
    let folder = gateway.stop();
    keeper.accepts(&folder.path);
}

#[test]
fn a_record_is_shown_to_its_own_tenant_only() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).start();
    let (ann, bob) = ([("Authorization", "Bearer ann")], [("Authorization", "Bearer bob")]);
    let id = gateway.chat(&chat(PROMPT), &ann).id();
    let path = format!("/v1/lineage/{id}");
    let show = |headers: &[(&str, &str)], path: &str| ask(gateway.addr, "GET", path, headers, b"");
    assert_eq!(show(&ann, &path).status, 200);
    assert_eq!(show(&bob, &path).refusal(404)["code"], "lineage_not_found");
    show(&[], &path).refusal(401);
    for strange in ["/v1/lineage/00000000-0000-7000-8000-000000000000", "/v1/lineage/x", "/v1/lineage/%27%20or%201"] {
        assert_eq!(show(&ann, strange).refusal(404)["code"], "lineage_not_found", "{strange}");
    }
    crate::gateway::eventually("shipping", || {
        (gateway.status()["log"]["shipped_seq"].as_u64() > Some(3)).then_some(())
    });
    assert_eq!(show(&ann, &path).status, 200, "found in the store too");
    assert_eq!(show(&bob, &path).status, 404);
}

/// `HKDF-Expand-SHA-256(key, info)`, its first block (RFC 5869 §2.3).
fn expand(key: &[u8], info: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length will do");
    mac.update(info);
    mac.update(&[1]);
    mac.finalize().into_bytes().into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

#[test]
fn a_caller_can_recompute_what_its_record_commits_to() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for (request, headers) in [
        (chat(PROMPT), vec![]),
        (chat(PROMPT), vec![]),
        (streamed("What is a groyne?"), vec![]),
        (streamed("What is a groyne?"), vec![]),
        (chat(PROMPT), vec![("X-Cache-Mode", "none")]),
    ] {
        let answer = gateway.chat(&request, &headers);
        let opening = URL_SAFE_NO_PAD.decode(answer.need("lineage-opening")).expect("base64url");
        let commitment = |label: &str, body: &[u8]| {
            let key = expand(&opening, label.as_bytes());
            hex(&Sha256::new().chain_update(key).chain_update(body).finalize())
        };
        let record = gateway.record(&answer.id());
        let predicate = &record["predicate"];
        let subject = |name: &str, body: &[u8]| json!({ "name": name, "digest": { "sha256": commitment(name, body) } });
        let subjects = [subject("request", request.to_string().as_bytes()), subject("response", &answer.body)];
        assert_eq!(record["subject"], json!(subjects), "{}", answer.status);
        assert_eq!(predicate["response"]["bytes"], answer.body.len());
        assert!(!record.to_string().contains("tide"), "no prompt in a record");
    }
}

#[test]
fn verify_asks_for_a_key_from_elsewhere_and_for_something_to_verify() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    gateway.chat(&chat(PROMPT), &[]).is(200, "MISS");
    let keeper = Keeper::of(&gateway.data);
    let out = signet(&["lineage", "verify", "--data"]).arg(&gateway.data).output().expect("it runs");
    assert_eq!(out.status.code(), Some(64));
    let empty = TempDir::new().expect("a folder");
    let (code, said) = keeper.verify(&["--data", empty.path().to_str().expect("plain")]);
    assert!(code != 0, "{said}");
    std::fs::write(empty.path().join("empty.jsonl"), "").expect("a file");
    let file = empty.path().join("empty.jsonl");
    let (code, said) = keeper.verify(&["--export", file.to_str().expect("plain")]);
    assert_eq!(code, 32, "{said}");
    let other = Setup::on(&mock).start();
    let (code, said) = Keeper::of(&other.data).verify(&["--data", gateway.data.to_str().expect("plain")]);
    assert_eq!(code, 18, "{said}");
    let (code, said) = keeper.verify(&["--data", gateway.data.to_str().expect("plain"), "--require-anchor"]);
    assert_eq!(code, 31, "{said}");
    assert!(keeper.verify(&["--data", gateway.data.to_str().expect("plain")]).1.contains("not checked: truncation"));
}

#[test]
fn without_a_database_of_its_own_a_log_stands_by_itself_and_nothing_at_all_is_never_ok() {
    let (folder, keeper) = history();
    let source = ["--data", folder.path.to_str().expect("plain")];
    let database = folder.path.join("signet.db");
    for beside in ["signet.db-wal", "signet.db-shm"] {
        std::fs::remove_file(folder.path.join(beside)).ok();
    }
    std::fs::write(&database, "").expect("a file");
    let (code, said) = keeper.verify(&source);
    assert!(code == 0 && said.contains("no lineage tables"), "{code}: {said}");
    let log = folder.path.join("lineage");
    let aside = folder.path.join("aside");
    std::fs::rename(&log, &aside).expect("moved");
    let (code, said) = keeper.verify(&source);
    assert_eq!(code, 32, "{said}");
    assert!(said.contains("EMPTY: there is not one record to verify"), "{said}");
    std::fs::write(&database, "not a database at all, but long enough to be taken for one".repeat(20)).expect("a file");
    std::fs::rename(&aside, &log).expect("moved back");
    let (code, said) = keeper.verify(&source);
    assert!(code == 1 && said.contains("not a database"), "{code}: {said}");
}

#[test]
fn a_postgres_without_the_tables_is_empty_and_not_ok() {
    let (_folder, keeper) = history();
    let (code, said) = keeper.verify(&["--db", &crate::stack::fresh_database()]);
    assert_eq!(code, 32, "{said}");
    assert!(said.contains("no lineage tables"), "{said}");
}

/// Changes the database behind the gateway's back.
pub(crate) fn sqlite(data: &Path, statement: &str) {
    let script = "import sqlite3, sys\nsqlite3.connect(sys.argv[1]).executescript(sys.argv[2])";
    let database = data.join("signet.db");
    let out = Command::new("python3").args(["-c", script]).arg(database).arg(statement).output().expect("python3 runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// A stopped gateway's folder with some records, all of them shipped, and what a client kept of them.
fn history() -> (Folder, Keeper) {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let mut keeper = Keeper::of(&gateway.data);
    for n in 0..6 {
        keeper.keep(&gateway.chat(&chat(&format!("What is tide {n}?")), &[]));
    }
    let folder = gateway.stop();
    keeper.accepts(&folder.path);
    (folder, keeper)
}

#[test]
fn no_change_to_a_stored_record_is_accepted() {
    let (folder, keeper) = history();
    let flip = |column: &str| {
        format!(
            "substr({column},1,9) || CASE substr({column},10,1) WHEN x'00' THEN x'01' ELSE x'00' END || substr({column},11)"
        )
    };
    let row = "WHERE seq = 3";
    for change in [
        format!("UPDATE lineage_entry SET payload = CAST({} AS BLOB) {row}", flip("payload")),
        format!("UPDATE lineage_entry SET sig = CAST({} AS BLOB) {row}", flip("sig")),
        format!("UPDATE lineage_entry SET id = CAST({} AS BLOB) {row}", flip("id")),
        format!("UPDATE lineage_entry SET key_id = CAST({} AS BLOB) {row}", flip("key_id")),
        format!("UPDATE lineage_entry SET leaf_hash = CAST({} AS BLOB) {row}", flip("leaf_hash")),
        format!("UPDATE lineage_entry SET tenant = CAST({} AS BLOB) {row}", flip("tenant")),
        format!("UPDATE lineage_entry SET seq = 1003 {row}"),
        format!("UPDATE lineage_entry SET status = 201 {row}"),
        format!("UPDATE lineage_entry SET model = 'other' {row}"),
        format!("UPDATE lineage_entry SET epoch = 2 {row}"),
        format!("DELETE FROM lineage_entry {row}"),
        "DELETE FROM lineage_log".to_owned(),
        format!(
            "UPDATE lineage_entry SET log_id = CAST({} AS BLOB) {row}; UPDATE lineage_log SET next_seq = 3; DELETE FROM lineage_entry WHERE seq > 3",
            flip("log_id")
        ),
        "DELETE FROM lineage_entry WHERE seq >= 4; UPDATE lineage_log SET next_seq = 4".to_owned(),
        "DELETE FROM lineage_entry; DELETE FROM lineage_log".to_owned(),
    ] {
        let scratch = TempDir::new().expect("a folder");
        let data = scratch.path().join("data");
        copy(&folder.path, &data);
        // The local log holds the same records: without it the database alone is judged.
        std::fs::remove_dir_all(data.join("lineage")).expect("the log is there");
        keeper.accepts(&data);
        sqlite(&data, &change);
        let (code, said) = keeper.verify(&["--data", data.to_str().expect("plain")]);
        assert!(![0, 1, 64].contains(&code), "{code} after {change}: {said}");
    }
}

/// Values of a column that no record can have, in both databases.
const UNREADABLE: [&str; 7] =
    ["enc = 77", "ts_ms = -1", "sig = BYTES", "tenant = BYTES", "tok_in = -1", "seq = -1", "seq = 9223372036854775807"];

#[test]
fn a_row_that_cannot_be_read_is_named_and_the_others_are_verified() {
    let (folder, keeper) = history();
    let old = ["key_id = BYTES", "leaf_hash = BYTES", "id = BYTES", "epoch = -1", "seq = 'three'"];
    for change in UNREADABLE.into_iter().chain(old) {
        let scratch = TempDir::new().expect("a folder");
        let data = scratch.path().join("data");
        copy(&folder.path, &data);
        std::fs::remove_dir_all(data.join("lineage")).expect("the log is there");
        let set = change.replace("BYTES", "x'07'");
        let other = "UPDATE lineage_entry SET status = 599 WHERE seq = 4";
        sqlite(&data, &format!("UPDATE lineage_entry SET {set} WHERE seq = 3; {other}"));
        let source = ["--data", data.to_str().expect("plain")];
        named(change, &keeper.verify(&source));
        let out = signet(&["lineage", "export"]).args(source).output().expect("it runs");
        let readable = change.contains("9223372036854775807");
        assert_eq!(out.status.success(), readable, "{change}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// The row at seq 3 is told by what is left of its place, and so is another finding behind it.
fn named(change: &str, (code, said): &(i32, String)) {
    let place = match change.split_once("seq = ") {
        None => "seq 3",
        Some((_, "'three'")) => "seq ?",
        Some((_, place)) => &format!("seq {place}"),
    };
    assert_eq!(*code, 11, "{change}: {said}");
    let has = |code: &str, place: &str| said.lines().any(|line| line.contains(code) && line.contains(place));
    assert!(has("BAD_LEAF", place) && has("INDEX_MISMATCH", "seq 4"), "{change}: {said}");
}

#[test]
fn a_row_of_postgres_that_cannot_be_read_is_named_and_the_others_are_verified() {
    let (mock, url) = (mock(), crate::stack::fresh_database());
    let gateway = Setup::on(&mock).on_services(&url, None).start();
    let keeper = Keeper::of(&gateway.data);
    for n in 0..6 {
        gateway.chat(&chat(&format!("What is tide {n}?")), &[]);
    }
    drop(gateway.stop());
    let source = ["--db", url.as_str()];
    assert_eq!(keeper.verify(&source).0, 0);
    let sql = |statement: &str| drop(crate::stack::sql(&url, statement));
    sql("CREATE TABLE saved AS SELECT * FROM lineage_record WHERE seq = 3");
    sql("UPDATE lineage_record SET status = 599 WHERE seq = 4");
    for change in UNREADABLE.into_iter().chain(["parent = BYTES", "payload = BYTES"]) {
        sql(&format!("UPDATE lineage_record SET {} WHERE seq = 3", change.replace("BYTES", "'\\x07'")));
        named(change, &keeper.verify(&source));
        sql("DELETE FROM lineage_record WHERE seq < 0 OR seq = 3 OR seq > 99");
        sql("INSERT INTO lineage_record SELECT * FROM saved");
    }
    assert_eq!(keeper.verify(&source).0, 22, "all rows are as they were, but for the one at seq 4");
}

#[test]
fn a_receipt_that_was_never_given_or_is_lost_is_noticed() {
    let (folder, mut keeper) = history();
    let record = records(&folder.path).remove(2);
    let log = record["predicate"]["log"]["id"].as_str().expect("an id").to_owned();
    keeper.keep_text(format!("v1;localhost/signet/{log};1;2;{}", URL_SAFE_NO_PAD.encode([7; 32])));
    let (code, said) = keeper.verify(&["--data", folder.path.to_str().expect("plain")]);
    assert_eq!(code, 13, "{said}");
}
