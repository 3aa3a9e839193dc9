#!/usr/bin/env bash
# Makes every image that the cluster needs.
#   hack/images.sh base    the images that the Dockerfiles start from, and those that compose.yaml names by official tag:
#                          from a registry, or where none answers, stand-ins from Debian packages under the same tags
#   hack/images.sh test    the small images for pods, into the air-gap folder that the nodes import at start
#   hack/images.sh build   base and test, then everything that compose.yaml builds
#   hack/images.sh binaries   the node image's containerd and runc, copied to .build/containerd
# HOWDAH_REGISTRY=yes|no says whether a registry can be used, instead of trying.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

log=$BUILD/log
airgap=${HOWDAH_IMAGES_DIR:-$BUILD/images}
mkdir -p "$log" "$airgap" "$STATE"

debian=debian:trixie-slim
golang=golang:1.26-trixie
named=(postgres:17 jaegertracing/all-in-one:1.62.0 prom/prometheus:v2.53.3)   # services of standins.yaml, in its order
services=(postgres jaeger prometheus)
grafana=grafana/grafana:11.6.0

GOPROXY=$(go env GOPROXY) GOSUMDB=$(go env GOSUMDB)
export GOPROXY GOSUMDB

present() { docker image inspect "$1" >/dev/null 2>&1; }

# A stand-in bears the hash of what it was built from; one that was built from something else is stale. What has no
# such label came from a registry.
HOWDAH_STANDIN=$(cd "$ROOT" && git ls-files -co --exclude-standard deploy/compose/Dockerfile deploy/compose/standins.yaml deploy/images/postgres |
    sort | (cd "$ROOT" && xargs sha256sum) | sha256sum | cut -c1-16)
export HOWDAH_STANDIN
usable() {
    local built
    built=$(docker image inspect -f '{{with .Config.Labels}}{{index . "dev.howdah.standin"}}{{end}}' "$1" 2>/dev/null) || return 1
    [ -z "$built" ] || [ "$built" = "$HOWDAH_STANDIN" ]
}

# registry_answers tries the smallest image there is, once, with a bound on the wait; a refusal is believed for an hour.
registry_answers() {
    if [ -z "${HOWDAH_REGISTRY:-}" ] && [ -n "$(find "$STATE/no-registry" -mmin -60 2>/dev/null)" ]; then HOWDAH_REGISTRY=no; fi
    if [ -z "${HOWDAH_REGISTRY:-}" ]; then
        if timeout 20 docker pull -q hello-world:latest >/dev/null 2>&1; then HOWDAH_REGISTRY=yes; else HOWDAH_REGISTRY=no; fi
        docker image rm hello-world:latest >/dev/null 2>&1 || true
        if [ "$HOWDAH_REGISTRY" = no ]; then touch "$STATE/no-registry"; else rm -f "$STATE/no-registry"; fi
    fi
    [ "$HOWDAH_REGISTRY" = yes ]
}

# debian_mirror prints where this machine's apt gets Debian from; nothing (debootstrap knows an address) where it gets it from nowhere.
debian_mirror() {
    local found
    found=$({ sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true; } |
        grep -v -e security -e ubuntu | head -n1 || true)
    printf '%s' "$found"
}

standin_debian() {
    local work mirror
    have debootstrap || {
        say "installing debootstrap (to build base images)"
        DEBIAN_FRONTEND=noninteractive run_logged "$log/debootstrap.log" \
            apt-get install -y -q --no-install-recommends debootstrap debian-archive-keyring
    }
    [ "$(id -u)" = 0 ] || die "no image registry answers, and only root can build base images with debootstrap"
    say "building a stand-in for $debian with debootstrap"
    work=$(mktemp -d "$BUILD/debootstrap.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mirror=$(debian_mirror)
    [ -e /usr/share/debootstrap/scripts/trixie ] || ln -s sid /usr/share/debootstrap/scripts/trixie
    run_logged "$log/debootstrap.log" debootstrap --variant=minbase trixie "$work" ${mirror:+"$mirror"}
    # Certificate authorities that this machine's owner added: ca-certificates picks them up wherever it is installed.
    if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
        mkdir -p "$work/usr/local/share/ca-certificates"
        cp /usr/local/share/ca-certificates/*.crt "$work/usr/local/share/ca-certificates/"
    fi
    rm -rf "$work"/var/cache/apt/archives/*.deb "$work"/var/lib/apt/lists/* "$work"/usr/share/doc/* \
        "$work"/usr/share/man/* "$work"/usr/share/locale/*
    # As the official image does: no documentation, and nothing of apt's that an image's layer would carry along.
    printf 'path-exclude %s\n' '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/locale/*' '/usr/share/info/*' \
        >"$work/etc/dpkg/dpkg.cfg.d/slim"
    printf '%s\n' 'Acquire::Languages "none";' 'Dir::Cache::pkgcache "";' 'Dir::Cache::srcpkgcache "";' \
        'APT::Keep-Downloaded-Packages "false";' 'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; };' \
        >"$work/etc/apt/apt.conf.d/slim"
    rm -f "$work"/var/cache/apt/*.bin "$work"/var/log/*.log
    tar -C "$work" --numeric-owner -c . |
        docker import --change 'CMD ["bash"]' --message 'howdah stand-in' - "$debian" >/dev/null
    rm -rf "$work"
    trap - EXIT
}

standin_golang() {
    local work
    say "building a stand-in for $golang from this machine's $(go env GOVERSION)"
    work=$(mktemp -d "$BUILD/golang.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$work/certs/" 2>/dev/null || true
    ln -s "$(go env GOROOT)" "$work/go"
    cp "$ROOT/deploy/standins/golang.Dockerfile" "$work/Dockerfile"
    # The classic builder: it takes its context from a pipe, so the Go distribution is not copied first.
    tar -C "$work" --dereference --anchored --exclude=./go/test --exclude=./go/api --exclude=./go/doc -c . |
        DOCKER_BUILDKIT=0 run_logged "$log/golang.log" docker build -t "$golang" -
    rm -rf "$work"
    trap - EXIT
}

base() {
    local i missing=()
    for i in "$debian" "$golang" "${named[@]}"; do usable "$i" || missing+=("$i"); done
    if [ ${#missing[@]} -gt 0 ]; then
        if registry_answers; then
            for i in "${missing[@]}"; do
                say "pulling $i"
                run_logged "$log/pull.log" docker pull "$i"
            done
        else
            note "no image registry answers: base images are built from Debian packages under the same tags"
            present "$debian" || standin_debian
            present "$golang" || standin_golang
            missing=()
            for i in "${!named[@]}"; do usable "${named[$i]}" || missing+=("${services[$i]}"); done
            if [ ${#missing[@]} -gt 0 ]; then
                say "building stand-ins: ${missing[*]} (minutes)"
                run_shown "$log/standins.log" compose -f "$COMPOSE_FILE_STANDINS" build --progress=plain "${missing[@]}"
            fi
        fi
    fi
    if present "$grafana" || { registry_answers && run_logged "$log/pull.log" docker pull "$grafana"; }; then
        echo yes >"$STATE/grafana"
    else
        rm -f "$STATE/grafana"
    fi
}

# test_images: nginx 1.7.9 and 1.9.1 are built even where a registry answers, because Docker Hub has them only in a
# manifest format that today's container runtimes refuse.
test_images() {
    local names=(nginx:1.7.9 nginx:1.9.1 nginx:latest busybox:latest howdah-test/tools:latest) ids archive
    archive=$airgap/test-images.tar
    say "building the images for pods"
    run_logged "$log/test-images.log" docker compose -f "$ROOT/test/images/compose.yaml" build --progress=plain
    ids=$(docker image inspect --format '{{.Id}}' "${names[@]}")
    if [ -f "$archive" ] && [ "$ids" = "$(cat "$archive.ids" 2>/dev/null)" ]; then return 0; fi
    docker save -o "$archive.part" "${names[@]}"
    mv "$archive.part" "$archive"
    printf '%s\n' "$ids" >"$archive.ids"
}

# program builds howdah for the images.
program() {
    say "building howdah (minutes the first time)"
    GOOS=linux GOARCH=$(docker version --format '{{.Server.Arch}}') \
        run_logged "$log/howdah.log" go -C "$ROOT" build -ldflags '-s -w' -o "$BUILD/image/howdah" ./cmd/howdah
}

build() {
    base
    test_images
    program
    say "building the images (minutes the first time)"
    export HOWDAH_BINARY=given
    run_shown "$log/build.log" compose build --progress=plain
    docker image prune -f --filter label=com.docker.compose.project=howdah >/dev/null 2>&1 || true
}

# binaries copies the node image's containerd and runc to the host, for the Go tests that need a real one.
binaries() {
    local container folder=$BUILD/containerd
    mkdir -p "$folder"
    container=$(docker create howdah/node:dev)
    for i in containerd containerd-shim-runc-v2 ctr runc; do docker cp "$container:/usr/local/bin/$i" "$folder/$i"; done
    docker cp "$container:/opt/howdah/images/pause.tar" "$folder/pause.tar"
    docker rm "$container" >/dev/null
}

case "${1:-}" in
    base) base ;;
    test) base; test_images ;;
    build) build ;;
    binaries) binaries ;;
    *) die "usage: hack/images.sh base | test | build | binaries" ;;
esac
