//! `signet lineage keys`.

use super::super::out::say;
use super::source::Source;
use crate::exit;
use anyhow::{Context, Result};
use signet_lineage::Signer;
use std::fs;

pub(super) fn keys(source: &Source) -> Result<u8> {
    let file = source.folder().join("lineage.key");
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let signer = Signer::from_pkcs8(&bytes).with_context(|| format!("reading the key in {}", file.display()))?;
    say(&signer.public_key().to_pem());
    Ok(exit::OK)
}
