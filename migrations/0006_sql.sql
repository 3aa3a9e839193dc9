-- Views for people and tools that ask in SQL: schema howdah_api. Bodies are stored as Kubernetes' protobuf, once, as the API server
-- wrote them; here they are decoded when they are read, by functions over a table of the kinds' fields that the API server
-- publishes when it starts. So the views cost nothing to whoever does not ask, and writes do not know of them.

CREATE SCHEMA howdah_api;

-- The kinds by the prefix of their keys ("/apps/deployments/").
CREATE TABLE howdah_api.kind (
    prefix     text COLLATE "C" NOT NULL,
    api_group  text NOT NULL,
    version    text NOT NULL,
    kind       text NOT NULL,
    resource   text NOT NULL,
    namespaced boolean NOT NULL,
    message    text NOT NULL,       -- of its bodies, in howdah_api.field
    concealed  boolean NOT NULL,    -- its bodies are not for readers: Secrets
    CONSTRAINT kind_prefix PRIMARY KEY (prefix)
);

-- The fields of the messages, as struct tags of the Go types have them.
CREATE TABLE howdah_api.field (
    message  text COLLATE "C" NOT NULL,
    number   int NOT NULL,
    name     text NOT NULL,     -- in JSON
    type     text NOT NULL,     -- string, int, bool, bytes, message, or one of the special ones in howdah_api.value
    of       text,              -- the message of a message; the type of a map's values
    of_of    text,              -- the message of a map's values
    repeated boolean NOT NULL,
    inlined  boolean NOT NULL,  -- its fields are the parent's in JSON
    omitted  boolean NOT NULL,  -- JSON leaves it out when it is zero
    CONSTRAINT field_number PRIMARY KEY (message, number)
);

-- What was published last: a sum over all of the above.
CREATE TABLE howdah_api.published (sum text NOT NULL);

CREATE FUNCTION howdah_api.text_or_null(b bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN convert_from(b, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

CREATE FUNCTION howdah_api.jsonb_or_null(b bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN convert_from(b, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- The wire's view of a message: a row a field, in order. Numbers are in number, all else in chunk.
CREATE FUNCTION howdah_api.wire(b bytea, OUT field int, OUT number bigint, OUT chunk bytea) RETURNS SETOF record LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    pos int := 0;
    size int := length(b);
    digit int;
    shift int;
    tag bigint;
    v bigint;
BEGIN
    WHILE pos < size LOOP
        tag := 0; shift := 0;
        LOOP
            digit := get_byte(b, pos); pos := pos + 1;
            tag := tag | ((digit & 127)::bigint << shift);
            EXIT WHEN digit < 128 OR pos >= size OR shift > 56;
            shift := shift + 7;
        END LOOP;
        field := (tag >> 3)::int; number := NULL; chunk := NULL;
        IF (tag & 7) IN (0, 2) THEN
            v := 0; shift := 0;
            LOOP
                EXIT WHEN pos >= size;
                digit := get_byte(b, pos); pos := pos + 1;
                v := v | ((digit & 127)::bigint << shift);
                EXIT WHEN digit < 128 OR shift > 56;
                shift := shift + 7;
            END LOOP;
            IF (tag & 7) = 0 THEN
                number := v;
            ELSE
                IF v < 0 OR v > size - pos THEN
                    RETURN; -- not what it seems to be
                END IF;
                chunk := substring(b FROM pos + 1 FOR v::int); pos := pos + v::int;
            END IF;
        ELSIF (tag & 7) = 1 THEN
            pos := pos + 8;
        ELSIF (tag & 7) = 5 THEN
            pos := pos + 4;
        ELSE
            RETURN;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION howdah_api.message(name text, b bytea, wanted text[]) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN NULL; END $$;

-- One value of a type.
CREATE FUNCTION howdah_api.value(type text, of text, number bigint, chunk bytea, wanted text[]) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    seconds bigint := 0;
    nanos bigint := 0;
    w record;
    items jsonb := '[]';
BEGIN
    CASE type
        WHEN 'string' THEN RETURN to_jsonb(howdah_api.text_or_null(chunk));
        WHEN 'int' THEN RETURN to_jsonb(number);
        WHEN 'bool' THEN RETURN to_jsonb(number <> 0);
        WHEN 'bytes' THEN RETURN to_jsonb(replace(encode(chunk, 'base64'), E'\n', ''));
        WHEN 'message' THEN RETURN howdah_api.message(of, chunk, wanted);
        WHEN 'time', 'microtime' THEN
            IF length(chunk) = 0 THEN
                RETURN 'null'::jsonb;
            END IF;
            FOR w IN SELECT * FROM howdah_api.wire(chunk) LOOP
                IF w.field = 1 THEN seconds := w.number; ELSIF w.field = 2 THEN nanos := w.number; END IF;
            END LOOP;
            IF type = 'time' THEN
                RETURN to_jsonb(to_char(to_timestamp(seconds) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));
            END IF;
            RETURN to_jsonb(to_char(to_timestamp(seconds) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') || '.' || lpad((nanos / 1000)::text, 6, '0') || 'Z');
        WHEN 'quantity' THEN
            FOR w IN SELECT * FROM howdah_api.wire(chunk) x WHERE x.field = 1 LOOP
                RETURN to_jsonb(howdah_api.text_or_null(w.chunk));
            END LOOP;
            RETURN to_jsonb('0'::text);
        WHEN 'intstr' THEN -- 1: whether it is a text, 2: the number, 3: the text
            FOR w IN SELECT * FROM howdah_api.wire(chunk) LOOP
                IF w.field = 1 THEN nanos := w.number; END IF;
                IF w.field = 2 THEN seconds := w.number; END IF;
                IF w.field = 3 AND nanos = 1 THEN RETURN to_jsonb(howdah_api.text_or_null(w.chunk)); END IF;
            END LOOP;
            RETURN to_jsonb(seconds);
        WHEN 'json' THEN
            FOR w IN SELECT * FROM howdah_api.wire(chunk) x WHERE x.field = 1 LOOP
                RETURN howdah_api.jsonb_or_null(w.chunk);
            END LOOP;
            RETURN 'null'::jsonb;
        WHEN 'items' THEN
            FOR w IN SELECT * FROM howdah_api.wire(chunk) x WHERE x.field = 1 LOOP
                items := items || to_jsonb(howdah_api.text_or_null(w.chunk));
            END LOOP;
            RETURN items;
        ELSE
            RETURN NULL; -- opaque
    END CASE;
END $$;

-- The JSON of a message. wanted, where it is given, is the path of the one field that is to be decoded.
CREATE OR REPLACE FUNCTION howdah_api.message(name text, b bytea, wanted text[]) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    result jsonb := '{}';
    w record;
    e record;
    f howdah_api.field;
    v jsonb;
    entry text;
BEGIN
    FOR w IN SELECT * FROM howdah_api.wire(b) LOOP
        SELECT * INTO f FROM howdah_api.field x WHERE x.message = message.name AND x.number = w.field;
        CONTINUE WHEN NOT FOUND;
        IF f.inlined THEN
            result := result || coalesce(howdah_api.message(f.of, w.chunk, wanted), '{}');
            CONTINUE;
        END IF;
        CONTINUE WHEN wanted IS NOT NULL AND wanted[1] <> f.name;
        IF f.type = 'map' THEN
            entry := ''; v := NULL;
            FOR e IN SELECT * FROM howdah_api.wire(w.chunk) LOOP
                IF e.field = 1 THEN
                    entry := howdah_api.text_or_null(e.chunk);
                ELSE
                    v := howdah_api.value(f.of, f.of_of, e.number, e.chunk, NULL);
                END IF;
            END LOOP;
            result := jsonb_set(result, ARRAY[f.name], coalesce(result -> f.name, '{}') || jsonb_build_object(entry, coalesce(v, '""')));
            CONTINUE;
        END IF;
        v := howdah_api.value(f.type, f.of, w.number, w.chunk, CASE WHEN cardinality(wanted) > 1 AND NOT f.repeated THEN wanted[2:] END);
        IF f.repeated THEN
            result := jsonb_set(result, ARRAY[f.name], coalesce(result -> f.name, '[]') || jsonb_build_array(v));
        ELSIF NOT (f.omitted AND v IN ('""', '0', 'false')) THEN
            result := result || jsonb_build_object(f.name, v);
        END IF;
    END LOOP;
    RETURN result;
END $$;

-- The JSON of a stored value, or of the one field of it that wanted leads to. NULL where it cannot be read: it is concealed, encrypted, or
-- of a kind that no API server has published.
CREATE FUNCTION howdah_api.decode(k howdah_api.kind, stored bytea, revision bigint, wanted text[] DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    plain bytea := stored || ''::bytea; -- decompressed once, and not for every byte that is looked at
    result jsonb;
BEGIN
    IF plain IS NULL OR k.message IS NULL OR k.concealed OR length(plain) < 4 THEN
        RETURN NULL;
    END IF;
    IF get_byte(plain, 0) = 123 THEN -- custom resources are stored as JSON
        result := howdah_api.jsonb_or_null(plain);
    ELSIF substring(plain FROM 1 FOR 4) = '\x6b387300'::bytea THEN
        -- k8s\0 and an envelope whose second field is the body.
        SELECT howdah_api.message(k.message, w.chunk, wanted) INTO result
          FROM howdah_api.wire(substring(plain FROM 5)) w WHERE w.field = 2;
    END IF;
    IF result IS NULL OR wanted IS NOT NULL THEN
        RETURN result;
    END IF;
    RETURN jsonb_build_object('apiVersion', CASE WHEN k.api_group = '' THEN k.version ELSE k.api_group || '/' || k.version END, 'kind', k.kind)
        || jsonb_set(result, '{metadata,resourceVersion}', to_jsonb(revision::text));
END $$;

-- "/apps/deployments/" of "/apps/deployments/default/web".
CREATE FUNCTION howdah_api.prefix(key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '/' || split_part(key, '/', 2) || '/' || split_part(key, '/', 3) || '/'
$$;

CREATE FUNCTION howdah_api.namespace(k howdah_api.kind, key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN (k).namespaced THEN split_part(key, '/', 4) ELSE '' END
$$;

CREATE FUNCTION howdah_api.name(k howdah_api.kind, key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(key, '/', CASE WHEN (k).namespaced THEN 5 ELSE 4 END)
$$;

-- The objects of now.
CREATE VIEW howdah_api.objects AS
SELECT k.api_group, k.version, k.kind, k.resource, howdah_api.namespace(k, o.key) AS namespace, howdah_api.name(k, o.key) AS name,
       o.revision, o.create_revision,
       howdah_api.decode(k, coalesce(o.value, (SELECT c.value FROM howdah.change c WHERE c.revision = o.revision)), o.revision) AS object
  FROM howdah.object o JOIN howdah_api.kind k ON k.prefix = howdah_api.prefix(o.key) COLLATE "C";

-- What has happened to objects, as far back as the log goes.
CREATE VIEW howdah_api.changes AS
SELECT c.revision, c.time, CASE c.operation WHEN 1 THEN 'CREATED' WHEN 2 THEN 'UPDATED' ELSE 'DELETED' END AS operation,
       nullif(split_part(c.origin, E'\t', 1), '') AS verb, c.actor AS username, nullif(split_part(c.origin, E'\t', 2), '') AS manager,
       nullif(split_part(c.origin, E'\t', 3), '') AS program,
       k.api_group, k.version, k.kind, k.resource, howdah_api.namespace(k, c.key) AS namespace, howdah_api.name(k, c.key) AS name,
       c.previous_revision, c.create_revision, substring(c.trace_context FROM 4 FOR 32) AS trace_id,
       howdah_api.decode(k, c.value, c.revision) AS object,
       howdah_api.decode(k, coalesce(c.previous_value, (SELECT p.value FROM howdah.change p WHERE p.revision = c.previous_revision)), c.previous_revision) AS previous
  FROM howdah.change c JOIN howdah_api.kind k ON k.prefix = howdah_api.prefix(c.key) COLLATE "C";

-- The objects as they were at a revision that the log still covers.
CREATE FUNCTION howdah_api.objects_at(at bigint) RETURNS TABLE (
    api_group text, version text, kind text, resource text, namespace text, name text, revision bigint, create_revision bigint, object jsonb
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n howdah.counter;
BEGIN
    SELECT * INTO n FROM howdah.counter;
    IF at IS NULL OR at < n.compacted OR at > n.revision THEN
        RAISE EXCEPTION 'states can be read from revision % to %, not at %', n.compacted, n.revision, coalesce(at::text, 'a time before that')
            USING ERRCODE = 'data_exception';
    END IF;
    RETURN QUERY
    SELECT k.api_group, k.version, k.kind, k.resource, howdah_api.namespace(k, s.key), howdah_api.name(k, s.key), s.revision, s.create_revision,
           howdah_api.decode(k, s.value, s.revision)
      FROM (SELECT o.key, o.revision, o.create_revision,
                   coalesce(o.value, (SELECT c.value FROM howdah.change c WHERE c.revision = o.revision)) AS value
              FROM howdah.object o WHERE o.revision <= at
             UNION ALL
            SELECT f.key, f.previous_revision, f.create_revision,
                   coalesce(f.previous_value, (SELECT p.value FROM howdah.change p WHERE p.revision = f.previous_revision))
              FROM (SELECT DISTINCT ON (l.key) l.key, l.previous_revision, l.create_revision, l.previous_value
                      FROM howdah.change l WHERE l.revision > at ORDER BY l.key, l.revision) f
             WHERE f.previous_revision > 0) s
      JOIN howdah_api.kind k ON k.prefix = howdah_api.prefix(s.key) COLLATE "C";
END $$;

-- The revision of a moment; NULL where the log does not reach back so far.
CREATE FUNCTION howdah_api.revision_at(moment timestamptz) RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT howdah.revision_at(moment)
$$;

-- The stored objects of one kind, for the views below: a range of the primary key.
CREATE VIEW howdah_api.stored AS
SELECT k AS k, o.key, o.revision, coalesce(o.value, (SELECT c.value FROM howdah.change c WHERE c.revision = o.revision)) AS value
  FROM howdah_api.kind k JOIN howdah.object o ON o.key >= k.prefix AND o.key < k.prefix || U&'\+10FFFF';

CREATE VIEW howdah_api.pods AS
SELECT howdah_api.namespace(s.k, s.key) AS namespace, howdah_api.name(s.k, s.key) AS name,
       howdah_api.decode(s.k, s.value, s.revision, '{spec,nodeName}') #>> '{spec,nodeName}' AS node,
       howdah_api.decode(s.k, s.value, s.revision, '{status,phase}') #>> '{status,phase}' AS phase,
       howdah_api.decode(s.k, s.value, s.revision, '{status,podIP}') #>> '{status,podIP}' AS ip,
       (howdah_api.decode(s.k, s.value, s.revision, '{metadata,creationTimestamp}') #>> '{metadata,creationTimestamp}')::timestamptz AS created,
       howdah_api.decode(s.k, s.value, s.revision, '{metadata,labels}') #> '{metadata,labels}' AS labels,
       s.revision, howdah_api.decode(s.k, s.value, s.revision) AS object
  FROM howdah_api.stored s WHERE (s.k).prefix = '/core/pods/';

CREATE VIEW howdah_api.deployments AS
SELECT howdah_api.namespace(s.k, s.key) AS namespace, howdah_api.name(s.k, s.key) AS name,
       (howdah_api.decode(s.k, s.value, s.revision, '{spec,replicas}') #>> '{spec,replicas}')::int AS replicas,
       coalesce((howdah_api.decode(s.k, s.value, s.revision, '{status,readyReplicas}') #>> '{status,readyReplicas}')::int, 0) AS ready,
       coalesce((howdah_api.decode(s.k, s.value, s.revision, '{status,availableReplicas}') #>> '{status,availableReplicas}')::int, 0) AS available,
       (howdah_api.decode(s.k, s.value, s.revision, '{metadata,creationTimestamp}') #>> '{metadata,creationTimestamp}')::timestamptz AS created,
       howdah_api.decode(s.k, s.value, s.revision, '{metadata,labels}') #> '{metadata,labels}' AS labels,
       s.revision, howdah_api.decode(s.k, s.value, s.revision) AS object
  FROM howdah_api.stored s WHERE (s.k).prefix = '/apps/deployments/';

CREATE VIEW howdah_api.nodes AS
SELECT howdah_api.name(s.k, s.key) AS name,
       jsonb_path_query_first(howdah_api.decode(s.k, s.value, s.revision, '{status,conditions}'), '$.status.conditions[*] ? (@.type == "Ready").status') #>> '{}' = 'True' AS ready,
       coalesce((howdah_api.decode(s.k, s.value, s.revision, '{spec,unschedulable}') #>> '{spec,unschedulable}')::boolean, false) AS unschedulable,
       howdah_api.decode(s.k, s.value, s.revision, '{status,capacity}') #> '{status,capacity}' AS capacity,
       howdah_api.decode(s.k, s.value, s.revision, '{metadata,labels}') #> '{metadata,labels}' AS labels,
       s.revision, howdah_api.decode(s.k, s.value, s.revision) AS object
  FROM howdah_api.stored s WHERE (s.k).prefix = '/core/nodes/';

CREATE VIEW howdah_api.namespaces AS
SELECT howdah_api.name(s.k, s.key) AS name,
       howdah_api.decode(s.k, s.value, s.revision, '{status,phase}') #>> '{status,phase}' AS phase,
       howdah_api.decode(s.k, s.value, s.revision, '{metadata,labels}') #> '{metadata,labels}' AS labels,
       s.revision, howdah_api.decode(s.k, s.value, s.revision) AS object
  FROM howdah_api.stored s WHERE (s.k).prefix = '/core/namespaces/';

CREATE VIEW howdah_api.events AS
SELECT e.namespace, e.name, e.object ->> 'type' AS type, e.object ->> 'reason' AS reason,
       coalesce(e.object ->> 'message', e.object ->> 'note') AS message,
       coalesce(e.object -> 'involvedObject', e.object -> 'regarding') ->> 'kind' AS about_kind,
       coalesce(e.object -> 'involvedObject', e.object -> 'regarding') ->> 'name' AS about_name,
       coalesce((e.object ->> 'count')::int, (e.object #>> '{series,count}')::int, 1) AS count,
       coalesce(e.object ->> 'lastTimestamp', e.object #>> '{series,lastObservedTime}', e.object ->> 'eventTime', e.object ->> 'firstTimestamp')::timestamptz AS seen,
       e.revision, e.object
  FROM (SELECT howdah_api.namespace(s.k, s.key) AS namespace, howdah_api.name(s.k, s.key) AS name, s.revision,
               howdah_api.decode(s.k, s.value, s.revision) AS object
          FROM howdah_api.stored s WHERE (s.k).kind = 'Event' AND (s.k).prefix IN ('/core/events/', '/events.k8s.io/events/')
        OFFSET 0) e;

-- Readers: members of howdah_reader see the views, and nothing else of the database. The role is the server's, so it may be there
-- already; and whoever migrates may not be allowed to make it.
DO $$
BEGIN
    CREATE ROLE howdah_reader NOLOGIN;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN RAISE NOTICE 'role howdah_reader is to be made by an administrator: see docs/sql.md';
END $$;
DO $$
BEGIN
    GRANT USAGE ON SCHEMA howdah_api TO howdah_reader;
    GRANT SELECT ON howdah_api.objects, howdah_api.changes, howdah_api.pods, howdah_api.deployments, howdah_api.nodes, howdah_api.namespaces,
                    howdah_api.events, howdah_api.kind, howdah_api.field TO howdah_reader;
EXCEPTION WHEN undefined_object THEN NULL;
END $$;
