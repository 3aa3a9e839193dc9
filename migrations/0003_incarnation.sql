-- Detects that the database went back in time, and makes that harmless.
--
-- A restored dump, a recovery to a point in time or a failover to a replica that lagged brings back a counter that is
-- lower than what clients have seen: revisions would be given twice, and a cache would mix two histories. Each leaves
-- a mark: another system identifier, another timeline, or another oid of the database or of the counter table. A file system snapshot put back
-- leaves none, but the process that remembers a higher revision (seen) does. Then the count jumps to the next
-- multiple of ten thousand million, far above anything that can have been lost, all before is declared compacted, and the
-- epochs of the leaders jump too.
--
-- Called on every new connection of a store before it is used; answers whether the count jumped.
CREATE FUNCTION howdah.incarnate(seen bigint) RETURNS boolean LANGUAGE plpgsql AS $$
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

    target := (greatest(newest, seen) / stride + 1) * stride;
    PERFORM howdah.add_partition(target, target + 65536);
    UPDATE howdah.counter c SET revision = target, compacted = target;
    UPDATE howdah.leadership l SET epoch = l.epoch + 1000000;
    INSERT INTO howdah.incarnation (system_identifier, timeline, database, relation, first_revision)
    VALUES (identity.system_identifier, identity.timeline, identity.database, identity.relation, target);
    PERFORM pg_notify('howdah_change', '');
    RETURN true;
END $$;

-- Makes holder the leader of role, one epoch on. The caller holds the role's session lock. Under the writers' lock, so that
-- a fenced write either commits before the new leader begins, or is refused.
CREATE FUNCTION howdah.lead(role text, holder text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    result bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(x'686f77'::bigint);
    INSERT INTO howdah.leadership AS l (role, epoch, holder, acquired)
    VALUES (lead.role, 1, lead.holder, clock_timestamp())
    ON CONFLICT ON CONSTRAINT leadership_role
    DO UPDATE SET epoch = l.epoch + 1, holder = excluded.holder, acquired = excluded.acquired
    RETURNING l.epoch INTO result;
    RETURN result;
END $$;
