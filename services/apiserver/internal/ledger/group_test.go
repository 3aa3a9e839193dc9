package ledger

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/internal/quota"
)

// TestAGroupDoesNotPayForOne commits entries as one group of which one has something wrong.
func TestAGroupDoesNotPayForOne(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		hard  int64
		group func(s *server) []*entry
		want  []error // nil: committed
		used  int64
	}{
		{"nothing wrong", 9, func(*server) []*entry { return []*entry{creation("ns/a"), creation("ns/b")} }, []error{nil, nil}, 2},
		{"one exists", 9, func(s *server) []*entry {
			s.must(creation("ns/b"))
			return []*entry{creation("ns/a"), creation("ns/b"), creation("ns/c")}
		}, []error{nil, store.ErrExists, nil}, 3},
		{"one is too much", 2, func(*server) []*entry { return []*entry{creation("ns/a"), creation("ns/b"), creation("ns/c")} },
			[]error{nil, nil, quota.ErrExceeded}, 2},
		{"one of two objects is too much", 2, func(*server) []*entry {
			return []*entry{creation("ns/a"), together(creation("ns/b"), creation("ns/c")), creation("ns/d")}
		}, []error{nil, quota.ErrExceeded, nil}, 2},
		{"one exists and makes room", 2, func(s *server) []*entry {
			s.must(creation("ns/b"))
			return []*entry{creation("ns/b"), creation("ns/c")}
		}, []error{store.ErrExists, nil}, 2},
		{"one is invalid", 9, func(*server) []*entry {
			odd := creation("ns/b")
			odd.writes[0].Key = ""
			return []*entry{creation("ns/a"), odd, creation("ns/c")}
		}, []error{nil, store.ErrInvalid, nil}, 2},
		{"all but one are invalid", 9, func(*server) []*entry {
			odd := func() *entry { return together(creation("ns/x"), creation("ns/x")) }
			return []*entry{odd(), odd(), creation("ns/c")}
		}, []error{store.ErrInvalid, store.ErrInvalid, nil}, 1},
		// A transaction may count the quota anew and create at the same time.
		{"one writes the quota", 9, func(s *server) []*entry {
			s.must(creation("ns/a"))
			whole := creation("ns/b")
			whole.writes = append(whole.writes, store.Write{Op: store.Update, Key: quotaKind.Key("ns", "q"), Value: s.encode("ns", 9, 2)})
			return []*entry{whole, creation("ns/c"), creation("ns/d")}
		}, []error{nil, nil, nil}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, memstore.New())
			s.quota("ns", test.hard, 0)
			group := test.group(s)
			s.catchUp()
			s.group(group...)
			for n, e := range group {
				if !errors.Is(e.err, test.want[n]) || e.err == nil && len(e.results) != len(e.writes) {
					t.Errorf("entry %d: %v with %d results, want %v", n, e.err, len(e.results), test.want[n])
				}
			}
			s.exact(map[string]int64{"ns": test.used})
			s.ofItsOwn(group)
		})
	}
}

// must commits an entry that nothing speaks against.
func (s *server) must(e *entry) {
	s.t.Helper()
	if err := s.commit(s.t.Context(), e); err != nil {
		s.t.Fatal(err)
	}
}

// group commits entries of the namespace ns as one group.
func (s *server) group(entries ...*entry) {
	accounts := s.ledger.enter([]string{"ns"})
	defer s.ledger.leave([]string{"ns"})
	s.ledger.commit(s.t.Context(), accounts, entries)
}

// ofItsOwn checks that every entry was given the results of its own writes.
func (s *server) ofItsOwn(group []*entry) {
	s.t.Helper()
	for n, e := range group {
		for i, w := range e.writes {
			if e.err != nil {
				continue
			}
			stored, err := s.store.Get(s.t.Context(), w.Key)
			if err != nil || stored.Revision < e.results[i].Revision || w.Op == store.Create && stored.Revision != e.results[i].Revision {
				s.t.Errorf("entry %d, write %d: revision %d, stored is %d (%v)", n, i, e.results[i].Revision, stored.Revision, err)
			}
		}
	}
}

// TestAPanicLeavesNobodyWaiting commits a group of which one entry's usage cannot be computed.
func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	s := open(t, memstore.New())
	s.quota("ns", 9, 0)
	odd := creation("ns/b")
	odd.usages = []*admission.Usage{{Namespace: "ns", Charge: func(*corev1.ResourceQuota) (corev1.ResourceList, error) { panic("odd") }}}
	group := []*entry{creation("ns/a"), odd, creation("ns/c")}
	func() {
		defer func() {
			if r := recover(); fmt.Sprint(r) != "odd" {
				t.Errorf("the panic is %v", r)
			}
		}()
		s.group(group...)
	}()
	for n, e := range group {
		if !e.finished() || !store.Retriable(e.err) {
			t.Errorf("entry %d: finished %v, %v", n, e.finished(), e.err)
		}
	}
	s.must(creation("ns/a"))
	s.exact(map[string]int64{"ns": 1})
}
