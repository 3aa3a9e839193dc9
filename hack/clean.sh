#!/usr/bin/env bash
# Removes the images built here and .build, and stops a Docker daemon that was started here. make down comes first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
if timeout 10 docker version >/dev/null 2>&1; then
    say "removing the images"
    docker image ls -q --filter reference='howdah/*' --filter reference='howdah-test/*' | sort -u | xargs -r docker image rm -f >/dev/null
    docker image rm -f nginx:1.7.9 nginx:1.9.1 >/dev/null 2>&1 || true
fi
"$(dirname "$0")/docker.sh" stop
rm -rf "$BUILD"
