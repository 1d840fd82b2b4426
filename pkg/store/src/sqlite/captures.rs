//! Sealed bodies in SQLite.

use super::SqliteStore;
use crate::captures;
use crate::fault::{Fault, to_i64};
use signet_lineage::{CaptureRow, ShipFault};
use signet_types::LineageId;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;
use std::sync::Arc;

captures::captures!(SqliteStore, SqliteConnection, read, write, sqlx::query);
