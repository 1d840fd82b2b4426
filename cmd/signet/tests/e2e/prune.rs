//! Logs that are days old, and gateways that keep records for three: what is left verifies, and so does what others kept.

use crate::client::{Answer, ask};
use crate::gateway::{Gateway, Setup, chat, eventually, mock, signet};
use crate::keeper::Keeper;
use crate::stack::{fresh_database, sql};
use serde_json::Value;
use signet_lineage::{Draft, Gateway as Speaker, Leaf, PublicKey, Record, Signer, verify};
use signet_pipeline::{Durability, Recorder, Voice};
use signet_spool::{Config as SpoolConfig, RecordLog, Spool};
use signet_telemetry::Metrics;
use signet_types::{Clock, ManualClock, SystemClock};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;

const ORIGIN: &str = "localhost/signet";
const DAY_MS: u64 = 86_400_000;

fn key_file(data: &Path, name: &str) -> (Signer, PublicKey) {
    let (signer, path) = (Signer::generate(), data.join(name));
    fs::write(&path, &*signer.to_pkcs8()).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let key = signer.public_key();
    (signer, key)
}

/// The data folder of a gateway that wrote its `log_open` and `count` more records five days ago, and died.
fn aged(data: &Path, count: u64) -> Vec<Arc<Record>> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(SystemClock::new().now_ms() - 5 * DAY_MS));
    let ((signer, key), (_, checkpoints)) = (key_file(data, "lineage.key"), key_file(data, "lineage-checkpoint.key"));
    let (spool, _) = Spool::open(SpoolConfig::new(data.join("lineage")), clock.clone(), None).expect("a new log");
    let log = Arc::new(spool);
    let text = |text: &str| text.to_owned();
    let gateway =
        Speaker { version: text("1"), config_sha256: [0; 32], instance: text("old"), durability: text("spool") };
    let (gateway, durability) = (Arc::new(gateway), Durability::Written);
    let voice = Voice { origin: text(ORIGIN), gateway, durability, degrade: false };
    let recorder = Recorder::new(log.clone(), signer, voice, clock, Arc::new(Metrics::new()));
    assert!(recorder.write(&Draft::log_open(&recorder.stamp(), ORIGIN, &key).naming_checkpoint_key(&checkpoints)));
    assert!((0..count).all(|_| recorder.write(&Draft::clock(&recorder.stamp(), 1, 2))));
    log.sync().expect("on the disk");
    log.read_from(0, 10_000, usize::MAX).expect("read")
}

fn prune(gateway: &Gateway) -> Output {
    let mut command = signet(&["lineage", "prune", "--admin", &gateway.admin.to_string(), "--data"]);
    command.arg(&gateway.data).output().expect("it runs")
}

#[track_caller]
fn pruned(gateway: &Gateway) -> Value {
    let out = prune(gateway);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// A record, as an operator reads it.
fn shown(gateway: &Gateway, record: &Record) -> Answer {
    let token = fs::read_to_string(gateway.data.join("admin.token")).expect("a token");
    let token = format!("Bearer {}", token.trim());
    ask(gateway.admin, "GET", &format!("/v1/lineage/{}", record.id), &[("Authorization", &token)], b"")
}

#[track_caller]
fn second_verifier_accepts(export: &Path, key: &Path, (kind, kept): (&str, &Path)) {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/verify/signet_verify.py");
    let mut other = Command::new("python3");
    let out =
        other.args(["-B", tool, "--key"]).arg(key).arg(kind).arg(kept).arg(export).output().expect("python3 runs");
    assert!(out.status.success(), "{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
}

#[test]
fn a_gateway_drops_old_records_and_all_that_was_kept_of_them_still_holds() {
    let mock = mock();
    let (folder, elsewhere) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let data = folder.path();
    let old = aged(data, 400);
    let anchors = elsewhere.path().join("anchors");
    let setup = Setup::on(&mock).within(data).set("lineage.retain_days", "3");
    let setup = setup.set("lineage.anchor.0.file", anchors.to_str().expect("a plain name"));
    let gateway = setup.start();
    let mut keeper = Keeper::of(data);
    keeper.keep(&gateway.chat(&chat("What is a neap tide?"), &[]));
    keeper.keep_text(signet_lineage::Receipt::of(&old[300], ORIGIN).to_string());
    let kept = [&old[3], &old[399]].map(|record| {
        let proof = eventually("a proof", || {
            let shown = shown(&gateway, record).json();
            shown["proof"].as_str().map(str::to_owned)
        });
        (record, proof)
    });
    keeper.accepts(data);

    // Killed while it prunes, wherever it was: nothing is lost, and it begins again.
    let mut order = signet(&["lineage", "prune", "--admin", &gateway.admin.to_string(), "--data"]);
    let mut order = order.arg(data).spawn().expect("it runs");
    drop(gateway.kill());
    order.wait().expect("it ends");
    keeper.accepts(data);
    let gateway = setup.start();
    let told = pruned(&gateway);
    assert!(told["left"].as_array().is_some_and(Vec::is_empty), "{told}");
    eventually("pruned", || (shown(&gateway, &old[3]).status == 404).then_some(()));
    keeper.keep(&gateway.chat(&chat("What is an ebb?"), &[]));
    assert_eq!(pruned(&gateway)["logs"], serde_json::json!([]));

    let key = gateway.admin_get("/v1/lineage/keys").text();
    let key = key.lines().find_map(|line| line.parse().ok()).expect("a verifier key");
    for (record, proof) in &kept {
        verify::proof_file(proof, &Leaf::of(record).hash(), std::slice::from_ref(&key)).expect("it still holds");
    }
    let tile = format!("/v1/lineage/logs/{}/tile/0/000", old[0].log);
    assert_eq!(gateway.admin_get(&tile).body.len(), 256 * 32);
    drop(gateway.stop());
    let mut judge = signet(&["lineage", "verify", "--data"]);
    let out = judge.arg(data).arg("--key").arg(keeper.key()).arg("--anchor").arg(&anchors).output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && said.contains("not checked: the 401 records of log"), "{said}");
    let (code, said) = keeper.verify(&["--data", data.to_str().expect("a plain name")]);
    assert!(code == 0 && said.contains("which was pruned"), "{code}: {said}");
    let export = signet(&["lineage", "export", "--data"]).arg(data).output().expect("it runs");
    let said = String::from_utf8_lossy(&export.stderr);
    assert!(export.status.success() && said.contains("the 401 first records of log"), "{said}");
    let file = elsewhere.path().join("export");
    fs::write(&file, &export.stdout).expect("a file");
    let (code, said) = keeper.verify(&["--export", file.to_str().expect("a plain name")]);
    assert_eq!(code, 0, "{said}");
    second_verifier_accepts(&file, &keeper.key(), ("--anchor", &anchors));
}

#[test]
fn what_is_kept_for_ever_is_not_pruned_by_order() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let out = prune(&gateway);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("409") && said.contains("retain_days"), "{said}");
}

#[test]
fn another_gateway_prunes_a_log_in_postgres_and_a_day_dropped_by_hand_is_a_gap() {
    let mock = mock();
    let database = fresh_database();
    let (dead, live) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let old = aged(dead.path(), 300);
    let setup = Setup::on(&mock).on_services(&database, None);
    let gateway = setup.clone().within(dead.path()).start();
    eventually("shipping", || (gateway.status()["log"]["shipped_seq"].as_u64() > Some(301)).then_some(()));
    let mut pins = fs::read(Keeper::of(dead.path()).key()).expect("keys");
    drop(gateway.stop());
    let days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'lineage_record'::regclass";
    assert_eq!(sql(&database, days), "2");

    let gateway = setup.within(live.path()).set("lineage.retain_days", "3").start();
    pins.extend(fs::read(Keeper::of(live.path()).key()).expect("keys"));
    let told = pruned(&gateway);
    assert_eq!(told["logs"][0]["log"], old[0].log.to_string());
    assert_eq!((told["logs"][0]["below_seq"].as_u64(), told["dropped"].as_u64()), (Some(301), Some(1)), "{told}");
    assert_eq!(sql(&database, days), "1");
    gateway.chat(&chat("What is a neap tide?"), &[]);
    drop(gateway.stop());
    let keeper = Keeper::of(live.path());
    fs::write(keeper.key(), pins).expect("a file");
    let (code, said) = keeper.verify(&["--db", &database]);
    assert!(code == 0 && said.contains("the 301 records of log"), "{code}: {said}");

    // To others too, even if nothing of the log is left.
    let export = signet(&["lineage", "export", "--db", &database]).output().expect("it runs").stdout;
    let (file, kept) = (live.path().join("export"), live.path().join("receipts"));
    let is_live = |line: &&str| {
        let (record, _) = verify::read_line(line.as_bytes()).expect("a line");
        record.log != old[0].log
    };
    let lines: Vec<_> = std::str::from_utf8(&export).expect("text").lines().filter(is_live).collect();
    fs::write(&file, lines.join("\n")).expect("a file");
    fs::write(&kept, signet_lineage::Receipt::of(&old[3], ORIGIN).to_string()).expect("a file");
    second_verifier_accepts(&file, &keeper.key(), ("--receipts", &kept));

    // The same without a record that says so.
    let today =
        sql(&database, "SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'lineage_record'::regclass");
    let keep = "CREATE TABLE kept AS SELECT * FROM lineage_record ORDER BY seq DESC LIMIT 1";
    sql(&database, keep);
    sql(&database, &format!("TRUNCATE {today}; INSERT INTO lineage_record SELECT * FROM kept"));
    let (code, said) = keeper.verify(&["--db", &database]);
    assert_eq!(code, 14, "{said}");
}

#[test]
fn a_gateway_that_only_appends_says_what_the_owner_has_to_run_before_it_prunes() {
    let mock = mock();
    let database = fresh_database();
    let (dead, live) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    aged(dead.path(), 20);
    let owner = Setup::on(&mock).on_services(&database, None).within(dead.path()).start();
    eventually("shipping", || (owner.status()["log"]["shipped_seq"].as_u64() > Some(21)).then_some(()));
    drop(owner.stop());
    let role = format!("w{}", uuid::Uuid::now_v7().simple());
    sql(&database, &format!("CREATE ROLE {role} LOGIN PASSWORD 'w'; SELECT lineage_append_only('{role}')"));
    let (_, place) = database.rsplit_once('@').expect("a URL with a user");
    let writer = Setup::on(&mock).on_services(&format!("postgres://{role}:w@{place}"), None).within(live.path());
    let gateway = writer.set("lineage.retain_days", "3").start();
    let fault = || {
        let ready = ask(gateway.admin, "GET", "/readyz", &[], b"").json();
        ready["faults"]["prune"].as_str().map(str::to_owned)
    };
    let told = eventually("a fault at the start", fault);
    assert!(told.contains("for ever") && told.contains("SELECT lineage_retain(3)"), "{told}");
    assert!(gateway.log().contains("SELECT lineage_retain(3)"));
    for (word, kept) in [(0, "for ever"), (4, "for 4 days")] {
        sql(&database, &format!("SELECT lineage_retain({word})"));
        let out = prune(&gateway);
        let said = String::from_utf8_lossy(&out.stderr);
        let expected = ["409", kept, "SELECT lineage_retain(3)"];
        assert!(out.status.code() == Some(1) && expected.iter().all(|text| said.contains(text)), "{said}");
    }
    let signed = "SELECT count(*) FROM lineage_pruned";
    assert_eq!(sql(&database, signed), "0");
    sql(&database, "SELECT lineage_retain(3)");
    let told = pruned(&gateway);
    assert_eq!((told["logs"][0]["below_seq"].as_u64(), told["dropped"].as_u64()), (Some(21), Some(1)), "{told}");
    assert_eq!(fault(), None);
}
