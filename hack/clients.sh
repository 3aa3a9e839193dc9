#!/usr/bin/env bash
# Builds the programs that test/clients runs into .build/clients: the clients from their modules, unmodified, and howdah.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
folder=$BUILD/clients
mkdir -p "$folder"
say "building kubectl, Helm 3 and 4, metrics-server and an operator for the tests (a few minutes the first time)"
log=$BUILD/log/clients.log
GOWORK=off run_logged "$log" go -C "$ROOT/test/kubectl" build -ldflags "$KUBERNETES_LDFLAGS" -o "$folder/kubectl" .
GOWORK=off run_logged "$log" go -C "$ROOT/test/helm3" build -o "$folder/helm3" helm.sh/helm/v3/cmd/helm
GOWORK=off run_logged "$log" go -C "$ROOT/test/helm4" build -o "$folder/helm4" helm.sh/helm/v4/cmd/helm
GOWORK=off run_logged "$log" go -C "$ROOT/test/operator" build -o "$folder/operator" .
GOWORK=off run_logged "$log" go -C "$ROOT/test/metricsserver" build -o "$folder/metrics-server" sigs.k8s.io/metrics-server/cmd/metrics-server
run_logged "$log" go -C "$ROOT/cmd/howdah" build -o "$folder/howdah" .
