#!/usr/bin/env bash
# Looks for what would make the cluster fail later, and says it now: kernel features, disk, memory, ports, network.
# Writes the network that it found free to .howdah/compose.env.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
mkdir -p "$STATE"

problems=()
problem() { problems+=("$*"); }

# Our own running cluster holds its ports and its network: that is no problem.
running() { [ -n "$(docker ps -q --filter label=com.docker.compose.project=howdah --filter "label=com.docker.compose.service=$1" 2>/dev/null)" ]; }

listening() { ss -Hltn "sport = :$1" 2>/dev/null | grep -q .; }

ports() {
    local entry service variable port
    for entry in gateway:HOWDAH_REST_PORT:6443 ingress:HOWDAH_INGRESS_HTTP_PORT:8080 ingress:HOWDAH_INGRESS_HTTPS_PORT:8443 \
        jaeger:HOWDAH_JAEGER_PORT:16686 jaeger:HOWDAH_OTLP_PORT:4317 \
        prometheus:HOWDAH_PROMETHEUS_PORT:9090 grafana:HOWDAH_GRAFANA_PORT:3000; do
        IFS=: read -r service variable port <<<"$entry"
        port=${!variable:-$port}
        [ "$service" = grafana ] && [ ! -f "$STATE/grafana" ] && continue
        running "$service" && continue
        listening "$port" || continue
        problem "port $port on this machine is taken$(ss -Hltnp "sport = :$port" 2>/dev/null | sed -n 's/.*users:(("\([^"]*\)",pid=\([0-9]*\).*/ (by \1, pid \2)/p' | head -n1): end that program, or choose another with $variable=PORT"
    done
}

# overlaps PREFIX says whether a route of this machine, or a network of Docker's, uses any of PREFIX.0/24.
overlaps() {
    ip -4 route show to match "$1.10" 2>/dev/null | grep -qv '^default' && return 0
    ip -4 route show to root "$1.0/24" 2>/dev/null | grep -q . && return 0
    docker network ls -q | xargs -r docker network inspect -f '{{range .IPAM.Config}}{{.Subnet}} {{end}}' 2>/dev/null |
        grep -qE "(^| )${1//./\\.}\."
}

network() {
    local prefix existing
    existing=$(docker network inspect howdah_mesh -f '{{range .IPAM.Config}}{{println .Subnet}}{{end}}' 2>/dev/null | grep -m1 '\.' || true)
    if [ -n "$existing" ]; then
        prefix=${existing%.0/24}
        if [ -n "${HOWDAH_NET_PREFIX:-}" ] && [ "$HOWDAH_NET_PREFIX" != "$prefix" ]; then
            problem "the cluster runs on $existing, not on HOWDAH_NET_PREFIX=$HOWDAH_NET_PREFIX: make down first"
        fi
    elif [ -n "${HOWDAH_NET_PREFIX:-}" ]; then
        prefix=$HOWDAH_NET_PREFIX
        if overlaps "$prefix"; then problem "the network $prefix.0/24 (HOWDAH_NET_PREFIX) is in use on this machine"; fi
    else
        for prefix in 172.30.0 172.29.173 192.168.173 10.173.0 ''; do
            [ -n "$prefix" ] || { problem "no free network found: name one with HOWDAH_NET_PREFIX, for example HOWDAH_NET_PREFIX=192.168.77"; return; }
            overlaps "$prefix" || break
        done
    fi
    printf 'HOWDAH_NET_PREFIX=%s\n' "$prefix" >"$STATE/compose.env"
}

# there SERVICE says whether the cluster that is here has it, running or not.
there() { [ -n "$(docker ps -aq --filter label=com.docker.compose.project=howdah --filter "label=com.docker.compose.service=$1" 2>/dev/null)" ]; }

# availability settles whether the cluster is the highly available one, and where its second gateway is.
availability() {
    local port=${HOWDAH_REST_PORT:-6443} second=${HOWDAH_REST2_ADDRESS:-}
    case "${HOWDAH_HA:=}" in
        '') if there postgres1; then HOWDAH_HA=1; else HOWDAH_HA=0; fi ;;
        1) ! there postgres || problem "the cluster that is here has one database server: make down before make up HA=1" ;;
        0) ! there postgres1 || problem "the cluster that is here is highly available: make down before make up HA=0" ;;
        *) problem "HA is 1 or 0, not $HOWDAH_HA" ;;
    esac
    export HOWDAH_HA
    printf 'HOWDAH_HA=%s\n' "$HOWDAH_HA" >>"$STATE/compose.env"
    [ "$HOWDAH_HA" = 1 ] || return 0
    # Where localhost has two addresses each gateway gets one: clients try the other when one refuses.
    [ -n "$second" ] || if getent ahostsv6 localhost 2>/dev/null | grep -q '^::1 '; then second="[::1]:$port"; else second=127.0.0.1:6444; fi
    printf 'HOWDAH_REST2_ADDRESS=%s\n' "$second" >>"$STATE/compose.env"
    running gateway2 || [ -z "$(ss -Hltn "src $second" 2>/dev/null)" ] ||
        problem "$second on this machine is taken: end that program, or choose another with HOWDAH_REST2_ADDRESS=ADDRESS:PORT"
}

# families settles whether the cluster has IPv6 addresses beside those of IPv4, and which. A network keeps what it was made with.
families() {
    local existing='' prefix=${HOWDAH_NET6_PREFIX:-fd68:6f77:6461}
    existing=$(docker network inspect howdah_mesh -f '{{if .EnableIPv6}}1{{else}}0{{end}}' 2>/dev/null || true)
    case "${HOWDAH_IPV6:=${existing:-0}}" in
        0 | 1) [ "$HOWDAH_IPV6" = "${existing:-$HOWDAH_IPV6}" ] || problem "the cluster that is here was made with IPV6=$existing: make down before make up IPV6=$HOWDAH_IPV6" ;;
        *) problem "IPV6 is 1 or 0, not $HOWDAH_IPV6" ;;
    esac
    export HOWDAH_IPV6
    printf 'HOWDAH_IPV6=%s\n' "$HOWDAH_IPV6" >>"$STATE/compose.env"
    [ "$HOWDAH_IPV6" = 1 ] || return 0
    printf 'HOWDAH_NET6_PREFIX=%s\n' "$prefix" >>"$STATE/compose.env"
    [ -d /proc/sys/net/ipv6 ] || problem "this kernel has no IPv6, or it was started with ipv6.disable=1"
    [ -n "$existing" ] || ! ip -6 route show root "$prefix::/48" 2>/dev/null | grep -q . ||
        problem "the network $prefix::/48 is in use on this machine: name the first 48 bits of another with HOWDAH_NET6_PREFIX"
}

kernel() {
    local release major minor
    release=$(uname -r) major=${release%%.*} minor=${release#*.} minor=${minor%%[!0-9]*}
    if [ "$major" -lt 5 ] || { [ "$major" -eq 5 ] && [ "$minor" -lt 18 ]; }; then
        problem "Linux 5.18 or newer is needed for the eBPF load balancer; this is $release"
    elif [ "$major" -lt 6 ] || { [ "$major" -eq 6 ] && [ "$minor" -lt 6 ]; }; then
        note "Linux $release: programs on pod interfaces use tc, because tcx came with 6.6"
    fi
    grep -qw bpf /proc/filesystems || problem "this kernel has no BPF filesystem (CONFIG_BPF_SYSCALL)"
    grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || problem "this kernel has no overlayfs (CONFIG_OVERLAY_FS)"
    grep -qw cgroup2 /proc/filesystems || problem "this kernel has no cgroup v2 (CONFIG_CGROUPS)"
    [ -f /sys/fs/cgroup/cgroup.controllers ] || [ -d /sys/fs/cgroup/unified ] ||
        problem "cgroup v2 is not mounted (neither /sys/fs/cgroup nor /sys/fs/cgroup/unified): mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified"
}

room() {
    local folder free memory
    folder=$(docker info --format '{{.DockerRootDir}}' 2>/dev/null || echo /var/lib/docker)
    free=$(df -Pm "$folder" | awk 'NR==2{print $4}')
    if docker image inspect howdah/node:dev >/dev/null 2>&1; then
        [ "$free" -ge 2048 ] || problem "$folder has $free MiB free; a running cluster needs 2048, and below 1024 its nodes take no pods"
    else
        [ "$free" -ge 10240 ] || problem "$folder has $free MiB free; building the images needs 10240"
    fi
    memory=$(awk '/MemAvailable/{print int($2/1024)}' /proc/meminfo)
    [ "$memory" -ge 2048 ] || running gateway || problem "$memory MiB of memory are available; the cluster needs 2048"
}

own_cluster
kernel
room
network
availability
families
ports
if [ ${#problems[@]} -gt 0 ]; then
    printf 'error: %s\n' "${problems[@]}" >&2
    exit 1
fi
