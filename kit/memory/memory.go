// Package memory keeps a process as small as what it does allows: the heap may grow far beyond what lives in it only while that is
// little, and what a load has left behind goes back to the system when it is over.
package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/utils/clock"
)

const (
	// every is the time between two looks.
	every = time.Second
	// budget is about what the heap may be with its garbage before a collection, in bytes; the garbage of it is between leastGarbage and
	// mostGarbage: marking caches again and again is a quarter of what a write costs, but on a large heap twice of what lives is more than a
	// machine should spare for it. docs/performance.md has what other values give.
	budget, leastGarbage, mostGarbage = 272 << 20, 112 << 20, 176 << 20
	// mostPercent and leastPercent bound GOGC.
	mostPercent, leastPercent = 200, 50
	// largeHeap is what may live, in bytes, before the garbage grows faster than that again, up to as much as lives: marking gigabytes takes both
	// processors for seconds, while allocating goes on, and saves an eighth of the peak (docs/performance.md). share is the part of the machine's memory
	// that the process may take for that.
	largeHeap, share = 512 << 20, 4
	// slack is how far beyond that the process may go in a burst, in bytes: between two looks GOGC is that of what lived before, and where
	// that grows by half, as in the removal of a large namespace, the garbage would too. leastLimit is where that begins to matter.
	// Large heaps have more of what counts and is not garbage: free pieces between objects, and what comes to live between two looks.
	slack, leastLimit = 32 << 20, 256 << 20
	// quietRate is what a process may allocate in a second and still be at rest; quietLooks how often in a row it must have been.
	quietRate, quietLooks = 8 << 20, 5
	// worthwhile is how much must be reclaimable for a process at rest to collect and give it back, in bytes; between is the least
	// time between two such efforts.
	worthwhile = 24 << 20
	between    = 30 * time.Second
)

// reading is what the runtime says of the heap, in bytes.
type reading struct {
	live      uint64 // after the last collection
	held      uint64 // of the system's memory: objects, dead or alive, and what is free
	other     uint64 // of the system's memory: stacks, and what the runtime keeps of objects and goroutines
	allocated uint64 // since the process began
}

// Keeper decides, once a second, how far the heap may grow, and gives memory back. New makes one of the process itself.
type Keeper struct {
	read    func() reading
	percent func(int)
	limit   func(uint64)
	release func()
	clock   clock.WithTicker
	machine uint64 // memory, in bytes, that the process has at most

	last     reading
	set      int
	bound    uint64
	quiet    int
	released time.Time
}

// New returns a keeper of this process. Where $GOGC is set, it leaves the growth of the heap alone, where $GOMEMLIMIT is, its limit.
func New(clock clock.WithTicker) *Keeper {
	k := &Keeper{
		read: read, release: debug.FreeOSMemory, clock: clock, machine: machineMemory("/"),
		percent: func(n int) { debug.SetGCPercent(n) }, limit: func(n uint64) { debug.SetMemoryLimit(int64(n)) },
	}
	if os.Getenv("GOGC") != "" {
		k.percent = func(int) {}
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		k.limit = func(uint64) {}
	}
	return k
}

// Run keeps until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := k.clock.NewTicker(every)
	defer ticker.Stop()
	for {
		k.look(k.clock.Now())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

func (k *Keeper) look(now time.Time) {
	r := k.read()
	if n := percentFor(r.live, k.machine); n != k.set {
		k.set = n
		k.percent(n)
	}
	if n := limitFor(r, k.machine); n != k.bound {
		k.bound = n
		k.limit(n)
	}
	if r.allocated-k.last.allocated > quietRate {
		k.quiet = 0
	} else {
		k.quiet++
	}
	k.last = r
	if k.quiet >= quietLooks && r.held > r.live+worthwhile && now.Sub(k.released) >= between {
		k.release()
		k.released = now
	}
}

// percentFor is GOGC for a heap of so many living bytes, in steps of five.
func percentFor(live, machine uint64) int {
	if live == 0 {
		return mostPercent
	}
	garbage := min(mostGarbage, max(leastGarbage, budget-min(budget, live)))
	if live > largeHeap {
		room := max(live, machine/share) - live
		garbage = max(live*leastPercent/100, min(room, live, live/2+live-largeHeap))
	}
	return min(mostPercent, max(leastPercent, int(garbage*100/live)/5*5))
}

// limitFor is the memory, in bytes and steps of 16 MiB, at which the runtime collects sooner than GOGC says: what lives, the garbage that may
// gather on it, and the slack. So it stays away from what a steady load needs.
func limitFor(r reading, machine uint64) uint64 {
	const step = 16 << 20
	garbage := r.live * uint64(percentFor(r.live, machine)) / 100
	spare := slack + (max(r.live, largeHeap)-largeHeap)/2
	return max(leastLimit, (r.live+garbage+r.other+spare+step-1)/step*step)
}

func read() reading {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	value := func(n int) uint64 {
		if samples[n].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return samples[n].Value.Uint64()
	}
	held, mapped := value(1)+value(2)+value(3), value(5)-value(6)
	return reading{live: value(0), held: held, other: mapped - min(held, mapped), allocated: value(4)}
}
