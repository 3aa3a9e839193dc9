package cycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/filter"
)

const gpuResource = corev1.ResourceName("example.com/gpu")

// gpuNamed is the class gpu with an extended resource.
func gpuNamed() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
		ExtendedResourceName: ptr.To(string(gpuResource)),
		Selectors:            []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
	}}
}

func wanting(name corev1.ResourceName, amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		requests := &p.Spec.Containers[0].Resources.Requests
		if *requests == nil {
			*requests = corev1.ResourceList{}
		}
		(*requests)[name] = resource.MustParse(amount)
	}
}

func advertising(amount string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Allocatable[gpuResource] = resource.MustParse(amount) }
}

// leftover is what an earlier attempt has made for the pod p.
func leftover(count int64, change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	p := pod("p", "", wanting(gpuResource, "1"))
	c := gpus(device.SpecialName(p), exactly(func(r *resourcev1.ExactDeviceRequest) { r.Count = count }))
	c.Spec.Devices.Requests[0].Name = "container-0-request-0"
	c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))}
	for _, f := range change {
		f(c)
	}
	return c
}

func TestExtendedResourcesThatAreDevices(t *testing.T) {
	t.Parallel()
	const insufficient = "1 Insufficient example.com/gpu"
	two := slice("n1", gpu("a", "l"), gpu("b", "l"))
	tests := []struct {
		name    string
		node    func(*corev1.Node)
		pod     func(*corev1.Pod)
		objects []any
		want    string // "" where the pod goes to n1
		devices int    // that it gets then
	}{
		{"no class names it", nil, wanting(gpuResource, "1"), []any{two}, insufficient, 0},
		{"devices of the class", nil, wanting(gpuResource, "2"), []any{gpuNamed(), two}, "", 2},
		{"by the class's own name", nil, wanting("deviceclass.resource.kubernetes.io/gpu", "1"), []any{two}, "", 1},
		{"too few devices", nil, wanting(gpuResource, "3"), []any{gpuNamed(), two}, "1 cannot allocate all claims", 0},
		{"devices that a claim has", nil, wanting(gpuResource, "2"), []any{gpuNamed(), two, gpus("x", allocated("n1", "a", "other"))}, "1 cannot allocate all claims", 0},
		{"the node's own", advertising("1"), wanting(gpuResource, "1"), []any{gpuNamed(), two}, "", 0},
		{"too few of the node's own", advertising("1"), wanting(gpuResource, "2"), []any{gpuNamed(), two}, insufficient, 0},
		{"a node that had its own", advertising("0"), wanting(gpuResource, "1"), []any{gpuNamed(), two}, "", 1},
		{"beside a claim", nil, func(p *corev1.Pod) { wanting(gpuResource, "1")(p); claiming("x")(p) }, []any{gpuNamed(), two, gpus("x")}, "", 1},
		{"beside a claim, one too many", nil, func(p *corev1.Pod) { wanting(gpuResource, "2")(p); claiming("x")(p) }, []any{gpuNamed(), two, gpus("x")}, "1 cannot allocate all claims", 0},
		{"more than a claim holds", nil, wanting(gpuResource, "33"), []any{gpuNamed(), two}, "1 extended resources need a claim of 33 devices, of which it can have 32", 0},
		{"what was begun", nil, wanting(gpuResource, "1"), []any{gpuNamed(), two, leftover(1)}, "", 1},
		{"what was all but done", nil, wanting(gpuResource, "1"), []any{gpuNamed(), two, leftover(1, allocated("n1", "a", "p"))}, "", 0},
		{"what was begun for other devices", nil, wanting(gpuResource, "1"), []any{gpuNamed(), two, leftover(2)}, "1 resourceclaim not available on the node", 0},
		{"devices of another node", nil, wanting(gpuResource, "1"), []any{gpuNamed(), two, leftover(1, allocated("n2", "a", "p"))}, "1 resourceclaim not available on the node", 0},
		{"what was begun, and the node has its own", advertising("1"), wanting(gpuResource, "1"), []any{gpuNamed(), leftover(1)}, "1 resourceclaim not available on the node", 0},
		{"what is taken back", nil, wanting(gpuResource, "1"), []any{gpuNamed(), two, leftover(1, func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{} })},
			fmt.Sprintf("resourceclaim %q is being deleted", leftover(1).Name), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := node("n1", "1", "1Gi")
			if tt.node != nil {
				tt.node(n)
			}
			s := offering(snapshot([]*corev1.Node{n}), tt.objects...)
			p := pod("p", "", tt.pod)
			got := place([]*corev1.Pod{p}, s)[0]
			explained := Default().Explain(p, s)
			if tt.want != "" {
				if want := "0/1 nodes are available: " + tt.want + "."; got.Node != "" || got.Message != want || explained.Message != want {
					t.Errorf("got %q on %q, explained as %q", got.Message, got.Node, explained.Message)
				}
				release := slices.ContainsFunc(tt.objects, func(o any) bool {
					c, ok := o.(*resourcev1.ResourceClaim)
					return ok && device.IsSpecial(c) && c.DeletionTimestamp == nil
				})
				if (got.Release != nil) != release {
					t.Errorf("released: %v", got.Release)
				}
				return
			}
			if got.Node != "n1" || !explained.Nodes[0].Feasible {
				t.Fatalf("refused: %s", got.Message)
			}
			given := 0
			if got.Devices != nil {
				for _, c := range got.Devices.Changes {
					if device.IsSpecial(c.Claim) {
						given += len(c.Allocation.Devices.Results)
					}
				}
			}
			if given != tt.devices {
				t.Errorf("it gets %d devices: %+v", given, got.Devices)
			}
		})
	}
}

// TestEachPodItsOwnDevices: pods of one group, more than there are devices; what was begun for one of them is not the others'.
func TestEachPodItsOwnDevices(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	for _, name := range []string{"o", "p", "q", "r"} {
		pods = append(pods, pod(name, "", wanting(gpuResource, "1")))
	}
	nodes := snapshot([]*corev1.Node{node("n1", "1", "1Gi"), node("n2", "1", "1Gi")})
	s := offering(nodes, gpuNamed(), slice("n1", gpu("a", "l"), gpu("b", "l")), slice("n2", gpu("a", "l")))
	taken := map[string]string{}
	for _, got := range place(pods, s) {
		if got.Node == "" {
			continue
		}
		c := got.Devices.Changes[0]
		id := got.Node + "/" + c.Allocation.Devices.Results[0].Device
		if taken[id] != "" || c.Claim.Name != device.SpecialName(got.Pod) || got.Devices.Extended.ResourceClaimName != c.Claim.Name ||
			len(got.Devices.Extended.RequestMappings) != 1 || !metav1.IsControlledBy(c.Claim, got.Pod) {
			t.Errorf("%s gets %s of %s, which %q has: %+v", got.Pod.Name, id, c.Claim.Name, taken[id], got.Devices.Extended)
		}
		taken[id] = got.Pod.Name
	}
	if len(taken) != 3 {
		t.Errorf("taken: %v", taken)
	}

	s = offering(nodes, gpuNamed(), leftover(2))
	for _, got := range place(pods, s) {
		if (got.Release != nil) != (got.Pod.Name == "p") || strings.Contains(got.Message, "not available") != (got.Pod.Name == "p") {
			t.Errorf("%s is refused with %q, and has %v released", got.Pod.Name, got.Message, got.Release)
		}
	}
}

// TestAProfileWithoutDevices: extended resources are what nodes say of them.
func TestAProfileWithoutDevices(t *testing.T) {
	t.Parallel()
	p := Default()
	p.Filters = slices.DeleteFunc(p.Filters, func(f filter.Filter) bool { return f.Name == "DynamicResources" })
	s := offering(snapshot([]*corev1.Node{node("n1", "1", "1Gi")}), gpuNamed(), slice("n1", gpu("a", "l")))
	asks := pod("p", "", wanting(gpuResource, "1"))
	if got := p.Explain(asks, s).Message; got != "0/1 nodes are available: 1 Insufficient example.com/gpu." {
		t.Errorf("explained as %q", got)
	}
	if p.Trial(asks, s).Resolvable(s.Nodes[0]) {
		t.Error("fewer pods are said to help")
	}
}

// TestDevicesAreNotTheNodes: a pod that has got devices leaves what the node has itself to others.
func TestDevicesAreNotTheNodes(t *testing.T) {
	t.Parallel()
	has := pod("has", "", wanting(gpuResource, "1"), onNode("n1"), func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "x", RequestMappings: []corev1.ContainerExtendedResourceRequest{
			{ContainerName: "c", ResourceName: string(gpuResource), RequestName: "container-0-request-0"}}}
	})
	n := node("n1", "1", "1Gi", advertising("1"))
	s := offering(snapshot([]*corev1.Node{n}, has), gpuNamed())
	if got := place([]*corev1.Pod{pod("p", "", wanting(gpuResource, "1"))}, s)[0]; got.Node != "n1" {
		t.Error(got.Message)
	}
}
