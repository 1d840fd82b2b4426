//! The stores against real databases: the contract that both keep, and what only one of them can get wrong.

mod answers;
mod captures;
mod contract;
mod entries;
mod faults;
mod gaps;
mod judged;
mod keyrings;
mod keys;
mod labels;
mod notices;
mod postgres;
mod prune;
mod records;
mod roles;
mod size;
mod sqlite;
mod support;
mod trees;
mod vectors;
