-- Keyrings that offline roots signed, for every replica to find. Each replica checks the signatures and takes the highest
-- version; what stands here proves nothing by itself.
CREATE TABLE keyring (
    version   bigint PRIMARY KEY,
    envelope  bytea NOT NULL,
    published timestamptz NOT NULL DEFAULT now()
);
