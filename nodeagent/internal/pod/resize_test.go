package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func asks(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
}

func TestAllocate(t *testing.T) {
	t.Parallel()
	room := Room{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		Others:      corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("900Mi")},
	}
	for name, test := range map[string]struct {
		had, wants corev1.ResourceRequirements
		want       *Pending
	}{
		"nothing new": {asks("1", "1Mi"), asks("1", "1Mi"), nil},
		"it fits":     {asks("500m", "100Mi"), asks("1", "100Mi"), nil},
		"never":       {asks("500m", "100Mi"), asks("3", "100Mi"), &Pending{"Infeasible", "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"}},
		"not now":     {asks("500m", "100Mi"), asks("1500m", "100Mi"), &Pending{"Deferred", "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000"}},
		"less, on a node that has too much already": {asks("500m", "500Mi"), asks("500m", "400Mi"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testPod(corev1.RestartPolicyAlways, "a")
			p.Spec.Containers[0].Resources = test.wants
			got, pending := Allocate(p, map[string]corev1.ResourceRequirements{"a": test.had}, room)
			if (pending == nil) != (test.want == nil) || pending != nil && *pending != *test.want {
				t.Fatalf("%+v, want %+v", pending, test.want)
			}
			want := test.wants
			if test.want != nil {
				want = test.had
			}
			if c := got.Spec.Containers[0].Resources.Requests.Cpu(); c.Cmp(*want.Requests.Cpu()) != 0 {
				t.Errorf("it is given %s", c)
			}
		})
	}
	fixed := testPod(corev1.RestartPolicyAlways, "a")
	fixed.Spec.Containers[0].Resources = asks("1", "100Mi")
	still := room
	still.Fixed = "it has CPUs for itself"
	if _, pending := Allocate(fixed, map[string]corev1.ResourceRequirements{"a": asks("500m", "100Mi")}, still); pending == nil || *pending != (Pending{"Infeasible", still.Fixed}) {
		t.Errorf("what cannot change: %+v", pending)
	}
	fresh := testPod(corev1.RestartPolicyAlways, "a")
	fresh.Spec.Containers[0].Resources = asks("5", "1Mi")
	if got, pending := Allocate(fresh, nil, room); pending != nil || got != fresh {
		t.Errorf("what a new pod asks for is the scheduler's to decide: %+v", pending)
	}
}

func TestResizePlanAndStatus(t *testing.T) {
	t.Parallel()
	restart := []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	for name, test := range map[string]struct {
		policy  corev1.RestartPolicy
		resize  []corev1.ContainerResizePolicy
		applied corev1.ResourceRequirements
		failed  bool
		plan    string
		resizes int
		reason  string
	}{
		"as it is":           {corev1.RestartPolicyAlways, restart, asks("1", "1Mi"), false, "", 0, "none"},
		"other CPU":          {corev1.RestartPolicyAlways, restart, asks("2", "1Mi"), false, "", 1, ""},
		"other memory":       {corev1.RestartPolicyAlways, nil, asks("1", "2Mi"), false, "", 1, ""},
		"memory by restart":  {corev1.RestartPolicyOnFailure, restart, asks("1", "2Mi"), false, "stop a-0, start a-1", 0, ""},
		"it failed just now": {corev1.RestartPolicyAlways, nil, asks("2", "1Mi"), true, "", 0, "Error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testPod(test.policy, "a")
			p.Spec.Containers[0].Resources, p.Spec.Containers[0].ResizePolicy = asks("1", "1Mi"), test.resize
			memory := NewMemory()
			memory.Applied["a-0"] = test.applied
			if test.failed {
				memory.Resize["a"] = Trouble{Reason: "Error", Message: "no", Until: now.Add(1)}
			}
			seen := observed("ready", "a=run")
			plan := Make(p, seen, memory, now)
			if got := describe(plan); got != test.plan || len(plan.Resize) != test.resizes || plan.Regroup != (test.resizes > 0 || test.plan != "") {
				t.Errorf("plan %q with %d resizes, want %q with %d", got, len(plan.Resize), test.plan, test.resizes)
			}
			s := Status(p, seen, memory, plan, Facts{Now: now})
			reason := "none"
			if c := condition(&s, corev1.PodResizeInProgress); c != nil {
				reason = c.Reason
			}
			if reason != test.reason {
				t.Errorf("PodResizeInProgress %q, want %q", reason, test.reason)
			}
			if got := s.ContainerStatuses[0]; got.Resources.Limits.Cpu().Cmp(*test.applied.Limits.Cpu()) != 0 || got.AllocatedResources.Cpu().String() != "1" {
				t.Errorf("status: %s", got.String())
			}
			memory = NewMemory()
			memory.Applied["a-0"], memory.Pending = asks("1", "1Mi"), &Pending{"Infeasible", "too much"}
			p.Status = s
			s = Status(p, seen, memory, Make(p, seen, memory, now), Facts{Now: now})
			if c := condition(&s, corev1.PodResizePending); c == nil || c.Reason != "Infeasible" || c.Message != "too much" || c.Status != corev1.ConditionTrue {
				t.Errorf("PodResizePending: %v", c)
			}
			if condition(&s, corev1.PodResizeInProgress) != nil {
				t.Error("PodResizeInProgress stays after the resize")
			}
		})
	}
}

func TestLimitsOfThePodAreThoseOfItsContainers(t *testing.T) {
	t.Parallel()
	limits := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: asks(cpu, memory).Limits}
	}
	restart := []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	for name, test := range map[string]struct {
		policy           []corev1.ContainerResizePolicy
		own, around      corev1.ResourceRequirements
		had, wants, plan string
	}{
		"as it was":                        {nil, corev1.ResourceRequirements{}, limits("1", "1Mi"), "1 1Mi", "1 1Mi", ""},
		"more of both":                     {nil, corev1.ResourceRequirements{}, limits("2", "2Mi"), "2 2Mi", "1 1Mi", "resize a-0"},
		"more, of which it has its own":    {nil, limits("500m", "500Ki"), limits("2", "2Mi"), "500m 500Ki", "500m 500Ki", ""},
		"memory by restart":                {restart, corev1.ResourceRequirements{}, limits("1", "2Mi"), "1 2Mi", "1 1Mi", "stop a-0, start a-1"},
		"CPU, where memory is by restart":  {restart, corev1.ResourceRequirements{}, limits("2", "1Mi"), "2 1Mi", "1 1Mi", "resize a-0"},
		"nobody has told what was applied": {nil, corev1.ResourceRequirements{}, corev1.ResourceRequirements{}, "1 1Mi", "1 1Mi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testPod(corev1.RestartPolicyAlways, "a")
			whole := limits("1", "1Mi")
			p.Spec.Resources, p.Spec.Containers[0].Resources, p.Spec.Containers[0].ResizePolicy = &whole, test.own, test.policy
			memory := NewMemory()
			memory.Applied["a-0"] = test.own
			if len(test.around.Limits) > 0 {
				memory.Apply("a-0", test.around, test.own)
			}
			words := func(r corev1.ResourceRequirements) string {
				return r.Limits.Cpu().String() + " " + r.Limits.Memory().String()
			}
			if had, wants := words(memory.Has(p, "a-0")), words(Within(whole, test.own)); had != test.had || wants != test.wants {
				t.Errorf("from %q to %q, want from %q to %q", had, wants, test.had, test.wants)
			}
			plan := Make(p, observed("ready", "a=run"), memory, now)
			got := describe(plan)
			for _, r := range plan.Resize {
				got += "resize " + r.ID
			}
			if got != test.plan || plan.Resizing != (test.plan != "") || plan.Regroup != (test.plan != "") {
				t.Errorf("plan %q, want %q; resizing %t", got, test.plan, plan.Resizing)
			}
		})
	}
}

func TestPeakCoversBothStates(t *testing.T) {
	t.Parallel()
	p := testPod(corev1.RestartPolicyAlways, "a", "b")
	p.Spec.Containers[0].Resources, p.Spec.Containers[1].Resources = asks("1", "4Mi"), asks("1", "1Mi")
	got := Peak(p, map[string]corev1.ResourceRequirements{"a": asks("2", "2Mi"), "b": {}})
	a, b := got.Spec.Containers[0].Resources, got.Spec.Containers[1].Resources
	if a.Limits.Cpu().String() != "2" || a.Limits.Memory().String() != "4Mi" || a.Requests.Cpu().String() != "2" || len(b.Limits) != 0 {
		t.Errorf("a: %v, b: %v", a, b)
	}
	if p.Spec.Containers[0].Resources.Limits.Cpu().String() != "1" {
		t.Error("the pod itself was changed")
	}
}

func TestResizeMessage(t *testing.T) {
	t.Parallel()
	p := testPod(corev1.RestartPolicyAlways, "init:x", "a")
	p.Generation = 3
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	const containers = `{"initContainers":[{"name":"x","resources":{}}],"containers":[{"name":"a","resources":{"requests":{"cpu":"10m"}}}],"generation":3`
	for problem, want := range map[string]string{
		"": "Pod resize started: " + containers + "}", "no room": "Pod resize started: " + containers + `,"error":"no room"}`,
	} {
		if got := ResizeMessage(p, "Pod resize started", problem); got != want {
			t.Errorf("%s, want\n%s", got, want)
		}
	}
}
