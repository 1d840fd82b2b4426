-- Where logs begin, and the stored `prune` record that says so.
CREATE TABLE lineage_pruned (
    log_id    BLOB PRIMARY KEY NOT NULL,
    below_seq INTEGER NOT NULL,
    by_log    BLOB NOT NULL,
    by_seq    INTEGER NOT NULL
) WITHOUT ROWID;
