package aggregate

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"howdah.dev/kit/pki"
)

func TestTrusted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	authority := func(at time.Time) []byte {
		a, err := pki.NewAuthority(at)
		if err != nil {
			t.Fatal(err)
		}
		return a.PEM()
	}
	one, two, past := authority(now), authority(now), authority(now.AddDate(-40, 0, 0))
	if got := trusted(nil, authorities{}, nil, now); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	first := trusted(map[string]string{"other": "x"}, authorities{append(past, one...), two}, []string{"a"}, now)
	if first[clientCAKey] != string(one) || first[proxyCAKey] != string(two) || first[allowedNamesKey] != `["a"]` || first[usernamesKey] != `["X-Remote-User"]` || len(first) != 7 {
		t.Errorf("%v", first)
	}
	// Another API server adds its own, and the first one finds nothing to do then.
	second := trusted(first, authorities{two, two}, []string{"b"}, now)
	if second[clientCAKey] != string(one)+string(two) || second[proxyCAKey] != string(two) || second[allowedNamesKey] != `["a","b"]` {
		t.Errorf("%v", second)
	}
	if !within(trusted(second, authorities{one, two}, []string{"a"}, now), second) {
		t.Error("the first API server takes back what the second has written")
	}
	if first[clientCAKey] = "mine"; trusted(first, authorities{one, nil}, nil, now)[clientCAKey] != string(one) {
		t.Error("what is no certificate stays")
	}
	if certificates, err := cert.ParseCertsPEM([]byte(second[clientCAKey])); err != nil || len(certificates) != 2 || strings.Count(second[clientCAKey], "BEGIN") != 2 {
		t.Errorf("%v %d", err, len(certificates))
	}
}
