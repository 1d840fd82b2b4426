//! `signet lineage show` and `children`: one record, and everyone who was served from it.

use super::super::facts::Facts;
use super::super::out::{complain, say};
use super::export::text_of;
use super::source::{Source, each_stored};
use crate::exit;
use anyhow::{Result, anyhow};
use clap::Args;
use signet_lineage::verify::write_line;
use signet_types::LineageId;

#[derive(Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    source: Source,
    /// The Lineage-Id.
    id: String,
}

pub(super) fn show(args: &ShowArgs) -> Result<u8> {
    let id: LineageId = args.id.parse().map_err(|_| anyhow!("{:?} is not a Lineage-Id", args.id))?;
    let mut found = None;
    each_stored(&args.source, &mut |seen| {
        if let Some((record, beside)) = seen.record()
            && record.id == id
        {
            found = Some((record, beside));
        }
    })?;
    let Some((record, beside)) = found else {
        complain(&format!("signet lineage show: there is no record {id}"));
        return Ok(exit::FAILURE);
    };
    say(&format!("{}\n", text_of(write_line(&record, &beside))?));
    if beside.erased {
        complain("signet lineage show: its payload was erased; this is what is left");
    } else {
        say(&format!("{}\n", text_of(record.payload.to_vec())?));
    }
    Ok(exit::OK)
}

/// Everyone who was served from an answer, wherever it stands in a chain: a hit on an entry that another record filled.
pub(super) fn children(args: &ShowArgs) -> Result<u8> {
    let id: LineageId = args.id.parse().map_err(|_| anyhow!("{:?} is not a Lineage-Id", args.id))?;
    let mut found = 0_u64;
    each_stored(&args.source, &mut |seen| {
        let Some((record, _)) = seen.record() else { return };
        let Ok(facts) = Facts::read(&record) else { return };
        for parent in facts.parents.iter().filter(|parent| parent.id == id) {
            found += 1;
            let tenant = facts.tenant.as_deref().unwrap_or("-");
            say(&format!("{} {} {} tenant {tenant} status {}\n", record.id, parent.rel, facts.at(), facts.status));
        }
    })?;
    complain(&format!("{found} answers were served from {id}"));
    Ok(exit::OK)
}
