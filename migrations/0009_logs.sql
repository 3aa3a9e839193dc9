-- Lines that containers write, of `howdah logs`, in a schema of their own: it may be in another database than the objects, which has all migrations too.
--
-- The lines are in one table an hour of their time, made when the first line of an hour comes. `howdah logs` reads and writes these tables by their names,
-- never through the parent: whoever reads holds up neither a new hour nor the end of an old one. The parent is for SQL.

CREATE SCHEMA howdah_logs;

-- A run: a container from its start to its end.
CREATE TABLE howdah_logs.run (
    id        bigint GENERATED ALWAYS AS IDENTITY,
    runtime   text COLLATE "C" NOT NULL,  -- its id at the node's runtime
    namespace text COLLATE "C" NOT NULL,
    pod       text COLLATE "C" NOT NULL,
    pod_uid   text COLLATE "C" NOT NULL,
    container text COLLATE "C" NOT NULL,
    restarts  int NOT NULL,
    node      text COLLATE "C" NOT NULL,
    labels    jsonb NOT NULL,
    position  bigint NOT NULL DEFAULT 0,  -- what is stored of it ends there: what a node sends again is not stored again
    first     timestamptz NOT NULL,       -- times of its oldest and its newest line
    last      timestamptz NOT NULL,
    CONSTRAINT run_id PRIMARY KEY (id),
    CONSTRAINT run_runtime UNIQUE (node, runtime)
) WITH (fillfactor = 80);                 -- positions change in place

CREATE INDEX run_namespace ON howdah_logs.run (namespace, pod);
CREATE INDEX run_pod_uid ON howdah_logs.run (pod_uid);

CREATE TABLE howdah_logs.line (
    time     timestamptz NOT NULL,
    run      bigint NOT NULL,             -- without a foreign key, which would cost a look-up a line
    position bigint NOT NULL,
    source   smallint NOT NULL,           -- 1 standard output, 2 standard error, 3 a note of the collector
    text     text NOT NULL
) PARTITION BY RANGE (time);

CREATE INDEX line_time ON howdah_logs.line (time, run, position);
CREATE INDEX line_run ON howdah_logs.line (run, time, position);
