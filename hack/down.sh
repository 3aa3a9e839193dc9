#!/usr/bin/env bash
# Removes the cluster: its containers, network, volumes and keys. Images stay, so that the next make up is quick.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if ! have docker || ! docker compose version >/dev/null 2>&1; then
    note "no Docker with compose here: nothing to remove"
    exit 0
fi
"$(dirname "$0")/docker.sh" start
own_cluster
say "removing the cluster"
export HOWDAH_HA=1 HOWDAH_IPV6=0   # whatever it has: the servers of one kind are orphans of the other, and the network is one
# Docker may let go of a container's end of the network only after the container: then the network is removed with the next try.
tries=1
until (run_logged "$BUILD/log/down.log" compose --profile '*' down --volumes --remove-orphans --timeout 30); do
    [ "$tries" -lt 4 ] || exit 1
    # Ends of containers that were killed or paused may stay for good, with nobody behind them.
    for end in $(docker network inspect --format '{{range .Containers}}{{.Name}} {{end}}' howdah_mesh 2>/dev/null); do
        docker network disconnect --force howdah_mesh "$end" || true
    done
    sleep "$tries"
    tries=$((tries + 1))
done
# By their label, since compose passes over those that no server of the one kind uses: another cluster's data must not be the next one's.
volumes=$(docker volume ls -q --filter label=com.docker.compose.project=howdah)
[ -z "$volumes" ] || run_logged "$BUILD/log/down-volumes.log" xargs docker volume rm <<<"$volumes"
if ! rm -rf "$STATE/pki" 2>/dev/null; then
    docker run --rm --entrypoint rm -v "$STATE:/state" howdah/howdah:dev -rf /state/pki
fi
rm -f "$STATE/kubeconfig" "$STATE/compose.env" "$STATE/grafana"
