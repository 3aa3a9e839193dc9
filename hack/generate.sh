#!/usr/bin/env bash
# Regenerates everything that is committed and made by tools: Go from proto/, and eBPF objects where clang is there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
"$(dirname "$0")/tools.sh"
run_logged "$BUILD/log/protodeps.log" env GOWORK=off go -C tools run ./protodeps "$BUILD/protodeps"
say "generating from proto/"
buf generate
say "generating the OpenAPI definitions of the served kinds"
(cd services && go generate ./apiserver/internal/openapi/...)
if have clang; then
    say "compiling the eBPF programs"
    (cd nodeagent && go generate ./bpf/...)
else
    warn "clang is missing: the eBPF objects were left as they are"
fi
