//! The report as one HTML file that needs nothing from elsewhere: no scripts, no fonts, plots as SVG.

mod plot;
#[cfg(test)]
mod tests;

use crate::replay::{ReplayReport, RunReport};
use crate::report::{Bin, Count, Histogram, KindReport, PairsReport, Point, Report};
use crate::table::{areas, maybe, percent, rate, resampled};
use plot::{Axis, Bars, Line, Plot};
use std::fmt::{self, Display, Write};

/// Right and wrong in colours that colour-blind readers tell apart (Okabe and Ito, 2008).
const RIGHT: &str = "#0072b2";
const WRONG: &str = "#d55e00";

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#222}\
    table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:right}\
    td:first-child,th:first-child{text-align:left}figure{display:inline-block;margin:1rem 1rem 0 0}\
    svg text{font:12px system-ui,sans-serif;fill:#222}.note{color:#555}";

/// The report as a page.
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    write(report, &mut out).expect("a string takes all");
    out
}

/// Text that shows as it is in HTML, in attributes too.
pub(crate) struct Escaped<T>(pub(crate) T);

impl<T: AsRef<str>> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => f.write_char(c),
        })
    }
}

fn write(report: &Report, out: &mut String) -> fmt::Result {
    let settings = &report.settings;
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Semantic cache evaluation</title>\
         <style>{STYLE}</style></head><body>\n<h1>Semantic cache evaluation</h1>\n\
         <p>{} rows, {} bad lines, {} passed over. Encoder {}, mode {}, floor {:.3}, at most {} questions held; seed {}, {} \
         resamples.</p>\n",
        report.rows,
        report.bad_lines,
        report.passed_over,
        Escaped(&settings.encoder),
        settings.mode,
        settings.floor,
        settings.max_entries,
        settings.seed,
        settings.bootstrap_rounds,
    )?;
    if let Some(pairs) = &report.pairs {
        write_pairs(pairs, out)?;
    }
    if let Some(replay) = &report.replay {
        write_replay(replay, out)?;
    }
    out.write_str("</body></html>\n")
}

/// A table. The cells of the first column are left-aligned by the style.
fn write_table(head: &[&str], rows: impl Iterator<Item = Vec<String>>, out: &mut String) -> fmt::Result {
    out.write_str("<table><tr>")?;
    head.iter().try_for_each(|cell| write!(out, "<th>{}</th>", Escaped(cell)))?;
    for row in rows {
        out.write_str("</tr>\n<tr>")?;
        row.iter().try_for_each(|cell| write!(out, "<td>{}</td>", Escaped(cell)))?;
    }
    out.write_str("</tr></table>\n")
}

fn write_pairs(pairs: &PairsReport, out: &mut String) -> fmt::Result {
    out.write_str("<h2>Pairs</h2>\n")?;
    let head = ["kind", "true hits", "false hits", "ROC / PR area", "hits at ≤ 1 % false", "hits at ≤ 5 % false"];
    let kinds = pairs.kinds.iter().chain([&pairs.overall]);
    write_table(&head, kinds.map(|kind| kind_row(kind, &kind.kind, true)), out)?;
    out.write_str("<p class=\"note\">The cosine alone, without gates:</p>\n")?;
    write_table(&head, std::iter::once(kind_row(&pairs.overall, "all", false)), out)?;
    let traffic = &pairs.traffic;
    writeln!(
        out,
        "<p>At a base rate of {} ({}), the expected false share among hits is {}, at worst {}. Intervals: 95 %.</p>",
        percent(traffic.base_rate),
        if traffic.given { "given" } else { "the data's own" },
        maybe(traffic.false_share),
        maybe(traffic.false_share_high),
    )?;
    let points = |(ratio, precision): (f64, Option<f64>)| precision.map(|precision| [ratio, precision]);
    let curve = |curve: &[Point]| curve.iter().filter_map(|p| points((p.hit_ratio, p.precision))).collect();
    precision_plot(vec![
        Line { name: "with gates", colour: RIGHT, points: curve(&pairs.curve), dots: true },
        Line { name: "cosine alone", colour: WRONG, points: curve(&pairs.curve_cosine), dots: false },
    ])
    .write(out)?;
    let labels = ["should hit", "must miss"];
    histogram_plot("Similarity of pairs that pass every gate", labels, &pairs.passed).write(out)?;
    histogram_plot("Cosine of all pairs, without gates", labels, &pairs.cosines).write(out)?;
    roc_plot(pairs).write(out)?;
    write_counts("served by", &pairs.tiers, out)?;
    write_counts("refused by", &pairs.refusals, out)
}

fn kind_row(kind: &KindReport, name: &str, gated: bool) -> Vec<String> {
    let it = if gated { kind.gated } else { kind.cosine };
    let (hits, wrong) = if gated { (rate(&kind.true_hits), rate(&kind.false_hits)) } else { <_>::default() };
    vec![name.to_owned(), hits, wrong, areas(it.roc, it.pr), resampled(it.within_1), resampled(it.within_5)]
}

fn write_counts(title: &str, counts: &[Count], out: &mut String) -> fmt::Result {
    let row = |count: &Count| vec![count.name.clone(), count.should_hit.to_string(), count.must_miss.to_string()];
    write_table(&[title, "should hit", "must miss"], counts.iter().map(row), out)
}

/// The end of an axis from 0 to at least `most` whose five parts are whole numbers.
fn in_fifths(most: u64) -> f64 {
    (most.max(1).div_ceil(5) * 5) as f64
}

fn share_axis(label: &'static str) -> Axis {
    Axis { label, to: 1.0, percent: true }
}

fn precision_plot(lines: Vec<Line>) -> Plot {
    Plot {
        title: "Precision against hit ratio, floor by floor",
        x: share_axis("hits among all questions"),
        y: share_axis("right among hits"),
        lines,
        bars: Vec::new(),
    }
}

fn roc_plot(pairs: &PairsReport) -> Plot {
    Plot {
        title: "True against false hit rate (ROC)",
        x: share_axis("false hit rate"),
        y: share_axis("true hit rate"),
        lines: vec![
            Line { name: "with gates", colour: RIGHT, points: pairs.roc.clone(), dots: false },
            Line { name: "cosine alone", colour: WRONG, points: pairs.roc_cosine.clone(), dots: false },
        ],
        bars: Vec::new(),
    }
}

fn histogram_plot(title: &'static str, labels: [&'static str; 2], histogram: &Histogram) -> Plot {
    let most = histogram.bins.iter().map(|bin| bin.right.max(bin.wrong)).max().unwrap_or(0).max(1);
    let bars = |name, colour, count: fn(&Bin) -> u64| Bars {
        name,
        colour,
        width: 1.0 / f64::from(Histogram::BINS),
        counts: histogram.bins.iter().map(|bin| (f64::from(bin.from_percent) / 100.0, count(bin))).collect(),
    };
    Plot {
        title,
        x: Axis { label: "similarity", to: 1.0, percent: false },
        y: Axis { label: "count", to: in_fifths(most), percent: false },
        lines: Vec::new(),
        bars: vec![bars(labels[0], RIGHT, |bin| bin.right), bars(labels[1], WRONG, |bin| bin.wrong)],
    }
}

fn write_replay(replay: &ReplayReport, out: &mut String) -> fmt::Result {
    let tally = replay.shipped.tally;
    writeln!(
        out,
        "<h2>Replay</h2>\n<p>{} arrivals, {} exact repeats, {} ineligible; {} semantic hits, {} judged, {} wrong: upper 95 % \
         bound of the wrong share {}.</p>",
        tally.arrivals,
        tally.exact,
        tally.ineligible,
        tally.hits,
        tally.judged,
        tally.wrong,
        maybe(replay.shipped.wrong_share_bound),
    )?;
    let ratio = |run: &RunReport| run.tally.hits as f64 / run.tally.arrivals.max(1) as f64;
    let points = replay.curve.iter().filter_map(|run| run.wrong_share.map(|wrong| [ratio(run), 1.0 - wrong]));
    if tally.judged > 0 {
        precision_plot(vec![Line { name: "floors", colour: RIGHT, points: points.collect(), dots: true }])
            .write(out)?;
        let labels = ["right hits", "wrong hits"];
        histogram_plot("Similarity of judged hits", labels, &replay.similarities).write(out)?;
    }
    blocks_plot(replay).write(out)?;
    let head = ["floor", "hits", "hit rate", "judged", "wrong", "wrong share", "95 % bound"];
    write_table(&head, replay.curve.iter().map(run_row), out)?;
    if let Some(chosen) = replay.chosen {
        writeln!(out, "<p>For a wrong share of at most {}:</p>", percent(chosen.max_false_share))?;
        let halves = [("chosen on the first half", chosen.first), ("on the second", chosen.second)];
        let named = |(name, run): (&str, Option<RunReport>)| {
            let mut row = run.as_ref().map_or_else(|| vec!["no floor".to_owned()], run_row);
            row[0] = format!("{name}: {}", row[0]);
            row
        };
        write_table(&head, halves.into_iter().map(named), out)?;
    }
    let tiers = replay.tiers.iter().map(|(tier, count)| vec![(*tier).to_owned(), count.to_string()]);
    write_table(&["served by", "hits"], tiers, out)?;
    let misses = replay.misses.iter().map(|(reason, count)| vec![reason.clone(), count.to_string()]);
    write_table(&["missed because", "arrivals"], misses, out)
}

fn run_row(run: &RunReport) -> Vec<String> {
    let tally = run.tally;
    vec![
        format!("{:.3}", run.floor),
        tally.hits.to_string(),
        maybe(run.hit_rate),
        tally.judged.to_string(),
        tally.wrong.to_string(),
        maybe(run.wrong_share),
        maybe(run.wrong_share_bound),
    ]
}

fn blocks_plot(replay: &ReplayReport) -> Plot {
    let each = |count: fn(&crate::Tally) -> u64| {
        let share = move |block: &crate::Tally| count(block) as f64 / block.arrivals.max(1) as f64;
        replay.blocks.iter().enumerate().map(|(at, block)| [(at + 1) as f64, share(block)]).collect()
    };
    Plot {
        title: "By blocks of 1,000 arrivals",
        x: Axis { label: "block", to: in_fifths(replay.blocks.len() as u64), percent: false },
        y: share_axis("of the arrivals"),
        lines: vec![
            Line { name: "exact repeats", colour: "#777777", points: each(|block| block.exact), dots: true },
            Line { name: "semantic hits", colour: RIGHT, points: each(|block| block.hits), dots: true },
            Line { name: "wrong hits", colour: WRONG, points: each(|block| block.wrong), dots: true },
        ],
        bars: Vec::new(),
    }
}
