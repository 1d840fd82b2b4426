//! Keyrings in Postgres: one a version, never replaced.

use super::{PgStore, unnamed};
use crate::fault::to_i64;
use async_trait::async_trait;
use signet_lineage::{KeyringStore, ShipFault};
use sqlx::Row as _;

const PUBLISH: &str = "INSERT INTO keyring (version, envelope) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const FIND: &str = "SELECT envelope FROM keyring WHERE version > $1 ORDER BY version DESC LIMIT $2";

#[async_trait]
impl KeyringStore for PgStore {
    async fn publish(&self, version: u64, envelope: &[u8]) -> Result<bool, ShipFault> {
        let envelope = envelope.to_vec();
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let put = unnamed(PUBLISH).bind(to_i64(version)?).bind(envelope);
                Ok(put.execute(conn).await?.rows_affected() > 0)
            })
        });
        Ok(work.await?)
    }

    async fn keyrings(&self, above: u64, limit: u32) -> Result<Vec<Vec<u8>>, ShipFault> {
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let rows = unnamed(FIND).bind(to_i64(above)?).bind(i64::from(limit)).fetch_all(conn).await?;
                Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
            })
        });
        Ok(work.await?)
    }
}
