#!/usr/bin/env bash
# Runs Kubernetes' own conformance tests against a cluster, by default the one that is up.
# FOCUS and SKIP are regular expressions over the tests' names, PROCS is how many run at a time (those marked [Serial] run alone), KUBECONFIG names
# another cluster. The first build takes minutes. A report lies in .build/conformance afterwards.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

focus=${FOCUS:-'\[sig-api-machinery\].*\[Conformance\]'}
skip=${SKIP:-'\[Slow\]|\[Disruptive\]'}
export KUBECONFIG=${KUBECONFIG:-$STATE/kubeconfig}
[ -s "$KUBECONFIG" ] || die "no cluster is up here: make up, or set KUBECONFIG"
reports=$BUILD/conformance
mkdir -p "$reports" "$BUILD/bin"

say "building Kubernetes' conformance tests (minutes the first time)"
# Not vetted: vet would read every package that the tests use.
GOWORK=off run_logged "$BUILD/log/conformance-build.log" go -C "$ROOT/test/conformance" test -vet=off -c -ldflags "$KUBERNETES_LDFLAGS" -o "$BUILD/bin/conformance.test" .
GOWORK=off run_logged "$BUILD/log/conformance-build.log" go -C "$ROOT/test/conformance" build -o "$BUILD/bin/ginkgo" github.com/onsi/ginkgo/v2/ginkgo
# Some tests copy kubectl into a pod: it must run without the host's libraries.
GOWORK=off run_logged "$BUILD/log/conformance-build.log" go -C "$ROOT/test/kubectl" build -ldflags "$KUBERNETES_LDFLAGS" -o "$reports/kubectl" .
# Only our own nodes can be given images; elsewhere a registry must have them.
if [ "$KUBECONFIG" = "$STATE/kubeconfig" ]; then "$(dirname "$0")/conformance-images.sh"; fi
# Told no number, the tests take the cluster for one of no nodes, and skip what needs two.
nodes=$(kubectl get nodes --no-headers | wc -l)
say "running what matches $focus"
"$BUILD/bin/ginkgo" run --procs="${PROCS:-1}" --no-color --silence-skips --timeout=6h --focus="$focus" --skip="$skip" "$BUILD/bin/conformance.test" -- \
    --kubeconfig "$KUBECONFIG" --provider=skeleton --num-nodes="$nodes" --kubectl-path="$reports/kubectl" --report-dir="$reports" >"$reports/log" 2>&1 &&
    status=0 || status=$?
sed -n '/^Summarizing/,$p; /^Ran /,$p' "$reports/log" | sort -u | grep -aE '\[FAIL\]|^Ran|Passed' || true
note "the whole output is in $(shown "$reports/log")"
exit "$status"
