-- What must be known again after a restart: stored answers that were taken back, and the switch of semantic answers.
CREATE TABLE cache_notice (
    appeared     INTEGER PRIMARY KEY AUTOINCREMENT,
    until_ms     INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    source       BLOB,
    tenant       BLOB,
    model        TEXT,
    namespace    TEXT,
    stored_by_ms INTEGER NOT NULL DEFAULT 0
);
