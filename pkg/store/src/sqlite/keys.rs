//! The tenant secret and tenant keys in SQLite: the first writer wins.

use super::SqliteStore;
use crate::fault::{Fault, to_array, to_epoch};
use async_trait::async_trait;
use signet_cache::{KeyStore, StoreFault};
use signet_types::TenantId;
use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

const OFFER_SECRET: &str = "INSERT INTO signet_secret (one, secret) VALUES (1, $1) ON CONFLICT DO NOTHING";
const OFFER_KEY: &str = "\
INSERT INTO tenant_key (tenant, epoch, wrapped)
SELECT $1, COALESCE((SELECT MAX(epoch) FROM tenant_key WHERE tenant = $1), 0) + 1, $2
WHERE NOT EXISTS (SELECT 1 FROM tenant_key WHERE tenant = $1 AND length(wrapped) > 0)";
// The row stays, without the key, so that its epoch is not used again; secure_delete overwrites what it held.
const ERASE: &str = "UPDATE tenant_key SET wrapped = X'' WHERE tenant = $1 AND length(wrapped) > 0";

#[async_trait]
impl KeyStore for SqliteStore {
    async fn secret_or_insert(&self, candidate: [u8; 32]) -> Result<[u8; 32], StoreFault> {
        let work = self.write(move |conn| Box::pin(async move { secret(conn, candidate).await }));
        Ok(work.await?)
    }

    async fn tenant_key_or_insert(&self, tenant: TenantId, wrapped: &[u8]) -> Result<(u32, Vec<u8>), StoreFault> {
        let wrapped = wrapped.to_vec();
        let work = self.write(move |conn| Box::pin(async move { newest_key(conn, tenant, wrapped).await }));
        Ok(work.await?)
    }

    async fn tenant_key(&self, tenant: TenantId, epoch: u32) -> Result<Option<Vec<u8>>, StoreFault> {
        let ask = "SELECT wrapped FROM tenant_key WHERE tenant = $1 AND epoch = $2 AND length(wrapped) > 0";
        let work = self.read(move |conn| {
            Box::pin(async move {
                let ask = sqlx::query(ask).bind(tenant.as_bytes().to_vec()).bind(i64::from(epoch));
                Ok(ask.fetch_optional(conn).await?.map(|row| row.try_get(0)).transpose()?)
            })
        });
        Ok(work.await?)
    }

    async fn erase_tenant(&self, tenant: TenantId) -> Result<u64, StoreFault> {
        let work = self.write(move |conn| {
            Box::pin(async move {
                // Or the key would stay readable in a free part of a page.
                sqlx::query("PRAGMA secure_delete = ON").execute(&mut *conn).await?;
                Ok(sqlx::query(ERASE).bind(tenant.as_bytes().to_vec()).execute(conn).await?.rows_affected())
            })
        });
        Ok(work.await?)
    }
}

async fn secret(conn: &mut SqliteConnection, candidate: [u8; 32]) -> Result<[u8; 32], Fault> {
    sqlx::query(OFFER_SECRET).bind(candidate.to_vec()).execute(&mut *conn).await?;
    let row = sqlx::query("SELECT secret FROM signet_secret").fetch_one(conn).await?;
    to_array("secret", row.try_get(0)?)
}

async fn newest_key(conn: &mut SqliteConnection, tenant: TenantId, wrapped: Vec<u8>) -> Result<(u32, Vec<u8>), Fault> {
    let tenant = tenant.as_bytes().to_vec();
    sqlx::query(OFFER_KEY).bind(tenant.clone()).bind(wrapped).execute(&mut *conn).await?;
    let ask = "SELECT epoch, wrapped FROM tenant_key WHERE tenant = $1 ORDER BY epoch DESC LIMIT 1";
    let row = sqlx::query(ask).bind(tenant).fetch_one(conn).await?;
    Ok((to_epoch(row.try_get(0)?)?, row.try_get(1)?))
}
