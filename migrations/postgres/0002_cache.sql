-- Durable cache entries. Losing one is a miss.
CREATE TABLE cache_entry (
    key        bytea PRIMARY KEY,
    id         uuid NOT NULL,
    partition  bytea NOT NULL,
    tenant     bytea NOT NULL,
    created_ms bigint NOT NULL,
    expires_ms bigint NOT NULL,
    sealed     bytea NOT NULL,
    -- Transaction id << 20 | place in the batch. A reader stops below the oldest transaction still running, so it never
    -- passes a row that is committed later; a sequence cannot promise that, its numbers are given out before commit.
    appeared   bigint NOT NULL
);

CREATE INDEX cache_entry_appeared ON cache_entry (appeared);
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
