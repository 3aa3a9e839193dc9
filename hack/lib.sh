# Shared by the scripts in hack/: paths, messages, and the one way to call docker compose. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
STATE=$ROOT/.howdah          # what a running cluster leaves on the host: keys, kubeconfig, logs
BUILD=$ROOT/.build           # what builds leave: tools, images for pods
COMPOSE_FILE_MAIN=$ROOT/deploy/compose/compose.yaml
COMPOSE_FILE_HA=$ROOT/deploy/compose/ha.yaml
COMPOSE_FILE_IPV6=$ROOT/deploy/compose/ipv6.yaml
COMPOSE_FILE_STANDINS=$ROOT/deploy/compose/standins.yaml
PATH=$BUILD/bin:$PATH:/usr/local/go/bin:/usr/sbin:/sbin
export PATH

# One way to compile, that of the images: what was compiled for one program serves the others, and the tests.
export CGO_ENABLED=0

# BuildKit is what the Dockerfile is written for; plain progress reads well in logs.
export DOCKER_BUILDKIT=1 COMPOSE_DOCKER_CLI_BUILD=1

# What programs are told that are built from Kubernetes' modules: which release they are.
KUBERNETES_VERSION=v1.36.3
KUBERNETES_LDFLAGS="-X k8s.io/component-base/version.gitVersion=$KUBERNETES_VERSION -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"

started_at=$SECONDS
say()  { printf '==> [%3ds] %s\n' "$((SECONDS - started_at))" "$*"; }
note() { printf '    %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die()  { printf 'error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# at_least 2.26 2.40.1 succeeds when the second version is the first or newer.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$1" ]; }

# setting NAME prints what make up has found for this machine.
setting() { sed -n "s/^$1=//p" "$STATE/compose.env" 2>/dev/null || true; }

# highly_available succeeds where the cluster is, or is to be, the one of ha.yaml.
highly_available() { [ "${HOWDAH_HA:-$(setting HOWDAH_HA)}" = 1 ]; }

# dual_stack succeeds where the cluster has, or is to have, IPv6 addresses, too.
dual_stack() { [ "${HOWDAH_IPV6:-$(setting HOWDAH_IPV6)}" = 1 ]; }

# compose calls docker compose on our file with the settings that make up has found for this machine.
compose() {
    local settings=() files=(-f "$COMPOSE_FILE_MAIN")
    [ -f "$STATE/compose.env" ] && settings=(--env-file "$STATE/compose.env")
    ! highly_available || files+=(-f "$COMPOSE_FILE_HA")
    ! dual_stack || files+=(-f "$COMPOSE_FILE_IPV6")
    docker compose "${settings[@]}" "${files[@]}" "$@"
}

# own_cluster ends the script when the cluster that is here was brought up from another copy of the repository: its
# containers, volumes and image tags have the same names, and must not be replaced or removed unasked.
own_cluster() {
    local folder
    folder=$(docker ps -a --filter label=com.docker.compose.project=howdah \
        --format '{{.Label "com.docker.compose.project.working_dir"}}' 2>/dev/null | grep -vxF "$ROOT/deploy/compose" | head -n1 || true)
    [ -z "$folder" ] || die "a cluster from another copy of howdah is here ($folder): make down there first"
}

# shown FILE prints a path relative to the repository, for messages.
shown() { printf '%s' "${1#"$ROOT"/}"; }

# run_logged FILE COMMAND... keeps the output in FILE and shows its end only if the command fails.
run_logged() {
    local log=$1; shift
    mkdir -p "$(dirname "$log")"
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        die "failed: $* (full output: $(shown "$log"))"
    fi
}

# run_shown FILE COMMAND... also keeps the output in FILE, and prints each step of an image build as it begins.
run_shown() {
    local log=$1; shift
    mkdir -p "$(dirname "$log")"
    if ! "$@" 2>&1 | tee "$log" |
        awk -W interactive '
            /^#[0-9]+ \[[^]]*\] RUN / { step = $0; sub(/^#[0-9]+ /, "", step); gsub(/--mount=[^ ]* */, "", step)
                gsub(/ +/, " ", step); steps[$1] = step }
            /^#[0-9]+ [0-9.]+ / && $1 in steps && !(steps[$1] in seen) { seen[steps[$1]] = 1; print "    " substr(steps[$1], 1, 110) }
            ' 2>/dev/null; then
        grep -vE '^#[0-9]+ (sha256|DONE|CACHED|transferring)' "$log" | tail -n 40 >&2
        die "failed: $* (full output: $(shown "$log"))"
    fi
}
