-- What is known of semantic decisions afterwards: floors and alarms of all replicas are derived from it.
CREATE SEQUENCE semantic_label_appeared;

CREATE TABLE semantic_label (
    -- Writers hold an advisory lock until they have committed, as for cache_entry: numbers become visible in their order.
    appeared   bigint PRIMARY KEY DEFAULT nextval('semantic_label_appeared'),
    -- The record of the decision, or of the order to reset.
    of         uuid NOT NULL UNIQUE,
    model      text NOT NULL,
    encoder    text NOT NULL,
    generation bigint NOT NULL,
    -- right, wrong, unknown, reset
    verdict    text NOT NULL,
    -- texts, judge, feedback, operator
    evidence   text NOT NULL,
    score_e6   bigint NOT NULL,
    weight_e6  bigint NOT NULL,
    at_ms      bigint NOT NULL
);

CREATE INDEX semantic_label_route ON semantic_label (model, encoder, generation, verdict, appeared);
