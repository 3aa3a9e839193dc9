package nodecert

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"howdah.dev/kit/pki"
)

const (
	// spread is within which nodes ask once another authority signs, so that they do not all ask at once.
	spread = time.Minute
	// firstPatience and lastPatience are how long a certificate is kept although it is by an authority that signs no more: the signer may not know yet, or
	// the authorities stand in another order than he would have them.
	firstPatience = time.Minute
	lastPatience  = 24 * time.Hour
)

// Renewal says when a certificate is to be replaced: in the last part of its time, or soon after another authority has come to sign in place of its own.
// It is not safe for concurrent use.
type Renewal struct {
	random   func() float64 // from 0 to 1
	pair     *tls.Certificate
	due      time.Time
	seen     *pki.Authorities // of which the certificate's is one, but not the first
	soon     time.Time        // when another is asked for, for their sake
	patience time.Duration
}

// NewRenewal is that of a certificate, by chance of random, which is from 0 to 1.
func NewRenewal(pair *tls.Certificate, random func() float64) *Renewal {
	return &Renewal{random: random, pair: pair, due: Due(pair.Leaf, random())}
}

// Replaced tells of a new certificate. One that is by an authority that signs no more, as the one before, is kept for longer each time.
func (r *Renewal) Replaced(pair *tls.Certificate, now time.Time) {
	r.pair, r.due = pair, Due(pair.Leaf, r.random())
	r.patience = min(max(2*r.patience, firstPatience), lastPatience)
	r.soon = now.Add(r.patience)
}

// At is when to ask for another certificate. The first of the authorities is the one that signs; nil has the certificate's time alone count.
func (r *Renewal) At(authorities *pki.Authorities, now time.Time) time.Time {
	if authorities == nil || !superseded(r.pair, authorities.Certificates) {
		return r.due
	}
	if r.seen != authorities {
		r.seen, r.patience = authorities, 0
		r.soon = now.Add(time.Duration(r.random() * float64(spread)))
	}
	if r.soon.Before(r.due) {
		return r.soon
	}
	return r.due
}

// superseded reports whether a certificate is by one of the authorities that come after the first.
func superseded(pair *tls.Certificate, authorities []*x509.Certificate) bool {
	if len(authorities) < 2 || by(pair, authorities[:1]) {
		return false
	}
	return by(pair, authorities[1:])
}

// by reports whether one of the authorities stands behind a certificate, whatever it is for.
func by(pair *tls.Certificate, authorities []*x509.Certificate) bool {
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: pair.Leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	for _, a := range authorities {
		options.Roots.AddCert(a)
	}
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			options.Intermediates.AddCert(c)
		}
	}
	_, err := pair.Leaf.Verify(options)
	return err == nil
}
