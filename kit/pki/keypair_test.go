package pki

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestKeyPairIsReadAgain rotates a pair one file after the other, as everybody does.
func TestKeyPairIsReadAgain(t *testing.T) {
	t.Parallel()
	a, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(path string, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issue := func() (c, k []byte) {
		t.Helper()
		p, err := a.Issue(Subject{CommonName: "s", Hosts: []string{"s"}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return p.Certificate, p.Key
	}
	if _, err := LoadKeyPair(cert, key); err == nil {
		t.Error("a pair that is not there is taken")
	}
	c1, k1 := issue()
	c2, k2 := issue()
	write(cert, c1)
	write(key, k2)
	if _, err := LoadKeyPair(cert, key); err == nil {
		t.Error("a key of another certificate is taken")
	}
	write(key, k1)
	p, err := LoadKeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	shown := func(later bool) []byte {
		if later {
			p.mu.Lock()
			p.looked = p.looked.Add(-bundlePeriod)
			p.mu.Unlock()
		}
		return p.Certificate().Certificate[0]
	}
	before := shown(false)
	write(cert, c2)
	if !slices.Equal(shown(true), before) {
		t.Error("while a rotation is half-written, the old pair must serve on")
	}
	write(key, k2)
	if !slices.Equal(shown(false), before) {
		t.Error("the files were looked at too soon")
	}
	if slices.Equal(shown(true), before) {
		t.Error("the new pair is not served")
	}
}
