package openapi

import (
	"bytes"
	"strings"
	"testing"
)

// TestLargeDocumentsAreKept holds that documents which are larger together than what may be kept are made once, and told as they are.
func TestLargeDocumentsAreKept(t *testing.T) {
	t.Parallel()
	var k kept
	made := map[string]int{}
	for range 3 {
		for _, name := range []string{"json", "protobuf", "another"} {
			want := []byte(strings.Repeat("a definition of "+name+", ", maxKept/20))
			h, err := k.once(name, "now", func() ([]byte, error) { made[name]++; return bytes.Clone(want), nil })
			if err != nil {
				t.Fatal(err)
			}
			if got, err := h.text(); err != nil || !bytes.Equal(got, want) || h.hash != hashOf(want) {
				t.Fatalf("%s: %d bytes of %d, %v", name, len(got), len(want), err)
			}
		}
	}
	for name, times := range made {
		if times != 1 {
			t.Errorf("%s was made %d times", name, times)
		}
	}
	if k.size > packedFrom {
		t.Errorf("%d bytes are kept", k.size)
	}
	if h, err := k.once("json", "later", func() ([]byte, error) { return []byte("new"), nil }); err != nil || string(h.body) != "new" {
		t.Errorf("another in its place: %v", err)
	}
}
