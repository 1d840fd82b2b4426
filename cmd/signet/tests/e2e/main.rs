//! The real gateway from outside: processes, sockets, a scripted provider, real Redis and Postgres.
//!
//! `deploy/services.sh start --dir DIR --fast` starts the services; export `DIR/services.env`.

mod cache_http;
mod cache_key;
mod canned;
mod client;
mod flights;
mod gateway;
mod keeper;
mod lineage;
mod replay;
mod semantic;
mod streams;
