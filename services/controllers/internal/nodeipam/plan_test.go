package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestNoRangeTwice: through any history of nodes, no two hold overlapping ranges.
func TestNoRangeTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cluster string
		bits    int
	}{{"10.244.0.0/20", 24}, {"fd00:10:244::/56", 64}, {"10.0.0.0/24", 28}, {"fd00::/100", 106}} {
		for seed := range uint64(50) {
			rng := rand.New(rand.NewPCG(seed, 0))
			r, err := newRanges(netip.MustParsePrefix(c.cluster), c.bits)
			if err != nil {
				t.Fatal(err)
			}
			held := map[string]netip.Prefix{}
			for step := range 200 {
				name := fmt.Sprint("node-", rng.IntN(24))
				if had, ok := held[name]; ok {
					if got, ok := r.of(name); !ok || got != had {
						t.Fatalf("%s: node has %v, want %v", c.cluster, got, had)
					}
					r.release(name)
					delete(held, name)
					continue
				}
				p, err := r.take(name)
				if err != nil {
					if !errors.Is(err, errExhausted) || uint64(len(held)) < r.count {
						t.Fatalf("%s: %v with %d of %d taken", c.cluster, err, len(held), r.count)
					}
					continue
				}
				if !r.cluster.Contains(p.Addr()) || p.Bits() != c.bits || p != p.Masked() {
					t.Fatalf("step %d: %v is no range of %s", step, p, c.cluster)
				}
				for other, q := range held {
					if p.Overlaps(q) {
						t.Fatalf("step %d: %v of %s overlaps %v of %s", step, p, name, q, other)
					}
				}
				held[name] = p
			}
		}
	}
}

func TestOccupy(t *testing.T) {
	t.Parallel()
	r, err := newRanges(netip.MustParsePrefix("10.244.0.0/16"), 24)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cidr, node string
		ok         bool
	}{
		{"10.244.0.0/24", "a", true},
		{"10.244.0.0/24", "a", true},
		{"10.244.0.128/25", "b", false},
		{"10.244.0.0/22", "b", false},
		{"10.244.4.0/22", "b", true},
		{"10.245.0.0/24", "c", false},
		{"10.0.0.0/8", "c", false},
	} {
		if err := r.occupy(netip.MustParsePrefix(c.cidr), c.node); (err == nil) != c.ok {
			t.Errorf("%s for %s: %v", c.cidr, c.node, err)
		}
	}
	for range 3 {
		p, err := r.take("d")
		if err != nil || p.Overlaps(netip.MustParsePrefix("10.244.4.0/22")) || p.Overlaps(netip.MustParsePrefix("10.244.0.0/24")) {
			t.Errorf("takes %v, %v", p, err)
		}
	}
}

func TestNodesGetRanges(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.Node, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/26", PodCIDRs: []string{"10.0.0.0/26"}},
		})
	}, func(env *controller.Env) (controller.Unit, error) {
		return New(env, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/56")}, []int{26, 64}, nil)
	})
	for i := range 4 {
		controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("new-", i)}})
	}
	seen := map[string]string{}
	controllertest.Await(c, object.Node, "ranges for three of the four", func(nodes []*corev1.Node) bool {
		seen = map[string]string{}
		for _, n := range nodes {
			if len(n.Spec.PodCIDRs) > 0 {
				if seen[n.Spec.PodCIDRs[0]] != "" {
					t.Fatalf("%s is given to %s and %s", n.Spec.PodCIDRs[0], seen[n.Spec.PodCIDRs[0]], n.Name)
				}
				seen[n.Spec.PodCIDRs[0]] = n.Name
				if n.Name != "old" && (len(n.Spec.PodCIDRs) != 2 || n.Spec.PodCIDR != n.Spec.PodCIDRs[0]) {
					t.Fatalf("node %s has %v", n.Name, n.Spec.PodCIDRs)
				}
			}
		}
		return len(seen) == 4
	})
	if e := <-c.Events.Events; e != "Normal CIDRNotAvailable Node "+last(seen)+" status is now: CIDRNotAvailable" {
		t.Errorf("event %q", e)
	}
	// A range that is freed goes to the node that waits.
	if err := object.For(c.Client, object.Node).Delete(context.Background(), "", "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Await(c, object.Node, "ranges for all", func(nodes []*corev1.Node) bool {
		for _, n := range nodes {
			if len(n.Spec.PodCIDRs) == 0 {
				return false
			}
		}
		return len(nodes) == 4
	})
}

// last is the node that is not among those with a range.
func last(seen map[string]string) string {
	has := map[string]bool{}
	for _, n := range seen {
		has[n] = true
	}
	for i := range 4 {
		if name := fmt.Sprint("new-", i); !has[name] {
			return name
		}
	}
	return ""
}
