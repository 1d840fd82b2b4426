//! Checkpoints and tiles in Postgres.

use super::rows::leaves;
use super::{PgStore, unnamed};
use crate::fault::{Fault, to_epoch, to_i64, to_u64};
use crate::fence;
use async_trait::async_trait;
use signet_lineage::tlog::Tile;
use signet_lineage::{TreeFault, TreeHead, TreeStore};
use signet_types::LogId;
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use std::ops::Range;

const OWNER: &str = "SELECT epoch FROM lineage_log WHERE log_id = $1 FOR UPDATE";
const NEWEST: &str = "SELECT size, note FROM lineage_checkpoint WHERE log_id = $1 ORDER BY size DESC LIMIT 1";
const SAME: &str = "SELECT root FROM lineage_checkpoint WHERE log_id = $1 AND size = $2";
const ADD: &str = "INSERT INTO lineage_checkpoint (log_id, size, root, note) VALUES ($1, $2, $3, $4)";
const PUT_TILE: &str = "\
INSERT INTO lineage_tile (log_id, level, idx, hashes) VALUES ($1, $2, $3, $4)
ON CONFLICT (log_id, level, idx) DO UPDATE SET hashes = excluded.hashes
WHERE length(lineage_tile.hashes) < length(excluded.hashes)";
const TILE: &str = "SELECT hashes FROM lineage_tile WHERE log_id = $1 AND level = $2 AND idx = $3";
const ENDS: &str = "SELECT level, max(idx) FROM lineage_tile WHERE log_id = $1 GROUP BY level ORDER BY level";
#[async_trait]
impl TreeStore for PgStore {
    async fn put_checkpoint(&self, log: LogId, epoch: u32, head: &TreeHead, note: &str) -> Result<(), TreeFault> {
        let (head, note) = (*head, note.to_owned());
        Ok(self.transact(move |conn| Box::pin(async move { put(conn, log, epoch, head, note).await })).await?)
    }

    async fn newest_checkpoint(&self, log: LogId) -> Result<Option<String>, TreeFault> {
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let row = unnamed(NEWEST).bind(log.as_uuid()).fetch_optional(conn).await?;
                Ok(row.map(|row| row.try_get(1)).transpose()?)
            })
        });
        Ok(work.await?)
    }

    async fn put_tiles(&self, log: LogId, tiles: &[(Tile, Vec<u8>)]) -> Result<(), TreeFault> {
        let tiles = tiles.to_vec();
        let work = self.transact(move |conn| {
            Box::pin(async move {
                for (tile, hashes) in tiles {
                    let put =
                        unnamed(PUT_TILE).bind(log.as_uuid()).bind(i16::from(tile.level)).bind(to_i64(tile.index)?);
                    put.bind(hashes).execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        Ok(work.await?)
    }

    async fn tile(&self, log: LogId, level: u8, index: u64) -> Result<Option<Vec<u8>>, TreeFault> {
        let index = to_i64(index)?;
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let ask = unnamed(TILE).bind(log.as_uuid()).bind(i16::from(level)).bind(index);
                Ok(ask.fetch_optional(conn).await?.map(|row| row.try_get(0)).transpose()?)
            })
        });
        Ok(work.await?)
    }

    async fn tile_ends(&self, log: LogId) -> Result<Vec<(u8, u64)>, TreeFault> {
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let rows = unnamed(ENDS).bind(log.as_uuid()).fetch_all(conn).await?;
                let level = |n: i16| u8::try_from(n).map_err(|_| Fault::Corrupt(format!("{n} is no level")));
                rows.iter().map(|row| Ok((level(row.try_get(0)?)?, to_u64(row.try_get(1)?)?))).collect()
            })
        });
        Ok(work.await?)
    }

    async fn leaf_hashes(&self, log: LogId, from: u64, limit: u32) -> Result<Vec<[u8; 32]>, TreeFault> {
        let end = from.saturating_add(u64::from(limit));
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let mut found = Vec::new();
                loop {
                    let (before, at) = (found.len(), from + found.len() as u64);
                    let stored = leaves(conn, log, at, to_i64(end - at)?).await?;
                    let unbroken = stored.into_iter().zip(at..).take_while(|((seq, _), place)| seq == place);
                    found.extend(unbroken.map(|((_, leaf), _)| leaf));
                    while add_dropped(conn, log, from..end, &mut found).await? {}
                    if found.len() == before || from + found.len() as u64 == end {
                        return Ok(found);
                    }
                }
            })
        });
        Ok(work.await?)
    }
}

/// Adds leaf hashes of records that were dropped; whether there were any.
async fn add_dropped(
    conn: &mut PgConnection,
    log: LogId,
    of: Range<u64>,
    found: &mut Vec<[u8; 32]>,
) -> Result<bool, Fault> {
    let at = of.start + found.len() as u64;
    if at >= of.end {
        return Ok(false);
    }
    let ask = unnamed(TILE).bind(log.as_uuid()).bind(0_i16).bind(to_i64(at / 256)?);
    let Some(row) = ask.fetch_optional(conn).await? else { return Ok(false) };
    Ok(fence::add_from_tile(row.try_get(0)?, at..of.end, found))
}

async fn put(conn: &mut PgConnection, log: LogId, epoch: u32, head: TreeHead, note: String) -> Result<(), Fault> {
    let owner = unnamed(OWNER).bind(log.as_uuid()).fetch_optional(&mut *conn).await?;
    let owner = owner.map(|row| to_epoch(row.try_get(0)?)).transpose()?;
    let newest = unnamed(NEWEST).bind(log.as_uuid()).fetch_optional(&mut *conn).await?;
    let newest = newest.map(|row| to_u64(row.try_get(0)?)).transpose()?;
    let size = to_i64(head.size)?;
    let same = unnamed(SAME).bind(log.as_uuid()).bind(size).fetch_optional(&mut *conn).await?;
    let same: Option<Vec<u8>> = same.map(|row| row.try_get(0)).transpose()?;
    if fence::may_publish(epoch, owner, &head, newest, same.as_deref())? {
        let add = unnamed(ADD).bind(log.as_uuid()).bind(size).bind(head.root.to_vec()).bind(note);
        add.execute(conn).await?;
    }
    Ok(())
}
