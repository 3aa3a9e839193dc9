-- The state of the cluster: what every key holds now (object), and every write in commit order (change).
--
-- The rule that makes revision order equal commit order: whoever writes to counter takes the writers' lock
-- (advisory lock 0x686f77, transaction scope) first and holds it to the end of its transaction, and PostgreSQL lets go of it
-- only after the transaction has become visible. So revision n+1 is not even given out before n can be seen by all, and a
-- transaction that fails gives its revisions back: no gaps, for any number of API servers.

CREATE TABLE howdah.object (
    key             text COLLATE "C" NOT NULL,
    revision        bigint NOT NULL,
    create_revision bigint NOT NULL,
    -- NULL: the bytes are in the change row of this revision. Compaction moves them here before it drops that row.
    value           bytea COMPRESSION lz4,
    CONSTRAINT object_key PRIMARY KEY (key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE howdah.object ALTER COLUMN value SET STORAGE MAIN;
COMMENT ON TABLE howdah.object IS 'The present entry of every key';

CREATE TABLE howdah.change (
    revision          bigint NOT NULL,
    previous_revision bigint NOT NULL,       -- 0: the key did not exist
    create_revision   bigint NOT NULL,       -- where the key's present (for a deletion: last) life began
    time              timestamptz NOT NULL,
    operation         smallint NOT NULL,     -- 1 create, 2 update, 3 delete
    last              boolean NOT NULL,      -- last of its atomic group
    key               text COLLATE "C" NOT NULL,
    trace_context     text,
    actor             text,
    value             bytea COMPRESSION lz4, -- NULL for a deletion
    -- What previous_revision held, filled in only when its own row is gone or about to go.
    previous_value    bytea COMPRESSION lz4,
    CONSTRAINT change_revision PRIMARY KEY (revision)
) PARTITION BY RANGE (revision);
ALTER TABLE howdah.change ALTER COLUMN value SET STORAGE MAIN;
ALTER TABLE howdah.change ALTER COLUMN previous_value SET STORAGE MAIN;
COMMENT ON TABLE howdah.change IS 'Every write in commit order, as far back as it is retained';

-- One row. The tiny fillfactor makes PostgreSQL prune the row's dead versions every few commits.
CREATE TABLE howdah.counter (
    revision  bigint NOT NULL,  -- the newest one given
    compacted bigint NOT NULL,  -- the log is whole above this revision; states can be read from this one on
    CONSTRAINT counter_order CHECK (compacted <= revision)
) WITH (fillfactor = 10);
COMMENT ON TABLE howdah.counter IS 'The newest and the oldest revision';
INSERT INTO howdah.counter VALUES (1, 0);

-- Which physical databases this state has lived in. See howdah.incarnate.
CREATE TABLE howdah.incarnation (
    number            bigint GENERATED ALWAYS AS IDENTITY,
    system_identifier bigint NOT NULL,
    timeline          bigint NOT NULL,
    database          oid NOT NULL,
    relation          oid NOT NULL,
    first_revision    bigint NOT NULL,
    started           timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT incarnation_number PRIMARY KEY (number)
);
COMMENT ON TABLE howdah.incarnation IS 'A row for every time the database was created, restored or failed over';

-- Who leads each role. The session lock decides; the epoch is what a write's fence is compared with.
CREATE TABLE howdah.leadership (
    role     text NOT NULL,
    epoch    bigint NOT NULL,
    holder   text NOT NULL,
    acquired timestamptz NOT NULL,
    CONSTRAINT leadership_role PRIMARY KEY (role)
);
COMMENT ON TABLE howdah.leadership IS 'The newest leader of each role and its fencing epoch';

CREATE FUNCTION howdah.lock_writers() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(x'686f77'::bigint);
END $$;

-- Partitions of the log: which revisions each holds (low <= revision < high).
CREATE VIEW howdah.partition AS
SELECT c.oid::regclass AS name,
       i.inhdetachpending AS detaching,
       substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''(\d+)''\)')::bigint AS low,
       substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''(\d+)''\)')::bigint AS high
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'howdah.change'::regclass;

-- CREATE TABLE ... PARTITION OF would lock the whole log against its readers and writers; ATTACH of an empty table does not.
CREATE FUNCTION howdah.add_partition(low bigint, high bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text := format('change_%s', low);
BEGIN
    EXECUTE format('CREATE TABLE howdah.%I (LIKE howdah.change INCLUDING ALL)', name);
    EXECUTE format('ALTER TABLE howdah.change ATTACH PARTITION howdah.%I FOR VALUES FROM (%L) TO (%L)', name, low, high);
END $$;

SELECT howdah.add_partition(1, 65536);

-- Makes sure that a partition for the next revisions stands ready: at least ahead revisions of room, size at a time.
-- Answers how many partitions it made.
CREATE FUNCTION howdah.extend_log(ahead bigint, size bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
    top bigint;
    made int := 0;
BEGIN
    -- One extender at a time; the writers are not in the way.
    PERFORM pg_advisory_xact_lock(x'686f78'::bigint);
    SELECT revision INTO newest FROM howdah.counter;
    SELECT max(high) INTO top FROM howdah.partition;
    top := coalesce(top, newest + 1);
    WHILE top <= newest + ahead LOOP
        PERFORM howdah.add_partition(top, top + size);
        top := top + size;
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;
