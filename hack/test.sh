#!/usr/bin/env bash
# Runs every test: the modules' own, then end to end on a fresh compose cluster with a real kubectl. It leaves nothing
# running: the cluster goes, and so does a Docker daemon that was started for it.
#   HOWDAH_KEEP=1 leaves the cluster up, for a look at what went wrong.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

daemon_was_there=
if timeout 10 docker version >/dev/null 2>&1; then daemon_was_there=yes; fi

finish() {
    local status=$?
    trap - EXIT INT TERM
    if [ "$status" != 0 ]; then keep_logs; fi
    if [ -z "${HOWDAH_KEEP:-}" ]; then
        "$here/down.sh" || true
        [ -n "$daemon_was_there" ] || "$here/docker.sh" stop || true
    fi
    if [ "$status" = 0 ]; then say "every test passed"; else say "failed"; fi
    exit "$status"
}

keep_logs() {
    local folder=$BUILD/log/cluster name
    rm -rf "$folder"; mkdir -p "$folder"
    for name in $(docker ps -a --filter label=com.docker.compose.project=howdah --format '{{.Names}}'); do
        docker logs "$name" >"$folder/$name.log" 2>&1 || true
    done
    note "the containers' logs are in $(shown "$folder")"
}

"$here/install.sh" --test
# Before the trap: a cluster that this refuses must not be taken down either.
"$here/preflight.sh" || { [ -n "$daemon_was_there" ] || "$here/docker.sh" stop; exit 1; }
trap finish EXIT
trap 'exit 130' INT TERM
"$here/images.sh" build
"$here/images.sh" binaries

"$here/clients.sh"

export HOWDAH_TEST_CONTAINERD=$BUILD/containerd/containerd HOWDAH_TEST_BIN=$BUILD/clients
failed=()   # a failure does not keep the other tests from running
# All modules at once: most of the longest wait as much as they compute, and the next begin beside them. These come first, since go test begins in
# this order. What needs a running cluster is not a unit test.
packages=$(cd "$ROOT" && for module in nodeagent cmd/howdah test services $(go list -m -f '{{.Dir}}'); do
    (cd "$module" && go list ./...) || exit 1
done | grep -vE '^howdah\.dev/test/(e2e|ha)(/|$)' | awk '!seen[$0]++')
say "testing $(wc -l <<<"$packages") packages"
(cd "$ROOT" && xargs go test -count=1 -timeout 10m <<<"$packages") || failed+=(packages)

"$here/down.sh"
"$here/up.sh"
say "testing end to end"
"$here/e2e.sh" || failed+=(test/e2e)
[ ${#failed[@]} -eq 0 ] || die "tests failed in: ${failed[*]}"
