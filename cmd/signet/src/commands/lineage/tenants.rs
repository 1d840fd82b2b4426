//! The tenant keys of a data folder, for who audits where they are at hand.

use super::super::out::say;
use super::reconcile::{KeyName, Usage};
use super::source::{Source, open};
use anyhow::{Context, Result, anyhow};
use signet_cache::Keyring;
use signet_lineage::TenantKey;
use std::collections::BTreeMap;
use std::fs;

/// The keys under which the records name their requests at a provider; none if that says nothing of its own, or the folder holds
/// neither secret nor keys. Those that were destroyed are left out.
pub(super) fn tenant_keys(source: &Source, usage: &Usage) -> Result<Option<BTreeMap<KeyName, TenantKey>>> {
    if !usage.has_ids() {
        return Ok(None);
    }
    let file = source.folder().join("tenant.secret");
    if !file.exists() || !source.has_database() {
        say("not checked: request ids, without the tenant keys of a data folder and its database\n");
        return Ok(None);
    }
    let secret = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let secret = secret.try_into().map_err(|_| anyhow!("{} is damaged", file.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Some(stores) = open(&runtime, source)? else { return Ok(None) };
    let ring = Keyring::new(stores.keys.clone(), secret);
    let mut keys = BTreeMap::new();
    for (tenant, epoch) in usage.wanted() {
        let found = runtime.block_on(ring.fetch(tenant, epoch)).context("reading the tenant keys")?;
        keys.extend(found.map(|found| ((tenant, epoch), found.proof.clone())));
    }
    Ok(Some(keys))
}
