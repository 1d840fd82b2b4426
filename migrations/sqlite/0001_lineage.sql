-- Signed records, append-only by convention; what proves it is the Merkle tree, not the database.
CREATE TABLE lineage_log (
    log_id     BLOB PRIMARY KEY NOT NULL,
    origin     TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    next_seq   INTEGER NOT NULL,
    attest_key BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE lineage_entry (
    log_id     BLOB NOT NULL,
    seq        INTEGER NOT NULL,
    ts_ms      INTEGER NOT NULL,
    id         BLOB NOT NULL,
    kind       TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    leaf_hash  BLOB NOT NULL,
    key_id     BLOB NOT NULL,
    sig        BLOB NOT NULL,
    payload    BLOB,
    enc        INTEGER NOT NULL DEFAULT 0,
    tenant     BLOB,
    model      TEXT,
    cache      TEXT,
    status     INTEGER,
    tok_in     INTEGER,
    tok_out    INTEGER,
    parent_log BLOB,
    parent_seq INTEGER,
    UNIQUE (log_id, seq)
);

CREATE INDEX lineage_entry_id ON lineage_entry (id);
