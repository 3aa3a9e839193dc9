package fair

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func ready() chan struct{} { return make(chan struct{}) }

// world runs requests on queues in a time of its own.
type world struct {
	t       *testing.T
	q       *Queues
	now     time.Time
	running []run
}

type run struct {
	r    *Request
	ends time.Time
	flow int
}

func (w *world) check() {
	w.t.Helper()
	seats := 0
	for _, r := range w.running {
		seats += r.r.Seats()
	}
	if seats != w.q.Seats() {
		w.t.Fatalf("%d seats are held, the queues say %d", seats, w.q.Seats())
	}
}

// soonest returns the request that ends first, and takes it out.
func (w *world) soonest() run {
	at := 0
	for i := range w.running {
		if w.running[i].ends.Before(w.running[at].ends) {
			at = i
		}
	}
	r := w.running[at]
	w.running = slices.Delete(w.running, at, at+1)
	w.now = r.ends
	return r
}

func TestDealIsAHand(t *testing.T) {
	t.Parallel()
	for deck := 1; deck < 40; deck++ {
		for size := 1; size <= deck+1; size++ {
			hand := Deal(nil, rand.Uint64(), deck, size)
			if len(hand) != min(size, deck) || !slices.IsSorted(hand) || len(slices.Compact(slices.Clone(hand))) != len(hand) ||
				hand[0] < 0 || hand[len(hand)-1] >= deck {
				t.Fatalf("%d of %d: %v", size, deck, hand)
			}
		}
	}
	// Every card comes about as often as any other.
	counts := make([]int, 10)
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		for _, card := range Deal(nil, random.Uint64(), 10, 3) {
			counts[card]++
		}
	}
	for card, n := range counts {
		if n < 2700 || n > 3300 {
			t.Errorf("card %d was dealt %d times of about 3000", card, n)
		}
	}
}

// TestRandomWorlds holds the queues to what must be true whatever comes: seats are never given twice, a queue is first in, first out, nobody is
// forgotten, and no seat is idle while somebody whom it would serve has his turn.
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		cfg := Config{Queues: 1 + random.IntN(20), HandSize: 1 + random.IntN(4), QueueLength: 1 + random.IntN(20)}
		w := &world{t: t, q: New(cfg, 1+random.IntN(12)), now: time.Unix(0, 0)}
		waiting := map[*Request]int{} // arrival number
		lastOf := map[*queue]int{}
		let, served, refused, cancelled := 0, 0, 0, 0
		drain := func() {
			for r := w.q.Next(w.now); r != nil; r = w.q.Next(w.now) {
				number, ok := waiting[r]
				if !ok {
					t.Fatalf("seed %d: somebody was started who did not wait", seed)
				}
				delete(waiting, r)
				if number < lastOf[r.queue] {
					t.Fatalf("seed %d: a queue was not served in order", seed)
				}
				lastOf[r.queue] = number
				w.running = append(w.running, run{r: r, ends: w.now.Add(time.Duration(random.IntN(100)) * time.Millisecond)})
			}
			if w.q.Seats() > w.q.Limit() {
				t.Fatalf("seed %d: %d seats of %d are taken", seed, w.q.Seats(), w.q.Limit())
			}
			w.check()
		}
		for number := range 2000 {
			switch {
			case random.IntN(20) == 0 && len(waiting) > 0:
				for r := range waiting {
					if !w.q.Cancel(r) || w.q.Cancel(r) {
						t.Fatalf("seed %d: a request that waits cannot be cancelled once", seed)
					}
					delete(waiting, r)
					cancelled++
					break
				}
				drain()
			case random.IntN(2) == 0 && len(w.running) > 0:
				r := w.soonest()
				w.q.Finish(w.now, r.r)
				served++
				drain()
			case random.IntN(100) == 0:
				grow := w.q.Limit() + random.IntN(4)
				w.q.SetLimit(grow)
				drain()
			default:
				r, outcome := w.q.Arrive(w.now, uint64(random.IntN(9))*0x9e3779b97f4a7c15, Work{Seats: 1 + random.IntN(15)}, ready)
				switch outcome {
				case Started:
					w.running = append(w.running, run{r: r, ends: w.now.Add(time.Duration(random.IntN(100)) * time.Millisecond)})
				case Waits:
					waiting[r] = number
				default:
					refused++
				}
				let++
				drain()
			}
			if w.q.Waiting() != len(waiting) {
				t.Fatalf("seed %d: %d wait, the queues say %d", seed, len(waiting), w.q.Waiting())
			}
			if len(w.running) == 0 && len(waiting) > 0 {
				t.Fatalf("seed %d: nothing runs, though %d wait", seed, len(waiting))
			}
		}
		for len(w.running) > 0 {
			r := w.soonest()
			w.q.Finish(w.now, r.r)
			served++
			drain()
		}
		if served+refused+cancelled != let || w.q.Seats() != 0 || w.q.Wanted() != 0 {
			t.Fatalf("seed %d: %d came, %d were served, %d refused, %d cancelled; %d seats are left, %d wanted",
				seed, let, served, refused, cancelled, w.q.Seats(), w.q.Wanted())
		}
	}
}

// TestFlowsGetTheSame lets flows of different greed share seats for a while: each gets about the same seconds times seats, whatever its
// requests take, how wide they are and how many it sends.
func TestFlowsGetTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		const flows = 4
		w := &world{t: t, q: New(Config{Queues: flows, HandSize: 1, QueueLength: 1000}, 10), now: time.Unix(0, 0)}
		took := [flows]time.Duration{time.Duration(1+random.IntN(20)) * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}
		width := [flows]int{1, 1 + random.IntN(3), 2, 1 + random.IntN(5)}
		got := [flows]float64{}
		flowOf := map[*Request]int{}
		begin := func(r *Request) {
			w.running = append(w.running, run{r: r, ends: w.now.Add(took[flowOf[r]]), flow: flowOf[r]})
		}
		fill := func(flow int) {
			for range 1 + random.IntN(3) { // always more than can be served: every flow is backlogged
				r, outcome := w.q.Arrive(w.now, uint64(flow), Work{Seats: width[flow]}, ready)
				if outcome > Waits {
					return
				}
				flowOf[r] = flow
				if outcome == Started {
					begin(r)
				}
			}
		}
		for flow := range flows {
			for range 50 {
				fill(flow)
			}
		}
		for w.now.Before(time.Unix(60, 0)) {
			r := w.soonest()
			got[r.flow] += float64(r.r.Seats()) * took[r.flow].Seconds()
			w.q.Finish(w.now, r.r)
			for flow := range flows {
				fill(flow)
			}
			for n := w.q.Next(w.now); n != nil; n = w.q.Next(w.now) {
				begin(n)
			}
		}
		least, most := math.Inf(1), 0.0
		for _, seconds := range got {
			least, most = math.Min(least, seconds), math.Max(most, seconds)
		}
		if most > 1.05*least {
			t.Errorf("seed %d: flows got %.1f seat-seconds, requests took %v at a width of %v", seed, got, took, width)
		}
	}
}

// TestIdlenessIsNotSaved says that who comes after a pause gets his share from then on, not what he left to others before.
func TestIdlenessIsNotSaved(t *testing.T) {
	t.Parallel()
	q := New(Config{Queues: 2, HandSize: 1, QueueLength: 1000}, 1)
	now := time.Unix(0, 0)
	current, _ := q.Arrive(now, 0, Work{Seats: 1}, ready)
	for range 500 {
		q.Arrive(now, 0, Work{Seats: 1}, ready)
	}
	step := func() *Request {
		now = now.Add(10 * time.Millisecond)
		q.Finish(now, current)
		current = q.Next(now)
		return current
	}
	for range 100 { // only the first flow is there
		step()
	}
	second := map[*Request]bool{}
	for range 100 {
		r, _ := q.Arrive(now, 1, Work{Seats: 1}, ready)
		second[r] = true
	}
	served := 0
	for range 100 {
		if second[step()] {
			served++
		}
	}
	if served < 45 || served > 55 {
		t.Errorf("the second flow got %d of 100 turns", served)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	none := New(Config{}, 1)
	none.Arrive(now, 1, Work{Seats: 1}, ready)
	if _, outcome := none.Arrive(now, 1, Work{Seats: 1}, ready); outcome != NoQueue {
		t.Error(outcome)
	}
	full := New(Config{Queues: 2, HandSize: 1, QueueLength: 2}, 1)
	for range 3 {
		if _, outcome := full.Arrive(now, 0, Work{Seats: 1}, ready); outcome > Waits {
			t.Error(outcome)
		}
	}
	if _, outcome := full.Arrive(now, 0, Work{Seats: 1}, ready); outcome != QueueFull {
		t.Error(outcome)
	}
	if _, outcome := full.Arrive(now, 1, Work{Seats: 1}, ready); outcome != Waits {
		t.Error("a full queue is in the way of another flow:", outcome)
	}
}

func TestReshapeLosesNobody(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	q := New(Config{Queues: 8, HandSize: 2, QueueLength: 100}, 1)
	running, _ := q.Arrive(now, 0, Work{Seats: 1}, ready)
	for n := range 50 {
		q.Arrive(now, uint64(n), Work{Seats: 1}, ready)
	}
	for _, cfg := range []Config{{Queues: 3, HandSize: 1, QueueLength: 1}, {}, {Queues: 64, HandSize: 6, QueueLength: 5}} {
		q.Reshape(cfg)
		for range 10 {
			q.Finish(now, running)
			if running = q.Next(now); running == nil {
				t.Fatal("those who wait were lost")
			}
		}
	}
	if q.Waiting() != 20 {
		t.Errorf("%d wait", q.Waiting())
	}
}

func BenchmarkArriveAndFinish(b *testing.B) {
	q := New(Config{Queues: 128, HandSize: 6, QueueLength: 50}, 600)
	now := time.Now()
	for b.Loop() {
		r, _ := q.Arrive(now, 12345, Work{Seats: 1}, ready)
		q.Finish(now, r)
	}
}

func BenchmarkBacklog(b *testing.B) {
	q := New(Config{Queues: 128, HandSize: 6, QueueLength: 50}, 1)
	now := time.Now()
	running, _ := q.Arrive(now, 0, Work{Seats: 1}, ready)
	for n := range uint64(1000) {
		q.Arrive(now, n*0x9e3779b97f4a7c15, Work{Seats: 1}, ready)
	}
	n := uint64(0)
	for b.Loop() {
		n++
		q.Arrive(now, n*0x9e3779b97f4a7c15, Work{Seats: 1}, ready)
		now = now.Add(time.Millisecond)
		q.Finish(now, running)
		running = q.Next(now)
	}
}

// TestNoSeats closes queues by giving them no seats. Without queues Kubernetes lets one request in at a time, and so do we.
func TestNoSeats(t *testing.T) {
	t.Parallel()
	now, ready := time.Unix(0, 0), func() chan struct{} { return make(chan struct{}) }
	closed := New(Config{Queues: 1, HandSize: 1, QueueLength: 1}, 0)
	r, outcome := closed.Arrive(now, 0, Work{Seats: 1}, ready)
	if outcome != Waits || closed.Next(now) != nil {
		t.Errorf("%v", outcome)
	}
	if _, outcome := closed.Arrive(now, 0, Work{Seats: 1}, ready); outcome != QueueFull {
		t.Errorf("the second: %v", outcome)
	}
	closed.SetLimit(1)
	if closed.Next(now) != r {
		t.Error("nobody is let in when there is a seat")
	}
	alone := New(Config{}, 0)
	first, outcome := alone.Arrive(now, 0, Work{Seats: 5}, ready)
	if outcome != Started || first.Seats() != 1 {
		t.Fatalf("%v", outcome)
	}
	if _, outcome := alone.Arrive(now, 0, Work{Seats: 1}, ready); outcome != NoQueue {
		t.Errorf("beside it: %v", outcome)
	}
	alone.Finish(now, first)
	if _, outcome := alone.Arrive(now, 0, Work{Seats: 1}, ready); outcome != Started {
		t.Errorf("after it: %v", outcome)
	}
}

// TestWorkAfterTheEnd keeps the seats of a request that makes others work when it has ended, and charges its flow for it.
func TestWorkAfterTheEnd(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	q := New(Config{Queues: 1, HandSize: 1, QueueLength: 10}, 4)
	r, _ := q.Arrive(now, 0, Work{Seats: 1, Final: 8, Linger: 10 * time.Millisecond}, ready)
	if q.Seats() != 4 { // more than there are
		t.Fatalf("%d seats are held", q.Seats())
	}
	waits, outcome := q.Arrive(now, 0, Work{Seats: 1}, ready)
	if outcome != Waits {
		t.Fatal(outcome)
	}
	now = now.Add(time.Second)
	if linger := q.Finish(now, r); linger != 20*time.Millisecond || q.Seats() != 4 || q.Next(now) != nil {
		t.Errorf("it lingers for %v on %d seats", linger, q.Seats())
	}
	q.Release(now, r)
	if q.Seats() != 0 || q.Next(now) != waits || q.Finish(now, waits) != 0 || q.Seats() != 0 {
		t.Errorf("%d seats are held by nobody", q.Seats())
	}
}

// TestProgress moves R by the seats that each active queue could have, and tells of what was due when a request is started.
func TestProgress(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	q := New(Config{Queues: 2, HandSize: 1, QueueLength: 10}, 1)
	hashes := map[int]uint64{} // of a flow for each queue
	for hash := uint64(0); len(hashes) < 2; hash++ {
		hashes[Deal(nil, hash, 2, 1)[0]] = hash
	}
	first, _ := q.Arrive(now, hashes[0], Work{Seats: 1}, ready)
	if d := q.Last(); d != (Dispatch{}) || q.R() != 0 {
		t.Errorf("the first: %+v, R %v", d, q.R())
	}
	q.Next(now.Add(time.Second)) // the only queue has all: one seat, for a second
	if q.R() != 1 {
		t.Errorf("R %v", q.R())
	}
	now = now.Add(time.Second)
	q.Arrive(now, hashes[1], Work{Seats: 1}, ready)
	now = now.Add(2 * time.Second) // two of them share the seat
	q.Finish(now, first)
	if q.R() != 2 || q.Next(now) == nil {
		t.Errorf("R %v", q.R())
	}
	if d := q.Last(); d.R != 2 || d.Due != 1 || d.Least != 1 || d.Most != 1 || d.LeastLess != 1 {
		t.Errorf("%+v", d)
	}
	now = now.Add(time.Hour)
	if q.Next(now); q.R() != 2+3600 {
		t.Errorf("R %v", q.R())
	}
}
