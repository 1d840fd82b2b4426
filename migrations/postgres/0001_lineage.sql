-- Signed records, append-only by convention; what proves it is the Merkle tree, not the database.
CREATE TABLE lineage_log (
    log_id     uuid PRIMARY KEY,
    origin     text NOT NULL,
    epoch      bigint NOT NULL,
    next_seq   bigint NOT NULL,
    attest_key bytea NOT NULL,
    created    timestamptz NOT NULL DEFAULT now()
);

-- One partition a day, made on demand by lineage_add_day. There is no DEFAULT partition: rows in it would have to be moved
-- before their day's partition could be added.
CREATE TABLE lineage_entry (
    log_id     uuid NOT NULL,
    seq        bigint NOT NULL,
    day        date NOT NULL,
    ts_ms      bigint NOT NULL,
    id         uuid NOT NULL,
    kind       text NOT NULL,
    epoch      bigint NOT NULL,
    leaf_hash  bytea NOT NULL,
    key_id     bytea NOT NULL,
    sig        bytea NOT NULL,
    payload    bytea,
    enc        smallint NOT NULL DEFAULT 0,
    tenant     bytea,
    model      text,
    cache      text,
    status     integer,
    tok_in     bigint,
    tok_out    bigint,
    parent_log uuid,
    parent_seq bigint,
    PRIMARY KEY (log_id, seq, day)
) PARTITION BY RANGE (day);

CREATE INDEX lineage_entry_id ON lineage_entry (id);

-- Attaching takes a weaker lock than CREATE TABLE .. PARTITION OF, so writers of other days go on. Runs with the rights of
-- whoever migrated, so that the gateway's own role needs no DDL. Replicas that come at once wait for each other.
CREATE FUNCTION lineage_add_day(wanted date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part text := 'lineage_entry_p' || to_char(wanted, 'YYYYMMDD');
BEGIN
    PERFORM pg_advisory_xact_lock(7310029, 1);
    IF to_regclass(part) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE lineage_entry INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        EXECUTE format('ALTER TABLE lineage_entry ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       part, wanted, wanted + 1);
    END IF;
END $$;
