package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"howdah.dev/services/apiserver/internal/store"
)

func TestSharedReadBeginsAfterItWasAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := make(chan chan int64)
		r := newSharedRead(func(context.Context) (int64, error) {
			answer := make(chan int64)
			reads <- answer
			return <-answer, nil
		})
		var wg sync.WaitGroup
		ask := func(want int64) {
			wg.Go(func() {
				if got, err := r.get(t.Context()); got != want || err != nil {
					t.Errorf("got %d, %v; want %d", got, err, want)
				}
			})
		}
		ask(1)
		first := <-reads
		for range 10 { // while the first is under way: they share the second
			ask(2)
		}
		synctest.Wait()
		first <- 1
		second := <-reads
		second <- 2
		wg.Wait()
		ask(3) // and it can begin anew
		third := <-reads
		third <- 3
		wg.Wait()
	})
}

func TestSharedReadDoesNotHoldImpatientCallers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := newSharedRead(func(context.Context) (int64, error) { <-release; return 1, nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.get(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	close(release)
}
