#!/usr/bin/env bash
# Runs Kubernetes' own tests of kubectl (test/cmd of its repository: shell scripts with some 1,900 checks) against a standalone on loopback, with a kubectl
# built from its sources.
#   WHAT='run_name ...' chooses groups, by the names of the scripts' functions without run_ and _tests, as in kubectl_get.
# One check fetches a file from outside and fails where there is no way there (multi_resources).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
have initdb || PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
for program in initdb jq openssl curl; do have "$program" || die "$program is needed"; done

work=$BUILD/kubectl-tests port=${PORT:-26443}
sources=$(GOWORK=off go -C "$ROOT/test/conformance" list -m -f '{{.Dir}}' k8s.io/kubernetes)
say "building (minutes the first time)"
rm -rf "$work"
mkdir -p "$work/bin" "$work/test/e2e" "$work/third_party/forked" "$work/api"
for folder in hack test/cmd test/fixtures test/e2e/testing-manifests third_party/forked/shell2junit api/openapi-spec; do
    cp -r "$sources/$folder" "$work/$(dirname "$folder")/"
done
chmod -R u+w "$work"
chmod +x "$work"/test/fixtures/pkg/kubectl/plugins/{,*/}kubectl-* # modules carry no modes
GOWORK=off run_logged "$BUILD/log/kubectl-tests.log" go -C "$ROOT/test/kubectl" build -ldflags "$KUBERNETES_LDFLAGS" -o "$work/bin/kubectl" .
GOWORK=off run_logged "$BUILD/log/kubectl-tests.log" go -C "$ROOT/test/conformance" build -o "$work/bin/kubectl-convert" k8s.io/kubernetes/cmd/kubectl-convert
run_logged "$BUILD/log/kubectl-tests.log" go -C "$ROOT/cmd/howdah" build -o "$work/bin/howdah" .

data=$(mktemp -d) howdah=
as_postgres() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --clear-groups env PATH="$PATH" "$@"; else "$@"; fi; }
finish() {
    [ -z "$howdah" ] || kill "$howdah" 2>/dev/null || true
    as_postgres pg_ctl -D "$data/db" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$data" /tmp/apiserver.crt
}
trap finish EXIT
[ "$(id -u)" != 0 ] || chown postgres "$data"
say "starting a standalone"
as_postgres initdb -D "$data/db" -A trust -U postgres >/dev/null
as_postgres pg_ctl -D "$data/db" -w -o "-k $data -c listen_addresses= -c fsync=off" -l "$data/log" start >/dev/null
cd "$work"
# As Kubernetes' script starts its own: everything is allowed, no pod gets an account, no node a range, and the token is an administrator's.
bin/howdah standalone --dir "$work/state" --listen "127.0.0.1:$port" --database-url "host=$data user=postgres dbname=postgres sslmode=disable" \
    --authorization-mode RBAC,AlwaysAllow --anonymous-auth=false --enable-admission-plugins LimitRanger,ResourceQuota \
    --disable-admission-plugins ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,StorageObjectInUseProtection \
    --service-cidr 10.0.0.0/24 --cluster-cidr "" --token-auth-file hack/testdata/auth-tokens.csv --log-level warn >howdah.log 2>&1 &
howdah=$!
deadline=$((SECONDS + 120))
until curl -skf --max-time 5 -H "Authorization: Bearer admin-token" "https://127.0.0.1:$port/readyz" >/dev/null; do
    kill -0 "$howdah" 2>/dev/null || { tail -n 5 howdah.log >&2; die "the standalone ended"; }
    [ "$SECONDS" -lt "$deadline" ] || die "the standalone is not ready after 2 minutes"
    sleep 0.2
done
cp state/ca/ca.* hack/testdata/ca/           # the scripts make client certificates by it
cp state/gateway/tls.crt /tmp/apiserver.crt  # and read the server's where theirs would be

say "running (minutes): $(shown "$work/log")"
cat >run.sh <<'SCRIPT'
set -o errexit -o nounset -o pipefail
export TERM=xterm KUBE_ROOT=$PWD ALLOW_SKEW=1 # howdah's version says that it is howdah's
THIS_PLATFORM_BIN=$PWD/bin
source hack/lib/util.sh; source hack/lib/logging.sh; source hack/lib/test.sh
kube::util::ensure-gnu-sed() { SED=sed; }
kube::etcd::start() { :; }
kube::etcd::cleanup() { :; }
function kube::util::test_client_certificate_authentication_enabled { :; } # it looks for the name of another authority
make() { :; }
source test/cmd/legacy-script.sh
setup
kubectl create -f - <<<'{"kind":"Node","apiVersion":"v1","metadata":{"name":"127.0.0.1","annotations":{"save-managers":"true"}},"status":{"capacity":{"memory":"1Gi"}}}'
export SUPPORTED_RESOURCES=("*")
runTests
SCRIPT
passed=0
SECURE_API_PORT=$port KUBE_JUNIT_REPORT_DIR=$work/junit WHAT=${WHAT:-} bash run.sh >log 2>&1 || passed=$?
say "$(grep -c Successful log) checks passed"
[ "$passed" = 0 ] || die "failed: $(sed -n 's/^Error when running run_//p' log | sort -u | tr '\n' ' ')(full output: $(shown "$work/log"))"
