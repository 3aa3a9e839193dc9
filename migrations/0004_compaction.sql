-- Compaction drops a partition of the log, [.., below), after whatever is still needed of it has been moved:
--   1. fold_objects: entries whose bytes are in there get them into object.value;
--   2. fold_history: later changes that replaced such an entry get its bytes into previous_value, so that states from
--      the compaction point on can still be read exactly. A write after step 1 takes the bytes along by itself;
--   3. compact: the log is declared whole only above below - 1;
--   4. DETACH CONCURRENTLY waits for every reader from before step 3, then DROP.
-- Steps 1 to 3 are idempotent, so a compaction that is cut short is simply done again.

-- A chunk of step 1: under the writers' lock, since it writes what writers write. Answers how many it moved.
CREATE FUNCTION howdah.fold_objects(keys text[], below bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moved bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(x'686f77'::bigint);
    UPDATE howdah.object o SET value = c.value
      FROM howdah.change c
     WHERE o.key = ANY (keys) AND o.value IS NULL AND o.revision < below AND c.revision = o.revision AND c.revision < below;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END $$;

-- A chunk of step 2: changes from low up to but without high. No lock: writers never touch a row of the log again.
CREATE FUNCTION howdah.fold_history(low bigint, high bigint, below bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moved bigint;
BEGIN
    UPDATE howdah.change c SET previous_value = p.value
      FROM howdah.change p
     WHERE c.revision >= low AND c.revision < high AND c.revision >= below
       AND c.previous_revision > 0 AND c.previous_revision < below AND c.previous_value IS NULL
       AND p.revision = c.previous_revision AND p.revision < below;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END $$;

-- Step 3. Never backwards, never beyond the newest revision.
CREATE FUNCTION howdah.compact(revision bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(x'686f77'::bigint);
    UPDATE howdah.counter c SET compacted = compact.revision
     WHERE c.compacted < compact.revision AND c.revision >= compact.revision;
END $$;
