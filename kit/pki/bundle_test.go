package pki

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func newAuthorityText(t *testing.T) []byte {
	t.Helper()
	a, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a.PEM()
}

func TestBundleIsReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ca.crt")
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LoadBundle(path); err == nil {
		t.Error("a file that is not there is taken")
	}
	write([]byte("nothing"))
	if _, err := LoadBundle(path); err == nil {
		t.Error("a file without certificates is taken")
	}
	one, two := newAuthorityText(t), newAuthorityText(t)
	write(one)
	b, err := LoadBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	later := func() *Authorities {
		b.mu.Lock()
		b.looked = b.looked.Add(-bundlePeriod)
		b.mu.Unlock()
		return b.Now()
	}
	first := b.Now()
	write(slices.Concat(one, two))
	if b.Now() != first {
		t.Error("the file was looked at too soon")
	}
	second := later()
	if second == first || len(second.Certificates) != 2 || second.Pool.Equal(first.Pool) {
		t.Errorf("after a change: %d certificates", len(second.Certificates))
	}
	if later() != second {
		t.Error("what did not change is another")
	}
	write([]byte("half"))
	if later() != second {
		t.Error("a file that is not good counts")
	}
	write(two)
	if third := later(); len(third.Certificates) != 1 || !third.Certificates[0].Equal(second.Certificates[1]) {
		t.Errorf("after it was mended: %d certificates", len(third.Certificates))
	}
}

// TestFollow has somebody be told of a change, and of it once.
func TestFollow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, newAuthorityText(t), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b, err := LoadBundle(path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		ended := make(chan error)
		go func() { ended <- b.Follow(ctx, func() { told++ }) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if told != 0 {
			t.Errorf("told %d times of nothing", told)
		}
		if err := os.WriteFile(path, newAuthorityText(t), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if told != 1 {
			t.Errorf("told %d times of a change", told)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
