//! One file a subcommand.

pub(crate) mod config;
pub(crate) mod lineage;
pub(crate) mod out;
