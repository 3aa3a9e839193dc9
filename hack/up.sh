#!/usr/bin/env bash
# Brings a cluster up on this machine, from whatever state it is in, and says how to use it. Running it again is fine.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

patience=${HOWDAH_WAIT_SECONDS:-180}

"$here/install.sh"
"$here/preflight.sh"
"$here/images.sh" build

# explain_failure names the containers that are not well, with their last words.
explain_failure() {
    local name
    for name in $(docker ps -a --filter label=com.docker.compose.project=howdah --format '{{.Names}} {{.Status}}' |
        grep -vE ' Up .*\(healthy\)| Exited \(0\)' | cut -d' ' -f1); do
        printf '\n--- %s: %s\n' "$name" "$(docker inspect -f '{{.State.Status}}{{with .State.Health}}, {{.Status}}{{end}}, exit code {{.State.ExitCode}}, restarts {{.RestartCount}}' "$name")" >&2
        docker logs --tail 15 "$name" >&2 2>&1 || true
    done
    die "$1"
}

services=()   # all
[ -f "$STATE/grafana" ] || mapfile -t services < <(compose config --services | grep -vx grafana)

say "starting the mesh"
if ! compose up -d --no-build --remove-orphans --quiet-pull --wait --wait-timeout "$patience" "${services[@]}" >"$BUILD/log/up.log" 2>&1; then
    grep -v -E '(Waiting|Healthy|Started|Created|Creating|Starting|Running|Exited) *$' "$BUILD/log/up.log" >&2 || true
    explain_failure "not every service of the mesh came up (each has $patience s)"
fi

export KUBECONFIG=$STATE/kubeconfig
port=${HOWDAH_REST_PORT:-6443}
if [ "$port" != 6443 ]; then
    kubectl config set-cluster "$(kubectl config view -o jsonpath='{.clusters[0].name}')" --server "https://127.0.0.1:$port" >/dev/null
fi

if highly_available; then
    # By its first name the client finds both gateways, where that has both addresses; by the second context the second one alone.
    second=$(setting HOWDAH_REST2_ADDRESS)
    cluster=$(kubectl config view -o jsonpath='{.clusters[0].name}') user=$(kubectl config view -o jsonpath='{.users[0].name}')
    kubectl config view --raw -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d >"$BUILD/log/ca.crt"
    kubectl config set-cluster second --server "https://$second" --certificate-authority "$BUILD/log/ca.crt" --embed-certs >/dev/null
    kubectl config set-context second --cluster second --user "$user" >/dev/null
    [ "$second" != "[::1]:$port" ] || kubectl config set-cluster "$cluster" --server "https://localhost:$port" >/dev/null
fi

# Docker's proxy of the published port takes as much processor time as a role. Where the engine is this machine's the gateway's own address
# does without; down.sh removes the kubeconfig together with the network.
own=https://$(setting HOWDAH_NET_PREFIX).10:6443
if ! highly_available && kubectl --server "$own" get --raw /readyz --request-timeout 3s >/dev/null 2>&1; then
    kubectl config set-cluster "$(kubectl config view -o jsonpath='{.clusters[0].name}')" --server "$own" >/dev/null
fi

say "waiting until both nodes are Ready"
deadline=$((SECONDS + patience))
until kubectl get node node1 node2 --request-timeout 5s >/dev/null 2>"$BUILD/log/nodes.log"; do
    [ "$SECONDS" -lt "$deadline" ] || { cat "$BUILD/log/nodes.log" >&2; explain_failure "the nodes did not register within $patience s"; }
    sleep 0.5
done
kubectl wait --for=condition=Ready node/node1 node/node2 --timeout "$((deadline - SECONDS))s" >"$BUILD/log/nodes.log" 2>&1 || {
    cat "$BUILD/log/nodes.log" >&2
    kubectl describe nodes >&2 || true
    explain_failure "the nodes did not become Ready within $patience s"
}

say "the cluster is up"
kubectl get nodes -o wide --request-timeout 10s | sed 's/^/    /'
# A node that is short of something is Ready, and takes no pod all the same.
kubectl get nodes -o jsonpath='{range .items[*]}{.metadata.name}{range .status.conditions[?(@.status=="True")]} {.type}{end}{"\n"}{end}' --request-timeout 10s |
    sed -n 's/^\([^ ]*\).* \([A-Za-z]*Pressure\).*/    warning: \1 has \2 and takes no pods: kubectl describe node \1/p'
if [ -f "$STATE/grafana" ]; then grafana=http://127.0.0.1:${HOWDAH_GRAFANA_PORT:-3000}; else grafana='left out: its image cannot be pulled here'; fi
cat <<MESSAGE

    Kubernetes API   https://127.0.0.1:$port$(! highly_available || printf '; https://%s (kubectl --context second)' "$(setting HOWDAH_REST2_ADDRESS)")
    Console          https://127.0.0.1:$port/console/
    Ingress          http://127.0.0.1:${HOWDAH_INGRESS_HTTP_PORT:-8080} and https://127.0.0.1:${HOWDAH_INGRESS_HTTPS_PORT:-8443}
    Jaeger           http://127.0.0.1:${HOWDAH_JAEGER_PORT:-16686}
    Prometheus       http://127.0.0.1:${HOWDAH_PROMETHEUS_PORT:-9090}
    Grafana          $grafana

Next:
    export KUBECONFIG=$STATE/kubeconfig
    kubectl create deployment web --image=nginx:1.9.1 --replicas=3
    kubectl get pods -o wide
    kubectl apply -f examples/console.yaml && kubectl -n howdah-console create token admin   # to sign in to the console
MESSAGE
[ "$(command -v kubectl)" != "$BUILD/bin/kubectl" ] || printf '    (kubectl was built for you: %s)\n' "$BUILD/bin/kubectl"
