//! Labels of semantic decisions in SQLite.

use super::SqliteStore;
use super::read::to_labels;
use crate::fault::{Fault, to_i64};
use crate::readers::{finding_columns, label_columns};
use async_trait::async_trait;
use signet_cache::{LabelRow, LabelStore, StoreFault};
use sqlx::sqlite::SqliteConnection;

const ADD: &str = "\
INSERT INTO semantic_label (of, model, encoder, generation, verdict, evidence, score_e6, weight_e6, at_ms)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE NOT EXISTS (SELECT 1 FROM semantic_label WHERE of = $1)";
const FORGET: &str = "\
DELETE FROM semantic_label WHERE model = $1 AND encoder = $2 AND generation = $3 AND verdict = $4 AND appeared <= (
    SELECT appeared FROM semantic_label WHERE model = $1 AND encoder = $2 AND generation = $3 AND verdict = $4
    ORDER BY appeared DESC LIMIT 1 OFFSET $5)";

const SINCE: &str =
    concat!("SELECT ", label_columns!(), " FROM semantic_label WHERE appeared > $1 ORDER BY appeared LIMIT $2");

#[async_trait]
impl LabelStore for SqliteStore {
    async fn add(&self, rows: &[LabelRow], keep: u32) -> Result<(), StoreFault> {
        let rows = rows.to_vec();
        let work = self.write(move |conn| Box::pin(async move { add(conn, &rows, keep).await }));
        Ok(work.await?)
    }

    async fn labels(&self, cursor: u64, limit: u32) -> Result<(Vec<LabelRow>, u64), StoreFault> {
        let after = to_i64(cursor)?;
        let work = self.read(move |conn| {
            Box::pin(async move {
                let rows = sqlx::query(SINCE).bind(after).bind(i64::from(limit)).fetch_all(conn).await?;
                to_labels(&rows, cursor)
            })
        });
        Ok(work.await?)
    }
}

async fn add(conn: &mut SqliteConnection, rows: &[LabelRow], keep: u32) -> Result<(), Fault> {
    for row in rows {
        let (verdict, evidence, score, weight) = finding_columns(&row.finding);
        let (route, generation) = (&row.route, to_i64(row.route.generation)?);
        sqlx::query(ADD)
            .bind(row.of.as_uuid())
            .bind(route.model.as_str())
            .bind(route.encoder.as_str())
            .bind(generation)
            .bind(verdict)
            .bind(evidence)
            .bind(score)
            .bind(weight)
            .bind(to_i64(row.at_ms)?)
            .execute(&mut *conn)
            .await?;
        sqlx::query(FORGET)
            .bind(route.model.as_str())
            .bind(route.encoder.as_str())
            .bind(generation)
            .bind(verdict)
            .bind(i64::from(keep))
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}
