#!/usr/bin/env bash
# Loses each machine of a highly available cluster once, while clients work, on a cluster of its own. It leaves nothing running.
#   HOWDAH_KEEP=1 leaves the cluster up.  Arguments go to go test.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
HOWDAH_HA=1 "$here/up.sh"
finish() {
    local status=$?
    trap - EXIT INT TERM
    [ -n "${HOWDAH_KEEP:-}" ] || "$here/down.sh" || true
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM
say "losing one machine after the other"
export KUBECONFIG=$STATE/kubeconfig HOWDAH_PROMETHEUS_URL=http://127.0.0.1:${HOWDAH_PROMETHEUS_PORT:-9090}
go -C "$ROOT/test" test -count=1 -timeout 30m -v "$@" ./ha/...
