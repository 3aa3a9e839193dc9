package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/services/apiserver/internal/store"
)

// Failover runs clients and watchers on stores of one state until interfere returns, which has other servers take the database over. Then it
// checks that the operations were linearizable, whichever server answered: no acknowledged write is lost, and nobody reads from a server that was
// deposed. Watchers may be told to begin anew (ErrTooOld); then they list, and what they see must not have gone back. Between, their watches are as in Chaos.
func Failover(t *testing.T, stores []store.Store, interfere func()) {
	start, err := stores[0].Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{stores: stores, start: start, acknowledged: map[int64]store.Write{}, uncertain: map[string]store.Write{}}
	c.history.begin = time.Now()
	var watchers, clients sync.WaitGroup
	stop := make(chan struct{})
	var end atomic.Int64
	models := make([]*Model, len(stores))
	for i, s := range stores {
		watchers.Go(func() { models[i] = c.follow(t, s, &end) })
	}
	for i := range chaosClients {
		clients.Go(func() { c.client(t, i, stop) })
	}
	interfere()
	close(stop)
	clients.Wait()
	c.readAll(t)
	c.finish(t, &end)
	watchers.Wait()
	c.history.check(t)
	for i, m := range models {
		c.compare(t, i, m)
	}
	t.Logf("%d operations, of which %d acknowledged writes and %d of unknown outcome", c.count.Load(), len(c.acknowledged), len(c.uncertain))
}

// readAll reads every key once more, so that the history tells of writes that are lost.
func (c *chaos) readAll(t *testing.T) {
	names := map[string]bool{}
	for _, w := range c.acknowledged {
		names[w.Key] = true
	}
	for key := range names {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		c.get(ctx, t, c.stores[rand.IntN(len(c.stores))], chaosClients, key, map[string]store.Entry{})
		cancel()
	}
}

// follow keeps a model of the state as a watch cache does, to the end.
func (c *chaos) follow(t *testing.T, s store.Store, end *atomic.Int64) *Model {
	m := NewModel(c.start)
	for {
		err := s.Tail(t.Context(), m.Revision, func(es []store.Event) error {
			if err := checkDelivery(m.Revision, es); err != nil {
				return err
			}
			if err := m.Replay(es); err != nil {
				return err
			}
			for _, e := range es {
				c.checkTold(t, e)
			}
			if to := end.Load(); to > 0 && m.Revision >= to {
				return errEnough
			}
			return nil
		})
		switch {
		case errors.Is(err, errEnough):
			return m
		case errors.Is(err, store.ErrTooOld):
			if m = c.anew(t, s, m); m != nil {
				continue
			}
		default:
			t.Errorf("tail at %d: %v", m.Revision, err)
		}
		return nil
	}
}

// checkTold looks whether what was told may have happened.
func (c *chaos) checkTold(t *testing.T, e store.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.acknowledged[e.Revision]
	if ok && identity(w.Key, w.Op == store.Delete, string(w.Value)) != identity(e.Key, e.Type == store.Removed, string(e.Value)) {
		t.Errorf("revision %d: told %s %q, acknowledged %s %q", e.Revision, e.Key, e.Value, w.Key, w.Value)
	}
}

// anew lists, and checks that nothing has gone back. It answers nil where that fails.
func (c *chaos) anew(t *testing.T, s store.Store, old *Model) *Model {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		page, err := s.List(ctx, store.Query{Prefix: "/"})
		if store.Retriable(err) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			t.Errorf("list: %v", err)
			return nil
		}
		m := NewModel(page.Revision)
		for _, e := range page.Entries {
			m.Entries[e.Key] = e
		}
		if err := wentBack(old, m); err != nil {
			t.Error(err)
		}
		return m
	}
}

// wentBack tells what a later state has lost of an earlier one.
func wentBack(old, now *Model) error {
	if now.Revision <= old.Revision {
		return fmt.Errorf("the state at %d was followed by one at %d", old.Revision, now.Revision)
	}
	for key, was := range old.Entries {
		if is, there := now.Entries[key]; there && is.Revision < was.Revision {
			return fmt.Errorf("%s was seen at revision %d, and later at %d", key, was.Revision, is.Revision)
		}
	}
	return nil
}

// compare holds a watcher's state against that of the store.
func (c *chaos) compare(t *testing.T, watcher int, m *Model) {
	if m == nil {
		return // it has told why
	}
	page, err := c.stores[0].List(t.Context(), store.Query{Prefix: "/k/"})
	if err != nil {
		t.Error(err)
		return
	}
	got := map[string]store.Entry{}
	for _, e := range m.Sorted() {
		got[e.Key] = e
	}
	for _, want := range page.Entries {
		if e := got[want.Key]; e.Revision != want.Revision || string(e.Value) != string(want.Value) {
			t.Errorf("watcher %d has %s at revision %d, it is at %d", watcher, want.Key, e.Revision, want.Revision)
		}
	}
}
