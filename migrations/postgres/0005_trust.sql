-- Which tier found the candidate: same-words, vector. Labels of earlier releases do not tell.
ALTER TABLE semantic_label ADD COLUMN tier text;

-- What a route's ledger knew at its last finding in here, beyond what the labels that are kept tell: later labels go on from
-- it, so that a restart comes to what the process knew that ended.
CREATE TABLE semantic_mark (
    model           text NOT NULL,
    encoder         text NOT NULL,
    generation      bigint NOT NULL,
    upto            bigint NOT NULL,
    bound_e9        bigint NOT NULL,
    sum_samples_e12 bigint NOT NULL,
    sum_all_e12     bigint NOT NULL,
    -- So many samples ago the alarm that stands began.
    samples_ago     bigint,
    all_ago         bigint,
    PRIMARY KEY (model, encoder, generation)
);
