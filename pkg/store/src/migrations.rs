//! The schema, carried in the binary.
//!
//! Migrations expand first and contract a release later, and a version this binary does not know is no fault: a previous
//! release still starts and serves against the newer schema.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use std::borrow::Cow;

fn migrator(files: &[(i64, &'static str, &'static str)]) -> Migrator {
    let migrations = files.iter().map(|(version, name, sql)| {
        Migration::new(*version, Cow::Borrowed(*name), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.set_ignore_missing(true);
    migrator
}

pub(crate) fn postgres() -> Migrator {
    migrator(&[
        (1, "lineage", include_str!("../../../migrations/postgres/0001_lineage.sql")),
        (2, "cache", include_str!("../../../migrations/postgres/0002_cache.sql")),
        (3, "notices", include_str!("../../../migrations/postgres/0003_notices.sql")),
        (4, "labels", include_str!("../../../migrations/postgres/0004_labels.sql")),
        (5, "trust", include_str!("../../../migrations/postgres/0005_trust.sql")),
        (6, "tree", include_str!("../../../migrations/postgres/0006_tree.sql")),
        (7, "append_only", include_str!("../../../migrations/postgres/0007_append_only.sql")),
        (8, "access", include_str!("../../../migrations/postgres/0008_access.sql")),
        (9, "rows", include_str!("../../../migrations/postgres/0009_rows.sql")),
        (10, "prune", include_str!("../../../migrations/postgres/0010_prune.sql")),
        (11, "keyring", include_str!("../../../migrations/postgres/0011_keyring.sql")),
        (12, "capture", include_str!("../../../migrations/postgres/0012_capture.sql")),
    ])
}

pub(crate) fn sqlite() -> Migrator {
    migrator(&[
        (1, "lineage", include_str!("../../../migrations/sqlite/0001_lineage.sql")),
        (2, "cache", include_str!("../../../migrations/sqlite/0002_cache.sql")),
        (3, "notices", include_str!("../../../migrations/sqlite/0003_notices.sql")),
        (4, "labels", include_str!("../../../migrations/sqlite/0004_labels.sql")),
        (5, "trust", include_str!("../../../migrations/sqlite/0005_trust.sql")),
        (6, "tree", include_str!("../../../migrations/sqlite/0006_tree.sql")),
        (8, "access", include_str!("../../../migrations/sqlite/0008_access.sql")),
        (10, "prune", include_str!("../../../migrations/sqlite/0010_prune.sql")),
        (11, "keyring", include_str!("../../../migrations/sqlite/0011_keyring.sql")),
        (12, "capture", include_str!("../../../migrations/sqlite/0012_capture.sql")),
    ])
}
