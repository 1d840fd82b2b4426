-- What is known of semantic decisions afterwards: floors and alarms are derived from it.
CREATE TABLE semantic_label (
    appeared   INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The record of the decision, or of the order to reset.
    of         BLOB NOT NULL UNIQUE,
    model      TEXT NOT NULL,
    encoder    TEXT NOT NULL,
    generation INTEGER NOT NULL,
    -- right, wrong, unknown, reset
    verdict    TEXT NOT NULL,
    -- texts, judge, feedback, operator
    evidence   TEXT NOT NULL,
    score_e6   INTEGER NOT NULL,
    weight_e6  INTEGER NOT NULL,
    at_ms      INTEGER NOT NULL
);

CREATE INDEX semantic_label_route ON semantic_label (model, encoder, generation, verdict, appeared);
