#!/usr/bin/env bash
# Runs the end-to-end tests on the cluster that is up. Arguments go to go test: hack/e2e.sh -run TestTrace -v
set -euo pipefail
. "$(dirname "$0")/lib.sh"
[ -s "$STATE/kubeconfig" ] || die "no cluster is up here: make up"
export KUBECONFIG=$STATE/kubeconfig
export HOWDAH_JAEGER_URL=http://127.0.0.1:${HOWDAH_JAEGER_PORT:-16686}
export HOWDAH_INGRESS_HTTP=127.0.0.1:${HOWDAH_INGRESS_HTTP_PORT:-8080} HOWDAH_INGRESS_HTTPS=127.0.0.1:${HOWDAH_INGRESS_HTTPS_PORT:-8443}
export HOWDAH_PROMETHEUS_URL=http://127.0.0.1:${HOWDAH_PROMETHEUS_PORT:-9090}
(cd "$ROOT" && go build -o "$BUILD/bin/howdah" ./cmd/howdah)
cd "$ROOT/test"
go test -count=1 -timeout 20m "$@" ./e2e/...
