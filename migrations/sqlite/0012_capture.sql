-- Bodies of answers, sealed for the holder of an offline key (docs/lineage.md, "Sealed bodies"). No part of any proof.
CREATE TABLE capture (
    id     BLOB PRIMARY KEY,
    tenant BLOB NOT NULL,
    at_ms  INTEGER NOT NULL,
    sealed BLOB NOT NULL
) STRICT;
CREATE INDEX capture_tenant ON capture (tenant);
CREATE INDEX capture_at ON capture (at_ms);

-- What was erased: a record or a tenant, by its 16 bytes. It stays, because a row may still be on its way.
CREATE TABLE capture_erased (
    what     BLOB PRIMARY KEY,
    until_ms INTEGER NOT NULL
) STRICT;
