package authn

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestTokenCache counts hits, misses and what came of them; where nobody counts, nothing happens.
func TestTokenCache(t *testing.T) {
	t.Parallel()
	var none *TokenCache
	none.Hit()
	none.Miss()(nil)
	c := NewTokenCache(prometheus.NewPedanticRegistry())
	c.Hit()
	done := c.Miss()
	if n := testutil.ToFloat64(c.active); n != 1 {
		t.Errorf("%v are being looked into", n)
	}
	done(nil)
	c.Miss()(errors.New("bad"))
	for _, want := range []struct {
		of     *prometheus.CounterVec
		status string
		n      float64
	}{{c.requests, "hit", 1}, {c.requests, "miss", 2}, {c.fetches, "ok", 1}, {c.fetches, "error", 1}} {
		if n := testutil.ToFloat64(want.of.WithLabelValues(want.status)); n != want.n {
			t.Errorf("%s: %v, want %v", want.status, n, want.n)
		}
	}
	if n := testutil.ToFloat64(c.active); n != 0 {
		t.Errorf("%v are still being looked into", n)
	}
}
