//! One file a subcommand.

pub(crate) mod admin;
pub(crate) mod cache;
pub(crate) mod config;
pub(crate) mod explain;
mod facts;
pub(crate) mod lineage;
pub(crate) mod model;
pub(crate) mod out;
pub(crate) mod progress;
pub(crate) mod purge;
pub(crate) mod sample;
