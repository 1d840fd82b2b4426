-- What logs publish of their trees, for replicas that did not write them. Checkpoints are never replaced: each one pins
-- its log to one history.
CREATE TABLE lineage_checkpoint (
    log_id  uuid NOT NULL,
    size    bigint NOT NULL,
    root    bytea NOT NULL,
    note    text NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (log_id, size)
);

-- Levels from 1 on; the hashes of level 0 stand in lineage_entry. The tile at the right edge grows until it has 256.
CREATE TABLE lineage_tile (
    log_id uuid NOT NULL,
    level  smallint NOT NULL,
    idx    bigint NOT NULL,
    hashes bytea NOT NULL,
    PRIMARY KEY (log_id, level, idx)
);
