use crate::fixture::{BOIL, OPTIONS, POACH, POLITE, SPELLED, TWO, json_pair, report, run, setup};
use signet_cache::{EmbedFault, Mode, Rescorer};
use signet_eval::{Count, EvalFault, Options, PairsReport, Report, Setup, html, table};
use signet_types::EntryId;
use std::sync::Arc;

fn small_set() -> String {
    [
        json_pair(POACH, POACH, 1, "repeat"),
        json_pair(POACH, POLITE, 1, "wording"),
        json_pair(POACH, SPELLED, 1, "wording"),
        json_pair(POACH, BOIL, 0, "verb"),
        json_pair(POACH, TWO, 0, "number"),
        // Mislabelled on purpose: a wrong hit.
        json_pair(SPELLED, POACH, 0, "<b>\"odd\" & 'kind'</b>"),
        json_pair("Where is my parcel?", "Where is my parcel, please?", 1, "moment"),
    ]
    .concat()
}

fn pairs(report: &Report) -> &PairsReport {
    report.pairs.as_ref().expect("pairs")
}

/// Names with their counts of either label.
fn list(counts: &[Count]) -> Vec<(&str, u64, u64)> {
    let mut list: Vec<_> = counts.iter().map(|c| (c.name.as_str(), c.should_hit, c.must_miss)).collect();
    list.sort_unstable();
    list
}

#[test]
fn each_pair_is_served_or_refused_for_a_reason() {
    let report = report(&small_set(), &setup(Mode::On, 0.9), &OPTIONS);
    assert_eq!(list(&pairs(&report).tiers), [("exact", 1, 0), ("same-words", 1, 0), ("vector", 1, 1)]);
    let refused = [("gate: numbers", 0, 1), ("gate: words", 0, 1), ("ineligible: personal", 1, 0)];
    assert_eq!(list(&pairs(&report).refusals), refused);
    let overall = &pairs(&report).overall;
    assert_eq!((overall.true_hits.hits, overall.true_hits.of), (3, 4));
    assert_eq!((overall.false_hits.hits, overall.false_hits.of), (1, 3));
    let verdicts: Vec<_> = report.decisions.iter().map(|row| (row.line, row.verdict)).collect();
    let (hit, miss) = ("true_hit", "true_miss");
    assert_eq!(verdicts, [(1, hit), (2, hit), (3, hit), (4, miss), (5, miss), (6, "false_hit"), (7, "false_miss")]);
}

#[test]
fn under_the_floor_nothing_is_served_and_the_ranking_stays() {
    let (low, high) = (setup(Mode::On, 0.9), setup(Mode::On, 0.96));
    let (low, high) = (report(&small_set(), &low, &OPTIONS), report(&small_set(), &high, &OPTIONS));
    assert_eq!(list(&pairs(&high).tiers), [("exact", 1, 0), ("same-words", 1, 0)]);
    assert!(list(&pairs(&high).refusals).contains(&("below the floor", 1, 1)));
    assert_eq!(pairs(&low).overall.gated.roc, pairs(&high).overall.gated.roc);
    // Of twelve couples: the refused one loses to the false hit and ties with the two refused; the spelling ties once.
    let area = pairs(&high).overall.gated.roc.expect("both labels");
    assert!((area - (3.0 + 3.0 + 2.5 + 1.0) / 12.0).abs() < 1e-9, "{area}");
}

/// Scores every candidate alike.
struct Always(f32);

#[async_trait::async_trait]
impl Rescorer for Always {
    fn id(&self) -> &'static str {
        "always"
    }

    async fn rescore(&self, _: &Arc<str>, stored: &[(EntryId, Arc<str>)]) -> Result<Vec<f32>, EmbedFault> {
        Ok(vec![self.0; stored.len()])
    }

    fn forget(&self, _: EntryId) {}
}

#[test]
fn a_second_look_is_held_against_the_floor_and_named() {
    for (score, hits) in [(0.95, 2), (0.93, 0)] {
        let setup = Setup { rescorer: Some(Arc::new(Always(score))), ..setup(Mode::On, 0.94) };
        let report = report(&small_set(), &setup, &OPTIONS);
        assert_eq!(report.settings.encoder, "table+always");
        let vector: u64 = list(&pairs(&report).tiers).iter().filter(|tier| tier.0 == "vector").map(|t| t.1 + t.2).sum();
        assert_eq!(vector, hits, "{score}");
        // Two pairs pass every gate, and their scores are what ranks them.
        let scores = report.decisions.iter().filter_map(|row| row.similarity);
        assert_eq!(scores.filter(|found| (found - f64::from(score)).abs() < 1e-6).count(), 2);
    }
}

#[test]
fn shadow_is_evaluated_as_what_it_would_serve_and_off_serves_repeats_only() {
    let served = |mode| list(&pairs(&report(&small_set(), &setup(mode, 0.9), &OPTIONS)).tiers).len();
    assert_eq!((served(Mode::Shadow), served(Mode::On), served(Mode::Off)), (3, 3, 1));
}

#[test]
fn other_chats_and_tenants_never_meet() {
    let chat = |before: &str| serde_json::json!([{ "role": "system", "content": before }, { "role": "user", "content": POACH }]);
    let lines = [
        serde_json::json!({ "a": chat("Be brief."), "b": chat("Be verbose."), "label": 0 }),
        serde_json::json!({ "a": chat("Be brief."), "b": chat("Be brief."), "label": 1 }),
    ];
    let text = lines.map(|line| line.to_string()).join("\n");
    let report = report(&text, &setup(Mode::On, 0.9), &OPTIONS);
    assert_eq!(list(&pairs(&report).tiers), [("exact", 1, 0)]);
    assert_eq!(list(&pairs(&report).refusals), [("partition", 0, 1)]);
    assert!(
        pairs(&report).overall.cosine.roc.is_some_and(|area| (area - 0.5).abs() < 1e-9),
        "the cosine sees no history"
    );
}

#[test]
fn a_pair_does_not_see_what_pairs_beside_it_store() {
    // Many, so that the tasks meet.
    let text = (json_pair(POACH, BOIL, 0, "x") + &json_pair(BOIL, POACH, 0, "x")).repeat(400);
    let report = report(&text, &setup(Mode::On, 0.9), &Options { workers: 4, ..OPTIONS });
    assert_eq!(list(&pairs(&report).tiers), []);
}

#[test]
fn the_json_of_a_small_set_is_as_recorded_whatever_the_workers() {
    let recorded = include_str!("golden/pairs.json");
    for workers in [1, 3] {
        let options = Options { workers, both_ways: true, ..OPTIONS };
        let report = report(&small_set(), &setup(Mode::On, 0.9), &options);
        let written = serde_json::to_string_pretty(&report).expect("figures are JSON") + "\n";
        assert!(written == recorded, "golden/pairs.json differs; now it is:\n{written}");
    }
}

#[test]
fn a_page_holds_no_text_of_the_data_unescaped_and_nothing_from_elsewhere() {
    let page = html(&report(&small_set(), &setup(Mode::On, 0.9), &OPTIONS));
    assert!(page.contains("&lt;b&gt;&quot;odd&quot; &amp; &#39;kind&#39;&lt;/b&gt;") && !page.contains("<b>"));
    for foreign in ["<script", "http:", "https:", "url(", "src=", "href="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(page.matches("<svg ").count(), 4);
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn the_table_has_a_line_a_kind() {
    let text = table(&report(&small_set(), &setup(Mode::On, 0.9), &OPTIONS));
    let line = text.lines().find(|line| line.starts_with("wording")).expect("a line");
    assert!(line.contains("2/2 100.0 %") && line.contains("0/0"), "{line}");
    assert!(text.contains("at a base rate of 25.0 % (given)"), "{text}");
}

#[test]
fn bad_lines_are_told_and_a_file_of_nothing_else_is_a_fault() {
    let (report, told) = run(&(small_set() + "{\"a\":1}\n"), &setup(Mode::On, 0.9), &OPTIONS);
    assert_eq!(report.expect("the rest is good").bad_lines, 1);
    assert_eq!(told.bad, ["line 8: no two texts (a, b)"]);
    assert_eq!(told.steps.last(), Some(&(7, None)));
    let (report, _) = run("{\"a\":\"x\",\"b\":\"y\",\"label\":9}\n", &setup(Mode::On, 0.9), &OPTIONS);
    assert!(matches!(report, Err(EvalFault::Nothing { bad_lines: 1, passed_over: 0 })), "{report:?}");
}
