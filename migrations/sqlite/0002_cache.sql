-- Durable cache entries, appended only; of several rows with one key the newest counts. Losing one is a miss. SQLite has one writer at a time, so row numbers appear in commit order;
-- AUTOINCREMENT keeps a number from being used again after its row was removed.
CREATE TABLE cache_entry (
    appeared   INTEGER PRIMARY KEY AUTOINCREMENT,
    key        BLOB NOT NULL,
    id         BLOB NOT NULL,
    partition  BLOB NOT NULL,
    tenant     BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    sealed     BLOB NOT NULL
);

CREATE INDEX cache_entry_expires ON cache_entry (expires_ms);

-- One row: the deployment's secret.
CREATE TABLE signet_secret (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    secret BLOB NOT NULL
);

CREATE TABLE tenant_key (
    tenant  BLOB NOT NULL,
    epoch   INTEGER NOT NULL,
    wrapped BLOB NOT NULL,
    PRIMARY KEY (tenant, epoch)
) WITHOUT ROWID;
