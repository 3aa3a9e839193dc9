package oidc

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	testclock "k8s.io/utils/clock/testing"
)

const (
	fetches = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds"
	keySets = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info"
)

func TestKeyFetchesAreTold(t *testing.T) {
	t.Parallel()
	issuer, _ := newIssuing(t)
	registry := prometheus.NewRegistry()
	cfg := base(issuer)
	cfg.Metrics = NewMetrics(registry, registry)
	cfg.Clock = testclock.NewFakeClock(time.Now().Truncate(time.Second))
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	started(t, p)
	series := func(name string, want int) {
		t.Helper()
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n != want {
			t.Errorf("%s has %d series, not %d: %v", name, n, want, err)
		}
	}
	series(fetches, 0)
	if _, err := p.Holder(t.Context(), issuer.token(t, issuer.key, nil)); err != nil {
		t.Fatal(err)
	}
	series(keySets, 1)
	of := prometheus.Labels{"result": "success", "jwt_issuer_hash": hashOf(issuer.URL)}
	if at := testutil.ToFloat64(cfg.Metrics.fetched.With(of)); at != float64(cfg.Clock.Now().Unix()) {
		t.Errorf("fetched at %v", at)
	}
	if _, err := p.Holder(t.Context(), issuer.token(t, issuer.key, map[string]any{"exp": 1})); err == nil {
		t.Error("a token that has ended is good")
	}
	series("apiserver_authentication_jwt_authenticator_latency_seconds", 2)

	cfg.Metrics.forget(issuer.URL)
	series(fetches, 0)
	series(keySets, 0)
}

func TestFailedFetches(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, registry)
	m.fetchedKeys(t.Context(), "https://a", []byte("one"), time.Unix(5, 0), nil)
	m.fetchedKeys(t.Context(), "https://a", []byte("two"), time.Unix(6, 0), nil)
	m.fetchedKeys(t.Context(), "https://a", nil, time.Unix(7, 0), context.DeadlineExceeded)
	replaced, cancel := context.WithCancel(t.Context())
	cancel()
	m.fetchedKeys(replaced, "https://gone", []byte("three"), time.Unix(8, 0), nil)
	want := strings.NewReplacer("ISSUER", hashOf("https://a"), "KEYS", hashOf("two")).Replace(`
# HELP ` + keySets + ` The hash of the keys that were fetched last.
# TYPE ` + keySets + ` gauge
` + keySets + `{hash="KEYS",jwt_issuer_hash="ISSUER"} 1
# HELP ` + fetches + ` When an issuer's keys were last fetched, by outcome.
# TYPE ` + fetches + ` gauge
` + fetches + `{jwt_issuer_hash="ISSUER",result="failure"} 7
` + fetches + `{jwt_issuer_hash="ISSUER",result="success"} 6
`)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), keySets, fetches); err != nil {
		t.Error(err)
	}
	var none *Metrics
	none.fetchedKeys(t.Context(), "", nil, time.Now(), nil)
	none.known("", nil, 0)
	none.forget("")
}
