package collect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// BenchmarkIdle is one look, of which there is one a second, at a node of 110 containers that write nothing.
func BenchmarkIdle(b *testing.B) {
	dir := b.TempDir()
	past := time.Now().Add(-time.Hour)
	for i := range 110 {
		folder := filepath.Join(dir, fmt.Sprintf("ns_pod-%d_uid-%d", i, i), "main")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "0.log"), []byte("2026-01-01T00:00:00Z stdout F hello\n"), 0o600); err != nil {
			b.Fatal(err)
		}
		for _, path := range []string{folder, filepath.Dir(folder)} {
			if err := os.Chtimes(path, past, past); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := os.Chtimes(dir, past, past); err != nil {
		b.Fatal(err)
	}
	c := New(Config{Pusher: newService(), LogDir: dir, RootDir: b.TempDir(), Clock: clock.RealClock{},
		Containers: func(context.Context, string) ([]*runtimeapi.Container, error) { return nil, nil }})
	look := func() {
		c.look()
		c.identify(b.Context())
		for batch := c.gather(); batch != nil; batch = c.gather() {
			resp, err := c.cfg.Pusher.Push(b.Context(), batch.request)
			if err != nil {
				b.Fatal(err)
			}
			c.settleBatch(batch, resp)
		}
		c.save(false)
	}
	look()
	for b.Loop() {
		look()
	}
}
