//! Sealed bodies in Postgres.

use super::{PgStore, unnamed};
use crate::captures;
use crate::fault::{Fault, to_i64};
use signet_lineage::{CaptureRow, ShipFault};
use signet_types::LineageId;
use sqlx::Row;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

captures::captures!(PgStore, PgConnection, transact, transact, unnamed);
