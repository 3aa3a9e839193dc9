package cycle

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/services/internal/devicetaint"
	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/device"
)

func claiming(claims ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, c := range claims {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: c, ResourceClaimName: &c})
		}
	}
}

// fromTemplate has the pod ask for a claim by a template; made is the one that was made, "" for none yet.
func fromTemplate(made string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "c", ResourceClaimTemplateName: ptr.To("t")})
		if made != "" {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &made}}
		}
	}
}

// gpus is a claim of the class gpu.
func gpus(name string, change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}}
	for _, f := range change {
		f(c)
	}
	return c
}

func exactly(change func(*resourcev1.ExactDeviceRequest)) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) { change(c.Spec.Devices.Requests[0].Exactly) }
}

func modelled(expression string) func(*resourcev1.ResourceClaim) {
	return exactly(func(r *resourcev1.ExactDeviceRequest) {
		r.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
	})
}

// allocated has a device of a node.
func allocated(node, name string, users ...string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		c.Finalizers = []string{resourcev1.Finalizer}
		c.Status.Allocation = &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: node, Device: name}}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}},
		}
		for _, u := range users {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: u, UID: types.UID(u)})
		}
	}
}

// slice is the devices of a node, in its own pool.
func slice(node string, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice-" + node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, Devices: devices,
	}}
}

func gpu(name, model string) resourcev1.Device {
	return resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}}}
}

// bad is a gpu with a taint.
func bad(name string, effect resourcev1.DeviceTaintEffect) resourcev1.Device {
	d := gpu(name, "l")
	d.Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: effect}}
	return d
}

// tolerating has a claim tolerate what is broken, for one effect or for all.
func tolerating(effect resourcev1.DeviceTaintEffect) func(*resourcev1.ResourceClaim) {
	return exactly(func(r *resourcev1.ExactDeviceRequest) {
		r.Tolerations = []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists, Effect: effect}}
	})
}

// taintRule taints the devices of a name.
func taintRule(device string, effect resourcev1beta2.DeviceTaintEffect) *devicetaint.Rule {
	return &devicetaint.Rule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourcev1beta2.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Device: &device}, Taint: resourcev1beta2.DeviceTaint{Key: "broken", Effect: effect},
	}}
}

// offering is the snapshot with devices. There is the class gpu.
func offering(s cluster.Snapshot, objects ...any) cluster.Snapshot {
	c := device.NewCache()
	c.SetClass(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
		{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}}})
	for _, o := range objects {
		switch o := o.(type) {
		case *resourcev1.ResourceClaim:
			c.SetClaim(o)
		case *resourcev1.ResourceSlice:
			c.SetSlice(o)
		case *resourcev1.DeviceClass:
			c.SetClass(o)
		case *devicetaint.Rule:
			c.SetRule(o)
		}
	}
	s.Devices = c.View()
	return s
}

func TestDevicesRefuse(t *testing.T) {
	t.Parallel()
	const noneLeft = "1 cannot allocate all claims"
	full := func(c *resourcev1.ResourceClaim) {
		for i := range resourcev1.ResourceClaimReservedForMaxSize {
			allocated("n1", "a", fmt.Sprint("user", i))(c)
		}
	}
	mine := func(c *resourcev1.ResourceClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p", Controller: ptr.To(true)}}
	}
	deleted := func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{} }
	tests := []struct {
		name    string
		pod     func(*corev1.Pod)
		objects []any
		want    string // "" where the pod goes to n1
	}{
		{"no claim", claiming(), nil, ""},
		{"one that is not there", claiming("x"), nil, `could not find ResourceClaim "default/x"`},
		{"one that is not made yet", fromTemplate(""), nil, `pod "default/p": ResourceClaim not created yet`},
		{"one that was made for another pod", fromTemplate("x"), []any{gpus("x"), slice("n1", gpu("a", "l"))},
			"ResourceClaim default/x was not created for Pod default/p (Pod is not owner)"},
		{"one that was made for the pod", fromTemplate("x"), []any{gpus("x", mine), slice("n1", gpu("a", "l"))}, ""},
		{"one that goes", claiming("x"), []any{gpus("x", deleted), slice("n1", gpu("a", "l"))}, `resourceclaim "x" is being deleted`},
		{"no class", claiming("x"), []any{gpus("x", exactly(func(r *resourcev1.ExactDeviceRequest) { r.DeviceClassName = "tpu" }))},
			"request r: device class tpu does not exist"},
		{"a request of the future", claiming("x"), []any{gpus("x", func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly = nil })},
			"resource claim default/x, request r: unknown request type"},
		{"no device", claiming("x"), []any{gpus("x")}, noneLeft},
		{"a device", claiming("x"), []any{gpus("x"), slice("n1", gpu("a", "l"))}, ""},
		{"a device of another node", claiming("x"), []any{gpus("x"), slice("n2", gpu("a", "l"))}, noneLeft},
		{"a device that is taken", claiming("x"), []any{gpus("x"), gpus("y", allocated("n1", "a", "other")), slice("n1", gpu("a", "l"))}, noneLeft},
		{"another than the one that is taken", claiming("x"), []any{gpus("x"), gpus("y", allocated("n1", "a", "other")), slice("n1", gpu("a", "l"), gpu("b", "l"))}, ""},
		{"as administrator", claiming("x"), []any{
			gpus("x", exactly(func(r *resourcev1.ExactDeviceRequest) { r.AdminAccess = ptr.To(true) })), gpus("y", allocated("n1", "a", "other")), slice("n1", gpu("a", "l")),
		}, ""},
		{"a device that is selected", claiming("x"), []any{gpus("x", modelled(`device.attributes["gpu.example.com"].model == "h"`)), slice("n1", gpu("a", "l"), gpu("b", "h"))}, ""},
		{"none that is selected", claiming("x"), []any{gpus("x", modelled(`device.attributes["gpu.example.com"].model == "h"`)), slice("n1", gpu("a", "l"))}, noneLeft},
		{"a selector that fails", claiming("x"), []any{gpus("x", modelled(`device.attributes["gpu.example.com"].nothing == "h"`)), slice("n1", gpu("a", "l"))},
			`running "DynamicResources" filter plugin: claim default/x: selector #0: CEL runtime error: no such key: nothing`},
		{"two claims, one device", claiming("x", "y"), []any{gpus("x"), gpus("y"), slice("n1", gpu("a", "l"))}, noneLeft},
		{"an incomplete pool", claiming("x"), []any{gpus("x", exactly(func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = resourcev1.DeviceAllocationModeAll })), func() any {
			s := slice("n1", gpu("a", "l"))
			s.Spec.Pool.ResourceSliceCount = 2
			return s
		}()}, `running "DynamicResources" filter plugin: claim default/x, request r: asks for all devices, but resource pool gpu.example.com/n1 is currently being updated`},
		{"a device with a taint", claiming("x"), []any{gpus("x"), slice("n1", bad("a", resourcev1.DeviceTaintEffectNoSchedule))}, noneLeft},
		{"one that ends pods", claiming("x"), []any{gpus("x"), slice("n1", bad("a", resourcev1.DeviceTaintEffectNoExecute))}, noneLeft},
		{"one without effect", claiming("x"), []any{gpus("x"), slice("n1", bad("a", resourcev1.DeviceTaintEffectNone))}, ""},
		{"another than the one with a taint", claiming("x"), []any{gpus("x"), slice("n1", bad("a", resourcev1.DeviceTaintEffectNoSchedule), gpu("b", "l"))}, ""},
		{"a taint that is tolerated", claiming("x"), []any{gpus("x", tolerating("")), slice("n1", bad("a", resourcev1.DeviceTaintEffectNoSchedule))}, ""},
		{"one that ends pods and is tolerated", claiming("x"), []any{
			gpus("x", tolerating(resourcev1.DeviceTaintEffectNoExecute)), slice("n1", bad("a", resourcev1.DeviceTaintEffectNoExecute)),
		}, ""},
		{"another effect is tolerated", claiming("x"), []any{
			gpus("x", tolerating(resourcev1.DeviceTaintEffectNoExecute)), slice("n1", bad("a", resourcev1.DeviceTaintEffectNoSchedule)),
		}, noneLeft},
		{"a taint by a rule", claiming("x"), []any{gpus("x"), slice("n1", gpu("a", "l")), taintRule("a", resourcev1beta2.DeviceTaintEffectNoExecute)}, noneLeft},
		{"one for another device", claiming("x"), []any{gpus("x"), slice("n1", gpu("a", "l")), taintRule("b", resourcev1beta2.DeviceTaintEffectNoExecute)}, ""},
		{"one without effect by a rule", claiming("x"), []any{gpus("x"), slice("n1", gpu("a", "l")), taintRule("a", resourcev1beta2.DeviceTaintEffectNone)}, ""},
		{"one by a rule that is tolerated", claiming("x"), []any{
			gpus("x", tolerating("")), slice("n1", gpu("a", "l")), taintRule("a", resourcev1beta2.DeviceTaintEffectNoSchedule),
		}, ""},
		{"the second choice", claiming("x"), []any{gpus("x", alternatives("h", "l")), slice("n1", gpu("a", "l"))}, ""},
		{"the claim has a device here", claiming("x"), []any{gpus("x", allocated("n1", "a", "other"))}, ""},
		{"the claim has a device elsewhere", claiming("x"), []any{gpus("x", allocated("n2", "a", "other"))}, "1 resourceclaim not available on the node"},
		{"as many pods use the claim as can", claiming("x"), []any{gpus("x", full)}, "resourceclaim in use"},
		{"the pod is one of them", func(p *corev1.Pod) { claiming("x")(p); p.UID = "user7" }, []any{gpus("x", full)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := offering(snapshot([]*corev1.Node{node("n1", "1", "1Gi")}), tt.objects...)
			p := pod("p", "", tt.pod)
			placement := place([]*corev1.Pod{p}, s)[0]
			explained := Default().Explain(p, s)
			if tt.want == "" {
				if placement.Node != "n1" || !explained.Nodes[0].Feasible {
					t.Errorf("the pod is refused: %s", placement.Message)
				}
				return
			}
			want := "0/1 nodes are available: " + tt.want
			if placement.Fault {
				want = tt.want
			}
			if placement.Node != "" || !strings.HasPrefix(placement.Message, want) {
				t.Errorf("got %q on %q, want %q", placement.Message, placement.Node, want)
			}
			if explained.Message != placement.Message {
				t.Errorf("explained as %q", explained.Message)
			}
		})
	}
}

// A selector that can be computed for the devices of some nodes only is a fault of who wrote it, and is not to go unnoticed on the others.
func TestAFaultOnOneNodeIsOneOfThePod(t *testing.T) {
	t.Parallel()
	plain := resourcev1.Device{Name: "a"}
	claim := gpus("x", modelled(`device.attributes["gpu.example.com"].model == "h"`))
	for first, devices := range map[string][2]resourcev1.Device{"it is asked last": {gpu("a", "h"), plain}, "it is asked first": {plain, gpu("a", "h")}} {
		t.Run(first, func(t *testing.T) {
			nodes := snapshot([]*corev1.Node{node("n1", "1", "1Gi"), node("n2", "1", "1Gi")})
			s := offering(nodes, claim, slice("n1", devices[0]), slice("n2", devices[1]))
			p := pod("p", "", claiming("x"))
			got := place([]*corev1.Pod{p}, s)[0]
			if got.Node != "" || !got.Fault || !strings.Contains(got.Message, "CEL runtime error") {
				t.Errorf("placed %+v", got)
			}
			explained := Default().Explain(p, s)
			if explained.Message != got.Message || explained.Nodes[0].Feasible || explained.Nodes[1].Feasible {
				t.Errorf("explained as %+v", explained)
			}
		})
	}
}

// alternatives asks for a gpu of the first of the models that there is.
func alternatives(models ...string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		r := &c.Spec.Devices.Requests[0]
		r.Exactly = nil
		for _, m := range models {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
				Name: m, DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].model == %q`, m)}}},
			})
		}
	}
}

// TestNoDeviceIsGivenTwice: pods of one cycle that want a device of their own, of which there are fewer; each gets another or none.
func TestNoDeviceIsGivenTwice(t *testing.T) {
	t.Parallel()
	objects := []any{slice("n1", gpu("a", "l"), gpu("b", "l")), slice("n2", gpu("a", "l"))}
	var pods []*corev1.Pod
	for i := range 5 {
		name := fmt.Sprint("p", i)
		objects = append(objects, gpus(name))
		pods = append(pods, pod(name, "", claiming(name)))
	}
	s := offering(snapshot([]*corev1.Node{node("n1", "1", "1Gi"), node("n2", "1", "1Gi")}), objects...)
	given := map[string]string{}
	for _, p := range pods { // as the scheduler does: each against what the one before has left
		placement := place([]*corev1.Pod{p}, s)[0]
		if placement.Node == "" {
			if placement.Devices != nil || placement.Message != "0/2 nodes are available: 2 cannot allocate all claims." {
				t.Errorf("%s is refused with %v: %s", p.Name, placement.Devices, placement.Message)
			}
			continue
		}
		for _, c := range placement.Devices.Changes {
			r := c.Allocation.Devices.Results[0]
			id := r.Pool + "/" + r.Device
			if r.Pool != placement.Node || given[id] != "" {
				t.Errorf("%s is on %s and gets %s, which %s has", p.Name, placement.Node, id, given[id])
			}
			given[id] = p.Name
		}
		s.Devices = s.Devices.With(placement.Devices)
	}
	if len(given) != 3 {
		t.Errorf("given: %v", given)
	}
}

// TestPodsThatShareAClaimWaitForItsDevices: who comes second cannot reserve what is not written yet; once it is, all go where the devices are.
func TestPodsThatShareAClaimWaitForItsDevices(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("p0", "", claiming("x")), pod("p1", "", claiming("x"))}
	nodes := []*corev1.Node{node("n1", "1", "1Gi"), node("n2", "1", "1Gi")}
	got := place(pods, offering(snapshot(nodes), gpus("x"), slice("n1", gpu("a", "l"))))
	if got[0].Node != "n1" || got[1].Node != "" || got[1].Message != "0/2 nodes are available: resource claim default/x is in the process of being allocated." {
		t.Errorf("got %+v", got)
	}
	got = place(pods, offering(snapshot(nodes), gpus("x", allocated("n1", "a", "other")), slice("n1", gpu("a", "l"))))
	for _, p := range got {
		if p.Node != "n1" || len(p.Devices.Changes) != 1 || p.Devices.Changes[0].Allocation != nil || p.Devices.Changes[0].User.Name != p.Pod.Name {
			t.Errorf("got %+v", p)
		}
	}
}

// TestRelease: devices that keep a pod from every node are given back where nobody uses them.
func TestRelease(t *testing.T) {
	t.Parallel()
	for users, want := range map[string]string{"": "x", "p": "x", "other": "", "p other": ""} {
		s := offering(snapshot([]*corev1.Node{node("n1", "1", "1Gi")}), gpus("x", allocated("n2", "a", strings.Fields(users)...)))
		got := ""
		if r := place([]*corev1.Pod{pod("p", "", claiming("x"))}, s)[0].Release; r != nil {
			got = r.Name
		}
		if got != want {
			t.Errorf("used by %q: released %q", users, got)
		}
	}
}

func TestThePreferredDeviceDecides(t *testing.T) {
	t.Parallel()
	nodes := []*corev1.Node{node("n1", "1", "1Gi"), node("n2", "1", "1Gi"), node("n3", "1", "1Gi")}
	s := offering(snapshot(nodes), gpus("x", alternatives("h", "l")), slice("n1", gpu("a", "l")), slice("n2", gpu("a", "h")), slice("n3", gpu("a", "l")))
	if got := place([]*corev1.Pod{pod("p", "", claiming("x"))}, s)[0]; got.Node != "n2" {
		t.Errorf("got %+v", got)
	}
}

// TestSharesOfADevice: a device that may be given several times is, while its capacity lasts.
func TestSharesOfADevice(t *testing.T) {
	t.Parallel()
	d := gpu("a", "l")
	d.AllowMultipleAllocations = ptr.To(true)
	d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
	half := exactly(func(r *resourcev1.ExactDeviceRequest) {
		r.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")}}
	})
	s := offering(snapshot([]*corev1.Node{node("n1", "1", "1Gi")}), slice("n1", d), gpus("x", half), gpus("y", half), gpus("z", half))
	for name, want := range map[string]bool{"x": true, "y": true} {
		got := place([]*corev1.Pod{pod(name, "", claiming(name))}, s)[0]
		if (got.Node != "") != want {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		s.Devices = s.Devices.With(got.Devices)
	}
	if got := place([]*corev1.Pod{pod("z", "", claiming("z"))}, s)[0]; got.Node != "" {
		t.Errorf("z is on %s", got.Node)
	}
}

// BenchmarkDevices places a pod that wants one of the devices of 1,000 nodes, half of which are taken.
func BenchmarkDevices(b *testing.B) {
	var nodes []*corev1.Node
	objects := []any{gpus("x")}
	for i := range 1000 {
		name := fmt.Sprintf("n%04d", i)
		nodes = append(nodes, node(name, "1", "1Gi"))
		var devices []resourcev1.Device
		for d := range 8 {
			devices = append(devices, gpu(fmt.Sprint("gpu", d), "l"))
			if d%2 == 0 {
				objects = append(objects, gpus(fmt.Sprint(name, d), allocated(name, fmt.Sprint("gpu", d), "other")))
			}
		}
		objects = append(objects, slice(name, devices...))
	}
	s := offering(snapshot(nodes), objects...)
	for b.Loop() {
		if got := place([]*corev1.Pod{pod("p", "", claiming("x"))}, s)[0]; got.Node == "" {
			b.Fatal(got.Message)
		}
	}
}
