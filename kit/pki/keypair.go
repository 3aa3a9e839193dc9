package pki

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// KeyPair is a certificate and its key in two files that may change: they are looked at when somebody asks, every five seconds at most. While they are not
// good, as between the writes of a rotation, the pair before counts.
type KeyPair struct {
	certificate, key string

	mu     sync.Mutex
	text   [2][]byte
	now    *tls.Certificate
	looked time.Time
	failed string // why, as logged last
}

// LoadKeyPair reads the files, whose pair must be good.
func LoadKeyPair(certificate, key string) (*KeyPair, error) {
	p := &KeyPair{certificate: certificate, key: key, looked: time.Now()}
	if err := p.read(); err != nil {
		return nil, err
	}
	return p, nil
}

// Certificate returns the pair as it is now.
func (p *KeyPair) Certificate() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.looked) < bundlePeriod {
		return p.now
	}
	p.looked = time.Now()
	err := p.read()
	switch {
	case err == nil:
		p.failed = ""
	case err.Error() != p.failed:
		p.failed = err.Error()
		slog.Error("read a certificate again; that before goes on", "file", p.certificate, "err", err)
	}
	return p.now
}

// read takes what the files say, if it is news; it is called with the lock held.
func (p *KeyPair) read() error {
	var text [2][]byte
	for i, path := range []string{p.certificate, p.key} {
		var err error
		if text[i], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	if p.now != nil && bytes.Equal(text[0], p.text[0]) && bytes.Equal(text[1], p.text[1]) {
		return nil
	}
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return err
	}
	p.now, p.text = &pair, text
	return nil
}
