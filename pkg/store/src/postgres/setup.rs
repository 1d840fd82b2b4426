//! Making the vector index, apart from the migrations: a deployment without pgvector must go on migrating.

use super::{CONNECT_LIMIT, MIGRATE_LIMIT, unnamed};
use crate::fault::Fault;
use signet_cache::StoreFault;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Row as _};
use tokio::time::timeout;

/// The version that brought the iterative scan.
const NEEDED: (u32, u32) = (0, 8);
const SCHEMA: &str = include_str!("../../../../migrations/postgres/semantic_vector.sql");
/// What a finished [`SCHEMA`] says of itself.
const MADE: &str = "signet 1";
// Replicas that start at once wait for each other; two CREATE .. IF NOT EXISTS at once can fail.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(7310029, 5)";

/// Why there is no vector index.
#[derive(Debug, thiserror::Error)]
pub enum UnusableIndex {
    /// Not now; later it may be.
    #[error(transparent)]
    Away(#[from] StoreFault),
    /// The server does not have the extension.
    #[error(
        "this Postgres has no pgvector. Install pgvector 0.8 or later on the server (a package named like postgresql-18-pgvector), \
         or set semantic.backend = \"memory\". The server says: {0}"
    )]
    Missing(String),
    /// The extension is too old.
    #[error(
        "pgvector here is of version {0}, and 0.8 or later is needed. Install it and run ALTER EXTENSION vector UPDATE, or set \
         semantic.backend = \"memory\""
    )]
    Old(String),
    /// The role may not make what is needed.
    #[error(
        "the role of store.url may not make the vector index. Run CREATE EXTENSION vector as a superuser in this database and \
         give the role CREATE on its schema, or set store.direct_url_env to a role that may, or set semantic.backend = \
         \"memory\". The server says: {0}"
    )]
    NotPermitted(String),
}

/// On a connection of its own, as for migrations.
pub(super) async fn run(options: PgConnectOptions) -> Result<(), UnusableIndex> {
    let connect = timeout(CONNECT_LIMIT, PgConnection::connect_with(&options)).await;
    let away = |fault: Fault| UnusableIndex::Away(fault.into());
    let mut conn = connect
        .map_err(|_| away(Fault::Late(CONNECT_LIMIT)))?
        .map_err(|error| away(Fault::NoConnection(error.to_string())))?;
    let done = timeout(MIGRATE_LIMIT, make(&mut conn)).await;
    let _ = timeout(CONNECT_LIMIT, conn.close()).await;
    done.map_err(|_| away(Fault::Late(MIGRATE_LIMIT)))?
}

async fn make(conn: &mut PgConnection) -> Result<(), UnusableIndex> {
    let mut tx = conn.begin().await.map_err(explained)?;
    unnamed(ONE_AT_A_TIME).execute(&mut *tx).await.map_err(explained)?;
    unnamed("CREATE EXTENSION IF NOT EXISTS vector").execute(&mut *tx).await.map_err(explained)?;
    let ask = unnamed("SELECT extversion FROM pg_extension WHERE extname = 'vector'");
    let version: String = ask.fetch_one(&mut *tx).await.and_then(|row| row.try_get(0)).map_err(explained)?;
    if !is_new_enough(&version) {
        return Err(UnusableIndex::Old(version));
    }
    // Only where it is not there: a role without a right to the schema may use what another has made.
    let ask = unnamed("SELECT obj_description(to_regclass('semantic_vector'), 'pg_class')");
    let made: Option<String> = ask.fetch_one(&mut *tx).await.and_then(|row| row.try_get(0)).map_err(explained)?;
    if made.as_deref() != Some(MADE) {
        sqlx::raw_sql(SCHEMA).execute(&mut *tx).await.map_err(explained)?;
    }
    tx.commit().await.map_err(explained)
}

fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= NEEDED
}

/// SQLSTATE to what the operator can do.
fn explained(error: sqlx::Error) -> UnusableIndex {
    let code = match &error {
        sqlx::Error::Database(database) => database.code().map(std::borrow::Cow::into_owned),
        _ => None,
    };
    match code.as_deref() {
        // feature_not_supported: "extension \"vector\" is not available"; undefined_file: up to Postgres 14.
        Some("0A000" | "58P01") => UnusableIndex::Missing(error.to_string()),
        // insufficient_privilege; invalid_schema_name where there is no schema to create in.
        Some("42501" | "3F000") => UnusableIndex::NotPermitted(error.to_string()),
        _ => UnusableIndex::Away(Fault::from(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_says_what_is_looked_for() {
        assert!(SCHEMA.ends_with(&format!("COMMENT ON TABLE semantic_vector IS '{MADE}';\n")));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for good in ["0.8.0", "0.8", "0.10.1", "1.0", "1"] {
            assert!(is_new_enough(good), "{good}");
        }
        for bad in ["0.7.4", "0.5", "", "x", "0"] {
            assert!(!is_new_enough(bad), "{bad}");
        }
    }
}
