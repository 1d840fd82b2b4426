//! `signet cache explain`: why an answer was served from the cache, or why it was not, as it was decided then.

use super::facts::{CacheFacts, Facts};
use super::lineage::{Source, each_stored};
use super::out::{complain, say};
use crate::exit;
use anyhow::{Result, anyhow};
use clap::Args;
use signet_types::LineageId;

#[derive(Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    source: Source,
    /// The Lineage-Id of the answer.
    #[arg(long, required_unless_present = "request_id")]
    lineage: Option<String>,
    /// The X-Request-Id of the answer: the caller's own, or the Lineage-Id where it chose none.
    #[arg(long, conflicts_with = "lineage")]
    request_id: Option<String>,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<u8> {
    let named = args.lineage.as_deref();
    let wanted = named.or(args.request_id.as_deref()).and_then(|text| text.parse::<LineageId>().ok());
    if named.is_some() && wanted.is_none() {
        return Err(anyhow!("{} is not a Lineage-Id", named.unwrap_or_default()));
    }
    let mut found = 0_u64;
    each_stored(&args.source, &mut |seen| {
        let Some((record, _)) = seen.record() else { return };
        let by_id = wanted == Some(record.id);
        let Ok(facts) = Facts::read(&record) else { return };
        let by_request = args.request_id.is_some() && facts.request_id == args.request_id;
        if facts.kind == "request" && (by_id || by_request) {
            found += 1;
            say(&explained(record.id, &facts));
        }
    })?;
    if found == 0 {
        complain("signet cache explain: there is no such record here");
        return Ok(exit::FAILURE);
    }
    Ok(exit::OK)
}

fn explained(id: LineageId, facts: &Facts) -> String {
    let mut lines = vec![id.to_string()];
    let mut line = |name: &str, value: &str| lines.push(format!("  {name:<11} {value}"));
    line("asked", &format!("{} for {} at {}, status {}", facts.route, facts.model, facts.at(), facts.status));
    line("decision", &facts.cache.decision);
    line("because", &because(&facts.cache));
    let shown = |value: Option<u64>| value.map(|e6| format!("{}.{:06}", e6 / 1_000_000, e6 % 1_000_000));
    for (name, value) in [
        ("similarity", shown(facts.cache.score_e6)),
        ("floor", shown(facts.cache.floor_e6)),
        ("encoder", facts.cache.encoder.clone()),
        ("age", facts.cache.age_ms.map(|ms| format!("{}.{:03} s", ms / 1000, ms % 1000))),
        ("request", facts.request_id.clone()),
    ] {
        if let Some(value) = value {
            line(name, &value);
        }
    }
    for parent in &facts.parents {
        line(&parent.rel.replace('_', " "), &parent.id.to_string());
    }
    lines.join("\n") + "\n"
}

/// The decision in words. What was decided first ended it, so one reason is all there is.
fn because(cache: &CacheFacts) -> String {
    match (cache.tier.as_deref(), cache.refused_by.as_deref(), cache.ineligible.as_deref()) {
        (Some("exact"), ..) => "the same request was answered before".to_owned(),
        (Some("same-words"), ..) => {
            "a stored question says the same in the same words, and every gate agreed".to_owned()
        }
        (Some(tier), ..) => format!("a stored question is near enough ({tier}), and every gate agreed"),
        (None, Some(gate), _) => format!("the nearest stored question was refused by the gate `{gate}`"),
        (None, None, Some(reason)) => format!("no rephrased question may serve it: `{reason}`"),
        (None, None, None) => match cache.decision.as_str() {
            "miss" => "nothing stored was near enough".to_owned(),
            "coalesced" => "the same question was on its way already".to_owned(),
            "bypass" | "refresh" => "the caller wanted a fresh answer".to_owned(),
            _ => "the cache was not asked".to_owned(),
        },
    }
}
