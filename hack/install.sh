#!/usr/bin/env bash
# Installs what make up and make test need and this machine lacks, on Debian and Ubuntu. Run it as often as you like:
# what is there is left alone.
#   hack/install.sh          what make up needs
#   hack/install.sh --test   also what make test needs
set -euo pipefail
. "$(dirname "$0")/lib.sh"

for_tests=
case "${1:-}" in
    --test) for_tests=yes ;;
    '') ;;
    *) die "usage: hack/install.sh [--test]" ;;
esac

compose_wanted=2.26.0   # the first with up --wait, cgroup:, and build secrets that work together
go_wanted=1.26
log=$BUILD/log/install.log
mkdir -p "$BUILD/bin" "$BUILD/log" "$STATE"

[ "$(uname -s)" = Linux ] || die "howdah's nodes need Linux; this is $(uname -s)"
. /etc/os-release
case "${ID:-} ${ID_LIKE:-}" in
    *debian*|*ubuntu*) ;;
    *) warn "${PRETTY_NAME:-this system} is neither Debian nor Ubuntu: nothing is installed here, what is missing is named below" ;;
esac

apt_updated=
apt_update() {
    [ -z "$apt_updated" ] || return 0
    say "refreshing the package lists"
    run_logged "$log" apt-get update -q
    apt_updated=yes
}

# need COMMAND PACKAGE... installs the packages if the command is missing.
need() {
    local command=$1; shift
    have "$command" && return 0
    install_packages "$command is missing" "$@"
    hash -r
    have "$command" || die "$command is still missing after installing: $*"
}

install_packages() {
    local why=$1; shift
    have apt-get || die "$why, and there is no apt-get here: install the equivalent of: $*"
    [ "$(id -u)" = 0 ] || die "$why, and only root can install packages: run 'sudo hack/install.sh', or install: $*"
    apt_update
    say "installing $* ($why)"
    DEBIAN_FRONTEND=noninteractive run_logged "$log" \
        apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-confold "$@"
}

# candidate PACKAGE prints the version that apt would install, or nothing.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '^(none)$' || true; }

compose_version() { docker compose version --short 2>/dev/null | sed 's/^v//'; }

compose_fits() { local v; v=$(compose_version) && [ -n "$v" ] && at_least "$compose_wanted" "$v"; }

# trixie_source lets apt take docker-compose, and nothing else, from Debian 13.
trixie_source() {
    local mirror
    mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | grep -v security | head -n1 || true)
    [ -n "$mirror" ] || die "apt has no Debian source here: name one in /etc/apt/sources.list.d/debian.sources"
    say "adding Debian trixie as a source for docker-compose only"
    printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
        "$mirror" >/etc/apt/sources.list.d/howdah-trixie.sources
    printf '%s\n' 'Package: *' 'Pin: release n=trixie' 'Pin-Priority: -10' '' \
        'Package: docker-compose' 'Pin: release n=trixie' 'Pin-Priority: 700' >/etc/apt/preferences.d/howdah-trixie
    apt_updated=
}

install_compose() {
    compose_fits && return 0
    local found why
    found=$(compose_version || true)
    [ -n "$found" ] && why="docker compose $found is older than $compose_wanted" || why="docker compose is missing"
    have apt-get || die "$why: install the compose plugin $compose_wanted or newer"
    [ "$(id -u)" = 0 ] || die "$why, and only root can install packages: run 'sudo hack/install.sh'"
    apt_update
    if [ "${ID:-}" = debian ] && [ "${VERSION_ID:-0}" = 12 ] && [ ! -f /etc/apt/preferences.d/howdah-trixie ]; then
        trixie_source
        apt_update
    fi
    local package version
    for package in docker-compose-plugin docker-compose-v2 docker-compose; do
        version=$(candidate "$package" | sed 's/^[0-9]*://')
        [ -n "$version" ] && at_least "$compose_wanted" "$version" || continue
        install_packages "$why" "$package"
        compose_fits && return 0
    done
    die "$why, and apt offers no newer one: see https://docs.docker.com/compose/install/linux/"
}

install_engine() {
    timeout 10 docker version >/dev/null 2>&1 && return 0
    have dockerd && have docker || install_packages "no Docker engine" docker.io iptables ca-certificates
}

install_go() {
    local found
    found=$(go env GOVERSION 2>/dev/null | sed 's/^go//; s/[^0-9.].*//' || true)
    [ -n "$found" ] && at_least "$go_wanted" "$found" && return 0
    die "Go $go_wanted or newer is needed${found:+, this is $found}: https://go.dev/doc/install"
}

install_postgres() {
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null && return 0
    # Without this the package makes and starts a cluster of its own, which the tests do not want.
    install_packages "the tests start PostgreSQL" postgresql-common
    sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
    install_packages "the tests start PostgreSQL" postgresql
}

# install_auto_failover installs it for the newest PostgreSQL, which is the one that the tests use.
install_auto_failover() {
    local version
    version=$(basename "$(dirname "$(dirname "$(compgen -G '/usr/lib/postgresql/*/bin/postgres' | sort -V | tail -n1)")")")
    have pg_autoctl && [ -f "/usr/share/postgresql/$version/extension/pgautofailover.control" ] && return 0
    install_packages "the tests have one PostgreSQL take another's place" pg-auto-failover-cli "postgresql-$version-auto-failover"
}

kubectl_minor() { "$1" version --client -o json 2>/dev/null | sed -n 's/.*"minor": "\([0-9]*\).*/\1/p' | head -n1; }

install_kubectl() {
    local minor
    minor=$(kubectl_minor kubectl || true)
    if [ -n "$minor" ] && [ "$minor" -ge 32 ] && [ "$minor" -le 36 ]; then return 0; fi
    say "building kubectl 1.36 from its module (found here: ${minor:+1.}${minor:-none})"
    GOWORK=off run_logged "$log" go -C "$ROOT/test/kubectl" build \
        -ldflags "-s -w $KUBERNETES_LDFLAGS" \
        -o "$BUILD/bin/kubectl" .
}

need make make
need git git
install_go
install_engine
install_compose
need ip iproute2
need nft nftables
install_kubectl
"$(dirname "$0")/docker.sh" start
if [ -n "$for_tests" ]; then
    install_postgres
    install_auto_failover
    need busybox busybox-static
    need curl curl ca-certificates
    need losetup mount
    need blkid util-linux
    need mkfs.ext4 e2fsprogs
    need dbus-daemon dbus-daemon
    need chromium chromium fonts-dejavu-core
fi
note "docker $(docker version --format '{{.Server.Version}}'), compose $(compose_version), go $(go env GOVERSION | sed s/go//), kubectl 1.$(kubectl_minor kubectl)"
