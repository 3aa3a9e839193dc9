-- A deletion can tell of the key's last state: a Delete with contents takes two revisions, an update to those contents and the removal.
-- Watches see an object being deleted before it is gone, as Kubernetes shows it, at the price of one write.

-- howdah.commit as 0005_history.sql has it, and that. Who knows nothing of it sends deletions without contents, as before.
-- revisions[i] of such a deletion is its second; previous_revisions[i] and previous_values[i] are of what stood before the first.
CREATE OR REPLACE FUNCTION howdah.commit(
    operations smallint[], keys text[], contents bytea[], expected bigint[], groups int[],
    traces text[], actors text[], roles text[], epochs bigint[], origins text[],
    OUT statuses smallint[], OUT revisions bigint[], OUT previous_revisions bigint[], OUT create_revisions bigint[],
    OUT previous_values bytea[], OUT committed timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
    first bigint;
    newest bigint;
    n int := cardinality(keys);
    status smallint;
    found_revision bigint;
    found_create bigint;
    found_value bytea;
    old_value bytea;
    told boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(x'686f77'::bigint);
    -- Only from here on is what we read stable: every statement below has a snapshot younger than the lock.
    SELECT c.revision INTO first FROM howdah.counter c;
    newest := first;
    committed := clock_timestamp();

    IF n <= 8 AND groups IS NULL THEN
        FOR i IN 1..n LOOP
            SELECT o.revision, o.create_revision, o.value INTO found_revision, found_create, found_value
              FROM howdah.object o WHERE o.key = keys[i];
            status := CASE
                WHEN roles[i] <> '' AND NOT EXISTS (
                    SELECT FROM howdah.leadership l WHERE l.role = roles[i] AND l.epoch = epochs[i]) THEN 4
                WHEN operations[i] = 1 THEN CASE WHEN found_revision IS NULL THEN 0 ELSE 1 END
                WHEN found_revision IS NULL THEN 2
                WHEN expected[i] NOT IN (0, found_revision) THEN 3
                ELSE 0 END;
            old_value := NULL;
            IF status = 0 THEN
                newest := newest + 1;
                told := operations[i] = 3 AND coalesce(contents[i], '') <> '';
                IF expected[i] = 0 AND operations[i] <> 1 THEN
                    old_value := found_value;
                    IF old_value IS NULL THEN
                        SELECT c.value INTO old_value FROM howdah.change c WHERE c.revision = found_revision;
                    END IF;
                END IF;
                IF operations[i] = 1 THEN
                    found_create := newest;
                    INSERT INTO howdah.object (key, revision, create_revision) VALUES (keys[i], newest, newest);
                ELSIF operations[i] = 2 THEN
                    UPDATE howdah.object o SET revision = newest, value = NULL WHERE o.key = keys[i];
                ELSE
                    DELETE FROM howdah.object o WHERE o.key = keys[i];
                END IF;
                INSERT INTO howdah.change (revision, previous_revision, create_revision, time, operation, last, key,
                                           trace_context, actor, origin, value, previous_value)
                VALUES (newest, coalesce(found_revision, 0), found_create, committed, CASE WHEN told THEN 2 ELSE operations[i] END, NOT told, keys[i],
                        nullif(traces[i], ''), nullif(actors[i], ''), nullif(origins[i], ''),
                        CASE WHEN told OR operations[i] <> 3 THEN contents[i] END, found_value);
                IF told THEN
                    newest := newest + 1;
                    INSERT INTO howdah.change (revision, previous_revision, create_revision, time, operation, last, key, trace_context, actor, origin)
                    VALUES (newest, newest - 1, found_create, committed, 3, true, keys[i],
                            nullif(traces[i], ''), nullif(actors[i], ''), nullif(origins[i], ''));
                END IF;
            END IF;
            statuses[i] := status;
            revisions[i] := CASE WHEN status = 0 THEN newest ELSE 0 END;
            previous_revisions[i] := coalesce(found_revision, 0);
            create_revisions[i] := coalesce(found_create, 0);
            previous_values[i] := old_value;
        END LOOP;
    ELSE
        WITH item AS MATERIALIZED (
            SELECT u.*, o.revision AS found, o.create_revision AS found_create, o.value AS found_value,
                   CASE WHEN u.role <> '' AND l.epoch IS DISTINCT FROM u.epoch THEN 4
                        WHEN u.operation = 1 THEN CASE WHEN o.key IS NULL THEN 0 ELSE 1 END
                        WHEN o.key IS NULL THEN 2
                        WHEN u.expected NOT IN (0, o.revision) THEN 3
                        ELSE 0 END AS own_status,
                   CASE WHEN u.operation = 3 AND u.content <> '' THEN 1 ELSE 0 END AS told
              FROM unnest(operations, keys, contents, expected, groups, traces, actors, roles, epochs, origins) WITH ORDINALITY
                   AS u(operation, key, content, expected, member, trace, actor, role, epoch, origin, position)
              LEFT JOIN howdah.object o ON o.key = u.key
              LEFT JOIN howdah.leadership l ON l.role = u.role
        ), judged AS MATERIALIZED (
            SELECT i.*,
                   CASE WHEN i.own_status = 0 AND i.member IS NOT NULL
                             AND max(i.own_status) OVER (PARTITION BY i.member) > 0 THEN 5 ELSE i.own_status END AS status,
                   i.member IS NULL OR lead(i.member) OVER (ORDER BY i.position) IS DISTINCT FROM i.member AS last
              FROM item i
        ), numbered AS MATERIALIZED (
            SELECT j.*, first + sum(CASE WHEN j.status = 0 THEN 1 + j.told ELSE 0 END) OVER (ORDER BY j.position ROWS UNBOUNDED PRECEDING) AS revision
              FROM judged j
        ), logged AS (
            INSERT INTO howdah.change (revision, previous_revision, create_revision, time, operation, last, key,
                                       trace_context, actor, origin, value, previous_value)
            SELECT d.revision - d.told, coalesce(d.found, 0), coalesce(d.found_create, d.revision), committed,
                   CASE WHEN d.told = 1 THEN 2 ELSE d.operation END, d.last AND d.told = 0, d.key,
                   nullif(d.trace, ''), nullif(d.actor, ''), nullif(d.origin, ''),
                   CASE WHEN d.told = 1 OR d.operation <> 3 THEN d.content END, d.found_value
              FROM numbered d WHERE d.status = 0
            UNION ALL
            SELECT d.revision, d.revision - 1, d.found_create, committed, 3, d.last, d.key,
                   nullif(d.trace, ''), nullif(d.actor, ''), nullif(d.origin, ''), NULL, NULL
              FROM numbered d WHERE d.status = 0 AND d.told = 1
             ORDER BY 1
        ), created AS (
            INSERT INTO howdah.object (key, revision, create_revision)
            SELECT d.key, d.revision, d.revision FROM numbered d WHERE d.status = 0 AND d.operation = 1
        ), updated AS (
            UPDATE howdah.object o SET revision = d.revision, value = NULL
              FROM numbered d WHERE d.status = 0 AND d.operation = 2 AND o.key = d.key
        ), deleted AS (
            DELETE FROM howdah.object o USING numbered d WHERE d.status = 0 AND d.operation = 3 AND o.key = d.key
        )
        SELECT array_agg(d.status::smallint ORDER BY d.position),
               array_agg(CASE WHEN d.status = 0 THEN d.revision ELSE 0 END ORDER BY d.position),
               array_agg(coalesce(d.found, 0) ORDER BY d.position),
               array_agg(coalesce(d.found_create, CASE WHEN d.status = 0 THEN d.revision ELSE 0 END) ORDER BY d.position),
               array_agg(CASE WHEN d.status = 0 AND d.expected = 0 AND d.operation <> 1 THEN
                             coalesce(d.found_value, (SELECT c.value FROM howdah.change c WHERE c.revision = d.found))
                         END ORDER BY d.position),
               max(d.revision)
          INTO statuses, revisions, previous_revisions, create_revisions, previous_values, newest
          FROM numbered d;
    END IF;

    IF newest > first THEN
        UPDATE howdah.counter c SET revision = newest;
        -- Wakes every tail once the transaction is visible. It carries nothing: the rows are the truth.
        PERFORM pg_notify('howdah_change', '');
    END IF;
END $$;
