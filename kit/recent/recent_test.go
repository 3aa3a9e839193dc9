package recent

import "testing"

func TestMap(t *testing.T) {
	t.Parallel()
	m := Map[int, string]{Max: 4}
	m.Put(0, "kept")
	for n := 1; n <= 100; n++ {
		m.Put(n, "x")
		if v, ok := m.Get(0); !ok || v != "kept" {
			t.Fatalf("what is asked for again and again is forgotten after %d others", n)
		}
		for last := max(1, n-2); last <= n; last++ {
			if _, ok := m.Get(last); !ok {
				t.Fatalf("%d is forgotten right after %d", last, n)
			}
		}
		if m.Len() > 8 {
			t.Fatalf("%d are held", m.Len())
		}
	}
	if _, ok := m.Get(50); ok {
		t.Error("what nobody asks for is held")
	}
	if m.Put(0, "other"); m.Len() > 8 {
		t.Fatalf("%d are held", m.Len())
	}
	if v, _ := m.Get(0); v != "other" {
		t.Errorf("%q is remembered, not what was put last", v)
	}
}

func TestMapOfNoMax(t *testing.T) {
	t.Parallel()
	var m Map[int, int]
	if _, ok := m.Get(1); ok {
		t.Error("an empty map remembers something")
	}
	for n := range 10 * defaultMax {
		m.Put(n, n)
	}
	if n := m.Len(); n > 2*defaultMax || n < defaultMax {
		t.Errorf("%d are held", n)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	m := Map[int, string]{Max: 100, Size: func(s string) int { return len(s) }, MaxSize: 100}
	for n := range 50 {
		m.Put(n, "0123456789")
		m.Put(n, "012345678")
		if m.Len() > 22 {
			t.Fatalf("%d values of nine bytes are held", m.Len())
		}
		if _, ok := m.Get(n); !ok {
			t.Errorf("%d is forgotten at once", n)
		}
	}
	if _, ok := m.Get(45); !ok {
		t.Error("45 is forgotten")
	}
	m.Put(99, "01234567890")
	if _, ok := m.Get(99); ok {
		t.Error("what is too large is remembered")
	}
}
