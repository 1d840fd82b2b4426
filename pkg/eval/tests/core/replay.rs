use crate::fixture::{BOIL, OPTIONS, POACH, POLITE, SPELLED, TWO, json_pair, report, run, setup};
use signet_cache::Mode;
use signet_eval::{Options, PairOptions, ReplayReport, Report, RunReport, html};

fn arrival(text: &str, cluster: &str) -> String {
    serde_json::json!({ "text": text, "cluster": cluster }).to_string() + "\n"
}

fn replay(report: &Report) -> &ReplayReport {
    report.replay.as_ref().expect("a replay")
}

#[test]
fn a_miss_is_stored_with_its_own_answer_and_a_hit_is_judged_by_it() {
    let stream = [
        arrival(POACH, "poach"),
        arrival(POACH, "poach"),   // exact
        arrival(SPELLED, "poach"), // right, by vector
        arrival(BOIL, "boil"),     // a gate refuses: stored
        arrival(POLITE, "other"),  // wrong by its label, by the same words
        arrival(BOIL, "boil"),     // exact
        arrival("Where is my parcel?", "parcel"),
    ];
    let report = report(&stream.concat(), &setup(Mode::On, 0.9), &OPTIONS);
    let tally = replay(&report).shipped.tally;
    assert_eq!((tally.arrivals, tally.exact, tally.hits), (7, 2, 2));
    assert_eq!((tally.judged, tally.wrong, tally.ineligible), (2, 1, 1));
    assert_eq!(replay(&report).tiers.iter().collect::<Vec<_>>(), [(&"same-words", &1), (&"vector", &1)]);
    let misses = &replay(&report).misses;
    assert_eq!((misses["nothing near"], misses["gate: words"], misses["ineligible: personal"]), (1, 1, 1));
    assert_eq!(replay(&report).blocks, [tally]);
    let decisions: Vec<_> = report.decisions.iter().map(|row| (row.line, row.verdict, row.source_line)).collect();
    let expected = [
        (1, "miss", None),
        (2, "exact", Some(1)),
        (3, "right_hit", Some(1)),
        (4, "miss", None),
        (5, "wrong_hit", Some(1)),
        (6, "exact", Some(4)),
        (7, "miss", None),
    ];
    assert_eq!(decisions, expected);
    assert_eq!(report.decisions[3].by, "gate: words");
}

#[test]
fn a_hit_stores_nothing() {
    // Were the spelling stored when it hit, its repeat would be exact.
    let stream = arrival(POACH, "x") + &arrival(SPELLED, "x") + &arrival(SPELLED, "x");
    let tally = replay(&report(&stream, &setup(Mode::On, 0.9), &OPTIONS)).shipped.tally;
    assert_eq!((tally.exact, tally.hits), (0, 2));
}

#[test]
fn without_clusters_there_is_a_hit_rate_and_no_judgement() {
    let line = |text: &str| serde_json::json!({ "prompt": text }).to_string() + "\n";
    let report = report(&(line(POACH) + &line(SPELLED)), &setup(Mode::On, 0.9), &OPTIONS);
    let shipped = replay(&report).shipped;
    assert_eq!((shipped.tally.hits, shipped.tally.judged), (1, 0));
    assert_eq!((shipped.hit_rate, shipped.wrong_share, shipped.wrong_share_bound), (Some(0.5), None, None));
    assert!(replay(&report).chosen.is_none());
    assert!(replay(&report).similarities.bins.is_empty(), "nobody knows whether they were right");
    assert!(!html(&report).contains("NaN"));
}

#[test]
fn each_floor_is_a_run_of_its_own() {
    let report = report(&(arrival(POACH, "x") + &arrival(SPELLED, "x")), &setup(Mode::On, 0.93), &OPTIONS);
    let curve = &replay(&report).curve;
    let hits: Vec<_> = curve.iter().map(|run| ((run.floor * 100.0).round(), run.tally.hits)).collect();
    assert!(hits.contains(&(93.0, 1)) && hits.contains(&(60.0, 1)), "{hits:?}");
    assert!(hits.contains(&(97.0, 0)) && hits.contains(&(100.0, 0)), "{hits:?}");
    assert!(curve.is_sorted_by(|one, next| one.floor < next.floor));
}

/// `count` arrivals of the two spellings in namespaces of their own, each a right hit; the texts differ by tenant.
fn right_hits(count: usize) -> String {
    let message = |tenant: usize, text: &str| {
        let request = serde_json::json!({ "tenant": tenant, "messages": [{ "role": "user", "content": text }] });
        serde_json::json!({ "prompt": request, "cluster": tenant.to_string() }).to_string() + "\n"
    };
    (0..count).map(|tenant| message(tenant, POACH) + &message(tenant, SPELLED)).collect()
}

#[test]
fn a_floor_is_chosen_only_with_enough_hits_and_judged_on_the_other_half() {
    let chosen = |count| {
        let stream = right_hits(count) + &arrival(TWO, "two");
        let report = report(&stream, &setup(Mode::On, 0.9), &Options { max_false_share: 0.1, ..OPTIONS });
        replay(&report).chosen.expect("labelled")
    };
    // (0 + 1) / (n + 1) ≤ 0.1 needs nine hits in the first half.
    assert!(chosen(16).floor.is_none());
    let chosen = chosen(18);
    // The strictest of those that hit as often: the spellings are at 0.95.
    assert!(chosen.floor.is_some_and(|floor| (0.935..0.955).contains(&floor)), "{chosen:?}");
    let half = |run: Option<RunReport>| run.map(|run| (run.tally.arrivals, run.tally.hits, run.tally.wrong));
    assert_eq!((half(chosen.first), half(chosen.second)), (Some((18, 9, 0)), Some((19, 9, 0))));
}

#[test]
fn labelled_pairs_become_a_stream_in_which_chains_of_equals_are_one_cluster() {
    // POACH = POLITE and POLITE = SPELLED make POACH and SPELLED one cluster.
    let text = json_pair(POACH, POLITE, 1, "") + &json_pair(SPELLED, POLITE, 1, "") + &json_pair(POACH, BOIL, 0, "");
    let options = Options { replay: true, ..OPTIONS };
    let one = report(&text, &setup(Mode::On, 0.9), &options);
    let tally = replay(&one).shipped.tally;
    assert_eq!((tally.arrivals, tally.wrong), (6, 0));
    assert!(tally.judged > 0, "{tally:?}");
    // Two texts without the chain: both arrivals of whichever comes later are wrong.
    let text = json_pair(POACH, POACH, 1, "") + &json_pair(SPELLED, SPELLED, 1, "");
    assert_eq!(replay(&report(&text, &setup(Mode::On, 0.9), &options)).shipped.tally.wrong, 2);
}

#[test]
fn labelled_pairs_arrive_in_an_order_that_the_seed_decides() {
    let text: String = (0..20).map(|_| json_pair(POACH, BOIL, 0, "")).collect();
    let order = |seed| {
        let options = Options { replay: true, pairs: PairOptions { seed, ..OPTIONS.pairs }, ..OPTIONS };
        let report = report(&text, &setup(Mode::On, 0.9), &options);
        report.decisions.iter().map(|row| row.line).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    assert!(!order(1).is_sorted());
    let mut sorted = order(1);
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq((1..=20).flat_map(|line| [line, line])), "each side of each pair arrives once");
}

#[test]
fn the_json_of_a_replay_is_the_same_whatever_the_workers_and_steps_are_counted() {
    let written = |workers| {
        let (report, told) = run(&right_hits(20), &setup(Mode::On, 0.9), &Options { workers, ..OPTIONS });
        let report = report.expect("a report");
        let runs = replay(&report).curve.len() as u64;
        assert_eq!(told.steps.last(), Some(&(40 * runs, Some(40 * runs))));
        serde_json::to_string(&report).expect("figures are JSON")
    };
    assert_eq!(written(1), written(3));
}
