package lb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

// traffic is clients that ask without a pause. Every request counts.
type traffic struct {
	stop    func() (asked int64, failures []string)
	rounds  []*atomic.Int64
	waiting *sync.Cond
}

func startTraffic(ns *netnstest.Namespace, clients int, address string) *traffic {
	ctx, cancel := context.WithCancel(context.Background())
	tr := &traffic{waiting: sync.NewCond(&sync.Mutex{})}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failures []string
	for range clients {
		done := new(atomic.Int64)
		tr.rounds = append(tr.rounds, done)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for ctx.Err() == nil {
				if _, err := ns.Ask("tcp", address, patience); err != nil {
					mu.Lock()
					failures = append(failures, err.Error())
					mu.Unlock()
				}
				tr.waiting.L.Lock()
				done.Add(1)
				tr.waiting.L.Unlock()
				tr.waiting.Broadcast()
			}
		}()
	}
	tr.stop = func() (int64, []string) {
		cancel()
		wg.Wait()
		var n int64
		for _, r := range tr.rounds {
			n += r.Load()
		}
		return n, failures
	}
	return tr
}

// drained waits until every request that is under way now has ended.
func (tr *traffic) drained() {
	tr.waiting.L.Lock()
	defer tr.waiting.L.Unlock()
	var before []int64
	for _, r := range tr.rounds {
		before = append(before, r.Load())
	}
	for i, r := range tr.rounds {
		for r.Load() == before[i] {
			tr.waiting.Wait()
		}
	}
}

// Endpoints come and go, as in a rolling update: each leaves the rotation first and dies then. Nobody notices.
func TestNoRequestFailsWhileEndpointsChange(t *testing.T) {
	ns := netnstest.New(t, "node")
	up := map[string]func(){}
	listen := func(a string) { up[a] = ns.Echo(t, "tcp", a+":8080", a) }
	for i := 1; i <= 4; i++ {
		ns.Address("lo", fmt.Sprintf("10.77.0.%d/32", i))
	}
	listen("10.77.0.1")
	listen("10.77.0.2")
	n := newNode(t, ns)
	current := func() any { return endpointSlice("web", 8080, slices.Sorted(maps.Keys(up))...) }
	n.start(service("web", "10.96.0.10", tcp(80)), current())
	tr := startTraffic(ns, 4, "10.96.0.10:80")
	for i := range 40 {
		in, out := fmt.Sprintf("10.77.0.%d", (i+2)%4+1), fmt.Sprintf("10.77.0.%d", i%4+1)
		listen(in)
		n.apply(current())
		stop := up[out]
		delete(up, out)
		n.apply(current())
		tr.drained()
		stop()
	}
	asked, failures := tr.stop()
	if len(failures) > 0 {
		t.Errorf("%d of %d requests failed, the first with %s", len(failures), asked, failures[0])
	}
	if asked < 100 {
		t.Errorf("only %d requests were made: the test shows nothing", asked)
	}
}

// The agent goes and comes back, under traffic; between its lives, the services go on.
func TestNoRequestFailsWhileTheAgentRestarts(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1", "10.77.0.2", "10.77.0.3")
	n := newNode(t, ns)
	objects := []any{service("web", "10.96.0.10", tcp(80)), endpointSlice("web", 8080, "10.77.0.1", "10.77.0.2")}
	n.start(objects...)
	tr := startTraffic(ns, 4, "10.96.0.10:80")
	for range 3 {
		n.stop()
		tr.drained()
		n.start(objects...)
		tr.drained()
	}
	if asked, failures := tr.stop(); len(failures) > 0 {
		t.Errorf("%d of %d requests failed, the first with %s", len(failures), asked, failures[0])
	}
	// What changed while it was away is put right: one service more, one less, other endpoints.
	n.stop()
	n.start(service("other", "10.96.0.11", tcp(80)), endpointSlice("other", 8080, "10.77.0.3"))
	if got := answers(t, ns, "tcp", "10.96.0.11:80", 4); !maps.Equal(got, map[string]int{"10.77.0.3": 4}) {
		t.Errorf("the new service: %v", got)
	}
	st, err := n.state()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.frontends) != 1 || len(st.sets) != 1 {
		t.Errorf("left in the maps: %d frontends, %d sets; want 1 and 1", len(st.frontends), len(st.sets))
	}
}

// An established connection does not care for changes.
func TestConnectionsOutliveTheirService(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1")
	n := newNode(t, ns)
	web, slice := service("web", "10.96.0.10", tcp(80)), endpointSlice("web", 8080, "10.77.0.1")
	n.start(web, slice)
	c, err := ns.Dial("tcp", "10.96.0.10:80", patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n.remove(slice)
	n.remove(web)
	n.stop()
	if got, err := netnstest.Talk(c, patience); got != "10.77.0.1" {
		t.Errorf("after its service was removed: %q, %v", got, err)
	}
}

// What terminates but still serves is better than nothing; it is nothing beside a ready one.
func TestDrainingEndpointsAreTheLastResort(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1", "10.77.0.2")
	n := newNode(t, ns)
	slice := endpointSlice("web", 8080, "10.77.0.1", "10.77.0.2")
	n.start(service("web", "10.96.0.10", tcp(80)), slice)
	for _, tt := range []struct {
		ready, draining [2]bool
		want            map[string]int
	}{
		{[2]bool{true, false}, [2]bool{false, true}, map[string]int{"10.77.0.1": 10}},
		{[2]bool{false, false}, [2]bool{true, true}, map[string]int{"10.77.0.1": 5, "10.77.0.2": 5}},
		{[2]bool{false, false}, [2]bool{false, true}, map[string]int{"10.77.0.2": 10}},
	} {
		next := slice.DeepCopy()
		for i := range next.Endpoints {
			next.Endpoints[i].Conditions.Ready = new(tt.ready[i])
			next.Endpoints[i].Conditions.Serving = new(tt.ready[i] || tt.draining[i])
			next.Endpoints[i].Conditions.Terminating = new(!tt.ready[i])
		}
		n.apply(next)
		if got := answers(t, ns, "tcp", "10.96.0.10:80", 10); !maps.Equal(got, tt.want) {
			t.Errorf("ready %v, draining %v: answers %v, want %v", tt.ready, tt.draining, got, tt.want)
		}
	}
}
