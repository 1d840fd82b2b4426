//! Modes in which an answer waits for the disk, or for the database.

use crate::client::Answer;
use crate::crash::{damage, segments};
use crate::gateway::{Gateway, Setup, chat, eventually, mock, streamed};
use crate::keeper::Keeper;
use crate::stack::{Postgres, fresh_database, sql};
use tempfile::TempDir;

/// The seq of a record that was answered with.
fn seq(answer: &Answer) -> u64 {
    let receipt = answer.header("lineage-receipt").or_else(|| answer.trailer("lineage-receipt")).expect("a receipt");
    receipt.split(';').nth(3).and_then(|seq| seq.parse().ok()).expect("a seq")
}

/// A miss, a hit and both as streams, each with a receipt.
fn ask_all(gateway: &Gateway, name: &str, mut check: impl FnMut(&Answer)) {
    for (request, cache) in [(chat(name), "MISS"), (chat(name), "EXACT"), (streamed(name), "EXACT")] {
        let answer = gateway.chat(&request, &[("TE", "trailers")]);
        answer.is(200, cache);
        check(&answer);
    }
    let fresh = gateway.chat(&streamed(&format!("{name} At length, please.")), &[("TE", "trailers")]);
    fresh.is(200, "MISS");
    assert!(fresh.text().ends_with("data: [DONE]\n\n"));
    check(&fresh);
    let refused = gateway.post("/v1/chat/completions", &[("Content-Type", "application/json")], b"{}");
    assert_eq!(refused.status, 400);
    check(&refused);
}

#[test]
fn in_strict_mode_an_answer_ends_only_once_its_record_is_on_the_disk() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("lineage.mode", "strict").start();
    let mut keeper = Keeper::of(&gateway.data);
    for n in 0..10 {
        ask_all(&gateway, &format!("What is a fell {n}?"), |answer| {
            let durable = gateway.status()["log"]["durable_seq"].as_u64().expect("a figure");
            assert!(durable > seq(answer), "{durable} of {}", seq(answer));
            keeper.keep(answer);
        });
    }
    assert!(gateway.metric("signet_step_duration_seconds_count{step=\"settle\"}") >= 50);
    let folder = gateway.kill();
    keeper.accepts(&folder.path);
}

#[test]
fn in_strict_db_mode_an_answer_ends_only_once_the_database_has_its_record() {
    let mock = mock();
    let url = fresh_database();
    let gateway = Setup::on(&mock).on_services(&url, None).set("lineage.mode", "strict+db").start();
    for n in 0..5 {
        ask_all(&gateway, &format!("What is a tarn {n}?"), |answer| {
            let stored = sql(&url, &format!("SELECT count(*) FROM lineage_record WHERE seq = {}", seq(answer)));
            assert_eq!(stored, "1");
        });
    }
}

#[test]
fn in_strict_db_mode_answers_are_withheld_while_the_database_is_away() {
    let mock = mock();
    let postgres = Postgres::start();
    let url = postgres.url();
    let gateway = Setup::on(&mock).on_services(&url, None).set("lineage.mode", "strict+db").start();
    let mut keeper = Keeper::of(&gateway.data);
    keeper.keep(&gateway.chat(&chat("What is a beck?"), &[]));
    postgres.down();
    let (json, stream) = std::thread::scope(|scope| {
        let json = scope.spawn(|| gateway.chat(&chat("What is a beck?"), &[]));
        let stream = scope.spawn(|| gateway.chat(&streamed("What is a gill?"), &[]));
        (json.join().expect("it ends"), stream.join().expect("it ends"))
    });
    assert_eq!(json.refusal(503)["code"], "lineage_unavailable");
    assert!(stream.text().contains("lineage_unavailable") && !stream.text().contains("[DONE]"), "{}", stream.text());
    assert!(!stream.ended_well);
    postgres.up();
    eventually("an answer", || (gateway.chat(&chat("What is a beck?"), &[]).status == 200).then_some(()));
    keeper.keep(&gateway.chat(&chat("What is a force?"), &[]));
    drop(gateway.stop());
    let (code, said) = keeper.verify(&["--db", &url]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_strict_log_is_continued_over_a_loss_only_when_told_to_and_then_for_good() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path()).set("lineage.mode", "strict");
    let gateway = setup.start();
    for n in 0..6 {
        gateway.chat(&chat(&format!("What is a dale {n}?")), &[]).is(200, "MISS");
    }
    drop(gateway.kill());
    std::fs::remove_file(folder.path().join("signet.db")).expect("nothing is in a database");
    damage(folder.path(), 3);
    let before = segments(folder.path());
    let refused = setup.run(folder.path());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.contains("--accept-gap") && said.contains("missing"), "{said}");
    assert_eq!(segments(folder.path()), before, "nothing was begun");
    let gateway = setup.clone().argument("--accept-gap").start();
    gateway.chat(&chat("What is a dale?"), &[]).is(200, "MISS");
    drop(gateway.stop());
    drop(setup.start().stop());
}
