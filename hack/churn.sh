#!/usr/bin/env bash
# Churns objects at two control planes for DURATION, and breaks them, their database and their clients' connections all the
# while. It fails where an informer or a watch misses, repeats or reorders anything. Needs PostgreSQL's programs, and no cluster.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT/test"
HOWDAH_CHURN=${1:-10m} exec go test -count=1 -timeout 0 -v -run '^TestInformersSurviveDisconnects$' ./clients
