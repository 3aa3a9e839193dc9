package objects

import (
	"sync"
	"testing"
)

func TestShares(t *testing.T) {
	t.Parallel()
	s := newShare(2)
	steps := []struct {
		user  string
		leave bool
		want  bool
	}{
		{"a", false, true}, {"a", false, true}, {"a", false, false}, {"b", false, true}, {"a", true, true}, {"a", false, true}, {"a", false, false},
	}
	for n, step := range steps {
		if step.leave {
			s.leave(step.user)
		} else if got := s.enter(step.user); got != step.want {
			t.Errorf("step %d: %v", n, got)
		}
	}
	for range 2 {
		s.leave("a")
	}
	s.leave("b")
	if len(s.open) != 0 {
		t.Errorf("remembers %v", s.open)
	}
	for _, unbounded := range []*share{newShare(-1), newShare(0)} {
		for range 100 {
			if !unbounded.enter("a") {
				t.Fatal("a bound where there is none")
			}
		}
	}
}

func TestSharesOfMany(t *testing.T) {
	t.Parallel()
	s := newShare(3)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				if s.enter("a") {
					s.leave("a")
				}
			}
		})
	}
	group.Wait()
	if len(s.open) != 0 {
		t.Errorf("remembers %v", s.open)
	}
}
