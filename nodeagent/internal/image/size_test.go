package image

import "testing"

func TestSizeClass(t *testing.T) {
	t.Parallel()
	for size, want := range map[uint64]string{
		0: "N/A", 1: "0-10MB", 10 << 20: "0-10MB", 10<<20 + 1: "10MB-100MB", 1 << 30: "500MB-1GB", 3 << 30: "1GB-5GB", 100 << 30: "60GB-100GB", 101 << 30: "GT100GB",
	} {
		if got := sizeClass(size); got != want {
			t.Errorf("%d bytes: %s, not %s", size, got, want)
		}
	}
}
