//! Two classes ranked by a score: areas, the hit rate that a bound on false hits allows, and the bootstrap over them.

use super::{Interval, SplitMix64};

/// The score of what no floor would let through. It ranks last, and no operating point lies there.
pub const REFUSED: f64 = -1.0;

/// Rows of one score.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Group {
    score: f64,
    positives: u64,
    negatives: u64,
}

/// Scores of the two classes, highest first, rows of equal score together: a floor cannot part them.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    groups: Vec<Group>,
    positives: u64,
    negatives: u64,
}

impl Ranking {
    /// Ranks rows of a score, which is not NaN, and whether the row is positive.
    pub fn of(rows: impl IntoIterator<Item = (f64, bool)>) -> Self {
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let mut ranking = Self { groups: Vec::new(), positives: 0, negatives: 0 };
        for (score, positive) in rows {
            if ranking.groups.last().is_none_or(|group| group.score.total_cmp(&score).is_ne()) {
                ranking.groups.push(Group { score, ..Group::default() });
            }
            let group = ranking.groups.last_mut().expect("one was pushed");
            let (own, all) = if positive {
                (&mut group.positives, &mut ranking.positives)
            } else {
                (&mut group.negatives, &mut ranking.negatives)
            };
            *own += 1;
            *all += 1;
        }
        ranking
    }

    fn has_both(&self) -> bool {
        self.positives > 0 && self.negatives > 0
    }

    /// Counts of positives and negatives at or over each score, highest score first.
    fn cumulative(&self) -> impl Iterator<Item = (f64, u64, u64)> {
        self.groups.iter().scan((0, 0), |(positives, negatives), group| {
            *positives += group.positives;
            *negatives += group.negatives;
            Some((group.score, *positives, *negatives))
        })
    }

    /// The area under the ROC curve: the probability that a positive outranks a negative, a tie counting half (Hanley and
    /// McNeil, Radiology 143, 1982). None without both classes.
    pub fn roc_area(&self) -> Option<f64> {
        let mut above = 0;
        let mut wins = 0.0;
        for group in &self.groups {
            wins += group.negatives as f64 * (above as f64 + 0.5 * group.positives as f64);
            above += group.positives;
        }
        self.has_both().then(|| wins / (self.positives as f64 * self.negatives as f64))
    }

    /// Average precision: the precision at each score, weighted by the recall gained there, without interpolation
    /// (Davis and Goadrich, ICML 2006, on why not). None without both classes.
    pub fn pr_area(&self) -> Option<f64> {
        let mut area = 0.0;
        let mut before = 0;
        for (_, positives, negatives) in self.cumulative() {
            let precision = positives as f64 / (positives + negatives) as f64;
            area += precision * (positives - before) as f64;
            before = positives;
        }
        self.has_both().then(|| area / self.positives as f64)
    }

    /// The largest share of positives that a floor serves while it serves at most the share `false_rate` of the
    /// negatives; 0 where no floor does.
    pub fn hit_rate_within(&self, false_rate: f64) -> f64 {
        let most = false_rate * self.negatives as f64;
        let served = self.cumulative().take_while(|&(score, _, negatives)| score > REFUSED && negatives as f64 <= most);
        let hits = served.last().map_or(0, |(_, positives, _)| positives);
        if self.positives == 0 { 0.0 } else { hits as f64 / self.positives as f64 }
    }

    /// Points (false hit rate, true hit rate) of the ROC curve, from (0, 0) to (1, 1), thinned to about `most`.
    pub fn roc(&self, most: usize) -> Vec<[f64; 2]> {
        if !self.has_both() {
            return Vec::new();
        }
        let every = self.groups.len().div_ceil(most.max(1)).max(1);
        let points =
            self.cumulative().enumerate().filter(|(at, _)| (at + 1) % every == 0 || at + 1 == self.groups.len());
        let share = |(_, (_, positives, negatives)): (usize, (f64, u64, u64))| {
            [negatives as f64 / self.negatives as f64, positives as f64 / self.positives as f64]
        };
        std::iter::once([0.0, 0.0]).chain(points.map(share)).collect()
    }

    /// As many rows of each class, drawn from it with replacement.
    fn resampled(&self, drawn_from: &Rows, random: &mut SplitMix64) -> Self {
        let blank = |group: &Group| Group { positives: 0, negatives: 0, ..*group };
        let mut groups: Vec<_> = self.groups.iter().map(blank).collect();
        for _ in 0..self.positives {
            groups[drawn_from.positives[random.below(drawn_from.positives.len())]].positives += 1;
        }
        for _ in 0..self.negatives {
            groups[drawn_from.negatives[random.below(drawn_from.negatives.len())]].negatives += 1;
        }
        Self { groups, ..*self }
    }
}

/// The group of every row, by class.
struct Rows {
    positives: Vec<usize>,
    negatives: Vec<usize>,
}

impl Rows {
    fn of(ranking: &Ranking) -> Self {
        let spread = |count: fn(&Group) -> u64| {
            let each = |(at, group)| (0..count(group)).map(move |_| at);
            ranking.groups.iter().enumerate().flat_map(each).collect()
        };
        Self { positives: spread(|group| group.positives), negatives: spread(|group| group.negatives) }
    }
}

/// 95 % percentile intervals of statistics over `rounds` resamples (Efron and Tibshirani, An Introduction to the
/// Bootstrap, 1993, §13.3), each class resampled by itself. The same for the same seed.
pub fn bootstrap<const N: usize>(
    ranking: &Ranking,
    rounds: u32,
    seed: u64,
    statistics: impl Fn(&Ranking) -> [f64; N],
) -> [Interval; N] {
    let rows = Rows::of(ranking);
    let mut random = SplitMix64::new(seed);
    let mut drawn: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..rounds.max(1) {
        let values = statistics(&ranking.resampled(&rows, &mut random));
        drawn.iter_mut().zip(values).for_each(|(all, value)| all.push(value));
    }
    drawn.map(|mut values| {
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        Interval { low: values[last * 25 / 1000], high: values[last - last * 25 / 1000] }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranking(positives: &[f64], negatives: &[f64]) -> Ranking {
        let (p, n) = (positives.iter().map(|&s| (s, true)), negatives.iter().map(|&s| (s, false)));
        Ranking::of(p.chain(n))
    }

    /// The rating data of Hanley and McNeil (1982), table I: 51 abnormal and 58 normal images in five classes.
    fn hanley_mcneil() -> Ranking {
        let abnormal = [(1.0, 3), (2.0, 2), (3.0, 2), (4.0, 11), (5.0, 33)];
        let normal = [(1.0, 33), (2.0, 6), (3.0, 6), (4.0, 11), (5.0, 2)];
        let rows = |table: [(f64, usize); 5], positive| {
            table.into_iter().flat_map(move |(score, count)| std::iter::repeat_n((score, positive), count))
        };
        Ranking::of(rows(abnormal, true).chain(rows(normal, false)))
    }

    #[test]
    fn the_roc_area_with_ties_is_the_published_one() {
        assert!((hanley_mcneil().roc_area().expect("both classes") - 0.893).abs() < 5e-4);
    }

    #[test]
    fn areas_of_a_small_ranking_are_those_counted_by_hand() {
        // The example of scikit-learn's documentation: scores 0.1 0.4 (negative), 0.35 0.8 (positive).
        let ranking = ranking(&[0.35, 0.8], &[0.1, 0.4]);
        assert_eq!(ranking.roc_area(), Some(0.75));
        assert!((ranking.pr_area().expect("both classes") - 0.833_333).abs() < 1e-6);
    }

    #[test]
    fn one_class_alone_has_no_area() {
        assert_eq!(ranking(&[0.5], &[]).roc_area(), None);
        assert_eq!(ranking(&[], &[0.5]).pr_area(), None);
    }

    #[test]
    fn rows_of_equal_score_are_served_together_or_not_at_all() {
        let tied = ranking(&[0.9, 0.9, 0.95], &[0.9, 0.1]);
        assert!((tied.hit_rate_within(0.0) - 1.0 / 3.0).abs() < 1e-12);
        assert!((tied.hit_rate_within(0.5) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_refused_at_any_floor_is_never_served() {
        let refused = ranking(&[0.9, REFUSED], &[REFUSED, REFUSED]);
        assert!((refused.hit_rate_within(1.0) - 0.5).abs() < 1e-12);
        assert_eq!(refused.roc(10).last(), Some(&[1.0, 1.0]));
    }

    #[test]
    fn a_bootstrap_is_the_same_for_a_seed_and_another_for_another() {
        let run = |seed| bootstrap(&hanley_mcneil(), 500, seed, |r| [r.roc_area().expect("both classes")]);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn a_bootstrap_interval_is_about_as_wide_as_the_published_error() {
        // Standard error 0.032 in the same paper: 95 % within 0.83 and 0.96.
        let [area] = bootstrap(&hanley_mcneil(), 2_000, 1, |r| [r.roc_area().expect("both classes")]);
        assert!((0.81..0.85).contains(&area.low) && (0.93..0.96).contains(&area.high), "{area:?}");
    }

    proptest! {
        #[test]
        fn the_roc_area_is_the_share_of_pairs_in_order(
            positives in prop::collection::vec(0_u8..10, 1..20),
            negatives in prop::collection::vec(0_u8..10, 1..20),
        ) {
            let score = |s: &u8| f64::from(*s) / 10.0;
            let (p, n): (Vec<_>, Vec<_>) = (positives.iter().map(score).collect(), negatives.iter().map(score).collect());
            let one = |p: &f64, n: &f64| if p > n { 1.0 } else if p < n { 0.0 } else { 0.5 };
            let sum: f64 = p.iter().flat_map(|p| n.iter().map(move |n| one(p, n))).sum();
            let area = ranking(&p, &n).roc_area().expect("both classes");
            prop_assert!((area - sum / (p.len() * n.len()) as f64).abs() < 1e-12);
        }

        #[test]
        fn more_false_hits_never_allow_fewer_hits(
            rows in prop::collection::vec((-1.0..1.0_f64, any::<bool>()), 0..60), less in 0.0..1.0_f64, more in 0.0..1.0_f64,
        ) {
            let ranking = Ranking::of(rows);
            let (less, more) = if less < more { (less, more) } else { (more, less) };
            prop_assert!(ranking.hit_rate_within(less) <= ranking.hit_rate_within(more));
        }
    }
}
