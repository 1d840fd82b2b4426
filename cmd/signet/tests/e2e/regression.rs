//! A database that lost what it had confirmed: rolled back, or restored from an old copy.

use crate::gateway::{Gateway, Setup, chat, eventually, mock};
use crate::keeper::Keeper;
use crate::stack::{fresh_database, sql, told};
use std::ops::Range;
use tempfile::TempDir;

const METRIC: &str = "signet_lineage_db_regression_records ";

fn all_shipped(gateway: &Gateway) {
    eventually("shipping", || {
        let log = &gateway.status()["log"];
        (log["shipped_seq"] == log["next_seq"]).then_some(())
    });
}

fn ask(gateway: &Gateway, keeper: &mut Keeper, questions: Range<u32>) {
    for n in questions {
        keeper.keep(&gateway.chat(&chat(&format!("What is weir {n}?")), &[]));
    }
}

#[test]
fn a_database_restored_from_an_old_copy_gets_all_its_records_again() {
    let (mock, folder, url) = (mock(), TempDir::new().expect("a folder"), fresh_database());
    let setup = || Setup::on(&mock).within(&folder.path().join("data")).on_services(&url, None);
    let gateway = setup().start();
    let mut keeper = Keeper::of(&gateway.data);
    ask(&gateway, &mut keeper, 0..4);
    all_shipped(&gateway);
    drop(gateway.stop());
    sql(&url, "CREATE TABLE old_log AS TABLE lineage_log; CREATE TABLE old_record AS TABLE lineage_record");

    // Another epoch, of which the old copy knows nothing.
    let gateway = setup().start();
    ask(&gateway, &mut keeper, 4..9);
    all_shipped(&gateway);
    sql(
        &url,
        "DELETE FROM lineage_record; INSERT INTO lineage_record TABLE old_record;
         DELETE FROM lineage_log; INSERT INTO lineage_log TABLE old_log",
    );
    let (code, said) = keeper.verify(&["--db", &url]);
    assert_ne!(code, 0, "receipts show what is missing: {said}");
    ask(&gateway, &mut keeper, 9..11);
    eventually("the alarm", || gateway.log().contains("DB_REGRESSION").then_some(()));
    eventually("the end of the alarm", || gateway.log().contains("holds again what it had confirmed").then_some(()));
    all_shipped(&gateway);
    assert_eq!((gateway.get("/readyz").status, gateway.metric(METRIC)), (200, 0));
    drop(gateway.stop());
    assert_eq!(keeper.kept(), 11);
    let (code, said) = keeper.verify(&["--db", &url]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(sql(&url, "SELECT count(*) - count(DISTINCT (log_no, seq)) FROM lineage_record"), "0");
}

#[test]
fn what_a_database_lost_and_the_log_no_longer_holds_is_told_until_it_is_declared_and_judged_from_then_on() {
    let (mock, folder, url) = (mock(), TempDir::new().expect("a folder"), fresh_database());
    let setup = || {
        let setup = Setup::on(&mock).within(&folder.path().join("data")).on_services(&url, None);
        setup.set("lineage.spool_max_bytes", "600000").set("lineage.retain_bytes", "0")
    };
    let gateway = setup().start();
    let (bare, mut keeper) = (Keeper::of(&gateway.data), Keeper::of(&gateway.data));
    // Enough that the first segments are full, and removed once they are shipped.
    ask(&gateway, &mut keeper, 0..120);
    all_shipped(&gateway);
    drop(gateway.stop());
    // A process that does not hold them in RAM either.
    let gateway = setup().start();
    all_shipped(&gateway);
    sql(&url, "DELETE FROM lineage_record WHERE seq >= 5; UPDATE lineage_log SET next_seq = 5");
    ask(&gateway, &mut keeper, 120..121);
    let ready = eventually("unready", || Some(gateway.get("/readyz")).filter(|ready| ready.status == 503));
    assert_eq!(ready.json()["status"], "db_regression");
    let why = ready.json()["faults"]["db_regression"].as_str().map(str::to_owned).expect("a fault");
    assert!(why.contains("the database lost records 5 to") && why.contains("does not hold all of them"), "{why}");
    assert!(gateway.metric(METRIC) > 100);
    assert_eq!(sql(&url, "SELECT next_seq FROM lineage_log"), "5", "nothing behind the loss");
    drop(gateway.kill());

    let gateway = setup().start();
    all_shipped(&gateway);
    assert_eq!((gateway.get("/readyz").status, gateway.metric(METRIC)), (200, 0));
    drop(gateway.stop());
    let (code, said) = bare.verify(&["--db", &url]);
    assert!(code == 24 && said.contains("the database lost seq 5 to"), "{code}: {said}");
}

#[test]
fn a_database_that_cuts_connections_and_refuses_to_write_loses_and_doubles_nothing() {
    let (mock, url) = (mock(), fresh_database());
    let gateway = Setup::on(&mock).on_services(&url, None).start();
    let mut keeper = Keeper::of(&gateway.data);
    let name = url.rsplit('/').next().expect("a database").to_owned();
    let cut = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    );
    for round in 0..3 {
        ask(&gateway, &mut keeper, round * 10..round * 10 + 5);
        sql(&url, &cut);
        sql(&url, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
        sql(&url, &cut);
        ask(&gateway, &mut keeper, round * 10 + 5..round * 10 + 10);
        let behind = &gateway.status()["log"];
        assert!(behind["shipped_seq"].as_u64() < behind["next_seq"].as_u64(), "nothing is written: {behind}");
        sql(&told("SIGNET_TEST_POSTGRES_URL"), &format!("ALTER DATABASE {name} RESET default_transaction_read_only"));
        sql(&url, &cut);
        all_shipped(&gateway);
    }
    drop(gateway.stop());
    assert_eq!(keeper.kept(), 30);
    let (code, said) = keeper.verify(&["--db", &url]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(sql(&url, "SELECT count(*) - count(DISTINCT (log_no, seq)) FROM lineage_record"), "0");
}
