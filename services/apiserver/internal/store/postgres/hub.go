package postgres

import (
	"sync"

	"howdah.dev/services/apiserver/internal/store"
)

// offersKept bounds the batches that wait for a tail; one that is slower reads them from the log.
const offersKept = 64

// hub tells the tails of this process that there is something new: by a wake-up, or by handing over a batch that this process committed.
type hub struct {
	mu   sync.Mutex
	subs map[*subscription]struct{}
	// writer is the server process of our committing connection: its notifications announce what is offered anyway.
	writer uint32
}

// subscription is one tail's place at the hub.
type subscription struct {
	// signal holds one token when there is something to take.
	signal chan struct{}
	// Under hub.mu:
	offers [][]store.Event
	woken  bool
}

func newHub() *hub { return &hub{subs: map[*subscription]struct{}{}} }

func (h *hub) subscribe() *subscription {
	sub := &subscription{signal: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[sub] = struct{}{}
	return sub
}

func (h *hub) unsubscribe(sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, sub)
}

// wake makes every tail read the log.
func (h *hub) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs {
		sub.woken = true
		sub.ring()
	}
}

// notified is wake for a notification that came from server process pid.
func (h *hub) notified(pid uint32) {
	h.mu.Lock()
	own := pid == h.writer
	h.mu.Unlock()
	if !own {
		h.wake()
	}
}

func (h *hub) setWriter(pid uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writer = pid
}

// offer hands a committed batch to every tail.
func (h *hub) offer(events []store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs {
		if len(sub.offers) < offersKept {
			sub.offers = append(sub.offers, events)
		} else {
			sub.woken = true
		}
		sub.ring()
	}
}

func (s *subscription) ring() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// take answers what has come since the last time.
func (h *hub) take(sub *subscription) (offers [][]store.Event, woken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	offers, woken = sub.offers, sub.woken
	sub.offers, sub.woken = nil, false
	return offers, woken
}
