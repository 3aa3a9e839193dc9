#!/usr/bin/env bash
# Runs Kubernetes' own conformance tests against a cluster, by default the one that is up.
# FOCUS and SKIP are regular expressions over the tests' names, KUBECONFIG names another cluster. The first build takes minutes. A report lies in .build/conformance afterwards.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

focus=${FOCUS:-'\[sig-api-machinery\].*\[Conformance\]'}
skip=${SKIP:-'\[Slow\]|\[Disruptive\]'}
export KUBECONFIG=${KUBECONFIG:-$STATE/kubeconfig}
[ -s "$KUBECONFIG" ] || die "no cluster is up here: make up, or set KUBECONFIG"
reports=$BUILD/conformance
mkdir -p "$reports" "$BUILD/bin"

say "building Kubernetes' conformance tests (minutes the first time)"
GOWORK=off run_logged "$BUILD/log/conformance-build.log" go -C "$ROOT/test/conformance" test -c -o "$BUILD/bin/conformance" .
# Only our own nodes can be given images; elsewhere a registry must have them.
if [ "$KUBECONFIG" = "$STATE/kubeconfig" ]; then "$(dirname "$0")/conformance-images.sh"; fi
say "running what matches $focus"
"$BUILD/bin/conformance" --kubeconfig "$KUBECONFIG" --provider=skeleton --kubectl-path="$(command -v kubectl)" \
    --ginkgo.no-color --ginkgo.silence-skips --ginkgo.focus="$focus" --ginkgo.skip="$skip" --report-dir="$reports" >"$reports/log" 2>&1 &&
    status=0 || status=$?
sed -n '/^Summarizing/,$p; /^Ran /,$p' "$reports/log" | sort -u | grep -E '\[FAIL\]|^Ran|Passed' || true
note "the whole output is in $(shown "$reports/log")"
exit "$status"
