package nodecert

import (
	"crypto/tls"
	"testing"
	"time"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
)

// certificate is a node's, by an authority.
func certificate(t *testing.T, a *pki.Authority) *tls.Certificate {
	t.Helper()
	c := pkitest.Certificate(t, a, pki.Subject{CommonName: "system:node:n1", Client: true})
	return &c
}

func authorities(t *testing.T, of ...*pki.Authority) *pki.Authorities {
	t.Helper()
	var text []byte
	for _, a := range of {
		text = append(text, a.PEM()...)
	}
	parsed, err := pki.NewAuthorities(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestRenewalForAnotherAuthority(t *testing.T) {
	t.Parallel()
	a, b, c := pkitest.Authority(t), pkitest.Authority(t), pkitest.Authority(t)
	now := time.Now()
	for _, tt := range []struct {
		name        string
		authorities *pki.Authorities
		soon        bool
	}{
		{"none known", nil, false},
		{"its own alone", authorities(t, a), false},
		{"its own first", authorities(t, a, b), false},
		{"its own after another", authorities(t, b, a), true},
		{"its own last of three", authorities(t, c, b, a), true},
		{"others, which signed none of it", authorities(t, b, c), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pair := certificate(t, a)
			r := NewRenewal(pair, func() float64 { return 0.5 })
			want := Due(pair.Leaf, 0.5)
			if tt.soon {
				want = now.Add(spread / 2)
			}
			if at := r.At(tt.authorities, now); !at.Equal(want) {
				t.Errorf("at %s, want %s", at, want)
			}
		})
	}
}

// TestRenewalIsPatient with a signer who goes on with an authority that is not the first: it asks less and less often, and at once when the authorities change.
func TestRenewalIsPatient(t *testing.T) {
	t.Parallel()
	a, b := pkitest.Authority(t), pkitest.Authority(t)
	now, these := time.Now(), authorities(t, b, a)
	r := NewRenewal(certificate(t, a), func() float64 { return 0.5 })
	r.At(these, now)
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		r.Replaced(certificate(t, a), now)
		if at := r.At(these, now); !at.Equal(now.Add(want)) {
			t.Errorf("after %s, want %s", at.Sub(now), want)
		}
	}
	for range 20 {
		r.Replaced(certificate(t, a), now)
	}
	if at := r.At(these, now); !at.Equal(now.Add(lastPatience)) {
		t.Errorf("after %s at most, want %s", at.Sub(now), lastPatience)
	}
	if at := r.At(authorities(t, b, a), now); !at.Equal(now.Add(spread / 2)) {
		t.Errorf("after %s once the authorities have changed", at.Sub(now))
	}
}
