#!/usr/bin/env bash
# Adds simulated nodes to the cluster that is up: they take pods and run nothing. For scale tests.
#   hack/simulate.sh 100   so many of them, instead of those that are there
#   hack/simulate.sh 0     none
set -euo pipefail
. "$(dirname "$0")/lib.sh"

count=${1:-100}
case "$count" in *[!0-9]*) die "usage: hack/simulate.sh COUNT" ;; esac
patience=${HOWDAH_WAIT_SECONDS:-180}
export KUBECONFIG=$STATE/kubeconfig HOWDAH_SIMULATE=$count
[ -f "$KUBECONFIG" ] || die "no cluster is up: make up first"
own_cluster

simulated() { kubectl get nodes -o name --request-timeout 10s | sed -n 's#^node/\(hollow-\)#\1#p'; }
ready() { kubectl get nodes --no-headers --request-timeout 10s | grep -c '^hollow-.* Ready ' || true; }

run_logged "$BUILD/log/simulate.log" compose --profile simulate rm --stop --force simulator
simulated | xargs -r kubectl delete node --wait=false >"$BUILD/log/simulate.log"
[ "$count" -gt 0 ] || { note "no simulated nodes are left"; exit 0; }
run_logged "$BUILD/log/simulate.log" compose --profile simulate up -d --no-build --no-deps --wait --wait-timeout "$patience" simulator
deadline=$((SECONDS + patience))
until [ "$(ready)" = "$count" ]; do
    [ "$SECONDS" -lt "$deadline" ] || die "$(ready) of $count simulated nodes are Ready after $patience s"
    sleep 1
done
note "$count simulated nodes are Ready"
