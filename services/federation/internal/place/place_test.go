package place

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/services/federation/api"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// cluster is one that is ready, or not, for so long.
func cluster(name string, ready bool, since time.Duration) *api.Cluster {
	c := &api.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "a"}}}
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	c.Status.Conditions = []metav1.Condition{{Type: api.Ready, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-since))}}
	c.Status.APIs = []api.ServedAPI{{GroupVersion: "apps/v1", Kinds: []string{"Deployment"}}}
	return c
}

func with(c *api.Cluster, change func(*api.Cluster)) *api.Cluster { change(c); return c }

func share(name string, n int32) api.Share { return api.Share{Name: name, Replicas: ptr.To(n)} }

func divided(weights ...api.Weight) *api.PolicySpec {
	return &api.PolicySpec{Replicas: api.ReplicaRule{Mode: api.Divided, Division: api.Static, Weights: weights}}
}

func weigh(name string, n int32) api.Weight {
	return api.Weight{ClusterTarget: api.ClusterTarget{Clusters: []string{name}}, Weight: n}
}

func deployment(n int32) Template {
	return Template{GroupVersion: "apps/v1", Kind: "Deployment", Replicas: &n}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	threeToTwo := divided(weigh("a", 3), weigh("b", 2))
	tests := map[string]struct {
		policy   *api.PolicySpec
		clusters []*api.Cluster
		template Template
		placed   []api.Share
		want     []api.Share
		reason   string
		after    time.Duration
		lost     []string
	}{
		"weights": {
			policy: threeToTwo, clusters: []*api.Cluster{cluster("a", true, hour), cluster("b", true, hour), cluster("c", true, hour)}, template: deployment(10),
			want: []api.Share{share("a", 6), share("b", 4)},
		},
		"duplicated": {
			policy: &api.PolicySpec{}, clusters: []*api.Cluster{cluster("a", true, hour), cluster("b", true, hour)}, template: deployment(10),
			want: []api.Share{{Name: "a"}, {Name: "b"}},
		},
		"what has no replicas is not divided": {
			policy: threeToTwo, clusters: []*api.Cluster{cluster("a", true, hour), cluster("c", true, hour)}, template: Template{GroupVersion: "apps/v1", Kind: "Deployment"},
			want: []api.Share{{Name: "a"}, {Name: "c"}},
		},
		"a cluster that is not ready for a short time keeps its share": {
			policy: threeToTwo, clusters: []*api.Cluster{cluster("a", false, 20*time.Second), cluster("b", true, hour)}, template: deployment(10),
			placed: []api.Share{share("a", 6), share("b", 4)}, want: []api.Share{share("a", 6), share("b", 4)}, after: 40 * time.Second,
		},
		"a cluster that is not ready for long loses it": {
			policy: threeToTwo, clusters: []*api.Cluster{cluster("a", false, time.Minute), cluster("b", true, hour)}, template: deployment(10),
			placed: []api.Share{share("a", 6), share("b", 4)}, want: []api.Share{share("b", 10)}, lost: []string{"a"},
		},
		"one that has just returned waits": {
			policy: threeToTwo, clusters: []*api.Cluster{cluster("a", true, 10*time.Second), cluster("b", true, hour)}, template: deployment(10),
			placed: []api.Share{share("b", 10)}, want: []api.Share{share("b", 10)}, after: 50 * time.Second,
		},
		"and then has its share again": {
			policy: threeToTwo, clusters: []*api.Cluster{cluster("a", true, time.Minute), cluster("b", true, hour)}, template: deployment(10),
			placed: []api.Share{share("b", 10)}, want: []api.Share{share("a", 6), share("b", 4)},
		},
		"a new cluster takes what is placed first at once": {
			policy: threeToTwo, clusters: []*api.Cluster{cluster("a", true, 0), cluster("b", true, 0)}, template: deployment(5),
			want: []api.Share{share("a", 3), share("b", 2)},
		},
		"one that has just returned helps where no other is ready": {
			policy: threeToTwo, clusters: []*api.Cluster{cluster("a", true, 0), cluster("b", false, hour)}, template: deployment(5),
			placed: []api.Share{share("b", 5)}, want: []api.Share{share("a", 5)}, lost: []string{"b"},
		},
		"where none is ready nothing moves": {
			policy: threeToTwo, clusters: []*api.Cluster{cluster("a", false, hour), cluster("b", false, hour)}, template: deployment(10),
			placed: []api.Share{share("a", 6), share("b", 4)}, want: []api.Share{share("a", 6), share("b", 4)}, reason: NoClusters,
		},
		"one cluster of several stays the same": {
			policy: &api.PolicySpec{Placement: api.PlacementRule{MaxClusters: 1}}, clusters: []*api.Cluster{cluster("a", true, hour), cluster("b", true, hour)},
			template: deployment(1), placed: []api.Share{{Name: "b"}}, want: []api.Share{{Name: "b"}},
		},
		"too few clusters": {
			policy: &api.PolicySpec{Placement: api.PlacementRule{MinClusters: 2}}, clusters: []*api.Cluster{cluster("a", true, hour), cluster("b", false, hour)},
			template: deployment(1), reason: TooFewClusters,
		},
		"excluded, and not selected": {
			policy: &api.PolicySpec{Placement: api.PlacementRule{Exclude: []string{"a"}, ClusterTarget: api.ClusterTarget{
				ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{api.RegionLabel: "north"}}}}},
			clusters: []*api.Cluster{cluster("a", true, hour), cluster("b", true, hour), with(cluster("c", true, hour), func(c *api.Cluster) { c.Spec.Region = "north" })},
			template: deployment(1), want: []api.Share{{Name: "c"}},
		},
		"a taint keeps new ones away": {
			policy: &api.PolicySpec{}, template: deployment(1), placed: []api.Share{{Name: "a"}}, want: []api.Share{{Name: "a"}},
			clusters: []*api.Cluster{
				with(cluster("a", true, hour), func(c *api.Cluster) { c.Spec.Taints = []api.Taint{{Key: "k", Effect: api.NoSchedule}} }),
				with(cluster("b", true, hour), func(c *api.Cluster) { c.Spec.Taints = []api.Taint{{Key: "k", Effect: api.NoSchedule}} }),
				with(cluster("c", true, hour), func(c *api.Cluster) { c.Spec.Taints = []api.Taint{{Key: "k", Effect: api.NoExecute}} }),
			},
		},
		"a taint moves what is there": {
			policy: &api.PolicySpec{Placement: api.PlacementRule{Tolerations: []api.Toleration{{Key: "k", Value: "1"}}}}, template: deployment(1), placed: []api.Share{{Name: "a"}},
			want: []api.Share{{Name: "b"}},
			clusters: []*api.Cluster{
				with(cluster("a", true, hour), func(c *api.Cluster) { c.Spec.Taints = []api.Taint{{Key: "k", Value: "2", Effect: api.NoExecute}} }),
				with(cluster("b", true, hour), func(c *api.Cluster) { c.Spec.Taints = []api.Taint{{Key: "k", Value: "1", Effect: api.NoExecute}} }),
			},
		},
		"a kind that is not served": {
			policy: &api.PolicySpec{}, clusters: []*api.Cluster{cluster("a", true, hour)}, template: Template{GroupVersion: "shop/v1", Kind: "Shop"}, reason: NoClusters,
		},
		"by room": {
			policy:   &api.PolicySpec{Replicas: api.ReplicaRule{Mode: api.Divided, Division: api.Available}},
			template: Template{GroupVersion: "apps/v1", Kind: "Deployment", Replicas: ptr.To[int32](6), Requests: api.Resources{"cpu": resource.MustParse("500m")}},
			clusters: []*api.Cluster{
				with(cluster("a", true, hour), func(c *api.Cluster) {
					c.Status.Allocatable = api.Resources{"cpu": resource.MustParse("4"), "pods": resource.MustParse("100")}
					c.Status.Allocated = api.Resources{"cpu": resource.MustParse("2")}
				}),
				with(cluster("b", true, hour), func(c *api.Cluster) {
					c.Status.Allocatable = api.Resources{"cpu": resource.MustParse("4"), "pods": resource.MustParse("100")}
				}),
			},
			want: []api.Share{share("a", 2), share("b", 4)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Place(Input{Policy: test.policy, Clusters: test.clusters, Template: test.template, Placed: test.placed, Now: now})
			if !reflect.DeepEqual(got.Shares, test.want) || got.Reason != test.reason || got.After != test.after || !reflect.DeepEqual(got.Lost, test.lost) {
				t.Errorf("got %s %q after %s, lost %v (%s; %v), want %s %q after %s, lost %v", text(got.Shares), got.Reason, got.After, got.Lost, got.Message, got.Refused, text(test.want), test.reason, test.after, test.lost)
			}
		})
	}
}

func text(shares []api.Share) string {
	s := ""
	for _, share := range shares {
		s += fmt.Sprintf("%s=%d ", share.Name, ptr.Deref(share.Replicas, -1))
	}
	return s
}

// TestDivisionsHold holds that shares sum up, that none is negative, that weights are kept to within one, and that nothing moves for its own sake.
func TestDivisionsHold(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		parts := make([]Part, 1+random.IntN(6))
		weights := int64(0)
		for i := range parts {
			parts[i] = Part{Name: string(rune('a' + i)), Weight: random.Int64N(5), Room: random.Int64N(20), Has: random.Int64N(8)}
			weights += parts[i].Weight
		}
		total := random.Int64N(40)
		for name, by := range map[string]func(int64, []Part) []int64{"weight": ByWeight, "room": ByRoom} {
			got := by(total, parts)
			sum, placed := int64(0), int64(0)
			for i, n := range got {
				sum += n
				placed += parts[i].Has
				if n < 0 {
					t.Fatalf("by %s: %d of %+v is %v", name, total, parts, got)
				}
				if exact := float64(total) * float64(parts[i].Weight) / float64(max(weights, 1)); name == "weight" && weights > 0 && (float64(n) <= exact-1 || float64(n) >= exact+1) {
					t.Fatalf("by weight: %d of %+v is %v, which is not within one of %f", total, parts, got, exact)
				}
			}
			if sum != total {
				t.Fatalf("by %s: %d of %+v is %v, which sums up to %d", name, total, parts, got, sum)
			}
			for i, n := range got { // the other division keeps what is there
				if name == "room" && (total >= placed && n < parts[i].Has || total <= placed && n > parts[i].Has) {
					t.Fatalf("by room: %d of %+v is %v: %s moves against the total", total, parts, got, parts[i].Name)
				}
			}
			settled := make([]Part, len(parts))
			for i, p := range parts {
				p.Has = got[i]
				settled[i] = p
			}
			if next := by(total, settled); !reflect.DeepEqual(next, got) {
				t.Fatalf("by %s: %d of %+v is %v, and then %v", name, total, settled, got, next)
			}
		}
	}
}

// TestPlansHold holds that replicas sum up wherever a cluster is taken, that refused clusters have nothing, that plans are stable, and that a cluster that is
// ready and keeps its place does not lose it to another.
func TestPlansHold(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		in := Input{Policy: &api.PolicySpec{}, Now: now, Template: deployment(int32(random.IntN(30)))}
		in.Policy.Replicas = api.ReplicaRule{Mode: []string{api.Duplicated, api.Divided}[random.IntN(2)], Division: []string{api.Static, api.Available}[random.IntN(2)]}
		in.Policy.Placement.MaxClusters, in.Policy.Placement.MinClusters = int32(random.IntN(4)), int32(random.IntN(3))
		for i := range 1 + random.IntN(5) {
			c := cluster(string(rune('a'+i)), random.IntN(3) > 0, time.Duration(random.IntN(120))*time.Second)
			if random.IntN(5) == 0 {
				c.Spec.Taints = []api.Taint{{Key: "k", Effect: []string{api.NoSchedule, api.NoExecute}[random.IntN(2)]}}
			}
			if random.IntN(8) == 0 {
				c.DeletionTimestamp = &metav1.Time{Time: now}
			}
			if random.IntN(8) == 0 {
				in.Policy.Placement.Exclude = append(in.Policy.Placement.Exclude, c.Name)
			}
			in.Clusters = append(in.Clusters, c)
			if random.IntN(2) == 0 {
				in.Placed = append(in.Placed, share(c.Name, int32(random.IntN(10))))
			}
		}
		got := Place(in)
		sum := int32(0)
		for _, s := range got.Shares {
			if why, refused := got.Refused[s.Name]; refused {
				t.Fatalf("%s has a share though %s: %s", s.Name, why, text(got.Shares))
			}
			sum += ptr.Deref(s.Replicas, 0)
		}
		if in.Policy.Replicas.Mode == api.Divided && len(got.Shares) > 0 && sum != *in.Template.Replicas {
			t.Fatalf("%d replicas of %d: %s", sum, *in.Template.Replicas, text(got.Shares))
		}
		if len(got.Shares) == 0 && got.Reason == "" {
			t.Fatal("nothing is placed, and no reason is given")
		}
		in.Placed = got.Shares
		if next := Place(in); !reflect.DeepEqual(next.Shares, got.Shares) {
			t.Fatalf("%s, and then %s", text(got.Shares), text(next.Shares))
		}
	}
}
