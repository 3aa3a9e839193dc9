package discovery

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	good := func(context.Context) error { return nil }
	bad := func(context.Context) error { return errors.New("the disk is gone") }
	s := New(Config{Checks: []Check{{Name: "ping", Live: true, Run: good}, {Name: "store", Run: bad}, {Name: "poststarthook/x", Run: good}, {Name: "begun", Ready: true, Run: good}}})
	for _, tt := range []struct{ path, query, want, err string }{
		{"/livez", "", "ok", ""},
		{"/livez", "verbose", "[+]ping ok\nlivez check passed\n", ""},
		{"/livez", "verbose=false", "[+]ping ok\nlivez check passed\n", ""},
		{"/livez/ping", "", "ok", ""},
		{"/readyz/poststarthook/x", "", "ok", ""},
		{"/readyz", "", "", "[+]ping ok\n[-]store failed: reason withheld\n[+]poststarthook/x ok\n[+]begun ok\nreadyz check failed"},
		{"/healthz", "verbose&exclude=store", "[+]ping ok\n[+]store excluded: ok\n[+]poststarthook/x ok\nhealthz check passed\n", ""},
		{"/readyz", "exclude=store", "ok", ""},
		{"/readyz", "exclude=store&exclude=b&exclude=a&verbose", "[+]ping ok\n[+]store excluded: ok\n[+]poststarthook/x ok\n[+]begun ok\nwarn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nreadyz check passed\n", ""},
		{"/readyz/store", "", "", "internal server error: the disk is gone"},
		{"/livez/store", "", "", "404 page not found"},
		{"/healthz/begun", "", "", "404 page not found"},
		{"/readyz/none", "", "", "404 page not found"},
	} {
		d, err := s.health(t.Context(), tt.path, tt.query)
		switch {
		case tt.err != "":
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s?%s: %v", tt.path, tt.query, err)
			}
		case err != nil || string(d.body) != tt.want:
			t.Errorf("%s?%s: %v %v", tt.path, tt.query, d, err)
		}
	}
	d, err := s.document(t.Context(), "/metrics/slis", "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`kubernetes_healthcheck{name="ping",type="livez"} 1`, `kubernetes_healthcheck{name="store",type="readyz"} 0`,
		`kubernetes_healthchecks_total{name="store",status="error",type="readyz"}`} {
		if !strings.Contains(string(d.body), want) {
			t.Errorf("%s is missing in %s", want, d.body)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	s := New(Config{Checks: []Check{{Name: "ping", Live: true, Run: func(context.Context) error { return nil }}}})
	s.Probe(t.Context())
	d, err := s.document(t.Context(), "/metrics/slis", "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, probe := range []string{"healthz", "livez", "readyz"} {
		if want := `kubernetes_healthcheck{name="ping",type="` + probe + `"} 1`; !strings.Contains(string(d.body), want) {
			t.Errorf("%s is missing in %s", want, d.body)
		}
	}
}
