-- Durable cache entries. Losing one is a miss.
CREATE SEQUENCE cache_entry_appeared;

CREATE TABLE cache_entry (
    key        bytea PRIMARY KEY,
    id         uuid NOT NULL,
    partition  bytea NOT NULL,
    tenant     bytea NOT NULL,
    created_ms bigint NOT NULL,
    expires_ms bigint NOT NULL,
    sealed     bytea NOT NULL,
    -- Numbers are given out before commit, so by themselves they would let a reader pass a row that is committed late.
    -- Writers therefore hold an advisory lock from before they take a number until they have committed.
    appeared   bigint NOT NULL DEFAULT nextval('cache_entry_appeared')
);

CREATE INDEX cache_entry_by_appearance ON cache_entry (appeared);
CREATE INDEX cache_entry_expires ON cache_entry (expires_ms);

-- One row: the deployment's secret.
CREATE TABLE signet_secret (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret bytea NOT NULL
);

CREATE TABLE tenant_key (
    tenant  bytea NOT NULL,
    epoch   bigint NOT NULL,
    wrapped bytea NOT NULL,
    PRIMARY KEY (tenant, epoch)
);
