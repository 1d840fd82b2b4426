//! The key that signs records changes hands, and what it signs stays provable.

use crate::gateway::{Gateway, Setup, chat, eventually, mock, records, signet};
use crate::keeper::Keeper;
use crate::stack::Postgres;
use serde_json::Value;
use signet_lineage::Signer;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

fn rotate(gateway: &Gateway) -> Output {
    let mut command = signet(&["lineage", "keys", "rotate", "--admin", &gateway.admin.to_string(), "--data"]);
    command.arg(&gateway.data).output().expect("it runs")
}

#[track_caller]
pub(crate) fn rotated(gateway: &Gateway) -> Value {
    let out = rotate(gateway);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

pub(crate) fn shipped(gateway: &Gateway) {
    eventually("shipping", || {
        let log = &gateway.status()["log"];
        (log["shipped_seq"] == log["next_seq"]).then_some(())
    });
}

fn old_files(data: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(data).expect("a folder").flatten().map(|entry| entry.path());
    all.filter(|path| path.to_string_lossy().contains("lineage.key.old-")).collect()
}

fn place_key(path: &Path, key: &Signer) {
    fs::write(path, &*key.to_pkcs8()).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

#[test]
fn a_rotation_under_load_leaves_a_log_that_verifies_with_both_keys_and_not_with_one() {
    let mock = mock();
    let data = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(data.path());
    let gateway = setup.start();
    let mut before = Keeper::of(data.path());
    before.keep(&gateway.chat(&chat("What is a neap tide?"), &[]));
    let done = AtomicBool::new(false);
    let (turns, answers) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut answers = Vec::new();
            while !done.load(Ordering::Relaxed) {
                answers.push(gateway.chat(&chat(&format!("What is tide {}?", answers.len())), &[]));
            }
            answers
        });
        let turns = [rotated(&gateway), rotated(&gateway)];
        done.store(true, Ordering::Relaxed);
        (turns, asking.join().expect("no panic"))
    });
    assert_eq!(turns[0]["new_key"], turns[1]["old_key"]);
    assert_eq!(old_files(data.path()).len(), 2);
    let last = gateway.chat(&chat("What is an ebb?"), &[]);
    shipped(&gateway);
    let mut after = Keeper::of(data.path());
    answers.iter().chain([&last]).for_each(|answer| {
        assert_eq!(answer.status, 200);
        before.keep(answer);
        after.keep(answer);
    });
    after.accepts(data.path());
    let (code, said) = before.verify(&["--data", data.path().to_str().expect("a plain name")]);
    assert!(code == 18, "the heirs of a key have to be pinned too: {code} {said}");
    let shown = gateway.admin_get("/v1/lineage/keys").text();
    assert_eq!(shown.matches("BEGIN PUBLIC KEY").count(), 3);
    drop(gateway.kill());

    // The next process goes on with the new key, without another rotation, and the store takes it for the same writer.
    let gateway = setup.start();
    after.keep(&gateway.chat(&chat("What is a tidal bore?"), &[]));
    shipped(&gateway);
    drop(gateway.stop());
    after.accepts(data.path());
    let rotations = records(data.path()).iter().filter(|record| record["predicate"]["kind"] == "key_rotate").count();
    assert_eq!(rotations, 2);
}

#[test]
fn a_start_with_a_key_that_the_log_does_not_know_is_refused() {
    let mock = mock();
    let data = TempDir::new().expect("a folder");
    let key = data.path().join("lineage.key");
    let setup = Setup::on(&mock).within(data.path());
    let gateway = setup.start();
    let first = fs::read(&key).expect("a key");
    rotated(&gateway);
    drop(gateway.stop());
    let second = fs::read(&key).expect("a key");
    let foreign = Signer::generate();
    for swapped in [first.clone(), foreign.to_pkcs8().to_vec()] {
        fs::write(&key, swapped).expect("a file");
        let out = setup.run(data.path());
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(78), "{said}");
        assert!(said.contains("the lineage log is signed by"), "{said}");
    }
    fs::write(&key, second).expect("a file");
    drop(setup.start().stop());
    Keeper::of(data.path()).accepts(data.path());
}

#[test]
fn a_rotation_that_was_killed_before_the_files_changed_is_brought_to_its_end() {
    let mock = mock();
    let data = TempDir::new().expect("a folder");
    let key = data.path().join("lineage.key");
    let setup = Setup::on(&mock).within(data.path());
    let gateway = setup.start();
    let old = Signer::from_pkcs8(&fs::read(&key).expect("a key")).expect("a key");
    rotated(&gateway);
    drop(gateway.kill());
    // As if the kill had come between the record and the files.
    fs::rename(&key, data.path().join("lineage.key.next")).expect("renamed");
    for file in old_files(data.path()) {
        fs::remove_file(file).expect("removed");
    }
    place_key(&key, &old);
    let gateway = setup.start();
    gateway.chat(&chat("What is a neap tide?"), &[]);
    rotated(&gateway);
    drop(gateway.stop());
    assert_eq!(old_files(data.path()).len(), 2);
    Keeper::of(data.path()).accepts(data.path());
}

#[test]
fn a_rotation_whose_key_cannot_be_kept_signs_nothing() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    // A folder in the place of the file.
    fs::create_dir(gateway.data.join("lineage.key.next")).expect("made");
    let out = rotate(&gateway);
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("the old one goes on"));
    gateway.chat(&chat("What is a neap tide?"), &[]);
    let folder = gateway.stop();
    let rotations = records(&folder.path).iter().filter(|record| record["predicate"]["kind"] == "key_rotate").count();
    assert_eq!(rotations, 0);
    Keeper::of(&folder.path).accepts(&folder.path);
}

#[test]
fn a_log_in_memory_has_nothing_to_rotate() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("lineage.mode", "memory").start();
    let out = rotate(&gateway);
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("409"));
}

#[test]
fn a_revoked_key_counts_below_the_place_that_was_good_and_not_behind() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    gateway.chat(&chat("What is a neap tide?"), &[]);
    let turn = rotated(&gateway);
    gateway.chat(&chat("What is an ebb?"), &[]);
    let folder = gateway.stop();
    let data = folder.path.to_str().expect("a plain name");
    let keeper = Keeper::of(&folder.path);
    let run = |arguments: &[&str]| {
        let out = signet(&[&["lineage", "keys"], arguments].concat()).args(["--data", data]).output().expect("it runs");
        (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
    };
    let (old, new) = (turn["old_key"].as_str().expect("an id"), turn["new_key"].as_str().expect("an id"));
    let (seq, log) = (turn["seq"].as_u64().expect("a seq"), turn["log"].as_str().expect("a log"));
    let (ok, listed) = run(&["list"]);
    assert!(ok, "{listed}");
    let attests: Vec<_> = listed.lines().filter(|line| line.contains(" attest ")).collect();
    let from = seq + 1;
    assert_eq!(
        attests,
        [format!("{log} attest {old} from 0 below {from}"), format!("{log} attest {new} from {from} in force")]
    );
    assert_eq!(listed.lines().count(), 3, "and the key of checkpoints: {listed}");

    assert!(!run(&["revoke", &"0".repeat(old.len()), "--last-good", "1"]).0, "no such key");
    assert!(!run(&["revoke", "", "--last-good", "1"]).0, "two keys");
    let pinned = fs::read_to_string(keeper.key()).expect("a file");
    let (file, good) = (keeper.key(), from.to_string());
    let (ok, line) = run(&["revoke", &old[..12], "--last-good", &good, "--into", file.to_str().expect("a plain name")]);
    assert_eq!((ok, line), (true, format!("revoked {old} {log} {from}\n")));
    keeper.accepts(&folder.path);
    fs::write(&file, format!("{pinned}revoked {new} {log} {from}\n")).expect("a file");
    let (code, said) = keeper.verify(&["--data", data]);
    assert_eq!(code, 19, "the heir was stolen before it signed anything: {said}");
    fs::write(&file, format!("{pinned}revoked {old} {log} {seq}\n")).expect("a file");
    let (code, said) = keeper.verify(&["--data", data]);
    assert_eq!(code, 18, "a rotation behind the place names no heir: {said}");
}

#[test]
fn in_postgres_a_rotated_log_is_the_same_writer_also_behind_an_outage_and_its_payloads_can_go() {
    let mock = mock();
    let postgres = Postgres::start();
    let data = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(data.path()).on_services(&postgres.url(), None);
    let gateway = setup.start();
    let first = gateway.chat(&chat("What is a neap tide?"), &[]);
    rotated(&gateway);
    shipped(&gateway);
    // The shipper has to register again, with a log that another key signs by now.
    postgres.down();
    let second = gateway.chat(&chat("What is an ebb?"), &[]);
    postgres.up();
    shipped(&gateway);
    let mut command =
        signet(&["lineage", "erase", &first.id(), "--basis", "a test", "--admin", &gateway.admin.to_string()]);
    let out = command.arg("--data").arg(data.path()).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    drop(gateway.kill());
    let gateway = setup.start();
    let third = gateway.chat(&chat("What is a bore?"), &[]);
    shipped(&gateway);
    let mut keeper = Keeper::of(data.path());
    for answer in [&first, &second, &third] {
        keeper.keep(answer);
    }
    let (code, said) = keeper.verify(&["--db", &postgres.url()]);
    assert!(code == 0 && said.contains("ERASED_OK: 1 "), "{code}: {said}");
}

fn rotated_checkpoints(gateway: &Gateway) -> Value {
    let mut command = signet(&["lineage", "keys", "rotate", "--use", "checkpoint", "--admin"]);
    let out = command.arg(gateway.admin.to_string()).arg("--data").arg(&gateway.data).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// The newest checkpoint, once it covers this many records.
fn checkpoint_over(gateway: &Gateway, size: u64) -> String {
    let file = gateway.data.join("lineage/checkpoint");
    eventually("a checkpoint", || {
        let note = fs::read_to_string(&file).ok()?;
        (note.lines().nth(1)?.parse::<u64>().ok()? >= size).then_some(note)
    })
}

#[test]
fn checkpoints_that_cover_the_rotation_of_their_key_are_signed_by_the_new_one_and_older_ones_stay_good() {
    let mock = mock();
    let data = TempDir::new().expect("a folder");
    let key = data.path().join("lineage-checkpoint.key");
    let setup = Setup::on(&mock).within(data.path());
    let gateway = setup.start();
    gateway.chat(&chat("What is a neap tide?"), &[]);
    let before = checkpoint_over(&gateway, 2);
    let first = Keeper::of(data.path());
    let old = fs::read(&key).expect("a key");
    let turn = rotated_checkpoints(&gateway);
    assert_eq!((turn["use"].as_str(), turn["old_key"] == turn["new_key"]), (Some("checkpoint"), false));
    let covering = turn["seq"].as_u64().expect("a seq") + 1;
    let after = checkpoint_over(&gateway, covering);
    let pin = turn["pin"].as_str().expect("a verifier key").to_owned();
    let shown = gateway.admin_get("/v1/lineage/keys").text();
    assert!(shown.contains(&pin) && shown.matches('+').count() >= 4, "both keys of checkpoints: {shown}");
    // Each note under its own key: what the old one did not sign is not signed by it, and the other way round.
    let by = |note: &str, keys: &str| {
        let keys: Vec<_> = keys.lines().filter_map(|line| line.parse().ok()).collect();
        signet_lineage::verify::checkpoint(note, &keys).is_ok()
    };
    let pinned = fs::read_to_string(first.key()).expect("a file");
    assert_eq!(
        [by(&before, &pinned), by(&after, &pinned), by(&before, &pin), by(&after, &pin)],
        [true, false, false, true]
    );
    gateway.chat(&chat("What is an ebb?"), &[]);
    checkpoint_over(&gateway, covering + 1);
    drop(gateway.kill());

    // As if the kill had come between the record and the files; a start brings the rotation to its end.
    let new = Signer::from_pkcs8(&fs::read(&key).expect("a key")).expect("a key");
    fs::rename(&key, data.path().join("lineage-checkpoint.key.next")).expect("renamed");
    let old_file = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains("lineage-checkpoint.key.old-");
    for entry in fs::read_dir(data.path()).expect("a folder").flatten().filter(old_file) {
        fs::remove_file(entry.path()).expect("removed");
    }
    place_key(&key, &Signer::from_pkcs8(&old).expect("a key"));
    let gateway = setup.start();
    gateway.chat(&chat("What is a bore?"), &[]);
    let last = checkpoint_over(&gateway, gateway.status()["log"]["next_seq"].as_u64().expect("a seq"));
    assert!(by(&last, &pin), "{last}");
    let kept = Signer::from_pkcs8(&fs::read(&key).expect("a key")).expect("a key");
    assert_eq!(kept.public_key(), new.public_key());
    shipped(&gateway);
    drop(gateway.stop());

    let after_all = Keeper::of(data.path());
    let anchors = first.key().with_file_name("anchors");
    fs::write(&anchors, [&before, &after, &last].map(String::as_str).join("\n")).expect("a file");
    let source = ["--data", data.path().to_str().expect("a plain name"), "--anchor", anchors.to_str().expect("a name")];
    for keeper in [&first, &after_all] {
        let (code, said) = keeper.verify(&source);
        assert!(code == 0 && said.contains("3 kept receipts and anchors"), "{code} {said}");
    }
}

#[test]
fn a_checkpoint_key_that_was_kept_but_named_by_no_record_never_signs() {
    let mock = mock();
    let data = TempDir::new().expect("a folder");
    let key = data.path().join("lineage-checkpoint.key");
    let setup = Setup::on(&mock).within(data.path());
    drop(setup.start().stop());
    let there = fs::read(&key).expect("a key");
    // As if the kill had come before the record.
    place_key(&data.path().join("lineage-checkpoint.key.next"), &Signer::generate());
    let gateway = setup.start();
    gateway.chat(&chat("What is a neap tide?"), &[]);
    checkpoint_over(&gateway, gateway.status()["log"]["next_seq"].as_u64().expect("a seq"));
    drop(gateway.stop());
    assert_eq!(fs::read(&key).expect("a key"), there);
    Keeper::of(data.path()).accepts(data.path());
}
