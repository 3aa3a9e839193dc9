package lb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pinned"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

var errInjected = errors.New("injected fault")

// memory is a Map without a kernel.
type memory[K comparable, V any] map[K]V

func (m memory[K, V]) Put(k K, v V) error    { m[k] = v; return nil }
func (m memory[K, V]) Delete(k K) error      { delete(m, k); return nil }
func (m memory[K, V]) All() (map[K]V, error) { return maps.Clone(m), nil }

func memoryMaps() Maps {
	return Maps{
		Frontends: memory[bpf.LBFrontendKey, bpf.LBFrontend]{},
		Slots:     memory[bpf.LBSlotKey, bpf.LBBackend]{},
		Members:   memory[bpf.LBMemberKey, uint8]{},
		Sources:   memory[bpf.LBSourceKey, uint8]{},
		Nodes:     memory[bpf.LBAddress, uint8]{},
		Barrier:   func() error { return nil },
	}
}

// faulty fails one write in `in`, and calls after when a write went through.
type faulty[K comparable, V any] struct {
	pinned.Map[K, V]
	rng   *rand.Rand
	in    int
	after func()
}

func (f faulty[K, V]) Put(k K, v V) error {
	if f.in > 0 && f.rng.IntN(f.in) == 0 {
		return errInjected
	}
	defer f.after()
	return f.Map.Put(k, v)
}

func (f faulty[K, V]) Delete(k K) error {
	if f.in > 0 && f.rng.IntN(f.in) == 0 {
		return errInjected
	}
	defer f.after()
	return f.Map.Delete(k)
}

func withFaults(m Maps, rng *rand.Rand, in int, after func()) Maps {
	barrier := m.Barrier
	return Maps{
		Frontends: faulty[bpf.LBFrontendKey, bpf.LBFrontend]{m.Frontends, rng, in, after},
		Slots:     faulty[bpf.LBSlotKey, bpf.LBBackend]{m.Slots, rng, in, after},
		Members:   faulty[bpf.LBMemberKey, uint8]{m.Members, rng, in, after},
		Sources:   faulty[bpf.LBSourceKey, uint8]{m.Sources, rng, in, after},
		Nodes:     faulty[bpf.LBAddress, uint8]{m.Nodes, rng, in, after},
		Barrier: func() error {
			if in > 0 && rng.IntN(in) == 0 {
				return errInjected
			}
			return barrier()
		},
	}
}

// world makes random objects: services that share backends, change policy, lose and gain endpoints, and vanish.
func world(rng *rand.Rand) (services []*corev1.Service, slices []*discoveryv1.EndpointSlice) {
	for i := range 6 {
		if rng.IntN(4) == 0 {
			continue
		}
		name := fmt.Sprint("s", i)
		svc := nodePort(name, fmt.Sprintf("10.96.0.%d", i+1), int32(30100+i), int32(30200+i))
		if rng.IntN(2) == 0 {
			svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		}
		if rng.IntN(2) == 0 {
			svc.Spec.Type = corev1.ServiceTypeLoadBalancer
			svc.Spec.LoadBalancerSourceRanges = []string{fmt.Sprintf("192.0.2.%d/32", rng.IntN(4))}
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("198.51.100.%d", rng.IntN(3))}}
		}
		services = append(services, svc)
		var addresses []string
		for a := range 5 {
			if rng.IntN(2) == 0 {
				addresses = append(addresses, fmt.Sprintf("10.77.0.%d", a+1))
			}
		}
		slices = append(slices, endpointSlice(name, 8080, addresses...))
	}
	return services, slices
}

// whole checks what a program relies on at any moment: every frontend's set has all its slots and members.
func whole(m Maps) error {
	frontends, _ := m.Frontends.All()
	slots, _ := m.Slots.All()
	members, _ := m.Members.All()
	for k, f := range frontends {
		for i := range f.Count {
			b, ok := slots[bpf.LBSlotKey{Set: f.Set, Slot: i}]
			if !ok {
				return fmt.Errorf("%s: set %d lacks slot %d of %d", decodeFrontend(k), f.Set, i, f.Count)
			}
			if _, ok := members[encodeMember(f.Set, b)]; !ok {
				return fmt.Errorf("%s: set %d lacks member %d", decodeFrontend(k), f.Set, i)
			}
		}
	}
	return nil
}

// holds checks that the maps have exactly a table, and nothing more.
func holds(m Maps, want Table) error {
	st, err := readState(m)
	if err != nil {
		return err
	}
	if err := whole(m); err != nil {
		return err
	}
	if len(st.frontends) != len(want) {
		return fmt.Errorf("%d frontends, want %d", len(st.frontends), len(want))
	}
	sources := map[bpf.LBSourceKey]bool{}
	sets := map[uint32]bool{}
	for f, e := range want {
		have, ok := st.frontends[encodeFrontend(f)]
		if !ok {
			return fmt.Errorf("%s is missing", f)
		}
		value := encodeEntry(e)
		value.Set, value.Next = have.Set, have.Next
		if have != value {
			return fmt.Errorf("%s is %+v, want %+v", f, have, value)
		}
		if len(e.Backends) > 0 {
			got, ok := st.sets[have.Set].complete(have.Set)
			if !ok || !slices.Equal(got, encodeBackends(e.Backends)) {
				return fmt.Errorf("%s has backends %v, want %v", f, got, e.Backends)
			}
			sets[have.Set] = true
		}
		for _, p := range e.Sources {
			sources[encodeSource(identity(e.Service), p)] = true
		}
	}
	if len(st.sets) != len(sets) {
		return fmt.Errorf("%d sets, %d of them in use", len(st.sets), len(sets))
	}
	if !maps.Equal(st.sources, sources) {
		return fmt.Errorf("source ranges %v, want %v", st.sources, sources)
	}
	return nil
}

// For 200 random histories with one write in ten failing: after every single write the maps are whole, and once a
// round goes through they hold the table and no more.
func TestMapsAreWholeAfterEveryWriteAndConverge(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		plain := memoryMaps()
		m := withFaults(plain, rng, 10, func() {
			if err := whole(plain); err != nil {
				t.Fatalf("seed %d: half-written: %v", seed, err)
			}
		})
		b, err := New(Config{Node: Node{Name: testNode}, At: Attachment{Cgroup: "-", Pins: "-"}})
		if err != nil {
			t.Fatal(err)
		}
		s := newSyncer(b, m)
		var before []any
		for range 4 {
			services, endpointSlices := world(rng)
			for _, o := range before {
				b.Delete(context.Background(), o)
			}
			before = nil
			for _, o := range services {
				b.Update(context.Background(), o)
				before = append(before, o)
			}
			for _, o := range endpointSlices {
				b.Update(context.Background(), o)
				before = append(before, o)
			}
			restarted := rng.IntN(3) == 0
			if restarted { // the agent dies here and another one takes over
				s = newSyncer(b, m)
			}
			tries := 0
			for err := s.sync(context.Background(), restarted); err != nil; err = s.sync(context.Background(), false) {
				if tries++; tries > 500 {
					t.Fatalf("seed %d: does not converge: %v", seed, err)
				}
			}
			want, _ := Desired(services, endpointSlices, b.cfg.Node)
			if err := holds(plain, want); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

// The same with the kernel's maps and real clients: they never notice.
func TestFaultsInTheKernelUnderTraffic(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4", "10.77.0.5")
	n := newNode(t, ns)
	rng := rand.New(rand.NewPCG(7, 7))
	n.wrap = func(m Maps) Maps { return withFaults(m, rng, 10, func() {}) }
	n.start(service("web", "10.96.1.10", tcp(80)), endpointSlice("web", 8080, "10.77.0.1"))
	tr := startTraffic(ns, 2, "10.96.1.10:80")
	var services []*corev1.Service
	var endpointSlices []*discoveryv1.EndpointSlice
	var web *discoveryv1.EndpointSlice
	other := rand.New(rand.NewPCG(8, 8))
	for i := range 20 {
		for _, o := range services {
			n.lb.Delete(context.Background(), o)
		}
		for _, o := range endpointSlices {
			n.lb.Delete(context.Background(), o)
		}
		services, endpointSlices = world(other)
		web = endpointSlice("web", 8080, fmt.Sprintf("10.77.0.%d", i%5+1), fmt.Sprintf("10.77.0.%d", (i+1)%5+1))
		for _, o := range services {
			n.lb.Update(context.Background(), o)
		}
		for _, o := range endpointSlices {
			n.lb.Update(context.Background(), o)
		}
		// The slice that the clients use changes and never goes, not even for a moment.
		n.lb.Update(context.Background(), web)
		n.settled()
	}
	asked, failures := tr.stop()
	if len(failures) > 0 {
		t.Errorf("%d of %d requests failed, the first with %s", len(failures), asked, failures[0])
	}
	services = append(services, service("web", "10.96.1.10", tcp(80)))
	want, _ := Desired(services, append(endpointSlices, web), Node{Name: testNode})
	n.ns.Do(func() error {
		d, _, err := loadDatapath(n.at)
		if err != nil {
			return err
		}
		defer d.close()
		return holds(d.maps(), want)
	})
}
