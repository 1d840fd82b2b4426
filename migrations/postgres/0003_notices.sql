-- What every replica must know within a second: stored answers that were taken back, and the switch of semantic answers.
CREATE SEQUENCE cache_notice_appeared;

CREATE TABLE cache_notice (
    -- Writers hold an advisory lock until they have committed, as for cache_entry: numbers become visible in their order.
    appeared     bigint PRIMARY KEY DEFAULT nextval('cache_notice_appeared'),
    until_ms     bigint NOT NULL,
    kind         text NOT NULL,
    source       uuid,
    tenant       bytea,
    model        text,
    namespace    text,
    stored_by_ms bigint NOT NULL DEFAULT 0
);
