//! The tenant secret and tenant keys in Postgres: the first writer wins.

use super::{PgStore, unnamed};
use crate::fault::{Fault, to_array, to_epoch};
use async_trait::async_trait;
use signet_cache::{KeyStore, StoreFault};
use signet_types::TenantId;
use sqlx::Row as _;
use sqlx::postgres::PgConnection;

// Two statements, because the second sees what a concurrent winner of the first has committed; one would not.
const OFFER_SECRET: &str = "INSERT INTO signet_secret (secret) VALUES ($1) ON CONFLICT DO NOTHING";
const OFFER_KEY: &str = "\
INSERT INTO tenant_key (tenant, epoch, wrapped)
SELECT $1, COALESCE((SELECT MAX(epoch) FROM tenant_key WHERE tenant = $1), 0) + 1, $2
WHERE NOT EXISTS (SELECT 1 FROM tenant_key WHERE tenant = $1 AND length(wrapped) > 0) ON CONFLICT DO NOTHING";
// The row stays, without the key, so that its epoch is not used again.
const ERASE: &str = "UPDATE tenant_key SET wrapped = '' WHERE tenant = $1 AND length(wrapped) > 0";

#[async_trait]
impl KeyStore for PgStore {
    async fn secret_or_insert(&self, candidate: [u8; 32]) -> Result<[u8; 32], StoreFault> {
        let work = self.transact(move |conn| Box::pin(async move { secret(conn, candidate).await }));
        Ok(work.await?)
    }

    async fn tenant_key_or_insert(&self, tenant: TenantId, wrapped: &[u8]) -> Result<(u32, Vec<u8>), StoreFault> {
        let wrapped = wrapped.to_vec();
        let work = self.transact(move |conn| Box::pin(async move { newest_key(conn, tenant, &wrapped).await }));
        Ok(work.await?)
    }

    async fn tenant_key(&self, tenant: TenantId, epoch: u32) -> Result<Option<Vec<u8>>, StoreFault> {
        let ask = "SELECT wrapped FROM tenant_key WHERE tenant = $1 AND epoch = $2 AND length(wrapped) > 0";
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let ask = unnamed(ask).bind(tenant.as_bytes().to_vec()).bind(i64::from(epoch));
                Ok(ask.fetch_optional(conn).await?.map(|row| row.try_get(0)).transpose()?)
            })
        });
        Ok(work.await?)
    }

    async fn erase_tenant(&self, tenant: TenantId) -> Result<u64, StoreFault> {
        let work = self.transact(move |conn| {
            Box::pin(
                async move { Ok(unnamed(ERASE).bind(tenant.as_bytes().to_vec()).execute(conn).await?.rows_affected()) },
            )
        });
        Ok(work.await?)
    }
}

async fn secret(conn: &mut PgConnection, candidate: [u8; 32]) -> Result<[u8; 32], Fault> {
    unnamed(OFFER_SECRET).bind(candidate.to_vec()).execute(&mut *conn).await?;
    let row = unnamed("SELECT secret FROM signet_secret").fetch_one(conn).await?;
    to_array("secret", row.try_get(0)?)
}

async fn newest_key(conn: &mut PgConnection, tenant: TenantId, wrapped: &[u8]) -> Result<(u32, Vec<u8>), Fault> {
    let tenant = tenant.as_bytes().as_slice();
    unnamed(OFFER_KEY).bind(tenant).bind(wrapped).execute(&mut *conn).await?;
    let ask = "SELECT epoch, wrapped FROM tenant_key WHERE tenant = $1 ORDER BY epoch DESC LIMIT 1";
    let row = unnamed(ask).bind(tenant).fetch_one(conn).await?;
    Ok((to_epoch(row.try_get(0)?)?, row.try_get(1)?))
}
