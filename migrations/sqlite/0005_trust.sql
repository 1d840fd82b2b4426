-- Which tier found the candidate: same-words, vector. Labels of earlier releases do not tell.
ALTER TABLE semantic_label ADD COLUMN tier TEXT;

-- What a route's ledger knew at its last finding in here, beyond what the labels that are kept tell: later labels go on from
-- it, so that a restart comes to what the process knew that ended.
CREATE TABLE semantic_mark (
    model           TEXT NOT NULL,
    encoder         TEXT NOT NULL,
    generation      INTEGER NOT NULL,
    upto            INTEGER NOT NULL,
    bound_e9        INTEGER NOT NULL,
    sum_samples_e12 INTEGER NOT NULL,
    sum_all_e12     INTEGER NOT NULL,
    -- So many samples ago the alarm that stands began.
    samples_ago     INTEGER,
    all_ago         INTEGER,
    PRIMARY KEY (model, encoder, generation)
);
