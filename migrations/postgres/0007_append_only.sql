-- Records that nobody changes by accident, and that the gateway's own role cannot change at all. Nothing is refused until the
-- operator asks for it: docs/lineage.md, "Roles". What proves a record is still the tree and not the database.

-- A temporary table must not stand in for one of ours where a function runs with its owner's rights.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

CREATE FUNCTION lineage_refuse() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: signed records are only appended', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$;

-- Only lineage_erase may change a record, and only to what is left of an erased one. Anybody can make the setting by which
-- it says so; nobody but it has the owner's rights, and the owner alone is refused what is no erasure.
CREATE FUNCTION lineage_refuse_update() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('signet.erasing', true) = NEW.log_id || '/' || NEW.seq AND NEW.enc = 9
        AND (to_jsonb(NEW) - 'payload' - 'enc') = (to_jsonb(OLD) - 'payload' - 'enc') THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'UPDATE of % is refused: signed records are only appended', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE FUNCTION lineage_refuse_fall() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.log_id <> OLD.log_id OR NEW.next_seq < OLD.next_seq OR NEW.epoch < OLD.epoch THEN
        RAISE EXCEPTION 'log % is at epoch %, seq %, and does not go back', OLD.log_id, OLD.epoch, OLD.next_seq
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

-- Takes the payload of one record away and leaves its SHA-256, so that the leaf can be told (docs/lineage.md, "In the
-- gateway"). `digest` is needed where the payload is stored packed; a wrong one is refused. False if there is nothing to erase.
CREATE FUNCTION lineage_erase(log uuid, wanted bigint, digest bytea DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    found lineage_entry;
BEGIN
    SELECT * INTO found FROM lineage_entry WHERE log_id = log AND seq = wanted AND enc <> 9 AND payload IS NOT NULL
        FOR UPDATE;
    IF found.seq IS NULL THEN
        RETURN false;
    END IF;
    IF found.enc = 0 THEN
        digest := sha256(found.payload);
    END IF;
    IF digest IS NULL OR found.leaf_hash <> sha256('\x0001' || uuid_send(log) || int8send(wanted) || digest
            || substring(found.key_id FOR 8) || found.sig) THEN
        RAISE EXCEPTION 'the SHA-256 of the payload of seq % is not known or does not fit its leaf', wanted
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM set_config('signet.erasing', log || '/' || wanted, true);
    UPDATE lineage_entry SET payload = digest, enc = 9 WHERE log_id = log AND seq = wanted AND day = found.day;
    PERFORM set_config('signet.erasing', '', true);
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION lineage_erase FROM PUBLIC;

-- Row triggers on the parent fire in its partitions too, those to come included; a TRUNCATE of a partition needs its own.
CREATE FUNCTION lineage_guard_day(part text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER lineage_refuse_truncate BEFORE TRUNCATE ON %I
                    EXECUTE FUNCTION lineage_refuse()', part);
END $$;

CREATE OR REPLACE FUNCTION lineage_add_day(wanted date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part text := 'lineage_entry_p' || to_char(wanted, 'YYYYMMDD');
BEGIN
    PERFORM pg_advisory_xact_lock(7310029, 1);
    IF to_regclass(part) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE lineage_entry INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        EXECUTE format('ALTER TABLE lineage_entry ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       part, wanted, wanted + 1);
        IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'lineage_entry'::regclass AND tgname = 'lineage_refuse_truncate') THEN
            PERFORM lineage_guard_day(part);
        END IF;
    END IF;
END $$;

-- Run by the owner of the tables. `writer` is an existing role, that of `store.url`; whatever it could do before, behind this it
-- can append and read. May be repeated, and has to be once `semantic.backend = "pgvector"` has made its table.
CREATE FUNCTION lineage_append_only(writer name) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    part name;
BEGIN
    FOR part IN SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')
            AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'lineage_log'::regclass) LOOP
        EXECUTE format('REVOKE ALL ON %I FROM PUBLIC, %I', part, writer);
        IF part LIKE 'lineage\_entry\_p%' THEN
            PERFORM lineage_guard_day(part);
        ELSIF part NOT LIKE 'lineage\_%' AND part <> '_sqlx_migrations' THEN
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO %I', part, writer);
        END IF;
    END LOOP;
    EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA %I TO %I', current_schema(), writer);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), writer);
    EXECUTE format('GRANT SELECT ON _sqlx_migrations TO %I', writer);
    EXECUTE format('GRANT SELECT, INSERT ON lineage_entry, lineage_log, lineage_checkpoint, lineage_tile TO %I', writer);
    EXECUTE format('GRANT UPDATE (origin, epoch, attest_key, next_seq) ON lineage_log TO %I', writer);
    EXECUTE format('GRANT UPDATE (hashes) ON lineage_tile TO %I', writer);
    EXECUTE format('GRANT EXECUTE ON FUNCTION lineage_erase TO %I', writer);

    CREATE OR REPLACE TRIGGER lineage_refuse_update BEFORE UPDATE ON lineage_entry
        FOR EACH ROW EXECUTE FUNCTION lineage_refuse_update();
    CREATE OR REPLACE TRIGGER lineage_refuse_delete BEFORE DELETE ON lineage_entry
        FOR EACH ROW EXECUTE FUNCTION lineage_refuse();
    CREATE OR REPLACE TRIGGER lineage_refuse_truncate BEFORE TRUNCATE ON lineage_entry
        EXECUTE FUNCTION lineage_refuse();
    CREATE OR REPLACE TRIGGER lineage_refuse_fall BEFORE UPDATE ON lineage_log
        FOR EACH ROW EXECUTE FUNCTION lineage_refuse_fall();
    CREATE OR REPLACE TRIGGER lineage_refuse_delete BEFORE DELETE ON lineage_log
        FOR EACH ROW EXECUTE FUNCTION lineage_refuse();
    CREATE OR REPLACE TRIGGER lineage_refuse_truncate BEFORE TRUNCATE ON lineage_log
        EXECUTE FUNCTION lineage_refuse();
    CREATE OR REPLACE TRIGGER lineage_refuse_change BEFORE UPDATE OR DELETE ON lineage_checkpoint
        FOR EACH ROW EXECUTE FUNCTION lineage_refuse();
    CREATE OR REPLACE TRIGGER lineage_refuse_truncate BEFORE TRUNCATE ON lineage_checkpoint
        EXECUTE FUNCTION lineage_refuse();
END $$;
