//! Logs that are set aside: nothing that only their folders hold is forgotten, and nothing is signed twice.

use crate::crash::{damage, segments};
use crate::gaps::{Place, all_shipped, covered, spoil_group_ends, unshipped};
use crate::gateway::{Gateway, chat, eventually, mock, records};
use crate::keeper::Keeper;
use crate::lineage::copy;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// What the log in this folder says of the one that it replaces.
fn replaced(gateway: &Gateway) -> Value {
    let own = log_of(gateway);
    let opens =
        |record: &Value| record["predicate"]["kind"] == "log_open" && record["predicate"]["log"]["id"] == own.as_str();
    let mut all = records(&gateway.data).into_iter();
    all.find(opens).expect("a log_open")["predicate"]["control"].clone()
}

fn log_of(gateway: &Gateway) -> String {
    let identity = fs::read(gateway.data.join("lineage/identity")).expect("an identity");
    uuid::Uuid::from_slice(&identity[12..28]).expect("16 bytes").to_string()
}

#[test]
fn of_two_gateways_on_copies_of_a_folder_one_begins_a_new_log_and_its_answers_until_then_stay_known() {
    let mock = mock();
    let place = Place::postgres();
    let first = place.setup(&mock).start();
    let (mut kept, _) = unshipped(&first);
    drop(first.stop());
    let clone = place.folder.path().join("clone");
    copy(&place.data(), &clone);
    // The database is away, so neither knows of the other.
    let (first, second) = (place.setup(&mock).start(), place.setup(&mock).within(&clone).start());
    let next = |gateway: &Gateway| gateway.status()["log"]["next_seq"].clone();
    assert_eq!((log_of(&first), next(&first)), (log_of(&second), next(&second)));
    kept.keep(&first.chat(&chat("What is a twin?"), &[]));
    let mut lost = Keeper::of(&clone);
    lost.keep(&second.chat(&chat("What is a double?"), &[]));
    let log = log_of(&second);
    drop(second.kill());
    place.let_in();
    all_shipped(&first);

    let second = place.setup(&mock).within(&clone).start();
    assert!(second.log().contains("another process wrote the lineage log on"), "{}", second.log());
    assert_eq!(replaced(&second)["replaces"], log.as_str());
    kept.keep(&second.chat(&chat("What is a pair?"), &[]));
    kept.keep(&first.chat(&chat("What is a couple?"), &[]));
    all_shipped(&second);
    all_shipped(&first);
    let told = eventually("what is left", || {
        second.get("/readyz").json()["faults"]["lineage_set_aside"].as_str().map(str::to_owned)
    });
    assert!(told.contains("2 records in ") && told.contains("another process wrote the log on"), "{told}");
    drop((first.stop(), second.stop()));
    let (code, said) = place.judged(&kept);
    assert_eq!(code, 0, "{said}");
    let both = ["--db", &place.url(), "--data", clone.to_str().expect("plain")];
    let (code, said) = kept.verify(&both);
    assert!(code == 0 && said.contains("not checked: 2 records of log"), "{code}: {said}");
    assert_eq!(lost.verify(&both).0, 13, "another record has that place");
}

#[test]
fn two_writers_of_one_log_do_not_both_go_on_when_the_database_comes_back() {
    let mock = mock();
    let place = Place::postgres();
    let first = place.setup(&mock).start();
    let (kept, _) = unshipped(&first);
    drop(first.stop());
    let clone = place.folder.path().join("clone");
    copy(&place.data(), &clone);
    let (first, second) = (place.setup(&mock).start(), place.setup(&mock).within(&clone).start());
    place.let_in();
    let mut both = vec![first, second];
    let over = eventually("the end of one", || both.iter_mut().position(Gateway::has_ended));
    let data = both.remove(over).data.clone();
    let alive = both.remove(0);
    all_shipped(&alive);
    let again = place.setup(&mock).within(&data).start();
    assert_ne!(log_of(&again), log_of(&alive));
    assert!(again.log().contains("a new one begins"), "{}", again.log());
    again.chat(&chat("What is a rival?"), &[]).is(200, "MISS");
    all_shipped(&again);
    drop((alive.stop(), again.stop()));
    let (code, said) = place.judged(&kept);
    assert_eq!(code, 0, "{said}");
}

/// Gives a log's only segment another boot id: the machine has been started since.
fn restart_the_machine(data: &Path) {
    let segment = segments(data).remove(0);
    let mut bytes = fs::read(&segment).expect("a file");
    let head = u32::from_le_bytes(bytes[12..16].try_into().expect("4 bytes")) as usize;
    bytes[48] ^= 1;
    let crc = !bytes[..head - 8].iter().fold(!0_u32, |crc, byte| {
        // CRC-32C, bit by bit.
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    });
    bytes[head - 8..head - 4].copy_from_slice(&crc.to_le_bytes());
    fs::write(segment, bytes).expect("a file");
}

#[test]
fn an_answer_whose_record_went_with_the_power_is_declared_lost_and_not_called_tampering() {
    let mock = mock();
    let place = Place::sqlite();
    let rarely = |place: &Place| place.setup(&mock).set("lineage.checkpoint_every_s", "3600");
    let gateway = rarely(&place).start();
    let (mut kept, bare) = unshipped(&gateway);
    let mut last = Keeper::of(&gateway.data);
    last.keep(&gateway.chat(&chat("What is a fuse?"), &[]));
    drop(gateway.kill());
    cut_last_record(&place.data());
    restart_the_machine(&place.data());
    let gateway = rarely(&place).start();
    kept.keep(&gateway.chat(&chat("What is a wick?"), &[]));
    place.let_in();
    all_shipped(&gateway);
    let said = records(&place.data()).into_iter().find(|record| record["predicate"]["kind"] == "recovery");
    assert_eq!(said.expect("a recovery")["predicate"]["control"]["lost_tail_possible"], true);
    drop(gateway.stop());
    for (keeper, code) in [(&kept, 0), (&bare, 0), (&last, 30)] {
        let (found, said) = place.judged(keeper);
        assert_eq!(found, code, "{said}");
    }
}

#[test]
fn what_only_a_log_that_was_set_aside_holds_is_shipped_out_of_its_folder() {
    let mock = mock();
    let place = Place::sqlite();
    let gateway = place.setup(&mock).start();
    let (mut kept, bare) = unshipped(&gateway);
    covered(&gateway);
    let mut last = Keeper::of(&gateway.data);
    last.keep(&gateway.chat(&chat("What is a cape?"), &[]));
    covered(&gateway);
    let (old, size) = (log_of(&gateway), gateway.status()["log"]["next_seq"].as_u64().expect("a number"));
    drop(gateway.kill());
    cut_last_record(&place.data());

    let gateway = place.setup(&mock).start();
    assert!(gateway.log().contains("moved aside"), "{}", gateway.log());
    assert_eq!(replaced(&gateway)["replaces"], old.as_str());
    assert_eq!(replaced(&gateway)["replaces_size"], size - 1);
    kept.keep(&gateway.chat(&chat("What is a ness?"), &[]));
    kept.accepts(&place.data());
    place.let_in();
    all_shipped(&gateway);
    eventually("the rest", || gateway.log().contains("shipped what a log held").then_some(()));
    drop(gateway.stop());
    let (code, said) = place.judged(&kept);
    assert_eq!(code, 0, "{said}");
    assert_eq!(place.judged(&last).0, 16, "the disk lost it");
    drop(place.setup(&mock).start().stop());
    assert_eq!(place.judged(&bare).0, 0, "nothing is shipped twice");
}

/// Cuts the log's only segment in the middle of its last record, as a disk that lost what it had promised.
fn cut_last_record(data: &Path) {
    let segment = segments(data).remove(0);
    let mut bytes = fs::read(&segment).expect("a file");
    let needle = b"\"predicateType\"";
    let last = bytes.windows(needle.len()).rposition(|part| part == needle).expect("a record");
    bytes.truncate(last);
    fs::write(segment, bytes).expect("a file");
}

/// Kills a gateway; of its log one record is damaged then that a later one was signed over, and nothing tells its leaf.
fn kill_and_spoil(gateway: Gateway) {
    eventually("the disk", || {
        let log = &gateway.status()["log"];
        (log["durable_seq"] == log["next_seq"]).then_some(())
    });
    gateway.chat(&chat("What is a witness?"), &[]).is(200, "MISS");
    let data = gateway.kill().path;
    spoil_group_ends(&data);
    damage(&data, 3);
    for published in ["checkpoint", "tile"] {
        let path = data.join("lineage").join(published);
        drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
    }
}

#[test]
fn a_log_of_which_nobody_could_sign_a_checkpoint_again_is_sealed_and_both_logs_verify() {
    let mock = mock();
    let place = Place::sqlite();
    let gateway = place.setup(&mock).start();
    let (mut kept, bare) = unshipped(&gateway);
    let old = log_of(&gateway);
    kill_and_spoil(gateway);
    let gateway = place.setup(&mock).start();
    assert!(gateway.log().contains("the log is sealed and a new one begins"), "{}", gateway.log());
    assert_eq!(replaced(&gateway)["replaces"], old.as_str());
    assert!(records(&place.data()).iter().any(|record| record["predicate"]["kind"] == "log_seal"));
    kept.keep(&gateway.chat(&chat("What is a seal?"), &[]));
    covered(&gateway);
    place.let_in();
    all_shipped(&gateway);
    eventually("the rest", || gateway.log().contains("shipped what a log held").then_some(()));
    drop(gateway.stop());
    let (code, said) = place.judged(&bare);
    assert!(code == 0 && said.contains("declared: 1 records are missing"), "{code}: {said}");
    assert!(said.contains("not checked: tree heads of log"), "{said}");
    assert_eq!(place.judged(&kept).0, 30, "the receipt of the damaged record, and no other");
}

#[test]
fn a_start_that_was_killed_behind_the_seal_begins_the_new_log() {
    let mock = mock();
    let place = Place::sqlite();
    let gateway = place.setup(&mock).start();
    let (_, bare) = unshipped(&gateway);
    kill_and_spoil(gateway);
    let gateway = place.setup(&mock).start();
    let aside = rest(&place.data());
    drop(gateway.kill());
    // The sealed log in its old place, as if it had not been moved yet.
    fs::remove_dir_all(place.folder.path().join("back")).ok();
    fs::rename(&aside, place.folder.path().join("back")).expect("moved");
    fs::remove_dir_all(place.data().join("lineage")).expect("removed");
    fs::rename(place.folder.path().join("back"), place.data().join("lineage")).expect("moved");
    let gateway = place.setup(&mock).start();
    assert!(!gateway.log().contains("the log is sealed"), "it was sealed already: {}", gateway.log());
    place.let_in();
    eventually("the rest", || gateway.log().contains("shipped what a log held").then_some(()));
    all_shipped(&gateway);
    drop(gateway.stop());
    let (code, said) = place.judged(&bare);
    assert_eq!(code, 0, "{said}");
}

/// The one log that was set aside.
fn rest(data: &Path) -> std::path::PathBuf {
    let mut entries = fs::read_dir(data.join("lineage")).expect("the log").map(|entry| entry.expect("an entry").path());
    let old =
        |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"old-"));
    entries.find(old).expect("a log set aside")
}
