//! One index for all replicas: a hit on what this one never held, an outage, a server that cannot have the index.

use crate::client::Answer;
use crate::gateway::{Gateway, Setup, chat, eventually, mock};
use crate::stack::{Postgres, fresh_database, sql, told};
use serde_json::json;
use signet_mock::MockUpstream;
use tempfile::TempDir;

const ASKED: &str = "What is the capital of France?";
const REPHRASED: &str = "What's the capital of France?";

fn sharing(mock: &MockUpstream, url: &str) -> Setup {
    Setup::on(mock).on_services(url, None).set("semantic.backend", "pgvector").set("cache.lookup_timeout_ms", "1000")
}

/// A gateway that keeps nothing in process: no entry is small enough.
fn forgetful(setup: &Setup) -> Gateway {
    setup.clone().set("cache.l1_max_bytes", "1").set("cache.max_entry_bytes", "1").start()
}

fn cached(gateway: &Gateway, prompt: &str) -> Answer {
    gateway.chat(&chat(prompt), &[("Cache-Control", "only-if-cached")])
}

#[track_caller]
fn found(gateway: &Gateway, prompt: &str) -> Answer {
    eventually("an answer by the shared index", || Some(cached(gateway, prompt)).filter(|answer| answer.status == 200))
}

fn held(gateway: &Gateway) -> [u64; 2] {
    ["local", "semantic"].map(|layer| gateway.metric(&format!("signet_cache_entries{{layer=\"{layer}\"}}")))
}

#[test]
fn a_replica_serves_what_it_never_held_until_it_is_taken_back_anywhere() {
    let (mock, url) = (mock(), fresh_database());
    let setup = sharing(&mock, &url);
    let (one, two) = (setup.start(), forgetful(&setup));
    let first = one.chat(&chat(ASKED), &[]);
    first.is(200, "MISS");
    let hit = found(&two, REPHRASED);
    hit.is(200, "SEMANTIC");
    assert_eq!(hit.need("x-cache-source"), first.id());
    assert!(hit.need("cache-status").starts_with("signet; hit; detail=vector; ttl="), "{}", hit.need("cache-status"));
    assert_eq!(hit.said(), signet_mock::answer_text(ASKED));
    assert_eq!(two.record(&hit.id())["predicate"]["cache"]["decision"], "hit_semantic");
    found(&two, ASKED).is(200, "EXACT");
    assert_eq!((held(&two), mock.counts().requests), ([0, 0], 1));
    cached(&two, "What is the capital of Chile?").refusal(504);

    let wrong = json!({"cache": "wrong"}).to_string();
    let taken = two.post(&format!("/v1/lineage/{}/feedback", hit.id()), &[], wrong.as_bytes());
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert_eq!(sql(&url, "SELECT count(*) FROM semantic_vector"), "0");
    cached(&two, REPHRASED).refusal(504);
    eventually("the other replica knows", || (cached(&one, REPHRASED).status == 504).then_some(()));
}

#[test]
fn behind_a_pooler_in_transaction_mode_replicas_share_the_index() {
    let (mock, direct) = (mock(), fresh_database());
    let (_, database) = direct.rsplit_once('/').expect("a URL with a database");
    let pooler = told("SIGNET_TEST_PGBOUNCER_URL");
    let (pooler, _) = pooler.rsplit_once('/').expect("a URL with a database");
    let setup = sharing(&mock, &format!("{pooler}/{database}")).env("DIRECT", &direct);
    let setup = setup.set("store.direct_url_env", "DIRECT");
    let (one, two) = (setup.start(), forgetful(&setup));
    let first = one.chat(&chat(ASKED), &[]);
    let hit = found(&two, REPHRASED);
    hit.is(200, "SEMANTIC");
    assert_eq!(hit.need("x-cache-source"), first.id());
}

#[test]
fn what_was_stored_before_the_index_was_configured_is_found_by_it_after_a_restart() {
    let (mock, url) = (mock(), fresh_database());
    let before = Setup::on(&mock).on_services(&url, None).start();
    let first = before.chat(&chat(ASKED), &[]);
    eventually("the entry in the store", || (sql(&url, "SELECT count(*) FROM cache_entry") == "1").then_some(()));
    drop(before.stop());
    let two = forgetful(&sharing(&mock, &url));
    let hit = found(&two, REPHRASED);
    hit.is(200, "SEMANTIC");
    assert_eq!((hit.need("x-cache-source"), mock.counts().requests), (first.id().as_str(), 1));
}

#[test]
fn while_the_index_is_away_every_search_is_a_miss_and_afterwards_it_serves_again() {
    let (mock, postgres) = (mock(), Postgres::start());
    let setup = sharing(&mock, &postgres.url());
    let (one, two) = (setup.start(), forgetful(&setup));
    one.chat(&chat(ASKED), &[]).is(200, "MISS");
    found(&two, REPHRASED).is(200, "SEMANTIC");
    postgres.down();
    for _ in 0..20 {
        two.chat(&chat(REPHRASED), &[]).is(200, "MISS");
    }
    one.chat(&chat("What is the capital of Chile?"), &[]).is(200, "MISS");
    one.chat(&chat("What is the capital of Chile?"), &[]).is(200, "EXACT");
    assert!(two.metric("signet_cache_faults_total{fault=\"index\"}") >= 20);
    postgres.up();
    found(&two, REPHRASED).is(200, "SEMANTIC");
}

#[test]
fn a_start_where_the_extension_is_too_old_ends_as_a_fault_of_the_configuration() {
    let (mock, url) = (mock(), fresh_database());
    sql(&url, "CREATE EXTENSION vector; UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'");
    let folder = TempDir::new().expect("a folder");
    let out = sharing(&mock, &url).run(folder.path());
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(78), "{said}");
    for part in ["semantic.backend", "0.7.4", "ALTER EXTENSION vector UPDATE"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
