#!/usr/bin/env bash
# Gives the nodes of the cluster that is up the images that the pods of Kubernetes' conformance tests run, without a registry on the network:
# upstream's programs compiled from their modules, our own nginx and busybox under the names that the tests use. The nodes have them by name, and for
# what is pulled always a registry of the same images beside them, which they ask before the one of that name. CSI names a folder with the programs of
# kubernetes-csi, built from their repositories, since not all are modules: with it there are images of them, too, for the tests of storage drivers.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
programs=$BUILD/conformance/programs
archive=$BUILD/conformance/archive
log=$BUILD/log/conformance-images.log
mkdir -p "$programs"

# The names are those of Kubernetes 1.36.3 (test/utils/image in its repository).
tests=registry.k8s.io/e2e-test-images
built=(agnhost="$tests/agnhost:2.63.0" agnhost-before="$tests/agnhost:2.55" nautilus="$tests/nautilus:1.8" kitten="$tests/kitten:1.8"
    busybox="$tests/busybox:1.37.0-1" sample-apiserver="$tests/sample-apiserver:1.29.2" dns="$tests/glibc-dns-testing:2.0.0" nonroot="$tests/nonroot:1.5" nginx="$tests/nginx:1.15-4"
    nonewprivs="$tests/nonewprivs:1.4" regression-74839="$tests/regression-issue-74839:1.4" resource-consumer="$tests/resource-consumer:1.14" sample-device-plugin="$tests/sample-device-plugin:1.7"
    agnhost=registry.k8s.io/build-image/distroless-iptables:v0.9.6 etcd=registry.k8s.io/etcd:3.6.8-0 pause=registry.k8s.io/pause:3.10.2 hostpathplugin=registry.k8s.io/sig-storage/hostpathplugin:v1.17.1)
renamed=(nginx:latest="$tests/nginx:1.27-0" "$tests/busybox:1.37.0-1=$tests/busybox:1.36.1-1")
storage=registry.k8s.io/sig-storage
csi=(hostpathplugin:v1.17.1 csi-node-driver-registrar:v2.16.0 livenessprobe:v2.18.0 csi-external-health-monitor-controller:v0.17.0 csi-provisioner:v6.1.1 csi-attacher:v4.11.0
    csi-resizer:v2.1.0 csi-snapshotter:v8.5.0 csi-snapshot-metadata:v0.2.0 snapshot-controller:v8.5.0)

# program MODULE NAME PACKAGE compiles it without libc, for any base image.
program() { GOWORK=off run_logged "$log" go -C "$ROOT/test/$1" build -o "$programs/$2" "$3"; }

say "building the programs of the conformance tests' pods (minutes the first time)"
program conformance agnhost k8s.io/kubernetes/test/images/agnhost
program conformance nonewprivs k8s.io/kubernetes/test/images/nonewprivs
program conformance regression-74839 k8s.io/kubernetes/test/images/regression-issue-74839
program conformance consumer k8s.io/kubernetes/test/images/resource-consumer
program conformance consume-cpu k8s.io/kubernetes/test/images/resource-consumer/consume-cpu
program conformance sampledeviceplugin k8s.io/kubernetes/test/images/sample-device-plugin
program conformance sample-apiserver k8s.io/sample-apiserver
program conformance hostpathplugin ./hostpathplugin
program conformance/registry registry .
program oracle etcd go.etcd.io/etcd/server/v3
source=$(GOWORK=off go -C "$ROOT/test/conformance" list -f '{{.Dir}}' k8s.io/kubernetes/test/images/agnhost)
install -m 0644 "$source"/porter/localhost.{crt,key} "$programs"

say "making images of them"
names=()
for pair in "${built[@]}"; do
    # The classic builder takes its base from the images that are here, and asks no registry.
    DOCKER_BUILDKIT=0 run_logged "$log" docker build -f "$ROOT/test/conformance/images/Dockerfile" --target "${pair%%=*}" -t "${pair#*=}" "$programs"
    names+=("${pair#*=}")
done
if [ -n "${CSI:-}" ]; then
    for image in "${csi[@]}"; do
        [ -e "$CSI/${image%:*}" ] || { note "$CSI has no ${image%:*}"; continue; }
        install "$CSI/${image%:*}" "$programs/csi-program"
        DOCKER_BUILDKIT=0 run_logged "$log" docker build -f "$ROOT/test/conformance/images/Dockerfile" --target csi -t "$storage/$image" "$programs"
        names+=("$storage/$image")
    done
fi
for pair in "${renamed[@]}"; do
    docker tag "${pair%%=*}" "${pair#*=}"
    names+=("${pair#*=}")
done
DOCKER_BUILDKIT=0 run_logged "$log" docker build -f "$ROOT/test/conformance/images/Dockerfile" --target registry -t howdah-test/registry:latest "$programs"

say "serving them from a registry beside the nodes"
mkdir -p "$archive"
run_logged "$log" docker save -o "$archive/images.tar" "${names[@]}"
run_logged "$log" compose --profile conformance up -d --no-build --no-deps --force-recreate --wait --wait-timeout 300 registry
for node in $(docker ps --filter label=com.docker.compose.project=howdah --format '{{.Names}}' | grep -E 'howdah-node[0-9]+-'); do
    say "importing them into $node"
    run_logged "$log" docker exec -i "$node" ctr -n k8s.io images import - <"$archive/images.tar"
    # Tests of volumes make block devices of files, and a container's /dev has no loop devices.
    run_logged "$log" docker exec "$node" sh -c 'for i in $(seq 0 63); do [ -e "/dev/loop$i" ] || mknod -m 0660 "/dev/loop$i" b 7 "$i"; done; [ -e /dev/loop-control ] || mknod -m 0660 /dev/loop-control c 10 237'
    # containerd reads this with the next pull.
    run_logged "$log" docker exec -i "$node" bash -c 'mkdir -p "$1" && cat >"$1/hosts.toml"' bash /etc/containerd/certs.d/registry.k8s.io <<'TOML'
server = "https://registry.k8s.io"

[host."http://registry:5000"]
  capabilities = ["pull", "resolve"]
TOML
done
