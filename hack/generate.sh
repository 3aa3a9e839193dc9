#!/usr/bin/env bash
# Regenerates everything that is committed and made by tools: Go from proto/, OpenAPI, the Gateway API's definitions, and eBPF objects where clang is there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
"$(dirname "$0")/tools.sh"
run_logged "$BUILD/log/protodeps.log" env GOWORK=off go -C tools run ./protodeps "$BUILD/protodeps"
say "generating from proto/"
buf generate
say "generating the OpenAPI definitions of the served kinds"
(cd services && go generate ./apiserver/internal/openapi/...)
say "copying the definitions of the Gateway API from its module"
definitions=$(cd services && go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/standard
rm -f services/ingress/internal/gatewayapi/crd/*.yaml
# Without the policy that keeps other bundles out: whoever brings one may install it.
for file in "$definitions"/gateway.networking.k8s.io_*.yaml; do
    case $file in *_vap_*) ;; *) install -m 0644 "$file" services/ingress/internal/gatewayapi/crd/ ;; esac
done
if have clang; then
    say "compiling the eBPF programs"
    (cd nodeagent && go generate ./bpf/...)
else
    warn "clang is missing: the eBPF objects were left as they are"
fi
