#!/usr/bin/env bash
# Builds the pinned tools of tools/go.mod into .build/bin, when they are not there for that go.mod yet.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
mkdir -p "$BUILD/bin"
wanted=$(cat "$ROOT/tools/go.mod" "$ROOT/tools/go.sum" | sha256sum)
[ "$wanted" != "$(cat "$BUILD/bin/.tools" 2>/dev/null)" ] || exit 0
say "building the pinned tools (a minute or two)"
GOWORK=off GOBIN=$BUILD/bin run_logged "$BUILD/log/tools.log" go -C "$ROOT/tools" install tool
printf '%s\n' "$wanted" >"$BUILD/bin/.tools"
