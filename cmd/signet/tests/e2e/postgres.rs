//! Postgres as the store: away, slow to come, back again; and replicas that share it.

use crate::gateway::{Gateway, Setup, chat, eventually, mock, streamed};
use crate::keeper::Keeper;
use crate::stack::{Postgres, black_hole, free_address, fresh_database, sql, told};
use signet_mock::MockUpstream;
use std::fs;
use tempfile::TempDir;

fn shipped(gateway: &Gateway) {
    eventually("shipping", || {
        let log = gateway.status()["log"].clone();
        (log["shipped_seq"].as_u64() == log["next_seq"].as_u64()).then_some(())
    });
}

#[test]
fn without_store_and_secret_it_waits_unready_and_starts_by_itself_when_the_store_comes() {
    let mock = mock();
    let postgres = Postgres::start();
    let url = postgres.url();
    postgres.down();
    let gateway = Setup::on(&mock).on_services(&url, None).spawn();
    let ready = gateway.get("/readyz");
    assert_eq!((ready.status, ready.json()["status"].as_str()), (503, Some("starting")), "{}", ready.text());
    eventually("the fault in readyz", || gateway.get("/readyz").json()["faults"]["store"].as_str().map(str::to_owned));
    assert_eq!(gateway.get("/healthz").status, 200);
    let refused = gateway.chat(&chat("What is a loch?"), &[("X-Request-Id", "mine-1")]);
    assert_eq!(refused.refusal(503)["code"], "not_ready");
    assert_eq!((refused.need("x-request-id"), refused.header("lineage-id")), ("mine-1", None));
    assert!(refused.need("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    assert_eq!(mock.counts().requests, 0);
    postgres.up();
    gateway.until_ready();
    gateway.chat(&chat("What is a loch?"), &[]).is(200, "MISS");
    gateway.chat(&chat("What is a loch?"), &[]).is(200, "EXACT");
}

#[test]
fn with_a_mirrored_secret_it_serves_without_its_store_and_loses_no_record() {
    let mock = mock();
    let url = fresh_database();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path());
    let gateway = setup.clone().on_services(&url, None).start();
    let mut keeper = Keeper::of(folder.path());
    keeper.keep(&gateway.chat(&chat("What is a burn?"), &[]));
    drop(gateway.stop());
    for nowhere in [free_address(), black_hole().local_addr().expect("bound")] {
        let away = format!("postgres://signet:x@{nowhere}/none");
        let gateway = setup.clone().on_services(&away, None).start();
        for _ in 0..2 {
            // Nothing is cached for a tenant whose key cannot be had.
            let answer = gateway.chat(&chat("What is a burn?"), &[]);
            answer.is(200, "MISS");
            assert_eq!(gateway.record(&answer.id())["predicate"]["response"]["outcome"], "complete");
            keeper.keep(&answer);
        }
        drop(gateway.stop());
    }
    let gateway = setup.on_services(&url, None).start();
    shipped(&gateway);
    drop(gateway.stop());
    assert_eq!(keeper.kept(), 5);
    let (code, said) = keeper.verify(&["--db", &url]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn an_outage_fails_no_request_and_every_record_is_shipped_once() {
    let mock = mock();
    let postgres = Postgres::start();
    let url = postgres.url();
    let gateway = Setup::on(&mock).on_services(&url, None).start();
    let mut keeper = Keeper::of(&gateway.data);
    let mut ask = |gateway: &Gateway, name: &str| {
        for n in 0..20 {
            let answer = gateway.chat(&chat(&format!("What is {name} {n}?")), &[]);
            answer.is(200, "MISS");
            gateway.record(&answer.id());
            keeper.keep(&answer);
            let hit = gateway.chat(&streamed(&format!("What is {name} {n}?")), &[]);
            hit.is(200, "EXACT");
            keeper.keep(&hit);
        }
    };
    ask(&gateway, "a brook");
    postgres.down();
    ask(&gateway, "a creek");
    eventually("the fault in readyz", || {
        let ready = gateway.get("/readyz");
        assert_eq!(ready.status, 200);
        ready.json()["faults"]["store"].as_str().map(str::to_owned)
    });
    ask(&gateway, "a beck");
    postgres.up();
    ask(&gateway, "a rill");
    shipped(&gateway);
    drop(gateway.stop());
    let (code, said) = keeper.verify(&["--db", &url]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(sql(&url, "SELECT count(*) - count(DISTINCT (log_no, seq)) FROM lineage_record"), "0");
    let rows: usize = sql(&url, "SELECT count(*) FROM lineage_record WHERE kind = 1").parse().unwrap_or(0);
    assert!(rows >= keeper.kept(), "{rows} rows, {} receipts", keeper.kept());
}

fn replicas(mock: &MockUpstream, url: &str, redis: Option<&str>) -> (Gateway, Gateway) {
    let setup = Setup::on(mock).on_services(url, redis);
    (setup.start(), setup.start())
}

/// Asks the other replica, without going upstream, until it knows the answer.
#[track_caller]
fn known_by(gateway: &Gateway, prompt: &str, x_cache: &str, source: &str) {
    let answer = eventually("the entry on the other replica", || {
        let answer = gateway.chat(&chat(prompt), &[("Cache-Control", "only-if-cached")]);
        (answer.status == 200).then_some(answer)
    });
    answer.is(200, x_cache);
    assert_eq!(answer.need("x-cache-source"), source);
}

#[test]
fn replicas_share_exact_and_semantic_answers_with_and_without_redis() {
    let mock = mock();
    let redis = told("SIGNET_TEST_REDIS_URL");
    for redis in [None, Some(redis.as_str())] {
        let url = fresh_database();
        let (one, two) = replicas(&mock, &url, redis);
        let first = one.chat(&chat("What is the capital of Chile?"), &[]);
        first.is(200, "MISS");
        known_by(&two, "What is the capital of Chile?", "EXACT", &first.id());
        known_by(&two, "What's the capital of Chile?", "SEMANTIC", &first.id());
        let back = two.chat(&chat("What is the capital of Ghana?"), &[]);
        known_by(&one, "What is the capital of Ghana?", "EXACT", &back.id());
        // The source's record is another replica's, and it is found all the same once it is shipped.
        eventually("the other replica's record", || {
            (two.get(&format!("/v1/lineage/{}", first.id())).status == 200).then_some(())
        });
        let keys = [Keeper::of(&one.data), Keeper::of(&two.data)];
        shipped(&one);
        shipped(&two);
        let both = keys.each_ref().map(|keeper| fs::read_to_string(keeper.key()).expect("a key")).concat();
        fs::write(keys[0].key(), both).expect("a file");
        drop((one.stop(), two.stop()));
        let (code, said) = keys[0].verify(&["--db", &url]);
        assert_eq!(code, 0, "{said}");
        let (code, said) = keys[1].verify(&["--db", &url]);
        assert_eq!(code, 18, "the other replica's key is not pinned here: {said}");
    }
}

#[test]
fn replicas_that_start_at_once_on_an_empty_database_agree() {
    let mock = mock();
    let url = fresh_database();
    let setup = Setup::on(&mock).on_services(&url, None);
    let gateways: Vec<_> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..4).map(|_| scope.spawn(|| setup.start())).collect();
        starting.into_iter().map(|gateway| gateway.join().expect("it starts")).collect()
    });
    let secrets: Vec<_> =
        gateways.iter().map(|gateway| fs::read(gateway.data.join("tenant.secret")).expect("a secret")).collect();
    assert!(secrets.windows(2).all(|pair| pair[0] == pair[1]));
    std::thread::scope(|scope| {
        for gateway in &gateways {
            scope.spawn(|| {
                let answer = gateway.chat(&chat("What is a sluice?"), &[]);
                assert_eq!(answer.status, 200);
            });
        }
    });
}

#[test]
fn behind_a_pooler_in_transaction_mode_it_serves_ships_and_shares() {
    let mock = mock();
    let direct = fresh_database();
    let (_, database) = direct.rsplit_once('/').expect("a URL with a database");
    let pooler = told("SIGNET_TEST_PGBOUNCER_URL");
    let (pooler, _) = pooler.rsplit_once('/').expect("a URL with a database");
    let url = format!("{pooler}/{database}");
    let setup = Setup::on(&mock).on_services(&url, None).env("DIRECT", &direct).set("store.direct_url_env", "DIRECT");
    let (one, two) = (setup.start(), setup.start());
    let first = one.chat(&chat("What is the capital of Kenya?"), &[]);
    known_by(&two, "What is the capital of Kenya?", "EXACT", &first.id());
    let mut keeper = Keeper::of(&one.data);
    keeper.keep(&first);
    shipped(&one);
    let mine = sql(&direct, "SELECT count(*) FROM lineage_record WHERE kind = 1");
    assert!(mine.parse::<u64>().is_ok_and(|rows| rows >= 2), "{mine}");
    drop((one.stop(), two.stop()));
}

/// A gateway whose store is away and whose log takes little.
fn nearly_full(mock: &MockUpstream, secret: &std::path::Path) -> Setup {
    fs::write(secret, "5".repeat(64)).expect("a file");
    let url = format!("postgres://signet:x@{}/none", free_address());
    let setup = Setup::on(mock).on_services(&url, None).set("lineage.spool_max_bytes", "100000");
    setup.set("auth.secret_file", secret.to_str().expect("plain"))
}

#[test]
fn a_full_log_refuses_before_it_spends_and_says_that_it_is_not_ready() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let gateway = nearly_full(&mock, &folder.path().join("secret")).start();
    let mut keeper = Keeper::of(&gateway.data);
    let mut answered = 0;
    // The first refusals may still have records of their own; then not even those are promised.
    let refused = eventually("a full log", || {
        let answer = gateway.chat(&chat("What is a reed?"), &[("X-Cache-Mode", "off")]);
        keeper.keep(&answer);
        answered += u64::from(answer.status == 200);
        answer.header("lineage-id").is_none().then_some(answer)
    });
    assert_eq!(refused.refusal(503)["code"], "lineage_unavailable");
    assert!(refused.need("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    let calls = mock.counts().requests;
    assert_eq!(answered, calls);
    gateway.chat(&chat("What is a rush?"), &[]).refusal(503);
    assert_eq!(mock.counts().requests, calls);
    let ready = gateway.get("/readyz");
    assert_eq!((ready.status, ready.json()["status"].as_str()), (503, Some("lineage_full")));
    assert_eq!(gateway.get("/healthz").status, 200);
    keeper.accepts(&gateway.data);
}

#[test]
fn where_the_operator_prefers_it_a_full_log_serves_and_signs_the_gap() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = nearly_full(&mock, &folder.path().join("secret"));
    let gateway = setup.set("lineage.on_full", "degrade").start();
    eventually("an answer without a receipt", || {
        let answer = gateway.chat(&chat("What is a sedge?"), &[("X-Cache-Mode", "off")]);
        answer.is(200, "BYPASS");
        answer.header("lineage-receipt").is_none().then_some(())
    });
    assert_eq!(gateway.get("/readyz").status, 200);
}

#[test]
fn a_password_never_shows_in_logs_health_or_answers() {
    let mock = mock();
    let url = format!("postgres://signet:hunter2hunter2@{}/none", free_address());
    let redis = format!("redis://:hunter2hunter2@{}", free_address());
    let gateway = Setup::on(&mock).on_services(&url, None).env("REDIS", &redis).set("redis.url_env", "REDIS").spawn();
    let ready = eventually("both faults", || {
        let text = gateway.get("/readyz").text();
        (text.contains("\"store\"") && text.contains("\"redis\"")).then_some(text)
    });
    let refused = gateway.chat(&chat("What is a lock?"), &[]).text();
    for text in [ready, refused, gateway.log()] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}
