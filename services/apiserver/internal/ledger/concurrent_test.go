package ledger

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/internal/quota"
)

// TestTwoLedgersAdmitNoMoreThanIsAllowed lets the ledgers of two servers charge one quota at the same time, with names that both
// want, transactions that need room for two, and connections that are lost; at every revision usage is what exists.
func TestTwoLedgersAdmitNoMoreThanIsAllowed(t *testing.T) {
	t.Parallel()
	const hard, workers, each = 40, 8, 12
	lost := func(every int) func(int) fault {
		return func(n int) fault {
			if n%every != 0 {
				return fault{}
			}
			return fault{err: store.ErrUnknownOutcome, landed: n/every%2 == 0}
		}
	}
	for name, rule := range map[string]func(int) fault{"sound": nil, "every third is lost": lost(3), "every seventh is lost": lost(7)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := memstore.New()
			servers := []*server{open(t, state), open(t, state)}
			servers[0].quota("ns", hard, 0)
			servers[1].catchUp()
			for _, s := range servers {
				s.store.rule = rule
			}
			var made atomic.Int64
			var workersDone sync.WaitGroup
			for w := range workers {
				workersDone.Go(func() {
					for n := range each {
						made.Add(servers[w%2].insist(w, n))
					}
				})
			}
			workersDone.Wait()
			servers[0].exact(map[string]int64{"ns": hard})
			servers[0].always("ns", hard)
			if got := made.Load(); rule == nil && got != hard || got > hard {
				t.Errorf("%d were told that they have made theirs", got)
			}
		})
	}
}

// insist makes what worker w wants as its nth until the answer is final, and returns how many objects it was told it has made.
func (s *server) insist(w, n int) int64 {
	wanted := func() *entry {
		switch {
		case n%4 == 3:
			return together(creation(fmt.Sprintf("ns/pair-%d-%d", w, n)), creation(fmt.Sprintf("ns/twin-%d-%d", w, n)))
		case n%2 == 1:
			return creation(fmt.Sprintf("ns/shared-%d-%d", w/2, n)) // another worker's too, at the other server
		}
		return creation(fmt.Sprintf("ns/own-%d-%d", w, n))
	}
	for {
		e := wanted()
		err := s.commit(s.t.Context(), e)
		switch {
		case err == nil:
			return int64(len(e.writes))
		case store.Retriable(err):
			continue
		case !errors.Is(err, store.ErrExists) && !errors.Is(err, quota.ErrExceeded):
			s.t.Errorf("worker %d, %d: %v", w, n, err)
		}
		return 0
	}
}
