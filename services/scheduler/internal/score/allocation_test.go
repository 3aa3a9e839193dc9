package score

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

const foo corev1.ResourceName = "intel.com/foo"

// list reads pairs of a name and a quantity.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func wanting(l corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: l}}}},
	}
}

// node has so much, of which pods have taken so much.
func node(there, used corev1.ResourceList) *cluster.Node {
	cache := cluster.NewCache()
	cache.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: there}})
	p := wanting(used)
	p.UID, p.Spec.NodeName = "used", "n"
	cache.SetPod(p)
	return cache.Snapshot().Node("n")
}

// rating is what a score says of one node; -1 where all are alike.
func rating(s Score, pod *corev1.Pod, n *cluster.Node) int64 {
	rate := s.Prepare(pod, cluster.Snapshot{Nodes: []*cluster.Node{n}})
	if rate == nil {
		return -1
	}
	return rate(n)
}

// TestRatioAsDocumented has the two nodes of "Resource Bin Packing" in Kubernetes' documentation, where a shape from 0 at 0 to 10 at 100 rates
// intel.com/foo with weight 5, memory with 1 and cpu with 3. What it counts in tenths is counted in hundredths here, as it is in Kubernetes:
// (75×5 + 50×1 + 37×3)/9 = 59.6, and (50×5 + 75×1 + 100×3)/9 = 69.4.
func TestRatioAsDocumented(t *testing.T) {
	t.Parallel()
	s := RequestedToCapacityRatio([]Resource{{foo, 5}, {corev1.ResourceMemory, 1}, {corev1.ResourceCPU, 3}}, []Point{{0, 0}, {100, 100}})
	pod := wanting(list("intel.com/foo", "2", "memory", "256Mi", "cpu", "2"))
	for _, tt := range []struct {
		there, used corev1.ResourceList
		want        int64
	}{
		{list("intel.com/foo", "4", "memory", "1Gi", "cpu", "8"), list("intel.com/foo", "1", "memory", "256Mi", "cpu", "1"), 60},
		{list("intel.com/foo", "8", "memory", "1Gi", "cpu", "8"), list("intel.com/foo", "2", "memory", "512Mi", "cpu", "6"), 69},
	} {
		if got := rating(s, pod, node(tt.there, tt.used)); got != tt.want {
			t.Errorf("%v of %v: %d, want %d", tt.used, tt.there, got, tt.want)
		}
	}
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	there := list("cpu", "10", "memory", "10Gi", "ephemeral-storage", "100Gi", "intel.com/foo", "4")
	used := list("cpu", "2", "memory", "5Gi", "ephemeral-storage", "10Gi", "intel.com/foo", "1")
	pod := wanting(list("cpu", "1", "memory", "1Gi", "ephemeral-storage", "30Gi", "intel.com/foo", "1"))
	plain := wanting(list("cpu", "1", "memory", "1Gi"))
	weighed := []Resource{{corev1.ResourceCPU, 3}, {corev1.ResourceMemory, 1}}
	four := []Resource{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}, {corev1.ResourceEphemeralStorage, 1}, {foo, 1}}
	descent := []Point{{20, 100}, {60, 0}}
	for _, tt := range []struct {
		name  string
		score Score
		pod   *corev1.Pod
		want  int64
	}{
		{"least: 70 and 40", LeastAllocated(CPUAndMemory()), pod, 55},
		{"least: 3×70 and 40", LeastAllocated(weighed), pod, 62},
		{"least: 70, 40, 60 and 50", LeastAllocated(four), pod, 55},
		{"least: what the pod does not want is not extended: 70, 40 and 90", LeastAllocated(four), plain, 66},
		{"least: defaults for what is not requested: 79 and 48", LeastAllocated(CPUAndMemory()), wanting(nil), 63},
		{"least: too much", LeastAllocated(CPUAndMemory()), wanting(list("cpu", "9", "memory", "6Gi")), 0},
		{"most: 30 and 60", MostAllocated(CPUAndMemory()), pod, 45},
		{"most: 3×30 and 60", MostAllocated(weighed), pod, 37},
		{"most: 30, 60, 40 and 50", MostAllocated(four), pod, 45},
		{"most: too much is all", MostAllocated(CPUAndMemory()), wanting(list("cpu", "9", "memory", "6Gi")), 100},
		{"none of the resources", LeastAllocated([]Resource{{"a.b/c", 1}}), wanting(list("a.b/c", "1")), 0},
		{"shape: 75 at 30, and 0 at 60, which does not count", RequestedToCapacityRatio(CPUAndMemory(), descent), pod, 75},
		{"shape: before its first point", RequestedToCapacityRatio([]Resource{{corev1.ResourceCPU, 1}}, []Point{{40, 90}, {50, 0}}), pod, 90},
		{"shape: behind its last point", RequestedToCapacityRatio([]Resource{{corev1.ResourceMemory, 1}}, []Point{{40, 90}, {50, 20}}), pod, 20},
		{"shape: one point", RequestedToCapacityRatio(CPUAndMemory(), []Point{{40, 30}}), pod, 30},
		{"shape: too much is all", RequestedToCapacityRatio(CPUAndMemory(), []Point{{0, 0}, {100, 100}}), wanting(list("cpu", "9", "memory", "6Gi")), 100},
		{"balance: 30 and 60 are as far from their mean as 20 and 50", BalancedAllocation(CPUAndMemory()), pod, 75},
		{"balance: 70 and 60, which were 20 and 50: from 15 to 5", BalancedAllocation(CPUAndMemory()), wanting(list("cpu", "5", "memory", "1Gi")), 80},
		{"balance: 20 and 90: from 15 to 35", BalancedAllocation(CPUAndMemory()), wanting(list("memory", "4Gi")), 65},
		{"balance: 30, 60, 40 and 50 deviate by 11.2, and deviated by 14.7", BalancedAllocation(four), pod, 76},
		{"balance: 30, 60 and 10 deviate by 20.5, and deviated by 17", BalancedAllocation(four), plain, 73},
		{"balance: one resource", BalancedAllocation([]Resource{{corev1.ResourceCPU, 1}}), pod, 75},
		{"balance: a node without one of two", BalancedAllocation([]Resource{{corev1.ResourceCPU, 1}, {"a.b/c", 1}}), wanting(list("cpu", "1", "a.b/c", "1")), 75},
		{"balance: a pod that wants nothing", BalancedAllocation(four), wanting(nil), -1},
	} {
		if got := rating(tt.score, tt.pod, node(there, used)); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestTheEndsOfBalance: the change counts, so what is lost or won is rated to both sides.
func TestTheEndsOfBalance(t *testing.T) {
	t.Parallel()
	there := list("cpu", "10", "memory", "10Gi")
	for _, tt := range []struct {
		name      string
		used, pod corev1.ResourceList
		want      int64
	}{
		{"all of its balance is lost", nil, list("cpu", "10"), 50},
		{"all of it is won", list("cpu", "10"), list("memory", "10Gi"), 100},
		{"of 100 to 91.5 is 9 to whoever counts whole numbers", nil, list("cpu", "1700m"), 70},
		{"of 99.5 to 98.5 is one", list("cpu", "100m"), list("cpu", "200m"), 74},
		{"of 99.5 to 99.05 is none", list("cpu", "100m"), list("cpu", "90m"), 75},
		{"an empty node stays balanced", nil, list("cpu", "5", "memory", "5Gi"), 75},
		{"a full one cannot change", list("cpu", "10", "memory", "10Gi"), list("cpu", "1"), 75},
	} {
		for _, s := range []Score{BalancedAllocation(CPUAndMemory()), BalancedAllocation([]Resource{{corev1.ResourceMemory, 1}, {corev1.ResourceCPU, 1}})} {
			if got := rating(s, wanting(tt.pod), node(there, tt.used)); got != tt.want {
				t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
			}
		}
	}
}

// TestRequestsOfTheWholePod: what a pod requests as a whole counts for its balance, and for what is left of a node only once it is there. Another
// pod, which requests nothing, is there before.
func TestRequestsOfTheWholePod(t *testing.T) {
	t.Parallel()
	pod := wanting(list("cpu", "1"))
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "5", "memory", "1000Mi")}
	n := node(list("cpu", "10", "memory", "2000Mi"), nil)
	if got := rating(LeastAllocated(CPUAndMemory()), pod, n); got != 84 {
		t.Errorf("with 1.1 CPUs and 400 MiB: %d, want 84", got)
	}
	if got := rating(BalancedAllocation(CPUAndMemory()), pod, n); got != 75 {
		t.Errorf("half of each: %d, want 75", got)
	}
	if got := rating(LeastAllocated(CPUAndMemory()), wanting(nil), n.With(pod, cluster.DemandOf(pod))); got != 39 {
		t.Errorf("beside it, with 5.2 CPUs and 1400 MiB: %d, want 39", got)
	}
}

func TestNodeLabel(t *testing.T) {
	t.Parallel()
	n := node(nil, nil)
	n.Object.Labels = map[string]string{"disk": "ssd", "old": ""}
	for _, tt := range []struct {
		present, absent []string
		want            int64
	}{
		{nil, nil, -1},
		{[]string{"disk"}, nil, 100},
		{nil, []string{"old"}, 0},
		{[]string{"disk", "gpu"}, []string{"old", "broken"}, 50},
		{[]string{"disk", "old"}, []string{"disk"}, 66},
	} {
		if got := rating(NodeLabel(tt.present, tt.absent), wanting(nil), n); got != tt.want {
			t.Errorf("with %v without %v: %d, want %d", tt.present, tt.absent, got, tt.want)
		}
	}
}
