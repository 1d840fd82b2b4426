//! Labels of semantic decisions in SQLite.

use super::SqliteStore;
use super::read::{to_labels, to_mark};
use crate::fault::{Fault, to_i64};
use crate::readers::{finding_columns, label_columns, mark_columns};
use async_trait::async_trait;
use signet_cache::{LabelRow, LabelStore, Mark, RouteId, StoreFault};
use sqlx::sqlite::SqliteConnection;

const ADD: &str = "\
INSERT INTO semantic_label (of, model, encoder, generation, verdict, evidence, score_e6, weight_e6, at_ms, tier)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 WHERE NOT EXISTS (SELECT 1 FROM semantic_label WHERE of = $1)";
const MARK: &str = concat!(
    "INSERT INTO semantic_mark (",
    mark_columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (model, encoder, generation) DO UPDATE SET
        upto = excluded.upto, bound_e9 = excluded.bound_e9, sum_samples_e12 = excluded.sum_samples_e12,
        sum_all_e12 = excluded.sum_all_e12, samples_ago = excluded.samples_ago, all_ago = excluded.all_ago
    WHERE excluded.upto > semantic_mark.upto"
);
const MARKS: &str = concat!("SELECT ", mark_columns!(), " FROM semantic_mark");
const FORGET_BEFORE_RESET: &str = "\
DELETE FROM semantic_label WHERE model = $1 AND encoder = $2 AND generation = $3 AND appeared < (
    SELECT max(appeared) FROM semantic_label
    WHERE model = $1 AND encoder = $2 AND generation = $3 AND verdict = 'reset' AND appeared <= $4)";

/// Removes all but the newest $5 of the rows up to $4 whose evidence `$is` a complaint.
macro_rules! forget_all_but {
    ($is:literal) => {
        concat!(
            "DELETE FROM semantic_label WHERE model = $1 AND encoder = $2 AND generation = $3 AND evidence ",
            $is,
            " 'feedback' AND appeared <= (
                SELECT appeared FROM semantic_label WHERE model = $1 AND encoder = $2 AND generation = $3
                AND evidence ",
            $is,
            " 'feedback' AND appeared <= $4 ORDER BY appeared DESC LIMIT 1 OFFSET $5)"
        )
    };
}

const SINCE: &str =
    concat!("SELECT ", label_columns!(), " FROM semantic_label WHERE appeared > $1 ORDER BY appeared LIMIT $2");

#[async_trait]
impl LabelStore for SqliteStore {
    async fn add(&self, rows: &[LabelRow]) -> Result<(), StoreFault> {
        let rows = rows.to_vec();
        let work = self.write(move |conn| Box::pin(async move { add(conn, &rows).await }));
        Ok(work.await?)
    }

    async fn labels(&self, cursor: u64, limit: u32) -> Result<(Vec<(u64, LabelRow)>, u64), StoreFault> {
        let after = to_i64(cursor)?;
        let work = self.read(move |conn| {
            Box::pin(async move {
                let rows = sqlx::query(SINCE).bind(after).bind(i64::from(limit)).fetch_all(conn).await?;
                to_labels(&rows, cursor)
            })
        });
        Ok(work.await?)
    }

    async fn mark(&self, route: &RouteId, mark: &Mark, keep: u32) -> Result<(), StoreFault> {
        let (route, mark) = (route.clone(), *mark);
        let work = self.write(move |conn| Box::pin(async move { self::mark(conn, &route, &mark, keep).await }));
        Ok(work.await?)
    }

    async fn marks(&self) -> Result<Vec<(RouteId, Mark)>, StoreFault> {
        let work = self.read(|conn| {
            Box::pin(async move { sqlx::query(MARKS).fetch_all(conn).await?.iter().map(to_mark).collect() })
        });
        Ok(work.await?)
    }
}

async fn add(conn: &mut SqliteConnection, rows: &[LabelRow]) -> Result<(), Fault> {
    for row in rows {
        let (verdict, evidence, score, weight, tier) = finding_columns(&row.finding);
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
            .bind(tier)
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}

async fn mark(conn: &mut SqliteConnection, route: &RouteId, mark: &Mark, keep: u32) -> Result<(), Fault> {
    let (generation, upto) = (to_i64(route.generation)?, to_i64(mark.upto)?);
    let [samples_ago, all_ago] = mark.alarmed_ago;
    sqlx::query(MARK)
        .bind(route.model.as_str())
        .bind(route.encoder.as_str())
        .bind(generation)
        .bind(upto)
        .bind(to_i64(mark.bound_e9)?)
        .bind(mark.sums_e12[0])
        .bind(mark.sums_e12[1])
        .bind(samples_ago.map(to_i64).transpose()?)
        .bind(all_ago.map(to_i64).transpose()?)
        .execute(&mut *conn)
        .await?;
    let before_reset =
        sqlx::query(FORGET_BEFORE_RESET).bind(route.model.as_str()).bind(route.encoder.as_str()).bind(generation);
    before_reset.bind(upto).execute(&mut *conn).await?;
    for forget in [forget_all_but!("="), forget_all_but!("<>")] {
        let forget = sqlx::query(forget).bind(route.model.as_str()).bind(route.encoder.as_str()).bind(generation);
        forget.bind(upto).bind(i64::from(keep)).execute(&mut *conn).await?;
    }
    Ok(())
}
