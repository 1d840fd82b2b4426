-- What logs publish of their trees, for readers that did not write them. Checkpoints are never replaced: each one pins
-- its log to one history.
CREATE TABLE lineage_checkpoint (
    log_id BLOB NOT NULL,
    size   INTEGER NOT NULL,
    root   BLOB NOT NULL,
    note   TEXT NOT NULL,
    PRIMARY KEY (log_id, size)
) WITHOUT ROWID;

-- Levels from 1 on; the hashes of level 0 stand in lineage_entry. The tile at the right edge grows until it has 256.
CREATE TABLE lineage_tile (
    log_id BLOB NOT NULL,
    level  INTEGER NOT NULL,
    idx    INTEGER NOT NULL,
    hashes BLOB NOT NULL,
    PRIMARY KEY (log_id, level, idx)
);
