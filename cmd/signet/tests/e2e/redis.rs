//! A dead, slow or lying Redis is a miss, never a failure and never a wrong answer.

use crate::gateway::{Gateway, Setup, chat, eventually, mock};
use crate::stack::{Redis, black_hole, free_address};
use signet_mock::{Behaviour, answer_text};
use tempfile::TempDir;

const PROMPT: &str = "What is a heron?";
const OWLS: [&str; 3] = ["What is owl one?", "What is owl two?", "What is owl three?"];

/// Serves although Redis does not, says so, and keeps hits in process.
#[track_caller]
fn serves_without(gateway: &Gateway, prompt: &str) {
    let first = gateway.chat(&chat(prompt), &[]);
    first.is(200, "MISS");
    assert_eq!(first.said(), answer_text(prompt));
    gateway.chat(&chat(prompt), &[]).is(200, "EXACT");
}

/// Asks anew until Redis, whose connection may still be coming, holds all the answers.
fn until_held(gateway: &Gateway, redis: &Redis, prompts: &[&str]) {
    eventually("the entries in Redis", || {
        for prompt in prompts {
            gateway.chat(&chat(prompt), &[("Cache-Control", "no-cache")]).is(200, "REFRESH");
        }
        (redis.keys() == prompts.len() as u64).then_some(())
    });
}

fn redis_fault(gateway: &Gateway) -> Option<String> {
    let ready = gateway.get("/readyz");
    assert_eq!(ready.status, 200, "{}", ready.text());
    ready.json()["faults"]["redis"].as_str().map(str::to_owned)
}

#[test]
fn a_redis_that_is_not_there_at_the_start_costs_nothing_but_hits() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("redis.url", &format!("redis://{}", free_address())).start();
    serves_without(&gateway, PROMPT);
    eventually("the fault in readyz", || redis_fault(&gateway));
}

#[test]
fn a_redis_that_never_answers_is_a_miss() {
    let mock = mock();
    let hole = black_hole();
    let address = hole.local_addr().expect("bound");
    let gateway = Setup::on(&mock).set("redis.url", &format!("redis://{address}")).start();
    for n in 0..20 {
        serves_without(&gateway, &format!("What is finch {n}?"));
    }
    eventually("the fault in readyz", || redis_fault(&gateway));
}

#[test]
fn a_redis_that_goes_and_comes_back_is_used_again() {
    let mock = mock();
    let mut redis = Redis::start();
    let gateway = Setup::on(&mock).set("redis.url", &redis.url()).start();
    until_held(&gateway, &redis, &[PROMPT]);
    redis.down();
    for n in 0..10 {
        serves_without(&gateway, &format!("What is gull {n}?"));
    }
    eventually("the fault in readyz", || redis_fault(&gateway));
    redis.up();
    eventually("no fault in readyz", || redis_fault(&gateway).is_none().then_some(()));
    let mut n = 0;
    eventually("entries in Redis again", || {
        n += 1;
        serves_without(&gateway, &format!("What is tern {n}?"));
        (redis.keys() > 0).then_some(())
    });
}

#[test]
fn what_redis_holds_is_served_after_a_restart_and_never_what_somebody_wrote_there() {
    let mock = mock();
    let redis = Redis::start();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path()).set("redis.url", &redis.url()).set("cache.persist", "false");
    let forgeries = [
        "if i >= 0 then redis.call('SET', key, 'garbage', 'KEEPTTL') end",
        "redis.call('SET', key, redis.call('GET', keys[1 + i % #keys]), 'KEEPTTL')",
        "redis.call('SET', key, string.sub(redis.call('GET', key), 1, -2), 'KEEPTTL')",
        "redis.call('SET', key, redis.call('GET', key) .. 'x', 'KEEPTTL')",
        "redis.call('SET', key, '')",
        "redis.call('DEL', key) redis.call('LPUSH', key, 'a')",
    ];
    for forgery in forgeries {
        let gateway = setup.start();
        until_held(&gateway, &redis, &OWLS);
        drop(gateway.stop());
        let gateway = setup.start();
        eventually("a hit from Redis", || {
            let hit = gateway.chat(&chat(OWLS[0]), &[("Cache-Control", "only-if-cached")]);
            (hit.status == 200).then(|| assert_eq!(hit.said(), answer_text(OWLS[0])))
        });
        redis.for_all_keys(forgery);
        // The one that is still in process is not asked again; the others are looked for in Redis.
        for prompt in &OWLS[1..] {
            let answer = gateway.chat(&chat(prompt), &[]);
            answer.is(200, "MISS");
            assert_eq!(answer.said(), answer_text(prompt), "{forgery}");
        }
        drop(gateway.stop());
        redis.for_all_keys("redis.call('DEL', key)");
    }
}

/// A second of lifetime, ten minutes of grace; nothing is left of it in process.
#[test]
fn an_expired_answer_is_served_from_redis_while_the_provider_fails_until_it_is_taken_back() {
    let (mock, redis, folder) = (mock(), Redis::start(), TempDir::new().expect("a folder"));
    let setup = Setup::on(&mock).within(folder.path()).set("redis.url", &redis.url()).set("cache.persist", "false");
    let setup = setup.set("cache.stale_if_error_s", "600");
    let gateway = setup.start();
    eventually("the entry in Redis", || {
        gateway.chat(&chat(PROMPT), &[("Cache-Control", "no-cache"), ("X-Cache-TTL", "1")]).is(200, "REFRESH");
        (redis.keys() == 1).then_some(())
    });
    drop(gateway.stop());
    let gateway = setup.start();
    let failed = || {
        mock.script([Behaviour::status(500)]);
        gateway.chat(&chat(PROMPT), &[("X-Cache-Mode", "exact")])
    };
    let answer = eventually("the expired entry from Redis", || {
        Some(failed()).filter(|answer| answer.header("x-cache") == Some("STALE"))
    });
    assert_eq!((answer.status, answer.said()), (200, answer_text(PROMPT)));
    let verdict = gateway.post(&format!("/v1/lineage/{}/feedback", answer.id()), &[], br#"{"cache":"wrong"}"#);
    assert_eq!(verdict.status, 200, "{}", verdict.text());
    assert_eq!(failed().status, 500, "it was taken back, wherever it is kept");
}

#[test]
fn every_key_in_redis_has_an_end_and_a_fixed_size() {
    let mock = mock();
    let redis = Redis::start();
    let gateway = Setup::on(&mock).set("redis.url", &redis.url()).start();
    until_held(&gateway, &redis, &[PROMPT, &"very long ".repeat(100_000)]);
    redis.for_all_keys(
        "if redis.call('PTTL', key) <= 0 or redis.call('PTTL', key) > 3600000 then error('no end') end \
         if #key > 100 or string.find(redis.call('GET', key), 'heron') then error('not as it should be') end",
    );
}

#[test]
fn two_hundred_answers_that_come_from_redis_at_once_each_belong_to_their_question() {
    let mock = mock();
    let redis = Redis::start();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path()).set("redis.url", &redis.url()).set("cache.persist", "false");
    let prompts: Vec<String> = (0..200).map(|n| format!("Question number {n}-{}, please", n % 7)).collect();
    let everybody = |gateway: &Gateway, expected: &str| {
        std::thread::scope(|scope| {
            for share in prompts.chunks(10) {
                scope.spawn(move || {
                    for prompt in share {
                        let answer = gateway.chat(&chat(prompt), &[]);
                        answer.is(200, expected);
                        assert_eq!(answer.said(), answer_text(prompt));
                    }
                });
            }
        });
    };
    let gateway = setup.start();
    until_held(&gateway, &redis, &[PROMPT]);
    everybody(&gateway, "MISS");
    eventually("the entries in Redis", || (redis.keys() == 201).then_some(()));
    drop(gateway.stop());
    let gateway = setup.start();
    eventually("Redis", || {
        (gateway.chat(&chat(PROMPT), &[("Cache-Control", "only-if-cached")]).status == 200).then_some(())
    });
    everybody(&gateway, "EXACT");
}
