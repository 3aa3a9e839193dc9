#!/usr/bin/env bash
# Kubernetes' own control plane on loopback, to compare with: etcd, kube-apiserver, kube-controller-manager and, if asked for, kube-scheduler, built from their modules.
#   hack/oracle.sh build               the programs, into .build/oracle (minutes the first time)
#   hack/oracle.sh start [FLAG...]     start them, with further flags for kube-apiserver, and print the kubeconfig's path
#   hack/oracle.sh stop                end them, and forget what they kept
#   ORACLE_PORT=9443: its port; the four after it are etcd's, the controller manager's and the scheduler's.
#   ORACLE_CONTROLLERS='--FLAG ...': further flags for kube-controller-manager
#   ORACLE_SCHEDULER='--FLAG ...': starts kube-scheduler, too, with these flags; without it (as for make compare) pods stay where they are
# Beside the kubeconfig are a NAME.pid of each program, their logs, and in ready_ms how long the start took, in milliseconds.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
programs=$BUILD/oracle
port=${ORACLE_PORT:-9443}
dir=$STATE/oracle-$port

build() {
    mkdir -p "$programs"
    say "building Kubernetes $KUBERNETES_VERSION to compare with (minutes the first time)"
    local package
    for package in k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler; do
        GOWORK=off run_logged "$BUILD/log/oracle.log" go -C "$ROOT/test/oracle" build -ldflags "$KUBERNETES_LDFLAGS" -o "$programs/${package##*/}" "$package"
    done
    GOWORK=off run_logged "$BUILD/log/oracle.log" go -C "$ROOT/test/oracle" build -o "$programs/etcd" go.etcd.io/etcd/server/v3
}

# signed NAME SUBJECT [EXTENSIONS] makes a key and a certificate of the oracle's own authority.
signed() {
    openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$1.crt" -extfile <(echo "${3:-}") 2>/dev/null
}

keys() {
    openssl genrsa -out sa.key 2048 2>/dev/null
    openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
    openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 30 -subj /CN=oracle 2>/dev/null
    signed admin /O=system:masters/CN=admin
    signed server /CN=127.0.0.1 subjectAltName=IP:127.0.0.1,DNS:localhost
    cat >kubeconfig <<EOF
apiVersion: v1
kind: Config
clusters: [{name: oracle, cluster: {server: "https://127.0.0.1:$port", certificate-authority: $dir/ca.crt}}]
users: [{name: admin, user: {client-certificate: $dir/admin.crt, client-key: $dir/admin.key}}]
contexts: [{name: oracle, context: {cluster: oracle, user: admin}}]
current-context: oracle
EOF
}

# background NAME COMMAND... runs it with a log and a file of its process id.
background() {
    local name=$1; shift
    nohup "$@" >"$name.log" 2>&1 &
    echo $! >"$name.pid"
}

ready() { curl -sf --max-time 5 --cacert ca.crt --cert admin.crt --key admin.key "https://127.0.0.1:$port/readyz" >/dev/null; }

start() {
    [ -x "$programs/etcd" ] || build
    [ ! -d "$dir" ] || die "an oracle is running already: hack/oracle.sh stop"
    mkdir -p "$dir"
    cd "$dir"
    keys
    local began=${EPOCHREALTIME/[.,]/} # in microseconds
    local store=http://127.0.0.1:$((port + 1)) peer=http://127.0.0.1:$((port + 2)) issuer=https://kubernetes.default.svc.cluster.local
    background etcd "$programs/etcd" --data-dir "$dir/etcd" --log-level error \
        --listen-client-urls "$store" --advertise-client-urls "$store" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
    background kube-apiserver "$programs/kube-apiserver" --etcd-servers "$store" \
        --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$port" --tls-cert-file server.crt --tls-private-key-file server.key \
        --client-ca-file ca.crt --authorization-mode Node,RBAC --allow-privileged --service-cluster-ip-range 10.96.0.0/16 \
        --service-account-issuer "$issuer" --service-account-key-file sa.pub --service-account-signing-key-file sa.key "$@"
    local deadline=$((SECONDS + 120))
    until ready; do
        kill -0 "$(cat kube-apiserver.pid)" 2>/dev/null || { tail -n 5 kube-apiserver.log >&2; stop; die "kube-apiserver ended"; }
        [ "$SECONDS" -lt "$deadline" ] || { stop; die "kube-apiserver is not ready after 2 minutes"; }
        sleep 0.02
    done
    echo $(((${EPOCHREALTIME/[.,]/} - began) / 1000)) >ready_ms
    background kube-controller-manager "$programs/kube-controller-manager" --kubeconfig kubeconfig --leader-elect=false \
        --bind-address 127.0.0.1 --secure-port $((port + 3)) --use-service-account-credentials \
        --service-account-private-key-file sa.key --root-ca-file ca.crt --cluster-signing-cert-file ca.crt --cluster-signing-key-file ca.key \
        ${ORACLE_CONTROLLERS:-} # as words
    if [ -n "${ORACLE_SCHEDULER+set}" ]; then
        background kube-scheduler "$programs/kube-scheduler" --kubeconfig kubeconfig --authentication-kubeconfig kubeconfig \
            --authorization-kubeconfig kubeconfig --leader-elect=false --bind-address 127.0.0.1 --secure-port $((port + 4)) $ORACLE_SCHEDULER
    fi
    echo "$dir/kubeconfig"
}

stop() {
    local file
    for file in "$dir"/*.pid; do
        [ -f "$file" ] || continue
        kill -KILL "$(cat "$file")" 2>/dev/null || true   # nothing of it is kept
    done
    rm -rf "$dir"
}

case "${1:-}" in
    build|start|stop) "$@" ;;
    *) die "usage: hack/oracle.sh build | start [FLAG...] | stop" ;;
esac
