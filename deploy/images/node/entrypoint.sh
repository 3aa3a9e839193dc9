#!/bin/bash
# A node's main process: it prepares the container for running containers, then keeps containerd and the node agent
# running, each restarted alone: a fault of the agent touches neither containerd nor any pod.
set -euo pipefail

log() { printf '{"level":"INFO","msg":"%s"}\n' "$*"; }
fail() { printf '{"level":"ERROR","msg":"%s"}\n' "$*" >&2; exit 1; }

# State that outlives the container: one volume, and everything that must survive bound from it. The overlay
# snapshotter also needs it, because overlayfs does not stack on the container's own overlay.
bind_state() {
    local dir
    for dir in /var/lib/containerd /var/lib/cni /var/lib/howdah /var/lib/kubelet /var/log/pods /var/log/containers; do
        mkdir -p "/var/lib/node$dir" "$dir"
        mountpoint -q "$dir" || mount --bind "/var/lib/node$dir" "$dir"
    done
}

# Control groups, writable, and in the same place of every hierarchy for each pod.
open_cgroups() {
    local dir pid controller
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        mount -o remount,rw,bind /sys/fs/cgroup || fail "cannot make /sys/fs/cgroup writable: the container needs SYS_ADMIN and cgroup: private"
        # A cgroup that has children with controllers may hold no process itself.
        mkdir -p /sys/fs/cgroup/node
        while read -r pid; do echo "$pid" >/sys/fs/cgroup/node/cgroup.procs 2>/dev/null || true; done </sys/fs/cgroup/cgroup.procs
        for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
            echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || log "controller $controller cannot be delegated"
        done
        return
    fi
    mount -o remount,rw,bind /sys/fs/cgroup || fail "cannot make /sys/fs/cgroup writable: the container needs SYS_ADMIN"
    for dir in /sys/fs/cgroup/*; do
        if [ ! -L "$dir" ] && mountpoint -q "$dir"; then mount -o remount,rw,bind "$dir"; fi
    done
    # Only when the unified hierarchy is there does runc put pods into it, and eBPF programs attach to it.
    mkdir -p /sys/fs/cgroup/unified
    mountpoint -q /sys/fs/cgroup/unified || mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
}

open_kernel() {
    mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf || fail "the kernel offers no BPF filesystem, which service load balancing needs"
    mount --make-rshared /
    mount -o remount,rw,bind /proc/sys
    # The kernel lets a pod with users of its own mount /proc and /sys only where whole ones are in sight; those of this container have holes.
    mkdir -p /run/whole/proc /run/whole/sys
    mountpoint -q /run/whole/proc || mount -t proc proc /run/whole/proc
    mountpoint -q /run/whole/sys || mount -t sysfs sysfs /run/whole/sys
    echo 1 >/proc/sys/net/ipv4/ip_forward
}

containerd_answers() { timeout 5 ctr version >/dev/null 2>&1; }

import_sandbox_image() {
    local waited=0 image
    until containerd_answers; do
        [ $((waited += 1)) -le 150 ] || fail "containerd does not answer after 30 s"
        sleep 0.2
    done
    for image in /opt/howdah/images/*.tar; do
        ctr --namespace k8s.io images import --local --label io.cri-containerd.pinned=pinned "$image" >/dev/null ||
            fail "cannot import $image"
    done
}

# keep NAME COMMAND... restarts the command whenever it ends, at once after a long life and later and later (to 5 s)
# after short ones. On SIGTERM, or SIGPWR, it ends the command by that signal, and itself.
keep() {
    local name=$1 pid='' delay=0 began status; shift
    end() {
        [ -z "$pid" ] || kill "-$1" "$pid" 2>/dev/null || true
        while kill -0 "$pid" 2>/dev/null; do wait "$pid" || true; done
        exit 0
    }
    trap 'end TERM' TERM
    trap 'end PWR' PWR
    while :; do
        began=$SECONDS
        "$@" & pid=$!
        status=0; wait "$pid" || status=$?
        pid=''
        [ $((SECONDS - began)) -lt 30 ] || delay=0
        log "$name ended with status $status and restarts in ${delay} s"
        sleep "$delay" & wait $! || true
        delay=$((delay < 5 ? delay + 1 : 5))
    done
}

# agent waits for its certificate, on a machine that is to become a node by howdah join.
agent() {
    local folder=${HOWDAH_TLS_DIR:-/pki} said=''
    until [ -e "$folder/tls.crt" ]; do
        [ -n "$said" ] || log "no certificate is in $folder: waiting for howdah join"
        said=yes
        sleep 0.5
    done
    exec howdah nodeagent
}

bind_state
open_cgroups
open_kernel

keep containerd containerd & containerd_keeper=$!
import_sandbox_image
keep nodeagent agent & agent_keeper=$!

# The agent ends first, so that it can say goodbye through a containerd that still answers. For the pods the container's end is that of the machine:
# an agent that is to give them time for it hears of it by SIGPWR, and ends after them.
goodbye=TERM
[ -z "${HOWDAH_SHUTDOWN_GRACE_PERIOD:-}${HOWDAH_SHUTDOWN_GRACE_PERIOD_BY_POD_PRIORITY:-}" ] || goodbye=PWR
stopping=''
trap 'stopping=yes; kill "-$goodbye" "$agent_keeper" 2>/dev/null || true' TERM INT
while kill -0 "$agent_keeper" 2>/dev/null; do wait "$agent_keeper" || true; done
kill -TERM "$containerd_keeper" 2>/dev/null || true
while kill -0 "$containerd_keeper" 2>/dev/null; do wait "$containerd_keeper" || true; done
[ -n "$stopping" ] || fail "the node agent's keeper ended unasked"
log "node stopped"
