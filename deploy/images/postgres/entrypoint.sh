#!/bin/bash
# The stand-in's share of the official image's contract: on an empty data folder it makes a cluster with
# POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB, then it runs the command, with its arguments, as the main process.
set -euo pipefail

[ "${1:-}" = postgres ] || exec "$@"
user=${POSTGRES_USER:-postgres} database=${POSTGRES_DB:-${POSTGRES_USER:-postgres}}

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    [ -n "${POSTGRES_PASSWORD:-}" ] || { echo 'error: POSTGRES_PASSWORD is not set' >&2; exit 1; }
    [ "$database" = "${database//\"/}" ] || { echo 'error: POSTGRES_DB must not hold quotes' >&2; exit 1; }
    chmod 700 "$PGDATA"
    # The data folder becomes valid at once, by PG_VERSION's being there, so an interrupted start begins anew.
    find "$PGDATA" -mindepth 1 -delete
    initdb --username="$user" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") --auth-local=trust \
        --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 ${POSTGRES_INITDB_ARGS:-}
    printf 'host all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
    printf "listen_addresses = '*'\n" >>"$PGDATA/postgresql.conf"
    if [ "$database" != postgres ]; then
        printf 'CREATE DATABASE "%s";\n' "$database" |
            postgres --single -D "$PGDATA" -c log_min_messages=warning postgres >/dev/null
    fi
fi
exec "$@"
