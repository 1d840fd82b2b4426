//! The real gateway from outside: processes, sockets, a scripted provider, real Redis and Postgres.
//!
//! `deploy/services.sh start --dir DIR --fast` starts the services; export `DIR/services.env`.

mod access;
mod aside;
mod bad_input;
mod cache_eval;
mod cache_http;
mod cache_key;
mod canned;
mod capture;
mod client;
mod connections;
mod crash;
mod drill;
mod erase;
mod flights;
mod gaps;
mod gateway;
mod headers;
mod hostile;
mod judge;
mod keeper;
mod keyring;
mod keys;
mod large;
mod limits;
mod lineage;
mod model;
mod pgvector;
mod postgres;
mod process;
mod providers;
mod prune;
mod questions;
mod receipts;
mod recovery;
mod redis;
mod regression;
mod replay;
mod second;
mod semantic;
mod stack;
mod streams;
mod strict;
mod tree;
mod trust;
