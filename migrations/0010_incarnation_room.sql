-- The count jumps beyond every partition of the log, too. Where one stood at the next multiple of the stride, made far ahead of the writers, the jump failed on it,
-- and with it every connection to a database that had changed its identity.

-- howdah.incarnate as 0003_incarnation.sql has it, and that.
CREATE OR REPLACE FUNCTION howdah.incarnate(seen bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    stride CONSTANT bigint := 10000000000;
    identity record;
    known howdah.incarnation;
    newest bigint;
    target bigint;
BEGIN
    SELECT (SELECT s.system_identifier FROM pg_control_system() s) AS system_identifier,
           ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint AS timeline,
           (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AS database,
           'howdah.counter'::regclass::oid AS relation
      INTO identity;
    SELECT i.* INTO known FROM howdah.incarnation i ORDER BY i.number DESC LIMIT 1;
    SELECT c.revision INTO newest FROM howdah.counter c;
    IF (known.system_identifier, known.timeline, known.database, known.relation) =
       (identity.system_identifier, identity.timeline, identity.database, identity.relation) AND newest >= seen THEN
        RETURN false;
    END IF;

    PERFORM pg_advisory_xact_lock(x'686f77'::bigint);
    -- Somebody else may have done it while we waited.
    SELECT i.* INTO known FROM howdah.incarnation i ORDER BY i.number DESC LIMIT 1;
    SELECT c.revision INTO newest FROM howdah.counter c;
    IF known.number IS NULL THEN
        INSERT INTO howdah.incarnation (system_identifier, timeline, database, relation, first_revision)
        VALUES (identity.system_identifier, identity.timeline, identity.database, identity.relation, newest);
        RETURN false;
    END IF;
    IF (known.system_identifier, known.timeline, known.database, known.relation) =
       (identity.system_identifier, identity.timeline, identity.database, identity.relation) AND newest >= seen THEN
        RETURN false;
    END IF;

    target := (greatest(newest, seen, (SELECT max(p.high) FROM howdah.partition p)) / stride + 1) * stride;
    PERFORM howdah.add_partition(target, target + 65536);
    UPDATE howdah.counter c SET revision = target, compacted = target;
    UPDATE howdah.leadership l SET epoch = l.epoch + 1000000;
    INSERT INTO howdah.incarnation (system_identifier, timeline, database, relation, first_revision)
    VALUES (identity.system_identifier, identity.timeline, identity.database, identity.relation, target);
    PERFORM pg_notify('howdah_change', '');
    RETURN true;
END $$;
