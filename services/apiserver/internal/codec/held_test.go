package codec

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"howdah.dev/services/apiserver/internal/registry"
)

func storedPod(t *testing.T) (*registry.Resource, []byte) {
	res := pods(t)
	p := pod("p")
	p.Namespace = "default"
	value, err := Encode(context.Background(), res.Kind, p)
	if err != nil {
		t.Fatal(err)
	}
	return res, value
}

// TestServedBytesStandForStoredOnes guards that an item keeps one of both, and still knows the other.
func TestServedBytesStandForStoredOnes(t *testing.T) {
	t.Parallel()
	res, value := storedPod(t)
	for _, c := range []struct {
		name     string
		value    []byte
		revision int64
		swapped  bool
	}{
		{"as it is stored today", value, 12345, true},
		{"a large revision", value, 1<<62 + 1, true},
		{"no revision, as a dry run's", value, 0, false},
		{"of another version, as an older release stored it", bytes.Replace(value, []byte("v1"), []byte("v0"), 1), 7, false},
		{"without the end", value[:len(value)-len(tail)], 7, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := NewItem(res.Kind, "pods/default/p", c.value, c.revision, c.revision)
			size := i.Size()
			first, err := i.protobuf(res)
			if err != nil {
				t.Fatal(err)
			}
			second, err := i.protobuf(res)
			if err != nil || !bytes.Equal(first, second) {
				t.Fatalf("asked again: %q (%v), want %q", second, err, first)
			}
			if got := &first[0] == &second[0]; got != c.swapped {
				t.Errorf("made once: %t, want %t", got, c.swapped)
			}
			if got := i.Value(); !bytes.Equal(got, c.value) {
				t.Errorf("stored bytes are %q, want %q", got, c.value)
			}
			if !i.Holds(c.value) || i.Holds(append([]byte(nil), c.value[:len(c.value)-1]...)) || i.Holds(bytes.Replace(c.value, []byte("default"), []byte("elsewhe"), 1)) {
				t.Error("does not hold what it holds")
			}
			if got := i.Size(); got != size || got == 0 {
				t.Errorf("size is %d, and was %d", got, size)
			}
			later := i.At(c.revision + 100)
			shown, err := later.protobuf(res)
			if err != nil {
				t.Fatal(err)
			}
			fresh, err := NewItem(res.Kind, "pods/default/p", c.value, c.revision+100, c.revision).protobuf(res)
			if err != nil || !bytes.Equal(shown, fresh) {
				t.Errorf("at a later revision: %q (%v), want %q", shown, err, fresh)
			}
			if again, err := i.protobuf(res); err != nil || !bytes.Equal(again, first) {
				t.Errorf("after a look at a later revision: %q (%v), want %q", again, err, first)
			}
			obj, err := i.Object()
			if err != nil || obj.GetResourceVersion() != i.revisionText() {
				t.Errorf("decoded: %v (%v)", obj, err)
			}
		})
	}
}

func TestServedBytesOfManyReaders(t *testing.T) {
	t.Parallel()
	res, value := storedPod(t)
	i := NewItem(res.Kind, "pods/default/p", value, 5, 5)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				b, err := i.protobuf(res)
				if err != nil || !bytes.Contains(b, []byte("default")) || !i.Holds(value) || !bytes.Equal(i.Value(), value) {
					t.Errorf("%q (%v)", b, err)
				}
				if raw, suffix, err := i.raw(res); err != nil || !suffix || strings.Contains(string(raw), "\x32\x015") {
					t.Errorf("raw %q, suffix %t (%v)", raw, suffix, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestBrokenBytesAreNotServed(t *testing.T) {
	t.Parallel()
	res, value := storedPod(t)
	for _, n := range []int{0, 3, 9, len(value) / 2} {
		i := NewItem(res.Kind, "pods/default/p", value[:n], 5, 5)
		if b, err := i.protobuf(res); err == nil {
			t.Errorf("of %d bytes: %q", n, b)
		}
		if i.Size() != n || i.Holds(value) || !bytes.Equal(i.Value(), value[:n]) {
			t.Errorf("of %d bytes: size %d, value %q", n, i.Size(), i.Value())
		}
	}
}
