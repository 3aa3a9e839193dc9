#!/usr/bin/env bash
# Asks Kubernetes' own apiserver again what the cases of test/compare ask, records its answers, and compares those of howdah.
# ONLY is a regular expression over the cases' names, as in ONLY='^machinery/'.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
"$ROOT/hack/oracle.sh" stop
kubeconfig=$("$ROOT/hack/oracle.sh" start | tail -n 1)
trap '"$ROOT/hack/oracle.sh" stop' EXIT
say "recording what Kubernetes answers"
(cd "$ROOT/test" && KUBECONFIG=$kubeconfig go run ./compare/record --only "${ONLY:-.}")
say "comparing"
(cd "$ROOT/test" && go test -count=1 ./compare)
