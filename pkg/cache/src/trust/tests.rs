//! The bound in simulation, and what labels can and cannot do.

#![expect(clippy::print_stdout, reason = "the figures of docs/semantic-cache.md, with --nocapture")]

mod routes;

use super::floor::{Doubt, lowest_justified};
use super::*;
use proptest::prelude::*;

const FLOOR: u32 = 970_000;
const POLICY: TrustPolicy = TrustPolicy { max_false_share: 0.01, floor_e6: FLOOR, lowest_e6: FLOOR };

/// xorshift64* (Vigna, 2016): the same stream on every machine.
struct Chance(u64);

impl Chance {
    fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits")]
    fn draw(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the floor and a million")]
    fn label(&mut self, world: &World) -> Label {
        let same_words = self.draw() < world.same_words;
        let score = if same_words { 1.0 } else { 0.9 + 0.1 * self.draw() };
        let wrong = self.draw() < (world.wrong)(score);
        let verdict = if wrong { Verdict::Wrong } else { Verdict::Right };
        Label::sampled((score * 1e6).round() as u32, None, verdict, Evidence::Judge)
    }
}

/// Scores are uniform in [0.9, 1) but for a share of 1.0, and wrong as often as told.
struct World {
    name: &'static str,
    same_words: f64,
    wrong: fn(f64) -> f64,
}

const WORLDS: [World; 6] = [
    World { name: "good", same_words: 0.3, wrong: |_| 0.002 },
    World { name: "at the bound", same_words: 0.0, wrong: |_| 0.01 },
    World { name: "just over the bound, similarity says nothing", same_words: 0.3, wrong: |_| 0.012 },
    World { name: "twice the bound, similarity says nothing", same_words: 0.0, wrong: |_| 0.02 },
    World { name: "the less similar the worse", same_words: 0.1, wrong: |score| 2.0 * (1.0 - score).powi(2) + 0.001 },
    World { name: "the most similar are the wrong ones", same_words: 0.0, wrong: |s| if s > 0.98 { 0.1 } else { 0.0 } },
];

/// A large sample of a world in falling order of scores: level → share of decisions at or over it, and of those that are
/// wrong besides.
struct Census(Vec<Label>, Vec<u32>);

impl Census {
    const SIZE: usize = 200_000;

    fn of(world: &World) -> Self {
        let mut chance = Chance::seeded(1_000_003);
        let all = falling((0..Self::SIZE).map(|_| chance.label(world)).collect());
        let mut wrong = vec![0];
        for label in &all {
            wrong.push(wrong[wrong.len() - 1] + u32::from(label.verdict == Verdict::Wrong));
        }
        Self(all, wrong)
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn at(&self, floor: Option<u32>) -> (f64, f64) {
        let served = floor.map_or(0, |floor| self.0.partition_point(|label| label.score_e6 >= floor));
        (served as f64 / Self::SIZE as f64, f64::from(self.1[served]) / Self::SIZE as f64)
    }
}

/// Means over sets of labels: share of decisions that are served, share that is served and wrong, and the wrong share of what
/// is served (0 where nothing is).
fn means(world: &World, labels: usize, sets: u32) -> (f64, f64, f64) {
    let census = Census::of(world);
    let mut sum = (0.0, 0.0, 0.0);
    for seed in 1..=sets {
        let mut chance = Chance::seeded(u64::from(seed));
        let known = falling((0..labels).map(|_| chance.label(world)).collect());
        let (served, wrong) = census.at(lowest_justified(&known, 900_000, 0.01, Doubt::IsWrong));
        sum = (sum.0 + served, sum.1 + wrong, sum.2 + if served > 0.0 { wrong / served } else { 0.0 });
    }
    let sets = f64::from(sets);
    (sum.0 / sets, sum.1 / sets, sum.2 / sets)
}

#[test]
fn the_wrong_share_of_hits_stays_under_the_bound_on_average_over_sets_of_labels() {
    for world in &WORLDS {
        for labels in [99, 150, 400, 1_000] {
            let (served, wrong, share) = means(world, labels, 1_000);
            println!("{}, {labels}: served {served:.3}, served and wrong {wrong:.5}, share {share:.5}", world.name);
            assert!(wrong <= 0.01 && share <= 0.01, "{}, {labels}: {wrong} {share}", world.name);
        }
    }
}

#[test]
fn good_routes_are_served_and_bad_ones_are_not() {
    let served = |world: &World| means(world, 1_000, 300).0;
    assert!(served(&WORLDS[0]) > 0.99);
    let apart = served(&WORLDS[4]);
    assert!((0.2..0.99).contains(&apart), "the floor separates what can be separated: {apart}");
    let everywhere = World { name: "bad", same_words: 0.5, wrong: |_| 0.1 };
    assert!(served(&everywhere) < 0.001);
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![8 => Just(Verdict::Right), 1 => Just(Verdict::Wrong), 1 => Just(Verdict::Unknown)]
}

fn evidence() -> impl Strategy<Value = Evidence> {
    prop_oneof![Just(Evidence::Texts), Just(Evidence::Judge), Just(Evidence::Feedback)]
}

/// A label with one of few scores, so that some are equal.
fn label() -> impl Strategy<Value = Label> {
    (0_u32..12, verdict(), evidence(), 1..=UNIT).prop_map(|(step, verdict, evidence, weight_e6)| Label {
        score_e6: 950_000 + step * 5_000,
        tier: None,
        verdict,
        evidence,
        weight_e6,
    })
}

fn falling(mut labels: Vec<Label>) -> Vec<Label> {
    labels.sort_by_key(|label| std::cmp::Reverse(label.score_e6));
    labels
}

/// The definition, level by level.
fn by_definition(labels: &[Label], lowest: u32, bound: f64, doubt: Doubt) -> Option<u32> {
    let counts = |label: &&Label| doubt == Doubt::IsWrong || label.verdict != Verdict::Unknown;
    let weight = |labels: Vec<&Label>| labels.iter().map(|label| f64::from(label.weight_e6)).sum::<f64>() / 1e6;
    // A score at which nothing was right is no level.
    let scores = |counted: &dyn Fn(&&Label) -> bool| -> Vec<u32> {
        labels
            .iter()
            .filter(counts)
            .filter(counted)
            .map(|label| label.score_e6)
            .filter(|score| *score >= lowest)
            .collect()
    };
    let least = scores(&|_| true).into_iter().min()?;
    let mut levels = scores(&|label| label.verdict == Verdict::Right);
    // Between two scores nothing changes: under the least of them the lowest level stands for all.
    levels.retain(|level| *level != least);
    levels.push(lowest);
    let within = |level: &u32| {
        let over: Vec<&Label> = labels.iter().filter(counts).filter(|label| label.score_e6 >= *level).collect();
        let bad = over.iter().copied().filter(|label| label.verdict != Verdict::Right).collect();
        (weight(bad) + 1.0) <= bound * (weight(over) + 1.0) + 1e-12
    };
    levels.into_iter().filter(within).min()
}

proptest! {
    #[test]
    fn the_floor_is_the_lowest_level_of_the_definition(
        labels in proptest::collection::vec(label(), 0..300),
        bound in 0.01..0.5_f64,
        lowest in prop_oneof![Just(940_000_u32), Just(970_000), Just(1_000_000)],
    ) {
        let labels = falling(labels);
        for doubt in [Doubt::IsWrong, Doubt::IsLeftOut] {
            prop_assert_eq!(
                lowest_justified(&labels, lowest, bound, doubt),
                by_definition(&labels, lowest, bound, doubt)
            );
        }
    }

    #[test]
    fn a_mistake_never_lowers_the_floor_and_a_tighter_bound_never_does(
        labels in proptest::collection::vec(label(), 0..300),
        more in label(),
        bound in 0.02..0.5_f64,
    ) {
        let floor = |labels: &[Label], bound| lowest_justified(labels, FLOOR, bound, Doubt::IsWrong).unwrap_or(u32::MAX);
        let before = floor(&falling(labels.clone()), bound);
        prop_assert!(floor(&falling(labels.clone()), bound / 2.0) >= before);
        let wrong = Label { verdict: Verdict::Wrong, ..more };
        let mut with = labels;
        with.push(wrong);
        prop_assert!(floor(&falling(with), bound) >= before);
    }

    #[test]
    fn whatever_callers_say_a_route_is_never_looser_than_its_samples_allow(
        sampled in proptest::collection::vec(label(), 0..400),
        told in proptest::collection::vec((label(), any::<prop::sample::Index>()), 1..60),
    ) {
        let policy = TrustPolicy { max_false_share: 0.05, lowest_e6: 950_000, ..POLICY };
        let sample = |label| Label { evidence: Evidence::Judge, weight_e6: UNIT, ..label };
        let mut mixed: Vec<(bool, Label)> = sampled.into_iter().map(|label| (true, sample(label))).collect();
        for (label, at) in told {
            mixed.insert(at.index(mixed.len() + 1), (false, Label { evidence: Evidence::Feedback, ..label }));
        }
        let (mut alone, mut with) = (Ledger::new(policy), Ledger::new(policy));
        for (is_sample, label) in mixed {
            with.learn(&Finding::Label(label));
            if is_sample {
                alone.learn(&Finding::Label(label));
            }
            let floor = |ledger: &Ledger| ledger.standing().floor_e6.unwrap_or(u32::MAX);
            prop_assert!(floor(&with) >= floor(&alone), "{:?} {:?}", with.standing(), alone.standing());
        }
    }
}

fn taught(policy: TrustPolicy, labels: impl IntoIterator<Item = Label>) -> Ledger {
    let mut ledger = Ledger::new(policy);
    labels.into_iter().for_each(|label| ledger.learn(&Finding::Label(label)));
    ledger
}

fn judged(score_e6: u32, verdict: Verdict) -> Label {
    Label::sampled(score_e6, None, verdict, Evidence::Judge)
}

fn right(score_e6: u32, count: usize) -> impl Iterator<Item = Label> {
    std::iter::repeat_n(judged(score_e6, Verdict::Right), count)
}

fn stands(ledger: &Ledger) -> (State, Option<u32>) {
    let Standing { state, floor_e6 } = ledger.standing();
    (state, floor_e6)
}

#[test]
fn the_configured_floor_holds_until_there_are_ninety_nine_labels() {
    assert_eq!(stands(&taught(POLICY, right(980_000, 98))), (State::Collecting, Some(FLOOR)));
    assert_eq!(stands(&taught(POLICY, right(980_000, 99))), (State::Bounded, Some(FLOOR)));
}

#[test]
fn mistakes_at_low_scores_raise_the_floor_above_them() {
    let low = [judged(971_000, Verdict::Wrong), judged(972_000, Verdict::Wrong)];
    let ledger = taught(POLICY, right(990_000, 150).chain(low));
    assert_eq!(stands(&ledger), (State::Bounded, Some(990_000)));
}

#[test]
fn where_no_floor_is_justified_nothing_is_served() {
    let mut labels: Vec<Label> = right(1_000_000, 120).collect();
    labels.insert(60, judged(1_000_000, Verdict::Wrong));
    assert_eq!(stands(&taught(POLICY, labels.clone())), (State::Shadow, None));
    labels.extend(right(1_000_000, 79));
    assert_eq!(stands(&taught(POLICY, labels)), (State::Bounded, Some(FLOOR)), "200 labels outweigh one mistake");
}

#[test]
fn a_mistake_between_two_levels_does_not_become_a_level() {
    let policy = TrustPolicy { max_false_share: 0.25, ..POLICY };
    let below = [judged(970_000, Verdict::Wrong), judged(970_000, Verdict::Wrong), judged(970_000, Verdict::Wrong)];
    let labels = || right(980_000, 10).chain(below);
    assert_eq!(stands(&taught(policy, labels())), (State::Bounded, Some(980_000)));
    let told = Label { evidence: Evidence::Feedback, ..judged(975_000, Verdict::Wrong) };
    assert_eq!(stands(&taught(policy, labels().chain([told]))), (State::Bounded, Some(980_000)));
}

#[test]
fn labels_go_under_the_configured_floor_only_where_the_operator_allows_it() {
    let labels = || right(930_000, 100).chain(right(990_000, 100));
    assert_eq!(stands(&taught(POLICY, labels())), (State::Bounded, Some(FLOOR)));
    let open = TrustPolicy { lowest_e6: 920_000, ..POLICY };
    assert_eq!(stands(&taught(open, labels())), (State::Bounded, Some(920_000)));
    let bad = labels().chain([judged(930_000, Verdict::Wrong), judged(930_000, Verdict::Wrong)]);
    assert_eq!(stands(&taught(open, bad)), (State::Bounded, Some(FLOOR)));
}

#[test]
fn decisions_that_nobody_could_judge_prove_nothing_and_loosen_nothing() {
    let unknown = || std::iter::repeat_n(judged(940_000, Verdict::Unknown), 100);
    let open = TrustPolicy { lowest_e6: 920_000, ..POLICY };
    let labels = || right(940_000, 500).chain(unknown());
    assert_eq!(stands(&taught(open, labels())), (State::Collecting, Some(FLOOR)));
    let high = right(990_000, 99).chain(std::iter::repeat_n(judged(975_000, Verdict::Unknown), 50));
    assert_eq!(stands(&taught(POLICY, high)), (State::Unproven, Some(FLOOR)));
    let none = std::iter::repeat_n(judged(975_000, Verdict::Unknown), 500);
    assert_eq!(stands(&taught(POLICY, none)), (State::Collecting, Some(FLOOR)));
}

#[test]
fn praise_counts_for_nothing_and_a_complaint_for_its_share() {
    let praise = Label { evidence: Evidence::Feedback, ..judged(1_000_000, Verdict::Right) };
    assert!(taught(POLICY, std::iter::repeat_n(praise, 500)).is_empty());
    let complaint = |weight_e6| Label { evidence: Evidence::Feedback, weight_e6, ..judged(980_000, Verdict::Wrong) };
    let after = |weight| stands(&taught(POLICY, right(980_000, 120).chain([complaint(weight)])));
    assert_eq!(after(20_000).0, State::Bounded, "one complaint among the 6,000 hits behind 120 samples");
    assert_eq!(after(UNIT).0, State::Shadow);
}

#[test]
fn complaints_push_no_label_out_of_the_window() {
    let low = [judged(971_000, Verdict::Wrong), judged(972_000, Verdict::Wrong)];
    let complaint = Label { evidence: Evidence::Feedback, weight_e6: 1, ..judged(971_000, Verdict::Wrong) };
    let many = std::iter::repeat_n(complaint, 3_000);
    let ledger = taught(POLICY, low.into_iter().chain(right(990_000, 150)).chain(many));
    assert_eq!(stands(&ledger), (State::Bounded, Some(990_000)), "the two mistakes are not forgotten");
    assert!(ledger.len() <= 1_152, "and complaints are not kept without end: {}", ledger.len());
}

#[test]
fn five_mistakes_in_a_row_raise_the_alarm_whatever_came_before() {
    let mut ledger = taught(POLICY, right(1_000_000, 300));
    for more in 1..=5 {
        assert_ne!(ledger.standing().state, State::Alarm, "{more}");
        ledger.learn(&Finding::Label(judged(1_000_000, Verdict::Wrong)));
    }
    assert_eq!(stands(&ledger), (State::Alarm, None));
    right(1_000_000, 98).for_each(|label| ledger.learn(&Finding::Label(label)));
    assert_eq!(stands(&ledger), (State::Alarm, None), "what was good before says nothing now");
    right(1_000_000, 1).for_each(|label| ledger.learn(&Finding::Label(label)));
    assert_eq!(stands(&ledger), (State::Shadow, None), "the alarm is over, the five mistakes are not outweighed");
    right(1_000_000, 195).for_each(|label| ledger.learn(&Finding::Label(label)));
    assert_eq!(stands(&ledger), (State::Bounded, Some(FLOOR)));
}

#[test]
fn after_an_alarm_only_enough_judged_labels_or_an_operator_bring_a_route_back() {
    let alarmed = || taught(POLICY, std::iter::repeat_n(judged(990_000, Verdict::Wrong), 5));
    let mut ledger = alarmed();
    right(990_000, 98).for_each(|label| ledger.learn(&Finding::Label(label)));
    ledger.learn(&Finding::Label(judged(990_000, Verdict::Unknown)));
    right(990_000, 50).for_each(|label| ledger.learn(&Finding::Label(label)));
    assert_eq!(stands(&ledger), (State::Alarm, None), "an unjudged decision may be a mistake");
    right(990_000, 50).for_each(|label| ledger.learn(&Finding::Label(label)));
    assert_eq!(stands(&ledger), (State::Shadow, None), "six labels in 204 may be mistakes");
    right(990_000, 495).for_each(|label| ledger.learn(&Finding::Label(label)));
    assert_eq!(stands(&ledger), (State::Bounded, Some(FLOOR)));
    let mut ledger = alarmed();
    ledger.learn(&Finding::Reset);
    assert_eq!(stands(&ledger), (State::Collecting, Some(FLOOR)));
}

/// How many labels it takes until the alarm, where decisions are wrong with this probability.
fn until_alarm(wrong: f64, seed: u64, most: usize) -> usize {
    let mut chance = Chance::seeded(seed);
    let mut drift = drift::Cusum::new(POLICY.max_false_share);
    (1..=most)
        .find(|_| {
            let verdict = if chance.draw() < wrong { Verdict::Wrong } else { Verdict::Right };
            drift.alarms(&judged(980_000, verdict))
        })
        .unwrap_or(usize::MAX)
}

#[test]
fn drift_is_noticed_within_a_known_number_of_labels() {
    let quantile = |wrong, most: usize, share: usize| {
        let mut taken: Vec<usize> = (1..=400).map(|seed| until_alarm(wrong, seed, most)).collect();
        taken.sort_unstable();
        (taken[200], taken[share * 4 - 1])
    };
    let (all, half, fifth, twentieth) =
        (quantile(1.0, 10, 99), quantile(0.5, 200, 99), quantile(0.2, 500, 99), quantile(0.05, 3_000, 99));
    println!("median and 99 %: all {all:?}, half {half:?}, a fifth {fifth:?}, a twentieth {twentieth:?}");
    assert_eq!(all, (5, 5));
    assert!(half.1 <= 40 && fifth.1 <= 120 && twentieth.1 <= 1_000, "{half:?} {fifth:?} {twentieth:?}");
}

#[test]
fn a_route_within_its_bound_is_rarely_alarmed() {
    let alarmed = |wrong| (1..=200).filter(|&seed| until_alarm(wrong, seed, 5_000) <= 5_000).count();
    let (half, at) = (alarmed(0.005), alarmed(0.01));
    println!("of 200 routes alarmed within 5,000 labels: {half} at half the bound, {at} at the bound");
    assert!(half <= 20, "{half}");
    assert!(at <= 140, "{at}");
}
