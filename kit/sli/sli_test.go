package sli_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"howdah.dev/kit/sli"
)

func TestChecks(t *testing.T) {
	t.Parallel()
	checks := sli.New()
	checks.Observe("healthz", "ping", nil)
	checks.Observe("healthz", "ping", nil)
	checks.Observe("livez", "ping", errors.New("down"))
	want := `
# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.
# TYPE kubernetes_healthcheck gauge
kubernetes_healthcheck{name="ping",type="healthz"} 1
kubernetes_healthcheck{name="ping",type="livez"} 0
# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.
# TYPE kubernetes_healthchecks_total counter
kubernetes_healthchecks_total{name="ping",status="error",type="livez"} 1
kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2
`
	if err := testutil.CollectAndCompare(checks, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	checks.Reset()
	if n := testutil.CollectAndCount(checks); n != 0 {
		t.Errorf("%d series are left", n)
	}
}
