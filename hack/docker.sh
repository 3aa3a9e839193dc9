#!/usr/bin/env bash
# Starts a Docker daemon where none runs, and stops it again if this script started it.
#   hack/docker.sh start | stop | started-here
set -euo pipefail
. "$(dirname "$0")/lib.sh"

pidfile=$STATE/dockerd.pid
log=$STATE/dockerd.log

answers() { timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# ours_alive succeeds when the daemon that this script started still runs.
ours_alive() {
    [ -s "$pidfile" ] && kill -0 "$(cat "$pidfile")" 2>/dev/null &&
        grep -q '^dockerd' "/proc/$(cat "$pidfile")/comm"
}

start() {
    answers && return 0
    [ "$(id -u)" = 0 ] || die "no Docker daemon answers, and only root can start one: start it, or run this as root"
    have dockerd || die "dockerd is not installed: run hack/install.sh"
    mkdir -p "$STATE"
    if [ -d /run/systemd/system ]; then
        say "starting the Docker daemon (systemd)"
        systemctl start docker || die "systemd could not start Docker: journalctl -u docker"
        answers || die "Docker was started by systemd but does not answer: journalctl -u docker"
        return 0
    fi
    say "starting the Docker daemon ($(shown "$log"))"
    rm -f /var/run/docker.pid
    setsid dockerd --pidfile "$pidfile" >"$log" 2>&1 </dev/null &
    local waited=0
    until answers; do
        kill -0 $! 2>/dev/null || { tail -n 20 "$log" >&2; die "dockerd ended at once: $(shown "$log")"; }
        [ $((waited += 1)) -le 60 ] || { tail -n 20 "$log" >&2; die "dockerd did not answer within 60 s: $(shown "$log")"; }
        sleep 1
    done
}

stop() {
    ours_alive || return 0
    local pid waited=0
    pid=$(cat "$pidfile")
    say "stopping the Docker daemon that was started here (pid $pid)"
    kill "$pid"
    while kill -0 "$pid" 2>/dev/null; do
        [ $((waited += 1)) -le 60 ] || die "dockerd (pid $pid) did not end within 60 s"
        sleep 1
    done
    rm -f "$pidfile"
}

case "${1:-}" in
    start) start ;;
    stop) stop ;;
    started-here) ours_alive ;;
    *) die "usage: hack/docker.sh start | stop | started-here" ;;
esac
