//! `signet lineage prune`: old records are dropped now, by the admin API of a running gateway, and not within the hour.

use super::super::admin::AdminArgs;
use super::super::out::{complain, say};
use crate::exit;
use anyhow::Result;

pub(super) fn prune(admin: &AdminArgs) -> Result<u8> {
    let (status, body) = admin.ask("POST", "/admin/v1/lineage/prune", b"")?;
    if status == 200 {
        say(&format!("{body}\n"));
        return Ok(exit::OK);
    }
    complain(&format!("signet lineage prune: the gateway says {status}: {}", body.trim()));
    Ok(exit::FAILURE)
}
