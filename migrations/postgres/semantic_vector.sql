-- The index of `semantic.backend = "pgvector"`, in the database only where that is configured. Run at a start that does
-- not find the table's comment of the last line, so every statement may be repeated; a change here raises its number. The triggers keep promises that no writer has to know of, be it an older release or a
-- replica with another backend: in the transaction that replaces an entry, takes it back or destroys its tenant's key, its row
-- goes as well.
CREATE TABLE IF NOT EXISTS semantic_vector (
    key        bytea PRIMARY KEY REFERENCES cache_entry (key) ON DELETE CASCADE,
    entry      uuid NOT NULL,
    tenant     bytea NOT NULL,
    created_ms bigint NOT NULL,
    expires_ms bigint NOT NULL,
    source     uuid NOT NULL,
    -- SHA-256 of the names.
    model      bytea NOT NULL,
    namespace  bytea NOT NULL,
    encoder    bytea NOT NULL,
    -- A keyed digest of partition, bucket, encoder and dimensions.
    place      bytea NOT NULL,
    question   bytea NOT NULL,
    dims       integer NOT NULL,
    -- Rotated by the tenant's key.
    embedding  halfvec NOT NULL
);

CREATE INDEX IF NOT EXISTS semantic_vector_place ON semantic_vector (place);
CREATE INDEX IF NOT EXISTS semantic_vector_source ON semantic_vector (source);
CREATE INDEX IF NOT EXISTS semantic_vector_tenant ON semantic_vector (tenant);
-- For places too large to scan; the dimensions are those of the embedded encoder.
CREATE INDEX IF NOT EXISTS semantic_vector_near ON semantic_vector
    USING hnsw ((embedding::halfvec(256)) halfvec_cosine_ops) WHERE dims = 256;

CREATE OR REPLACE FUNCTION semantic_vector_replaced() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM semantic_vector WHERE key = NEW.key AND entry <> NEW.id;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION semantic_vector_withdrawn() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM semantic_vector
    WHERE created_ms <= NEW.stored_by_ms
      AND (NEW.source IS NULL OR source = NEW.source)
      AND (NEW.tenant IS NULL OR tenant = NEW.tenant)
      AND (NEW.model IS NULL OR model = sha256(convert_to(NEW.model, 'UTF8')))
      AND (NEW.namespace IS NULL OR namespace = sha256(convert_to(NEW.namespace, 'UTF8')));
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION semantic_vector_erased() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM semantic_vector WHERE tenant = NEW.tenant;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER semantic_vector_replaced AFTER UPDATE OF id ON cache_entry
    FOR EACH ROW WHEN (OLD.id <> NEW.id) EXECUTE FUNCTION semantic_vector_replaced();
CREATE OR REPLACE TRIGGER semantic_vector_withdrawn AFTER INSERT ON cache_notice
    FOR EACH ROW WHEN (NEW.kind IN ('withdraw', 'erase')) EXECUTE FUNCTION semantic_vector_withdrawn();
CREATE OR REPLACE TRIGGER semantic_vector_erased AFTER UPDATE OF wrapped ON tenant_key
    FOR EACH ROW WHEN (length(NEW.wrapped) = 0) EXECUTE FUNCTION semantic_vector_erased();

COMMENT ON TABLE semantic_vector IS 'signet 1';
