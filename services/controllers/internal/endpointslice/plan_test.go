package endpointslice

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/services/controllers/internal/pack"
)

var now = time.Unix(1_700_000_000, 0)

func newService(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "svc", CreationTimestamp: metav1.NewTime(now), Labels: map[string]string{"tier": "front"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web"), Protocol: corev1.ProtocolTCP}},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

func newPod(i int, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("uid-", i)), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(time.Minute))}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

func zone(node string) string { return "zone-of-" + node }

func one(t *testing.T, p pack.Plan) *discoveryv1.EndpointSlice {
	t.Helper()
	if len(p.Create) != 1 || len(p.Update)+len(p.Delete) != 0 {
		t.Fatalf("plan %+v, want one slice to be created", p)
	}
	return p.Create[0]
}

func TestConditions(t *testing.T) {
	t.Parallel()
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	for _, c := range []struct {
		name                        string
		publish                     bool
		pod                         *corev1.Pod
		ready, serving, terminating bool
		absent                      bool
	}{
		{name: "ready", pod: newPod(1, nil), ready: true, serving: true},
		{name: "not ready", pod: newPod(1, unready)},
		{name: "ending", pod: newPod(1, ending), serving: true, terminating: true},
		{name: "not ready, published", publish: true, pod: newPod(1, unready), ready: true},
		{name: "ending, published", publish: true, pod: newPod(1, ending), ready: true, serving: true, terminating: true},
		{name: "without address", pod: newPod(1, func(p *corev1.Pod) { p.Status.PodIP = "" }), absent: true},
		{name: "failed", pod: newPod(1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), absent: true},
	} {
		s := newService(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = c.publish })
		slice := one(t, decide(s, Observed{Pods: []*corev1.Pod{c.pod}, Zone: zone}))
		if c.absent {
			if len(slice.Endpoints) != 0 {
				t.Errorf("%s: %+v, want no endpoint", c.name, slice.Endpoints)
			}
			continue
		}
		e := slice.Endpoints[0]
		if *e.Conditions.Ready != c.ready || *e.Conditions.Serving != c.serving || *e.Conditions.Terminating != c.terminating {
			t.Errorf("%s: ready %v, serving %v, terminating %v", c.name, *e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating)
		}
		if *e.NodeName != "node-1" || *e.Zone != "zone-of-node-1" || e.TargetRef.UID != c.pod.UID {
			t.Errorf("%s: endpoint %+v", c.name, e)
		}
	}
}

func TestLabelsPortsAndNames(t *testing.T) {
	t.Parallel()
	s := newService(func(s *corev1.Service) {
		s.Spec.ClusterIP = corev1.ClusterIPNone
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "nowhere", Port: 1, TargetPort: intstr.FromString("missing")})
	})
	p := newPod(1, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "zero", "web" })
	slice := one(t, decide(s, Observed{Pods: []*corev1.Pod{p}, Zone: zone, Trigger: now.Add(time.Minute)}))
	want := map[string]string{
		"tier": "front", "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
		"service.kubernetes.io/headless": "",
	}
	if fmt.Sprint(slice.Labels) != fmt.Sprint(want) {
		t.Errorf("labels %v, want %v", slice.Labels, want)
	}
	if len(slice.Ports) != 1 || *slice.Ports[0].Port != 8080 || *slice.Ports[0].Name != "http" {
		t.Errorf("ports %+v, want the named one resolved and the missing one left out", slice.Ports)
	}
	if *slice.Endpoints[0].Hostname != "zero" || !metav1.IsControlledBy(slice, s) {
		t.Errorf("endpoint %+v, owners %v", slice.Endpoints[0], slice.OwnerReferences)
	}
	if got := slice.Annotations["endpoints.kubernetes.io/last-change-trigger-time"]; got != now.Add(time.Minute).UTC().Format(time.RFC3339Nano) {
		t.Errorf("trigger time %s", got)
	}
	again := one(t, decide(s, Observed{Pods: []*corev1.Pod{p}, Zone: zone}))
	if again.Name != slice.Name {
		t.Errorf("a plan from the same cache names the slice %s and %s: it could be doubled", slice.Name, again.Name)
	}
}

// TestSlicesAreExact: through any history of pods coming, going and changing,
// the slices hold each endpoint once and at most 100 each; a second plan does
// nothing; and a change of few pods writes few slices.
func TestSlicesAreExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := newService(nil)
		pods := map[int]*corev1.Pod{}
		var slices []*discoveryv1.EndpointSlice
		next := 0
		for round := range 12 {
			before := len(pods)
			for range rng.IntN(150) {
				pods[next] = newPod(next, func(p *corev1.Pod) {
					if rng.IntN(5) == 0 { // another port: another group of slices
						p.Spec.Containers[0].Ports[0].ContainerPort = 9090
					}
				})
				next++
			}
			for i := range pods {
				switch rng.IntN(12) {
				case 0:
					delete(pods, i)
				case 1:
					pods[i] = newPod(i, func(p *corev1.Pod) {
						p.Spec.Containers = pods[i].Spec.Containers
						p.Status.Conditions = nil
					})
				}
			}
			if round == 11 {
				clear(pods)
			}
			seen := Observed{Slices: slices, Zone: zone}
			for _, p := range pods {
				seen.Pods = append(seen.Pods, p)
			}
			plan := decide(s, seen)
			slices = apply(t, slices, plan)
			check(t, fmt.Sprintf("seed %d, round %d (%d to %d pods)", seed, round, before, len(pods)), slices, pods)
			seen.Slices = slices
			if again := decide(s, seen); !again.Empty() {
				t.Fatalf("seed %d, round %d: a second plan is not empty: %d, %d, %d", seed, round, len(again.Create), len(again.Update), len(again.Delete))
			}
			if len(pods) > 0 { // one pod falls ill
				for i := range pods {
					pods[i] = newPod(i, func(p *corev1.Pod) {
						p.Spec.Containers = pods[i].Spec.Containers
						p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
					})
					break
				}
				seen.Pods = nil
				for _, p := range pods {
					seen.Pods = append(seen.Pods, p)
				}
				if plan := decide(s, seen); len(plan.Create)+len(plan.Delete) > 0 || len(plan.Update) > 1 {
					t.Fatalf("seed %d, round %d: one pod's readiness writes %d slices", seed, round, len(plan.Create)+len(plan.Update)+len(plan.Delete))
				}
				slices = apply(t, slices, decide(s, seen))
			}
		}
		if len(slices) != 1 || len(slices[0].Endpoints) != 0 {
			t.Fatalf("seed %d: %d slices are left of an empty service, want one empty one", seed, len(slices))
		}
	}
}

func apply(t *testing.T, had []*discoveryv1.EndpointSlice, p pack.Plan) []*discoveryv1.EndpointSlice {
	t.Helper()
	byName := map[string]*discoveryv1.EndpointSlice{}
	for _, s := range had {
		byName[s.Name] = s
	}
	for _, s := range p.Create {
		if byName[s.Name] != nil {
			t.Fatalf("slice %s is created twice", s.Name)
		}
		byName[s.Name] = s
	}
	for _, s := range p.Update {
		if byName[s.Name] == nil {
			t.Fatalf("slice %s is updated but does not exist", s.Name)
		}
		byName[s.Name] = s
	}
	for _, s := range p.Delete {
		delete(byName, s.Name)
	}
	var slices []*discoveryv1.EndpointSlice
	for _, s := range byName {
		slices = append(slices, s)
	}
	before, after := endpointsOf(had), endpointsOf(slices)
	if p.Tally.Slices != len(slices) || p.Tally.Endpoints != after || before+p.Tally.Added-p.Tally.Removed != after || p.Tally.Wanted > len(slices) {
		t.Fatalf("from %d endpoints to %d in %d slices: tally %+v", before, after, len(slices), p.Tally)
	}
	return slices
}

func endpointsOf(slices []*discoveryv1.EndpointSlice) (n int) {
	for _, s := range slices {
		n += len(s.Endpoints)
	}
	return n
}

func check(t *testing.T, when string, slices []*discoveryv1.EndpointSlice, pods map[int]*corev1.Pod) {
	t.Helper()
	seen := map[types.UID]int32{}
	for _, s := range slices {
		if len(s.Endpoints) > 100 {
			t.Fatalf("%s: a slice has %d endpoints", when, len(s.Endpoints))
		}
		for _, e := range s.Endpoints {
			if _, twice := seen[e.TargetRef.UID]; twice {
				t.Fatalf("%s: pod %s is in two places", when, e.TargetRef.Name)
			}
			seen[e.TargetRef.UID] = *s.Ports[0].Port
		}
	}
	if len(seen) != len(pods) {
		t.Fatalf("%s: %d endpoints of %d pods", when, len(seen), len(pods))
	}
	for _, p := range pods {
		if seen[p.UID] != p.Spec.Containers[0].Ports[0].ContainerPort {
			t.Fatalf("%s: pod %s is behind port %d", when, p.Name, seen[p.UID])
		}
	}
}

// TestSlicesAreRecycled: where other ports take the place of a slice's, or none, it is changed in place of being replaced.
func TestSlicesAreRecycled(t *testing.T) {
	t.Parallel()
	other := newPod(2, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 9090 })
	six := newPod(3, func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "fd00::1"}} })
	for name, c := range map[string]struct {
		families             []corev1.IPFamily
		before, after        []*corev1.Pod
		create, update, gone int
	}{
		"the last pod goes":        {before: []*corev1.Pod{newPod(1, nil)}, update: 1},
		"the first pod comes":      {after: []*corev1.Pod{newPod(1, nil)}, update: 1},
		"another port":             {before: []*corev1.Pod{newPod(1, nil)}, after: []*corev1.Pod{other}, update: 1},
		"two ports come":           {after: []*corev1.Pod{newPod(1, nil), other}, create: 1, update: 1},
		"two ports go":             {before: []*corev1.Pod{newPod(1, nil), other}, update: 1, gone: 1},
		"one of two ports goes":    {before: []*corev1.Pod{newPod(1, nil), other}, after: []*corev1.Pod{other}, gone: 1},
		"each family by its own":   {families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, before: []*corev1.Pod{newPod(1, nil)}, after: []*corev1.Pod{six}, update: 2},
		"nothing there was before": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(func(s *corev1.Service) {
				if c.families != nil {
					s.Spec.IPFamilies = c.families
				}
			})
			had := apply(t, nil, decide(s, Observed{Pods: c.before, Zone: zone}))
			for _, slice := range had {
				slice.UID = types.UID("was " + slice.Name)
			}
			plan := decide(s, Observed{Pods: c.after, Slices: had, Zone: zone})
			if len(plan.Create) != c.create || len(plan.Update) != c.update || len(plan.Delete) != c.gone {
				t.Errorf("%d created, %d updated, %d deleted; want %d, %d, %d", len(plan.Create), len(plan.Update), len(plan.Delete), c.create, c.update, c.gone)
			}
			for _, slice := range plan.Update {
				if slice.UID == "" {
					t.Errorf("%s is another slice", slice.Name)
				}
			}
			now := apply(t, had, plan)
			if again := decide(s, Observed{Pods: c.after, Slices: now, Zone: zone}); !again.Empty() {
				t.Errorf("a second plan is not empty: %+v", again)
			}
		})
	}
}

// TestOrderOfPorts: ports come in the order in which Kubernetes 1.36.3's controllers put these.
func TestOrderOfPorts(t *testing.T) {
	t.Parallel()
	port := func(name string, number int32, target int, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt(target), Protocol: protocol}
	}
	s := newService(func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{port("http", 80, 8080, "TCP"), port("metrics", 9090, 9090, "TCP"), port("admin", 8022, 22, "TCP"), port("dns", 53, 53, "UDP")}
	})
	slice := one(t, decide(s, Observed{Pods: []*corev1.Pod{newPod(1, nil)}, Zone: zone}))
	var names []string
	for _, p := range slice.Ports {
		names = append(names, *p.Name)
	}
	if want := []string{"admin", "http", "dns", "metrics"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	// In another order they are the same ports.
	slices.Reverse(slice.Ports)
	if again := decide(s, Observed{Pods: []*corev1.Pod{newPod(1, nil)}, Slices: []*discoveryv1.EndpointSlice{slice}, Zone: zone}); !again.Empty() {
		t.Errorf("another plan of the same ports: %+v", again)
	}
}

func TestDualStack(t *testing.T) {
	t.Parallel()
	s := newService(func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	p := newPod(1, func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}} })
	plan := decide(s, Observed{Pods: []*corev1.Pod{p}, Zone: zone})
	families := map[discoveryv1.AddressType]string{}
	for _, slice := range plan.Create {
		families[slice.AddressType] = slice.Endpoints[0].Addresses[0]
	}
	if len(plan.Create) != 2 || families["IPv4"] != "10.0.0.1" || families["IPv6"] != "fd00::1" {
		t.Errorf("addresses %v", families)
	}
}

// decide is Decide without what it tells.
func decide(s *corev1.Service, seen Observed) pack.Plan {
	plan, _ := Decide(s, seen)
	return plan
}

// TestLongNames: the slices of a Service whose name is as long as it may be have 63 letters, and none that another slice has.
func TestLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("s", 63)
	s := newService(func(s *corev1.Service) { s.Name = long })
	seen := Observed{Pods: []*corev1.Pod{newPod(1, nil)}, Zone: zone}
	slice := one(t, decide(s, seen))
	if slice.GenerateName != long+"-" || len(slice.Name) != 63 || !strings.HasPrefix(slice.Name, long[:58]) {
		t.Errorf("slice %s, made of %s", slice.Name, slice.GenerateName)
	}
	seen.Taken = func(name string) bool { return name == slice.Name }
	if other := one(t, decide(s, seen)); other.Name == slice.Name || len(other.Name) != 63 {
		t.Errorf("%s is another's, and the slice is called %s", slice.Name, other.Name)
	}
}

// TestStrays: slices with the controller's label that are not the service's own go, as a restored backup's, which lead to pods of another time.
func TestStrays(t *testing.T) {
	t.Parallel()
	s := newService(nil)
	seen := Observed{Pods: []*corev1.Pod{newPod(1, nil)}, Zone: zone}
	own := one(t, decide(s, seen))
	restored, namesake, going := own.DeepCopy(), own.DeepCopy(), own.DeepCopy()
	restored.Name, restored.OwnerReferences = "web-restored", nil
	namesake.Name, namesake.OwnerReferences[0].UID = "web-namesake", "another"
	going.Name, going.OwnerReferences, going.DeletionTimestamp = "web-going", nil, &metav1.Time{Time: now}
	seen.Slices = []*discoveryv1.EndpointSlice{restored, own, namesake, going}
	plan := decide(s, seen)
	if len(plan.Create)+len(plan.Update) != 0 || !slices.Equal(plan.Delete, []*discoveryv1.EndpointSlice{restored, namesake}) {
		t.Errorf("%+v", plan)
	}
}
