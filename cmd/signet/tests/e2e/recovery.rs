//! What a start finds in its folder, and what happens to a folder under a running process.

use crate::crash::{damage, segments};
use crate::gateway::{Gateway, Setup, chat, eventually, mock, records, streamed};
use crate::keeper::Keeper;
use crate::lineage::copy;
use signet_mock::{Behaviour, Fault, MockUpstream};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn asked(gateway: &Gateway, keeper: &mut Keeper, what: &str, count: u32) {
    for n in 0..count {
        keeper.keep(&gateway.chat(&chat(&format!("What is {what} {n}?")), &[]));
    }
}

/// A folder whose log falls behind its database by `spoil`, which also gets a copy of the log as it once was: a new log
/// begins, the old one is set aside, and everything ever answered verifies.
fn behind_its_database(spoil: impl Fn(&Path, &Path)) {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    let setup = Setup::on(&mock).within(&data);
    let gateway = setup.start();
    let mut keeper = Keeper::of(&data);
    asked(&gateway, &mut keeper, "a moor", 3);
    drop(gateway.stop());
    copy(&data.join("lineage"), &backup);
    let gateway = setup.start();
    asked(&gateway, &mut keeper, "a heath", 3);
    drop(gateway.stop());
    let logs = || records(&data).iter().map(|record| record["predicate"]["log"]["id"].to_string()).collect::<Vec<_>>();
    let old = logs().remove(0);
    spoil(&data.join("lineage"), &backup);

    let gateway = setup.start();
    assert!(gateway.log().contains("moved aside"), "{}", gateway.log());
    asked(&gateway, &mut keeper, "a fell", 3);
    drop(gateway.stop());
    assert!(data.join("lineage").join(format!("old-{}", old.trim_matches('"'))).join("identity").exists());
    let mut logs = logs();
    logs.sort();
    logs.dedup();
    assert_eq!(logs.len(), 2);
    assert_eq!(keeper.kept(), 9);
    keeper.accepts(&data);
}

#[test]
fn a_log_restored_from_a_backup_is_set_aside_and_a_new_one_begins() {
    behind_its_database(|log, backup| {
        fs::remove_dir_all(log).expect("the log is there");
        copy(backup, log);
    });
}

#[test]
fn a_log_that_was_cut_short_is_set_aside_and_a_new_one_begins() {
    behind_its_database(|log, _| {
        let data = log.parent().expect("a folder");
        for segment in segments(data) {
            let file = fs::OpenOptions::new().write(true).open(&segment).expect("a segment");
            let len = file.metadata().expect("its size").len();
            // The header stays: shorter, the segment would be refused as damaged.
            file.set_len(len.min(400)).expect("cut");
        }
    });
}

#[test]
fn a_log_without_the_key_that_signed_it_is_refused_and_no_new_key_is_made() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path());
    let gateway = setup.start();
    let mut keeper = Keeper::of(folder.path());
    asked(&gateway, &mut keeper, "a key", 2);
    drop(gateway.stop());
    let key = folder.path().join("lineage.key");
    let aside = folder.path().join("aside");
    fs::rename(&key, &aside).expect("moved");
    let out = setup.run(folder.path());
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("lineage.key is gone") && said.contains("restore the key"), "{said}");
    assert!(!key.exists());
    fs::rename(aside, key).expect("moved back");
    asked(&setup.start(), &mut keeper, "a lock", 1);
    keeper.accepts(folder.path());
}

/// A gateway whose database is away and whose callers are known all the same.
fn without_database(mock: &MockUpstream, folder: &Path) -> Setup {
    let secret = folder.join("secret");
    fs::write(&secret, "7".repeat(64)).expect("a file");
    let away = format!("postgres://signet:x@{}/none", crate::stack::free_address());
    let setup = Setup::on(mock).within(&folder.join("data")).on_services(&away, None);
    setup.set("auth.secret_file", secret.to_str().expect("plain"))
}

#[test]
fn beside_a_gap_only_what_was_opened_behind_it_is_called_interrupted() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let setup = without_database(&mock, folder.path());
    let gateway = setup.start();
    let keeper = Keeper::of(&data);
    let hang = || mock.script([Behaviour::fault(Fault::HangAfter(2))]);
    let begun = |what: &str| {
        hang();
        let mut conn = gateway.begin(&streamed(what), &[]);
        let head = conn.head().expect("a head");
        let id = head.headers.iter().find(|(name, _)| name == "lineage-id").expect("an id").1.clone();
        (conn, id)
    };
    let (_one, before) = begun("What is a crag?");
    let answered = gateway.chat(&chat("What is a tor?"), &[]).id();
    gateway.chat(&chat("What is a scree?"), &[]).is(200, "MISS");
    let (_two, behind) = begun("What is a scar?");
    drop(gateway.kill());
    damage(&data, 1); // the record of the answered one
    for _ in 0..2 {
        let gateway = setup.start();
        assert!(gateway.log().contains("stay open"), "{}", gateway.log());
        drop(gateway.kill());
        let all = records(&data);
        let of = |id: &str| all.iter().filter(|record| record["predicate"]["id"] == id).collect::<Vec<_>>();
        assert_eq!((of(&before).len(), of(&answered).len()), (0, 0), "nobody knows how they ended");
        assert_eq!(of(&behind).len(), 1);
        assert_eq!(of(&behind)[0]["predicate"]["response"]["outcome"], "interrupted");
    }
    keeper.accepts(&data);
}

#[test]
fn a_small_log_makes_room_as_its_records_are_shipped() {
    let mock = mock();
    for bytes in ["30000", "100000"] {
        let gateway = Setup::on(&mock).set("lineage.spool_max_bytes", bytes).start();
        let mut keeper = Keeper::of(&gateway.data);
        let mut waited = 0;
        for n in 0..150 {
            let answer = eventually("room", || {
                let answer = gateway.chat(&chat(&format!("What is pool {n}?")), &[("X-Cache-Mode", "off")]);
                keeper.keep(&answer);
                waited += u32::from(answer.status != 200);
                (answer.status == 200).then_some(answer)
            });
            assert!(answer.header("lineage-receipt").is_some());
        }
        assert!(waited > 0 || bytes != "30000", "the log was full now and then");
        keeper.accepts(&gateway.stop().path);
    }
}

#[test]
fn a_full_log_is_started_again_and_shipped_once_the_database_is_back() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let (data, later) = (folder.path().join("data"), folder.path().join("later"));
    let url = format!("sqlite://{}", later.join("signet.db").display());
    let setup = without_database(&mock, folder.path()).on_services(&url, None);
    let setup = setup.set("lineage.spool_max_bytes", "100000");
    let gateway = setup.start();
    let mut keeper = Keeper::of(&data);
    eventually("a full log", || {
        let answer = gateway.chat(&chat("What is a weir?"), &[("X-Cache-Mode", "off")]);
        keeper.keep(&answer);
        answer.header("lineage-id").is_none().then_some(())
    });
    drop(gateway.kill());
    let gateway = setup.spawn();
    eventually("the reason", || (gateway.get("/readyz").json()["status"] == "lineage_full").then_some(()));
    gateway.chat(&chat("What is a dam?"), &[]).refusal(503);
    fs::create_dir(later).expect("a new folder");
    gateway.until_ready();
    keeper.keep(&gateway.chat(&chat("What is a dam?"), &[]));
    drop(gateway.stop());
    assert_eq!(keeper.verify(&["--db", &url]).0, 0);
}

#[test]
fn a_newest_segment_that_was_never_begun_does_not_stop_a_start() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path());
    let gateway = setup.start();
    let mut keeper = Keeper::of(folder.path());
    asked(&gateway, &mut keeper, "a bud", 3);
    let next = gateway.status()["log"]["next_seq"].as_u64().expect("a number");
    drop(gateway.kill());
    fs::write(folder.path().join(format!("lineage/seg-{next:020}.lsp")), "").expect("a file");
    keeper.accepts(folder.path());
    let gateway = setup.start();
    assert!(gateway.log().contains("never begun"), "{}", gateway.log());
    asked(&gateway, &mut keeper, "a leaf", 3);
    drop(gateway.stop());
    assert_eq!(keeper.kept(), 6);
    keeper.accepts(folder.path());
}

#[test]
fn without_its_folder_a_gateway_is_not_ready_and_spends_nothing() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let gateway = Setup::on(&mock).within(&data).start();
    gateway.chat(&chat("What is a dune?"), &[]).is(200, "MISS");
    fs::remove_dir_all(&data).expect("removed");
    let ready = eventually("unready", || Some(gateway.get("/readyz")).filter(|ready| ready.status == 503));
    assert_eq!(ready.json()["status"], "lineage_failed");
    assert!(ready.json()["faults"]["lineage_failed"].as_str().is_some_and(|why| why.contains("gone from its folder")));
    let calls = mock.counts().requests;
    for question in ["What is a dune?", "What is a spit?"] {
        assert_eq!(gateway.chat(&chat(question), &[]).refusal(503)["code"], "lineage_unavailable");
    }
    assert_eq!(mock.counts().requests, calls);
    assert_eq!(gateway.get("/healthz").status, 200);
}

#[test]
fn without_its_folder_a_gateway_that_may_serves_without_records_and_says_so() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let gateway = Setup::on(&mock).within(&data).set("lineage.on_full", "degrade").start();
    fs::remove_dir_all(data.join("lineage")).expect("removed");
    eventually("an answer without a receipt", || {
        let answer = gateway.chat(&chat("What is a bar?"), &[("X-Cache-Mode", "off")]);
        answer.is(200, "BYPASS");
        answer.header("lineage-receipt").is_none().then_some(())
    });
    let ready = gateway.get("/readyz");
    assert_eq!(ready.status, 200);
    assert!(ready.json()["faults"]["lineage"].as_str().is_some_and(|why| why.contains("gone from its folder")));
}
