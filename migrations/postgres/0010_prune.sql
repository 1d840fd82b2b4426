-- Retention (docs/lineage.md, "Retention"): days of records that a signed and stored `prune` covers are dropped whole.

-- A temporary table must not stand in for one of ours where a function runs with its owner's rights.
SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);

-- Where logs begin, and the stored record that says so.
CREATE TABLE lineage_pruned (
    log_id    uuid PRIMARY KEY,
    below_seq bigint NOT NULL,
    by_log    uuid NOT NULL,
    by_seq    bigint NOT NULL
);

-- What the owner of the tables says, and nobody else may: for how many whole days beside today records stay. Nothing goes without it.
CREATE TABLE lineage_retention (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    days integer NOT NULL CHECK (days BETWEEN 1 AND 36500)
);

-- Run by the owner; 0 is for ever.
CREATE FUNCTION lineage_retain(wanted integer) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF wanted = 0 THEN
        DELETE FROM lineage_retention;
    ELSE
        INSERT INTO lineage_retention (days) VALUES (wanted)
            ON CONFLICT (one) DO UPDATE SET days = excluded.days WHERE lineage_retention.days <> excluded.days;
    END IF;
END $$;

-- The first day that stays.
CREATE FUNCTION lineage_kept_from() RETURNS date
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    kept integer := (SELECT days FROM lineage_retention);
BEGIN
    IF kept IS NULL THEN
        RAISE EXCEPTION 'records are kept for ever: the owner of the tables has not run lineage_retain(days)'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN (now() AT TIME ZONE 'utc')::date - kept;
END $$;

-- Believes nothing but a stored `prune` record, which is never packed, and lets no record go that is young. Whether the signature
-- is good is for verify to say.
CREATE FUNCTION lineage_note_prune(speaker uuid, place bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    stored bytea;
    said jsonb;
    named uuid;
    below bigint;
    since bigint;
    number integer;
    kept date := lineage_kept_from();
BEGIN
    SELECT payload INTO stored FROM lineage_record
        WHERE log_no = (SELECT log_no FROM lineage_log WHERE log_id = speaker) AND seq = place AND enc = 0;
    said := convert_from(stored, 'UTF8')::jsonb -> 'predicate';
    IF said ->> 'kind' IS DISTINCT FROM 'prune' OR said #>> '{log,id}' <> speaker::text
        OR (said #>> '{log,seq}')::bigint <> place THEN
        RAISE EXCEPTION 'log % has no prune record at seq %', speaker, place USING ERRCODE = 'insufficient_privilege';
    END IF;
    named := said #>> '{control,log_id}';
    below := said #>> '{control,below_seq}';
    since := coalesce((SELECT below_seq FROM lineage_pruned WHERE log_id = named), 0);
    SELECT log_no INTO number FROM lineage_log WHERE log_id = named AND next_seq >= below;
    IF number IS NULL
        OR EXISTS (SELECT FROM lineage_record WHERE log_no = number AND seq >= since AND seq < below AND day >= kept)
        OR EXISTS (SELECT FROM lineage_entry WHERE log_id = named AND seq >= since AND seq < below AND day >= kept) THEN
        RAISE EXCEPTION 'not all records of log % below seq % are there and of a day before %', named, below, kept
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO lineage_pruned VALUES (named, below, speaker, place)
        ON CONFLICT (log_id) DO UPDATE SET below_seq = excluded.below_seq, by_log = excluded.by_log, by_seq = excluded.by_seq
        WHERE lineage_pruned.below_seq <= excluded.below_seq;
END $$;

-- Whether each log's last record in this partition is below where the log begins. By its logs, not its rows: an index finds either.
CREATE FUNCTION lineage_is_pruned(part regclass, key name) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    covered boolean;
BEGIN
    EXECUTE format('WITH RECURSIVE of AS (
            (SELECT %2$I AS log FROM %1$s ORDER BY 1 LIMIT 1)
            UNION ALL SELECT (SELECT %2$I FROM %1$s WHERE %2$I > of.log ORDER BY 1 LIMIT 1) FROM of WHERE of.log IS NOT NULL)
        SELECT NOT EXISTS (SELECT FROM of LEFT JOIN lineage_log l ON l.%2$I = of.log LEFT JOIN lineage_pruned p USING (log_id)
            WHERE of.log IS NOT NULL
                AND (SELECT max(seq) FROM %1$s r WHERE r.%2$I = of.log) >= coalesce(p.below_seq, 0))', part, key) INTO covered;
    RETURN covered;
END $$;

-- Drops a day that is old enough, if nothing of it has to stay. Waits for readers no longer than shippers may wait behind it.
CREATE FUNCTION lineage_drop_day(wanted date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '1s' AS $$
DECLARE
    keys text[] := ARRAY['lineage_entry', 'log_id', 'lineage_record', 'log_no'];
    part regclass;
    done boolean := false;
BEGIN
    -- A year before Christ has the name of one after.
    IF wanted >= lineage_kept_from() OR wanted < '1970-01-01' THEN
        RAISE EXCEPTION 'the owner of the tables keeps day %', wanted USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM pg_advisory_xact_lock(7310029, 1);
    FOR at IN 1..3 BY 2 LOOP
        part := to_regclass(keys[at] || '_p' || to_char(wanted, 'YYYYMMDD'));
        CONTINUE WHEN part IS NULL OR NOT lineage_is_pruned(part, keys[at + 1]);
        EXECUTE format('LOCK TABLE ONLY %I, %s IN ACCESS EXCLUSIVE MODE', keys[at], part);
        -- Again: a record may have come before the lock.
        IF lineage_is_pruned(part, keys[at + 1]) THEN
            EXECUTE format('DROP TABLE %s', part);
            done := true;
        END IF;
    END LOOP;
    RETURN done;
END $$;
REVOKE EXECUTE ON FUNCTION lineage_note_prune, lineage_drop_day, lineage_retain FROM PUBLIC;

ALTER FUNCTION lineage_append_only RENAME TO lineage_append_only_records;

-- Takes the place of that of 0009, which it calls.
CREATE FUNCTION lineage_append_only(writer name) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM lineage_append_only_records(writer);
    EXECUTE format('GRANT SELECT ON lineage_pruned, lineage_retention TO %I', writer);
    EXECUTE format('GRANT EXECUTE ON FUNCTION lineage_note_prune, lineage_drop_day TO %I', writer);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION lineage_retain FROM PUBLIC, %I', writer);
END $$;
