//! `signet cache purge` and `signet cache erase`: stored answers are taken back, or a tenant's keys destroyed, by the admin
//! API of a running gateway, so that every replica knows.

use super::admin::AdminArgs;
use super::out::{complain, say};
use crate::exit;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use signet_types::TenantId;

#[derive(Args)]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    what: What,
}

#[derive(Args)]
pub(crate) struct EraseArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// The tenant, as records name it.
    #[arg(long)]
    tenant: TenantId,
}

/// Everything given has to fit. Nothing given is refused by the gateway unless `--all` is.
#[derive(Args, Serialize)]
struct What {
    /// The Lineage-Id of an answer: what it was served from, or what it filled.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// A tenant, as records name it.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// A model, as it was asked for.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// An X-Cache-Namespace.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// Only what was stored longer ago than this many seconds.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    older_than_s: Option<u64>,
    /// Everything.
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &PurgeArgs) -> Result<u8> {
    Ok(told("purge", &args.admin.ask("POST", "/admin/v1/cache/purge", &serde_json::to_vec(&args.what)?)?))
}

pub(crate) fn erase(args: &EraseArgs) -> Result<u8> {
    Ok(told("erase", &args.admin.ask("DELETE", &format!("/admin/v1/tenants/{}", args.tenant), b"")?))
}

fn told(name: &str, (status, body): &(u16, String)) -> u8 {
    if *status == 200 {
        say(&format!("{body}\n"));
        return exit::OK;
    }
    complain(&format!("signet cache {name}: the gateway says {status}: {}", body.trim()));
    if *status == 400 { exit::USAGE } else { exit::FAILURE }
}
