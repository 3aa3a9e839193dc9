#!/usr/bin/env bash
# Checks form: gofmt, go vet and staticcheck on every module, buf lint on the protos, and the syntax of shell scripts and of the console.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
"$(dirname "$0")/tools.sh"

failed=
check() { say "$1"; shift; "$@" || failed=yes; }

unformatted() {
    local files
    files=$(git ls-files -co --exclude-standard '*.go' | grep -v '^proto/gen/' | xargs -r gofmt -l)
    [ -z "$files" ] || { printf 'not formatted: %s\n' $files >&2; return 1; }
}

every_module() {
    local module status=0
    for module in $(go list -m -f '{{.Dir}}'); do
        [ -n "$(cd "$module" && go list ./... 2>/dev/null)" ] || continue
        (cd "$module" && "$@" ./...) || status=1
    done
    return "$status"
}

shell_syntax() {
    local script status=0
    for script in hack/*.sh .ci/run $(git ls-files 'deploy/*.sh'); do bash -n "$script" || status=1; done
    return "$status"
}

# The console's modules, which no build reads.
javascript_syntax() {
    local module status=0
    have node || { warn "node is missing: apt-get install nodejs"; return 1; }
    while read -r module; do
        node --input-type=module --check <"$module" || { printf 'in %s\n' "$module" >&2; status=1; }
    done < <(git ls-files -co --exclude-standard 'gateway/internal/console/static/*.js')
    return "$status"
}

check gofmt unformatted
check "go vet" every_module go vet
check staticcheck every_module staticcheck
run_logged "$BUILD/log/protodeps.log" env GOWORK=off go -C tools run ./protodeps "$BUILD/protodeps"
check "buf lint" buf lint
check "JavaScript syntax" javascript_syntax
check "shell syntax" shell_syntax
check "compose file" docker compose -f "$COMPOSE_FILE_MAIN" config -q
[ -z "$failed" ] || die "lint failed"
