//! One payload goes, and everything that was proved stays proved.

use crate::client::ask;
use crate::gateway::{Gateway, Setup, chat, eventually, mock, records, signet};
use crate::keeper::Keeper;
use crate::stack::Postgres;
use serde_json::Value;
use std::fs;
use std::process::Output;
use tempfile::TempDir;

fn erase(gateway: &Gateway, id: &str, basis: &str) -> Output {
    let mut command =
        signet(&["lineage", "erase", id, "--basis", basis, "--admin", &gateway.admin.to_string(), "--data"]);
    command.arg(&gateway.data).output().expect("it runs")
}

fn token(gateway: &Gateway) -> String {
    format!("Bearer {}", fs::read_to_string(gateway.data.join("admin.token")).expect("a token").trim())
}

#[test]
fn an_erased_payload_is_shown_to_nobody_and_every_proof_over_it_still_holds() {
    let mock = mock();
    let data = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(data.path());
    let gateway = setup.start();
    let mut keeper = Keeper::of(data.path());
    let gone = gateway.chat(&chat("What is a neap tide?"), &[]);
    // An answer that stands on it.
    let hit = gateway.chat(&chat("What is a neap tide?"), &[]);
    for answer in [&gone, &hit] {
        keeper.keep(answer);
    }
    let path = format!("/v1/lineage/{}", gone.id());
    let proof = eventually("a proof", || {
        let shown = gateway.get(&path).json();
        shown["proof"].as_str().map(str::to_owned)
    });
    let receipt: signet_lineage::Receipt =
        gone.header("lineage-receipt").expect("a receipt").parse().expect("a receipt");

    let out = erase(&gateway, &gone.id(), "a caller's order");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let told: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!((told["id"].as_str(), told["seq"].as_u64()), (Some(&*gone.id()), Some(receipt.seq)));
    let authorization = token(&gateway);
    let operator = [("Authorization", &*authorization)];
    assert_eq!(gateway.get(&path).refusal(404)["code"], "lineage_not_found");
    assert_eq!(ask(gateway.admin, "GET", &path, &operator, b"").status, 404);
    assert!(!erase(&gateway, &gone.id(), "again").status.success(), "it is gone already");
    assert_eq!(gateway.get(&format!("/v1/lineage/{}", hit.id())).status, 200);

    let keys = gateway.admin_get("/v1/lineage/keys").text();
    let key = keys.lines().find_map(|line| line.parse().ok()).expect("a verifier key");
    signet_lineage::verify::proof_file(&proof, &receipt.leaf_hash, std::slice::from_ref(&key)).expect("it still holds");
    let (code, said) = keeper.verify(&["--data", data.path().to_str().expect("a plain name")]);
    assert!(code == 0 && said.contains("ERASED_OK: 1 "), "{code}: {said}");

    // The next process does not show it either, though the segment still holds it.
    drop(gateway.stop());
    let gateway = setup.start();
    assert_eq!(gateway.get(&path).refusal(404)["code"], "lineage_not_found");
    drop(gateway.stop());
    let (code, said) = keeper.verify(&["--data", data.path().to_str().expect("a plain name")]);
    assert!(code == 0 && said.contains("ERASED_OK: 1 "), "{code}: {said}");
    let export = signet(&["lineage", "export", "--data"]).arg(data.path()).output().expect("it runs").stdout;
    assert_eq!(String::from_utf8_lossy(&export).matches("{\"erased\":").count(), 1);
}

#[test]
fn what_is_about_the_log_cannot_be_erased_and_nothing_is_without_a_reason() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let answer = gateway.chat(&chat("What is an ebb?"), &[]);
    let authorization = token(&gateway);
    let operator = [("Authorization", &*authorization)];
    eventually("shipping", || (gateway.status()["log"]["shipped_seq"].as_u64() > Some(1)).then_some(()));
    let listed = ask(gateway.admin, "GET", "/v1/lineage", &operator, b"").json();
    let all = listed["data"].as_array().expect("a list");
    let opening = all.iter().find(|line| line["kind"] == "log_open").and_then(|line| line["id"].as_str());
    assert_eq!(erase(&gateway, opening.expect("an id"), "a test").status.code(), Some(64));
    for basis in ["", "line\nbreak", &"x".repeat(65)] {
        assert_eq!(erase(&gateway, &answer.id(), basis).status.code(), Some(64), "{basis}");
    }
    let unknown = erase(&gateway, "00000000-0000-7000-8000-000000000000", "a test");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("404"));
    let folder = gateway.stop();
    assert!(records(&folder.path).iter().all(|record| record["predicate"]["kind"] != "erasure"));
}

#[test]
fn an_erased_payload_is_not_shown_either_while_the_store_that_knows_of_it_is_away() {
    let (mock, postgres) = (mock(), Postgres::start());
    let gateway = Setup::on(&mock).on_services(&postgres.url(), None).start();
    let gone = gateway.chat(&chat("What is a spring tide?"), &[]);
    assert!(erase(&gateway, &gone.id(), "a caller's order").status.success());
    let path = format!("/v1/lineage/{}", gone.id());
    postgres.down();
    assert_eq!(gateway.get(&path).status, 503, "the segment still holds it");
    let fresh = gateway.chat(&chat("What is a rip tide?"), &[]);
    gateway.record(&fresh.id());
}
