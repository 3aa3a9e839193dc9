package pki

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
)

// Authorities are certificates of authorities. They do not change.
type Authorities struct {
	// PEM has the certificates, and whatever else stands in the file.
	PEM          []byte
	Certificates []*x509.Certificate
	Pool         *x509.CertPool
}

// NewAuthorities reads the certificates of a PEM text, of which there must be one.
func NewAuthorities(text []byte) (*Authorities, error) {
	certificates, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil, err
	}
	a := &Authorities{PEM: text, Certificates: certificates, Pool: x509.NewCertPool()}
	for _, c := range certificates {
		a.Pool.AddCert(c)
	}
	return a, nil
}

// Now returns the authorities themselves: as a Bundle's, which may change.
func (a *Authorities) Now() *Authorities { return a }

// bundlePeriod is how long what a file said counts without another look at it.
const bundlePeriod = 5 * time.Second

// Bundle is a file of authorities' certificates that may change: it is looked at when somebody asks, every five seconds at most. While there is nothing good in it,
// what it said before counts.
type Bundle struct {
	path string

	mu     sync.Mutex
	now    *Authorities
	looked time.Time
	failed string // why, as logged last
}

// LoadBundle reads the file, whose certificates must be good.
func LoadBundle(path string) (*Bundle, error) {
	b := &Bundle{path: path, looked: time.Now()}
	now, err := b.read()
	if err != nil {
		return nil, err
	}
	b.now = now
	return b, nil
}

// Now returns what the file says: the same pointer as long as that is the same.
func (b *Bundle) Now() *Authorities {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.looked) >= bundlePeriod {
		b.look()
	}
	return b.now
}

// look reads the file again; it is called with the lock held.
func (b *Bundle) look() {
	b.looked = time.Now()
	now, err := b.read()
	switch {
	case err != nil && err.Error() != b.failed:
		b.failed = err.Error()
		slog.Error("read authorities again; those before go on", "err", err)
	case err == nil && !bytes.Equal(now.PEM, b.now.PEM):
		slog.Info("authorities have changed", "file", b.path, "certificates", len(now.Certificates))
		b.now, b.failed = now, ""
	case err == nil:
		b.failed = ""
	}
}

func (b *Bundle) read() (*Authorities, error) {
	text, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	a, err := NewAuthorities(text)
	if err != nil {
		return nil, fmt.Errorf("%s holds no certificate: %w", b.path, err)
	}
	return a, nil
}

// Follow calls changed each time the file has come to say something else, until ctx ends.
func (b *Bundle) Follow(ctx context.Context, changed func()) error {
	ticker := time.NewTicker(bundlePeriod)
	defer ticker.Stop()
	for known := b.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if now := b.Now(); now != known {
			known = now
			changed()
		}
	}
}

// Follow waits for ctx to end: these authorities do not change.
func (a *Authorities) Follow(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}
