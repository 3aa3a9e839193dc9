package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/services/apiserver/internal/store"
)

const (
	chaosClients = 8
	chaosTails   = 2 // of each store
	// opsAKey is about how many operations a key gets before clients move on: short histories are quick to check.
	opsAKey = 300
	keys    = 4
)

// chaos is a run of clients and watchers while things break.
type chaos struct {
	stores  []store.Store
	start   int64
	history recorder
	count   atomic.Int64 // of operations

	mu           sync.Mutex
	acknowledged map[int64]store.Write
	uncertain    map[string]store.Write // by value, or by key for deletions
}

// Chaos runs clients and watchers on stores of one state until interfere, which breaks things and repairs them, returns. Then it checks that
// the operations were linearizable and that the watches were ordered, unique, reliable, atomic and resumable.
func Chaos(t *testing.T, stores []store.Store, interfere func()) {
	start, err := stores[0].Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{stores: stores, start: start, acknowledged: map[int64]store.Write{}, uncertain: map[string]store.Write{}}
	c.history.begin = time.Now()
	// The pair is always written together, to the same value.
	if _, err := stores[0].WriteAtomic(t.Context(), []store.Write{create("/pair/a", "0"), create("/pair/b", "0")}); err != nil {
		t.Fatal(err)
	}
	var watchers, clients sync.WaitGroup
	stop := make(chan struct{})
	var end atomic.Int64
	logs := make([][]store.Event, len(stores)*chaosTails)
	for i := range logs {
		watchers.Go(func() { logs[i] = c.watch(t, stores[i%len(stores)], i%2 == 0, &end) })
	}
	for i := range chaosClients {
		clients.Go(func() { c.client(t, i, stop) })
	}
	for i := range stores {
		clients.Go(func() { c.pairWriter(t, i, stop) })
		clients.Go(func() { c.pairReader(t, i, stop) })
	}
	interfere()
	close(stop)
	clients.Wait()
	c.finish(t, &end)
	watchers.Wait()
	t.Logf("%d operations, of which %d acknowledged writes and %d of unknown outcome; %d events", c.count.Load(), len(c.acknowledged), len(c.uncertain), len(logs[0]))
	c.history.check(t)
	c.checkLogs(t, logs)
}

// finish makes one more write, at whose revision the watchers may end.
func (c *chaos) finish(t *testing.T, end *atomic.Int64) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i := 0; ; i++ {
		r := c.stores[0].Write(ctx, create(fmt.Sprint("/end/", i), "end"))
		if store.Retriable(r.Err) && ctx.Err() == nil {
			continue
		}
		if r.Err != nil {
			t.Errorf("the store did not recover: %v", r.Err)
		}
		end.Store(max(r.Revision, 1))
		c.stores[0].Write(ctx, create("/end", "end")) // wakes those who are there already
		return
	}
}

// client reads and writes keys that others use too.
func (c *chaos) client(t *testing.T, id int, stop <-chan struct{}) {
	s := c.stores[id%len(c.stores)]
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(id)))
	known := map[string]store.Entry{} // what this client read last
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		key := fmt.Sprintf("/k/%d/%d", c.count.Add(1)/(opsAKey*keys), random.IntN(keys))
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(50+random.IntN(1500))*time.Millisecond)
		entry, has := known[key]
		if !has || random.IntN(3) == 0 {
			c.get(ctx, t, s, id, key, known)
		} else {
			c.write(ctx, t, s, id, key, fmt.Sprintf("%d-%d", id, i), entry, random)
			delete(known, key)
		}
		cancel()
	}
}

func (c *chaos) get(ctx context.Context, t *testing.T, s store.Store, id int, key string, known map[string]store.Entry) {
	called := c.history.now()
	entry, err := s.Get(ctx, key)
	switch {
	case err == nil:
		known[key] = entry
		c.history.add(id, input{key: key, kind: opGet}, called, output{done: true, value: string(entry.Value)})
	case errors.Is(err, store.ErrNotFound):
		known[key] = store.Entry{}
		c.history.add(id, input{key: key, kind: opGet}, called, output{})
	case !errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil:
		t.Errorf("Get: %v", err)
	}
}

// write creates the key if the client knows it to be absent, else replaces or removes what it knows.
func (c *chaos) write(ctx context.Context, t *testing.T, s store.Store, id int, key, value string, entry store.Entry, random *rand.Rand) {
	in := input{key: key, kind: opCreate, value: value, expected: string(entry.Value)}
	w := create(key, value)
	if entry.Revision > 0 {
		in.kind, w = opSwap, update(key, value, entry.Revision)
		if random.IntN(4) == 0 {
			in.kind, w = opRemove, remove(key, entry.Revision)
			if random.IntN(2) == 0 {
				w.Value = []byte(value)
			}
		}
	}
	called := c.history.now()
	r := s.Write(ctx, w)
	out, happened, problem := outcome(r.Err)
	if problem != nil {
		t.Errorf("%s %s: %v", w.Op, key, problem)
	}
	if happened {
		c.history.add(id, in, called, out)
	}
	c.note(t, w, r)
}

// note remembers a write's outcome for the comparison with the log.
func (c *chaos) note(t *testing.T, w store.Write, r store.Result) {
	if w.Op == store.Delete && len(w.Value) > 0 {
		told := r
		told.Revision--
		c.note(t, store.Write{Op: store.Update, Key: w.Key, Value: w.Value}, told)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch kindOf(r.Err) {
	case succeeded:
		if other, twice := c.acknowledged[r.Revision]; twice {
			t.Errorf("revision %d was given to %s and to %s", r.Revision, other.Key, w.Key)
		}
		c.acknowledged[r.Revision] = w
	case uncertain:
		c.uncertain[identity(w.Key, w.Op == store.Delete, string(w.Value))] = w
	}
}

// identity of a write among all that were made.
func identity(key string, removal bool, value string) string {
	if removal {
		return key + " removed"
	}
	return key + " " + value
}

// pairWriter writes both keys of the pair to the same value.
func (c *chaos) pairWriter(t *testing.T, id int, stop <-chan struct{}) {
	for i := 1; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		value := fmt.Sprintf("%d:%d", id, i)
		group := []store.Write{update("/pair/a", value, 0), update("/pair/b", value, 0)}
		results, err := c.stores[id].WriteAtomic(ctx, group)
		cancel()
		if kindOf(err) == unexpected || kindOf(err) == refused {
			t.Errorf("write of the pair: %v", err)
		}
		for i, r := range results {
			c.note(t, group[i], r)
		}
	}
}

// pairReader looks whether the two are ever different.
func (c *chaos) pairReader(t *testing.T, id int, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		page, err := c.stores[id].List(ctx, store.Query{Prefix: "/pair/"})
		cancel()
		switch {
		case err != nil && !errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil:
			t.Errorf("list: %v", err)
		case err == nil && (len(page.Entries) != 2 || string(page.Entries[0].Value) != string(page.Entries[1].Value)):
			t.Errorf("list shows half a group: %v", page.Entries)
		}
	}
}

// watch follows the log to the end, and answers all events. When it is restless it leaves at times and resumes where it was.
func (c *chaos) watch(t *testing.T, s store.Store, restless bool, end *atomic.Int64) []store.Event {
	var events []store.Event
	last := c.start
	m := NewModel(c.start)
	restart := errors.New("watcher comes back")
	for {
		err := s.Tail(t.Context(), last, func(es []store.Event) error {
			if err := checkDelivery(last, es); err != nil {
				return err
			}
			if err := m.Replay(es); err != nil {
				return err
			}
			if a, b := m.Entries["/pair/a"], m.Entries["/pair/b"]; string(a.Value) != string(b.Value) {
				return fmt.Errorf("half a group was delivered: %s, %s", a.Value, b.Value)
			}
			last = es[len(es)-1].Revision
			events = append(events, es...)
			if to := end.Load(); to > 0 && last >= to {
				return errEnough
			}
			if restless && rand.IntN(500) == 0 {
				return restart
			}
			return nil
		})
		switch {
		case errors.Is(err, errEnough):
			return events
		case !errors.Is(err, restart):
			t.Errorf("tail at %d: %v", last, err)
			return events
		}
	}
}

// checkLogs compares what the watchers saw with each other and with what the writers were told.
func (c *chaos) checkLogs(t *testing.T, logs [][]store.Event) {
	seen := map[int64]store.Event{}
	for _, e := range logs[0] {
		seen[e.Revision] = e
		removal := e.Type == store.Removed
		if w, ok := c.acknowledged[e.Revision]; ok {
			if identity(w.Key, w.Op == store.Delete, string(w.Value)) != identity(e.Key, removal, string(e.Value)) {
				t.Errorf("revision %d: logged %s %q, acknowledged %s %q", e.Revision, e.Key, e.Value, w.Key, w.Value)
			}
			continue
		}
		if _, ok := c.uncertain[identity(e.Key, removal, string(e.Value))]; !ok && !strings.HasPrefix(e.Key, "/end") && string(e.Value) != "0" {
			t.Errorf("revision %d, %s %q, was logged though no write of it may have happened", e.Revision, e.Key, e.Value)
		}
	}
	newest := logs[0][len(logs[0])-1].Revision
	for revision, w := range c.acknowledged {
		if _, ok := seen[revision]; !ok && revision <= newest {
			t.Errorf("revision %d of %s was acknowledged and is not in the log", revision, w.Key)
		}
	}
	for i, log := range logs[1:] {
		for _, e := range log {
			if other, ok := seen[e.Revision]; ok && (other.Key != e.Key || string(other.Value) != string(e.Value) || !other.Time.Equal(e.Time)) {
				t.Errorf("watcher %d saw another revision %d than watcher 0", i+1, e.Revision)
			}
		}
	}
}

func isRefusal(err error) bool {
	var conflict *store.ConflictError
	return errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound) || errors.As(err, &conflict)
}
