//! The report as text for a terminal.

use crate::replay::{ReplayReport, RunReport};
use crate::report::{Areas, Count, KindReport, PairsReport, Rate, Report, Resampled};
use crate::stats::Interval;
use std::fmt::{self, Write};

/// The report as a table of fixed width.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    write(report, &mut out).expect("a string takes all");
    out
}

fn write(report: &Report, out: &mut String) -> fmt::Result {
    let settings = &report.settings;
    writeln!(out, "rows {}, bad lines {}, passed over {}", report.rows, report.bad_lines, report.passed_over)?;
    writeln!(out, "encoder {}, mode {}, floor {:.3}", settings.encoder, settings.mode, settings.floor)?;
    if let Some(pairs) = &report.pairs {
        write_pairs(pairs, settings.both_ways, out)?;
    }
    if let Some(replay) = &report.replay {
        write_replay(replay, out)?;
    }
    Ok(())
}

fn write_pairs(pairs: &PairsReport, both_ways: bool, out: &mut String) -> fmt::Result {
    let width = pairs.kinds.iter().map(|kind| kind.kind.chars().count()).max().unwrap_or(0).clamp(8, 32);
    writeln!(
        out,
        "\n{:width$}  {:>30}  {:>30}  {:>13}  {:>19}  {:>19}",
        "kind", "true hits (95 %)", "false hits (95 %)", "ROC / PR area", "hits at 1 % false", "hits at 5 % false"
    )?;
    let all = std::iter::once(&pairs.overall).filter(|_| pairs.kinds.len() != 1);
    for kind in pairs.kinds.iter().chain(all) {
        write_kind(kind, width, out)?;
    }
    let Areas { roc, pr, within_1, within_5 } = pairs.overall.cosine;
    writeln!(
        out,
        "{:width$}  {:>30}  {:>30}  {:>13}  {:>19}  {:>19}",
        "(cosine)",
        "",
        "",
        areas(roc, pr),
        resampled(within_1),
        resampled(within_5)
    )?;
    writeln!(out, "areas and hits at 1 % and 5 %: a kind of one label is ranked against all pairs of the other")?;
    let traffic = pairs.traffic;
    let source = if traffic.given { "given" } else { "the data's own" };
    writeln!(
        out,
        "\nat a base rate of {} ({source}): false share among hits {}, at worst {}",
        percent(traffic.base_rate),
        maybe(traffic.false_share),
        maybe(traffic.false_share_high)
    )?;
    if both_ways {
        writeln!(out, "served one way round only: {}", pairs.uneven)?;
    }
    write_counts("served by", &pairs.tiers, out)?;
    write_counts("refused by", &pairs.refusals, out)
}

fn write_kind(kind: &KindReport, width: usize, out: &mut String) -> fmt::Result {
    let Areas { roc, pr, within_1, within_5 } = kind.gated;
    let name: String = kind.kind.chars().take(width).map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(
        out,
        "{name:width$}  {:>30}  {:>30}  {:>13}  {:>19}  {:>19}",
        rate(&kind.true_hits),
        rate(&kind.false_hits),
        areas(roc, pr),
        resampled(within_1),
        resampled(within_5)
    )
}

fn write_counts(title: &str, counts: &[Count], out: &mut String) -> fmt::Result {
    writeln!(out, "\n{title:32}  {:>10}  {:>10}", "should hit", "must miss")?;
    for count in counts {
        writeln!(out, "{:32}  {:>10}  {:>10}", count.name, count.should_hit, count.must_miss)?;
    }
    Ok(())
}

fn write_replay(replay: &ReplayReport, out: &mut String) -> fmt::Result {
    let tally = replay.shipped.tally;
    writeln!(
        out,
        "\narrivals {}, exact repeats {} ({}), ineligible {}",
        tally.arrivals,
        tally.exact,
        percent(tally.exact as f64 / tally.arrivals.max(1) as f64),
        tally.ineligible
    )?;
    writeln!(
        out,
        "\n{:8}  {:>10}  {:>10}  {:>8}  {:>8}  {:>11}  {:>13}",
        "floor", "hits", "hit rate", "judged", "wrong", "wrong share", "95 % bound"
    )?;
    for run in &replay.curve {
        let mark = if run.floor.total_cmp(&replay.shipped.floor).is_eq() { "*" } else { " " };
        write_run(&format!("{:.3} {mark}", run.floor), run, out)?;
    }
    writeln!(out, "* the floor in force; hit rate: semantic hits among arrivals that were no exact repeats")?;
    if let Some(chosen) = replay.chosen {
        writeln!(out, "\nfor a wrong share of at most {}, chosen on the first half:", percent(chosen.max_false_share))?;
        match (chosen.first, chosen.second) {
            (Some(first), Some(second)) => {
                write_run(&format!("{:.3} 1", first.floor), &first, out)?;
                write_run(&format!("{:.3} 2", second.floor), &second, out)?;
            }
            _ => writeln!(out, "no floor: too many wrong hits, or too few hits to tell")?,
        }
    }
    writeln!(out, "\n{:>10}  {:>10}  {:>8}  {:>8}  {:>8}", "arrivals", "exact", "hits", "judged", "wrong")?;
    for block in &replay.blocks {
        writeln!(
            out,
            "{:>10}  {:>10}  {:>8}  {:>8}  {:>8}",
            block.arrivals, block.exact, block.hits, block.judged, block.wrong
        )?;
    }
    writeln!(out, "\nserved by")?;
    replay.tiers.iter().try_for_each(|(tier, count)| writeln!(out, "{tier:32}  {count:>10}"))?;
    writeln!(out, "\nmissed because")?;
    replay.misses.iter().try_for_each(|(reason, count)| writeln!(out, "{reason:32}  {count:>10}"))
}

fn write_run(name: &str, run: &RunReport, out: &mut String) -> fmt::Result {
    let (tally, bound) = (run.tally, maybe(run.wrong_share_bound));
    writeln!(
        out,
        "{name:8}  {:>10}  {:>10}  {:>8}  {:>8}  {:>11}  {bound:>13}",
        tally.hits,
        maybe(run.hit_rate),
        tally.judged,
        tally.wrong,
        maybe(run.wrong_share)
    )
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(crate) fn maybe(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0))
}

fn span(interval: Interval) -> String {
    format!("[{:.1}, {:.1}]", interval.low * 100.0, interval.high * 100.0)
}

pub(crate) fn rate(rate: &Rate) -> String {
    let share = rate.rate.map_or_else(String::new, |share| format!(" {} {}", percent(share), span(rate.interval)));
    format!("{}/{}{share}", rate.hits, rate.of)
}

pub(crate) fn areas(roc: Option<f64>, pr: Option<f64>) -> String {
    roc.zip(pr).map_or_else(|| "-".to_owned(), |(roc, pr)| format!("{roc:.3} / {pr:.3}"))
}

pub(crate) fn resampled(figure: Option<Resampled>) -> String {
    figure.map_or_else(|| "-".to_owned(), |it| format!("{} {}", percent(it.value), span(it.interval)))
}
