-- Bodies of answers, sealed for the holder of an offline key (docs/lineage.md, "Sealed bodies"). No part of any proof, so the
-- gateway's role may remove them: their names do not begin with "lineage_".
CREATE TABLE capture (
    id     uuid PRIMARY KEY,
    tenant uuid NOT NULL,
    at_ms  bigint NOT NULL,
    sealed bytea NOT NULL
);
-- What is sealed cannot be compressed.
ALTER TABLE capture ALTER COLUMN sealed SET STORAGE EXTERNAL;
CREATE INDEX capture_tenant ON capture (tenant);
CREATE INDEX capture_at ON capture (at_ms);

-- What was erased: a record or a tenant, by its 16 bytes. It stays, because a row may still be on its way.
CREATE TABLE capture_erased (
    what     uuid PRIMARY KEY,
    until_ms bigint NOT NULL
);
