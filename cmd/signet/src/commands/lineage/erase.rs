//! `signet lineage erase`: the payload of one record is removed, by the admin API of a running gateway.

use super::super::admin::AdminArgs;
use super::super::out::{complain, say};
use crate::exit;
use anyhow::Result;
use clap::Args;
use signet_types::LineageId;

#[derive(Args)]
pub(crate) struct EraseArgs {
    /// The record: the Lineage-Id of an answer.
    id: LineageId,
    /// Why, in a few words; it is signed, and stays for good.
    #[arg(long)]
    basis: String,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) fn erase(args: &EraseArgs) -> Result<u8> {
    let order = serde_json::to_vec(&serde_json::json!({ "basis": args.basis }))?;
    let (status, body) = args.admin.ask("DELETE", &format!("/admin/v1/lineage/{}/payload", args.id), &order)?;
    if status == 200 {
        say(&format!("{body}\n"));
        return Ok(exit::OK);
    }
    complain(&format!("signet lineage erase: the gateway says {status}: {}", body.trim()));
    Ok(if status == 400 { exit::USAGE } else { exit::FAILURE })
}
