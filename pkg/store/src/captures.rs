//! Sealed bodies, in the same words for both databases.
//!
//! A row may still be on its way when it is erased, here or on another replica, so what was erased stays written down and is not
//! added later. In Postgres an insert may have begun before that was visible and end behind the removal: the next sweep takes it.

pub(crate) const PUT: &str = "\
INSERT INTO capture (id, tenant, at_ms, sealed)
SELECT $1, $2, $3, $4 WHERE NOT EXISTS (SELECT 1 FROM capture_erased WHERE what IN ($1, $2) AND until_ms >= $3)
ON CONFLICT (id) DO NOTHING";
pub(crate) const GET: &str = "SELECT sealed FROM capture WHERE id = $1";
pub(crate) const PAGE: &str = "SELECT id, sealed FROM capture WHERE id > $1 ORDER BY id LIMIT $2";
pub(crate) const ERASED: &str = "\
INSERT INTO capture_erased (what, until_ms) VALUES ($1, $2)
ON CONFLICT (what) DO UPDATE SET until_ms = excluded.until_ms WHERE capture_erased.until_ms < excluded.until_ms";
pub(crate) const ERASE: &str = "DELETE FROM capture WHERE (id = $1 OR tenant = $1) AND at_ms <= $2";
pub(crate) const SWEEP: &str = "\
DELETE FROM capture WHERE at_ms < $1
    OR EXISTS (SELECT 1 FROM capture_erased WHERE what IN (capture.id, capture.tenant) AND until_ms >= capture.at_ms)";

/// The port for a store, its connection, how it reads and writes, and how it makes a statement.
macro_rules! captures {
    ($store:ty, $conn:ty, $read:ident, $write:ident, $query:path) => {
        #[async_trait::async_trait]
        impl signet_lineage::CaptureStore for $store {
            async fn put_captures(&self, rows: &[Arc<CaptureRow>]) -> Result<(), ShipFault> {
                let rows = rows.to_vec();
                Ok(self.$write(move |conn| Box::pin(async move { put(conn, &rows).await })).await?)
            }

            async fn capture(&self, id: LineageId) -> Result<Option<Vec<u8>>, ShipFault> {
                let work = self.$read(move |conn| {
                    Box::pin(async move {
                        let row = $query(captures::GET).bind(id.as_uuid()).fetch_optional(conn).await?;
                        Ok(row.map(|row| row.try_get(0)).transpose()?)
                    })
                });
                Ok(work.await?)
            }

            async fn captures(
                &self,
                after: Option<LineageId>,
                limit: u32,
            ) -> Result<Vec<(LineageId, Vec<u8>)>, ShipFault> {
                let after = after.map_or_else(uuid::Uuid::nil, |id| id.as_uuid());
                let work = self.$read(move |conn| {
                    Box::pin(async move {
                        let page = $query(captures::PAGE).bind(after).bind(i64::from(limit)).fetch_all(conn).await?;
                        page.iter()
                            .map(|row| {
                                let id: uuid::Uuid = row.try_get(0)?;
                                Ok((LineageId::from_bytes(id.into_bytes()), row.try_get(1)?))
                            })
                            .collect()
                    })
                });
                Ok(work.await?)
            }

            async fn erase_captures(&self, of: [u8; 16], until_ms: u64) -> Result<u64, ShipFault> {
                let (of, until_ms) = (uuid::Uuid::from_bytes(of), to_i64(until_ms)?);
                let work = self.$write(move |conn| {
                    Box::pin(async move {
                        $query(captures::ERASED).bind(of).bind(until_ms).execute(&mut *conn).await?;
                        Ok($query(captures::ERASE).bind(of).bind(until_ms).execute(conn).await?.rows_affected())
                    })
                });
                Ok(work.await?)
            }

            async fn sweep_captures(&self, before_ms: u64) -> Result<u64, ShipFault> {
                let before_ms = to_i64(before_ms)?;
                let work = self.$write(move |conn| {
                    Box::pin(
                        async move { Ok($query(captures::SWEEP).bind(before_ms).execute(conn).await?.rows_affected()) },
                    )
                });
                Ok(work.await?)
            }
        }

        async fn put(conn: &mut $conn, rows: &[Arc<CaptureRow>]) -> Result<(), Fault> {
            for row in rows {
                $query(captures::PUT)
                    .bind(row.id.as_uuid())
                    .bind(uuid::Uuid::from_bytes(*row.tenant.as_bytes()))
                    .bind(to_i64(row.at_ms)?)
                    .bind(row.sealed.as_slice())
                    .execute(&mut *conn)
                    .await?;
            }
            Ok(())
        }
    };
}

pub(crate) use captures;
