//! What is known of each route, how it outlives a process, and what a change of the configuration leaves of it.

use super::*;

fn row(model: &str, finding: Finding) -> LabelRow {
    let route = RouteId { model: model.to_owned(), encoder: "e".to_owned(), generation: 1 };
    LabelRow { of: signet_types::LineageId::generate(1), route, finding, at_ms: 1 }
}

fn numbered(rows: Vec<LabelRow>) -> Vec<(u64, LabelRow)> {
    (1..).zip(rows).collect()
}

#[test]
fn routes_do_not_mix_and_other_encoders_do_not_count() {
    let trust = Trust::new(POLICY, "e", 1);
    trust.set_known();
    let wrong = Finding::Label(judged(990_000, Verdict::Wrong));
    trust.learn(&numbered(vec![row("bad", wrong); 5]));
    let other = |route: RouteId| LabelRow { route, ..row("good", wrong) };
    let id = row("good", wrong).route;
    trust.learn(&numbered(vec![other(RouteId { encoder: "f".to_owned(), ..id.clone() }); 5]));
    trust.learn(&numbered(vec![other(RouteId { generation: 2, ..id }); 5]));
    assert_eq!(trust.standing("bad").state, State::Alarm);
    assert_eq!(trust.standing("good").state, State::Collecting);
    assert_eq!(trust.routes().len(), 1);
}

#[test]
fn invented_model_names_share_one_ledger_in_the_end() {
    let trust = Trust::new(POLICY, "e", 1);
    trust.set_known();
    let wrong = Finding::Label(judged(990_000, Verdict::Wrong));
    for n in 0..ROUTES_MAX + 5 {
        trust.learn(&[(1, row(&format!("m{n}"), wrong))]);
    }
    assert_eq!(trust.routes().len(), ROUTES_MAX + 1);
    assert_eq!(trust.standing("never seen").state, State::Alarm, "the shared one had five mistakes");
    assert_eq!(trust.route("never seen").model, SHARED);
    assert_eq!(trust.route("m3").model, "m3");
    assert_eq!(trust.standing("m3").state, State::Collecting);
}

#[test]
fn nothing_is_served_before_the_stored_labels_were_read() {
    let trust = Trust::new(POLICY, "e", 1);
    assert_eq!(trust.standing("m").floor_e6, None);
    trust.set_known();
    assert_eq!(trust.standing("m").floor_e6, Some(FLOOR));
}

/// Findings as a store holds them, that are forgotten as the port says.
#[derive(Clone, Default)]
struct Shelf {
    rows: Vec<(u64, Finding)>,
    mark: Option<Mark>,
}

impl Shelf {
    fn mark(&mut self, mark: Mark, keep: usize) {
        let is = |finding: &Finding, complaint: bool| {
            matches!(finding, Finding::Label(label) if label.evidence == Evidence::Feedback) == complaint
        };
        let resets = self.rows.iter().filter(|(number, finding)| *number <= mark.upto && *finding == Finding::Reset);
        let reset = resets.map(|(number, _)| *number).max().unwrap_or(0);
        self.rows.retain(|(number, _)| *number >= reset);
        for complaint in [false, true] {
            let within = |(number, finding): &(u64, Finding)| *number <= mark.upto && is(finding, complaint);
            let mut surplus = self.rows.iter().filter(|row| within(row)).count().saturating_sub(keep);
            self.rows.retain(|row| {
                let goes = surplus > 0 && within(row);
                surplus -= usize::from(goes);
                !goes
            });
        }
        self.mark = Some(mark);
    }

    /// What a process that starts now makes of it.
    fn ledger(&self, policy: TrustPolicy) -> Ledger {
        let upto = self.mark.map_or(0, |mark| mark.upto);
        let kept: Vec<Finding> =
            self.rows.iter().filter(|(number, _)| *number <= upto).map(|(_, finding)| *finding).collect();
        let mut ledger = self.mark.map_or(Ledger::new(policy), |mark| Ledger::resume(policy, &mark, &kept));
        self.rows.iter().filter(|(number, _)| *number > upto).for_each(|(_, finding)| ledger.learn(finding));
        ledger
    }
}

#[derive(Debug, Clone)]
enum Step {
    Found(Finding, u16),
    Marked,
}

/// As it is written down: of callers' words only complaints are.
fn written() -> impl Strategy<Value = Label> {
    label().prop_map(|label| {
        let verdict = if label.evidence == Evidence::Feedback { Verdict::Wrong } else { label.verdict };
        Label { verdict, ..label }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (written(), 1..250_u16).prop_map(|(label, times)| Step::Found(Finding::Label(label), times)),
        1 => Just(Step::Found(Finding::Reset, 1)),
        4 => Just(Step::Marked),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_process_that_starts_knows_what_the_one_that_ended_knew(
        steps in proptest::collection::vec(step(), 1..40),
        later in proptest::collection::vec(written(), 1..30),
        bound in prop_oneof![Just(0.01), Just(0.05), Just(0.3)],
    ) {
        let policy = TrustPolicy { max_false_share: bound, lowest_e6: 950_000, ..POLICY };
        let (mut live, mut shelf, mut number) = (Ledger::new(policy), Shelf::default(), 0_u64);
        for step in steps {
            match step {
                // One more than a window: what is kept beyond it is there for the place of complaints.
                Step::Marked => shelf.mark(live.mark(number), policy.window() + 1),
                Step::Found(finding, times) => for _ in 0..times {
                    number += 1;
                    live.learn(&finding);
                    shelf.rows.push((number, finding));
                },
            }
            let again = shelf.ledger(policy);
            prop_assert_eq!(again.standing(), live.standing());
            prop_assert_eq!((again.tiers(), again.is_alarmed()), (live.tiers(), live.is_alarmed()));
        }
        let mut again = shelf.ledger(policy);
        for label in later {
            again.learn(&Finding::Label(label));
            live.learn(&Finding::Label(label));
            prop_assert_eq!((again.mark(0), again.standing()), (live.mark(0), live.standing()));
        }
    }
}

#[test]
fn under_another_bound_an_alarm_stands_and_the_rest_is_counted_anew() {
    let alarmed = taught(POLICY, std::iter::repeat_n(judged(990_000, Verdict::Wrong), 5));
    let kept = [Finding::Label(judged(990_000, Verdict::Wrong)); 5];
    let looser = TrustPolicy { max_false_share: 0.5, ..POLICY };
    assert_eq!(stands(&Ledger::resume(looser, &alarmed.mark(5), &kept)), (State::Alarm, None));
    let tighter = TrustPolicy { max_false_share: 0.001, ..POLICY };
    let calm = taught(POLICY, [judged(990_000, Verdict::Wrong); 4]);
    let again = Ledger::resume(tighter, &calm.mark(4), &kept[..4]);
    assert_eq!(again.mark(4), taught(tighter, [judged(990_000, Verdict::Wrong); 4]).mark(4));
}

#[test]
fn a_model_with_a_floor_or_bound_of_its_own_is_judged_by_them() {
    let own = |policy, mode| RouteBase { policy, mode };
    let open = TrustPolicy { lowest_e6: 920_000, ..POLICY };
    let strict = TrustPolicy { floor_e6: 980_000, lowest_e6: 980_000, ..POLICY };
    let tight = TrustPolicy { max_false_share: 0.005, ..open };
    let trust = Trust::new(open, "e", 1).with_own(HashMap::from([
        ("strict".to_owned(), own(strict, Mode::On)),
        ("tight".to_owned(), own(tight, Mode::On)),
        ("quiet".to_owned(), own(open, Mode::Shadow)),
    ]));
    trust.set_known();
    for model in ["plain", "strict", "tight", "quiet"] {
        let labels = right(930_000, 60).chain(right(990_000, 100));
        let rows = labels.map(|label| row(model, Finding::Label(label)));
        trust.learn(&numbered(rows.collect()));
    }
    let floor = |model: &str| trust.standing(model).floor_e6;
    assert_eq!((floor("plain"), floor("strict")), (Some(920_000), Some(980_000)));
    assert_eq!(trust.standing("tight").state, State::Collecting, "199 labels are needed for half a percent");
    let view = |model: &str| trust.routes().into_iter().find(|route| route.model == model).expect("a route");
    assert_eq!(view("quiet").standing, Standing { state: State::Bounded, floor_e6: None });
    assert_eq!(floor("quiet"), Some(920_000), "shadow decides as if it were on");
    assert_eq!((view("plain").mode, view("quiet").mode), (Mode::On, Mode::Shadow));
}

#[test]
fn another_base_holds_at_once_and_an_alarm_outlives_it() {
    let at = |floor_e6| TrustPolicy { floor_e6, lowest_e6: floor_e6, ..POLICY };
    let own = |policy: TrustPolicy| HashMap::from([("mine".to_owned(), policy.into())]);
    let trust = Trust::new(POLICY, "e", 1).with_own(own(at(970_000)));
    trust.set_known();
    let learn = |labels: Vec<Label>| {
        let rows = labels.into_iter().map(|label| row("mine", Finding::Label(label)));
        trust.learn(&numbered(rows.collect()));
    };
    assert_eq!(trust.standing("mine").floor_e6, Some(970_000));
    trust.rebase(own(at(990_000)));
    assert_eq!(trust.standing("mine").floor_e6, Some(990_000), "nothing is known of it yet");
    learn(right(980_000, 200).chain(right(995_000, 200)).collect());
    assert_eq!(trust.standing("mine"), Standing { state: State::Bounded, floor_e6: Some(990_000) });
    trust.rebase(own(at(970_000)));
    assert_eq!(trust.standing("mine"), Standing { state: State::Bounded, floor_e6: Some(970_000) });
    learn(vec![judged(975_000, Verdict::Wrong); 5]);
    assert_eq!(trust.standing("mine").state, State::Alarm);
    for policy in [at(990_000), TrustPolicy { max_false_share: 0.02, ..at(970_000) }] {
        trust.rebase(own(policy));
        assert_eq!(trust.standing("mine"), Standing { state: State::Alarm, floor_e6: None }, "{policy:?}");
    }
    trust.rebase(HashMap::new());
    assert_eq!(trust.base("mine").policy.floor_e6, 970_000, "a model that is gone for now keeps its base");
}

#[test]
fn labels_are_counted_by_the_tier_of_their_decision() {
    let of = |tier, verdict| Label { tier, ..judged(990_000, verdict) };
    let (words, vector) = (Some(Tier::SameWords), Some(Tier::Vector));
    let ledger = taught(
        POLICY,
        [
            of(words, Verdict::Right),
            of(vector, Verdict::Wrong),
            of(vector, Verdict::Unknown),
            of(vector, Verdict::Right),
            of(None, Verdict::Right),
        ],
    );
    let one = |right, wrong, unknown| Counts { right, wrong, unknown };
    let expected = [(None, one(1, 0, 0)), (words, one(1, 0, 0)), (vector, one(1, 1, 1))];
    assert_eq!(ledger.tiers(), BTreeMap::from(expected));
}

#[test]
fn configured_models_keep_a_ledger_of_their_own_however_many_names_are_invented() {
    let trust = Trust::new(POLICY, "e", 1).with_own(HashMap::from([("mine".to_owned(), POLICY.into())]));
    trust.set_known();
    let wrong = Finding::Label(judged(990_000, Verdict::Wrong));
    for n in 0..ROUTES_MAX + 5 {
        trust.learn(&[(1, row(&format!("m{n}"), wrong))]);
    }
    assert_eq!(trust.route("mine").model, "mine");
    assert_eq!(trust.standing("mine").state, State::Collecting);
}
