#!/usr/bin/env bash
# Has node3 join the cluster that is up, as a machine of its own would: by a bootstrap token.
#   hack/join.sh      it joins; it may have joined before
#   hack/join.sh 0    it is reset and taken away
set -euo pipefail
. "$(dirname "$0")/lib.sh"

count=${1:-1}
case "$count" in 0 | 1) ;; *) die "usage: hack/join.sh [0|1]" ;; esac
patience=${HOWDAH_WAIT_SECONDS:-180}
log=$BUILD/log/join.log
export KUBECONFIG=$STATE/kubeconfig
[ -f "$KUBECONFIG" ] || die "no cluster is up: make up first"
own_cluster
mkdir -p "$BUILD/log"
on_node() { compose --profile join exec -T node3 "$@"; }

# until_done WHAT COMMAND... tries a command until it succeeds.
until_done() {
    local what=$1 deadline=$((SECONDS + patience)); shift
    until "$@" >"$log" 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || { tail -n 20 "$log" >&2; die "$what after $patience s"; }
        sleep 0.5
    done
}

if [ "$count" = 0 ]; then
    run_logged "$log" kubectl delete node node3 --ignore-not-found --request-timeout 60s
    if [ -n "$(compose --profile join ps -q node3)" ]; then
        # Without its certificate the agent ends and waits; then the machine can be reset.
        run_logged "$log" on_node sh -c 'rm -f "$HOWDAH_TLS_DIR/tls.crt"; for p in /proc/[0-9]*; do
            ! tr "\0" " " <"$p/cmdline" 2>/dev/null | grep -q "^howdah nodeagent" || kill "${p#/proc/}"; done; true'
        until_done "node3 is not reset" on_node howdah reset -f
        cat "$log"
    fi
    run_logged "$log" compose --profile join rm --stop --force --volumes node3
    docker volume rm howdah_node3 >"$log" 2>&1 || true
    note "node3 is gone"
    exit 0
fi

[ -x "$BUILD/bin/howdah" ] || (cd "$ROOT" && go build -o "$BUILD/bin/howdah" ./cmd/howdah)
run_logged "$log" compose --profile join up -d --no-build --no-deps node3
until_done "containerd does not answer on node3" on_node ctr version
command=$("$BUILD/bin/howdah" token create --ttl 10m --description "make join" --print-join-command)
# shellcheck disable=SC2086 # the words of a command
on_node $command
until_done "node3 is not Ready" kubectl wait --for=condition=Ready node/node3 --timeout 10s
note "node3 is Ready"
