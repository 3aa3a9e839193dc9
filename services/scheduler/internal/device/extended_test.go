package device

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// asking is a container that asks for amounts, as in "example.com/gpu=2 cpu=1".
func asking(name, amounts string) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for _, a := range strings.Fields(amounts) {
		resourceName, amount, _ := strings.Cut(a, "=")
		c.Resources.Requests[corev1.ResourceName(resourceName)] = resource.MustParse(amount)
	}
	return c
}

func sidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

func TestOrders(t *testing.T) {
	t.Parallel()
	type list = []corev1.Container
	for what, test := range map[string]struct {
		inits, containers  list
		requests, mappings string
	}{
		"one":                         {nil, list{asking("a", "gpu.io/x=2")}, "container-0-request-0:2", "a:gpu.io/x:container-0-request-0"},
		"after cpu, in its order":     {nil, list{asking("a", "cpu=1 gpu.io/x=2")}, "container-0-request-1:2", "a:gpu.io/x:container-0-request-1"},
		"of another kind":             {nil, list{asking("a", "gpu.io/y=2")}, "", ""},
		"none":                        {nil, list{asking("a", "gpu.io/x=0")}, "", ""},
		"each container its own":      {nil, list{asking("a", "gpu.io/x=1"), asking("b", "gpu.io/x=1")}, "container-0-request-0:1 container-1-request-0:1", "a:gpu.io/x:container-0-request-0 b:gpu.io/x:container-1-request-0"},
		"an init shares":              {list{asking("i", "gpu.io/x=1")}, list{asking("a", "gpu.io/x=1")}, "container-1-request-0:1", "a:gpu.io/x:container-1-request-0 i:gpu.io/x:container-1-request-0"},
		"and lacks the rest":          {list{asking("i", "gpu.io/x=2")}, list{asking("a", "gpu.io/x=1")}, "container-0-request-0:1 container-1-request-0:1", "a:gpu.io/x:container-1-request-0 i:gpu.io/x:container-1-request-0 i:gpu.io/x:container-0-request-0"},
		"needs less":                  {list{asking("i", "gpu.io/x=1")}, list{asking("a", "gpu.io/x=3")}, "container-1-request-0:3", "a:gpu.io/x:container-1-request-0 i:gpu.io/x:container-1-request-0"},
		"of two containers":           {list{asking("i", "gpu.io/x=2")}, list{asking("a", "gpu.io/x=1"), asking("b", "gpu.io/x=1")}, "container-1-request-0:1 container-2-request-0:1", "a:gpu.io/x:container-1-request-0 b:gpu.io/x:container-2-request-0 i:gpu.io/x:container-1-request-0 i:gpu.io/x:container-2-request-0"},
		"inits share what most lack":  {list{asking("i", "gpu.io/x=1"), asking("j", "gpu.io/x=2")}, nil, "container-1-request-0:2", "i:gpu.io/x:container-1-request-0 j:gpu.io/x:container-1-request-0"},
		"a sidecar keeps what it has": {list{sidecar(asking("s", "gpu.io/x=1")), asking("i", "gpu.io/x=1")}, list{asking("a", "gpu.io/x=1")}, "container-0-request-0:1 container-2-request-0:1", "s:gpu.io/x:container-0-request-0 a:gpu.io/x:container-2-request-0 i:gpu.io/x:container-2-request-0"},
		"or shares before it begins":  {list{asking("i", "gpu.io/x=1"), sidecar(asking("s", "gpu.io/x=1"))}, nil, "container-1-request-0:1", "s:gpu.io/x:container-1-request-0 i:gpu.io/x:container-1-request-0"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := orderOf(&corev1.Pod{Spec: corev1.PodSpec{InitContainers: test.inits, Containers: test.containers}}, map[corev1.ResourceName]string{"gpu.io/x": "x"})
			var requests, mappings []string
			for _, r := range o.requests {
				requests = append(requests, fmt.Sprintf("%s:%d", r.Name, r.Exactly.Count))
				if r.Exactly.DeviceClassName != "x" || r.Exactly.AllocationMode != resourcev1.DeviceAllocationModeExactCount {
					t.Errorf("request %+v", r)
				}
			}
			for _, m := range o.mappings {
				mappings = append(mappings, m.ContainerName+":"+m.ResourceName+":"+m.RequestName)
			}
			if got := strings.Join(requests, " "); got != test.requests {
				t.Errorf("requests %s", got)
			}
			if got := strings.Join(mappings, " "); got != test.mappings {
				t.Errorf("mappings %s", got)
			}
		})
	}
}

func class(name, extended string, age time.Duration) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e6, 0).Add(-age))}}
	if extended != "" {
		c.Spec.ExtendedResourceName = &extended
	}
	return c
}

// TestWhichClassIsMeant: the newest of those with a name, the first of as old ones; each by its own name; and what goes gives the name back.
func TestWhichClassIsMeant(t *testing.T) {
	t.Parallel()
	c := NewCache()
	meant := func(what string, resourceName corev1.ResourceName, want string) {
		t.Helper()
		if got := c.View().Backed(resourceName); got != want {
			t.Errorf("%s: %s is %q, want %q", what, resourceName, got, want)
		}
	}
	meant("no class", "gpu.io/x", "")
	if (View{}).Backed("gpu.io/x") != "" {
		t.Error("the zero view has a class")
	}
	c.SetClass(class("old", "gpu.io/x", time.Hour))
	before := c.View()
	c.SetClass(class("b", "gpu.io/x", time.Minute))
	c.SetClass(class("a", "gpu.io/x", time.Minute))
	c.SetClass(class("plain", "", 0))
	meant("three", "gpu.io/x", "a")
	meant("by its own name", "deviceclass.resource.kubernetes.io/old", "old")
	meant("without another", "deviceclass.resource.kubernetes.io/plain", "plain")
	c.SetClass(class("a", "", time.Minute))
	meant("a has it no more", "gpu.io/x", "b")
	c.DeleteClass("b")
	meant("b is gone", "gpu.io/x", "old")
	c.DeleteClass("old")
	meant("all are gone", "gpu.io/x", "")
	if before.Backed("gpu.io/x") != "old" {
		t.Error("a view has changed")
	}
}

func asker(amounts string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{asking("a", amounts)}}}
}

func TestWhoMayUseDevices(t *testing.T) {
	t.Parallel()
	for amounts, want := range map[string]bool{
		"cpu=1 memory=1Gi": false, "hugepages-2Mi=2Mi": false, "gpu.io/x=1": true, "gpu.io/x=0": false, "kubernetes.io/batch=1": false,
		"deviceclass.resource.kubernetes.io/gpu=1": true,
	} {
		if got := AsksForExtended(asker(amounts)); got != want {
			t.Errorf("%s: %v", amounts, got)
		}
	}
}

// TestADraftCounts: from the choice on, whether the claim is made, made and shown, or taken back.
func TestADraftCounts(t *testing.T) {
	t.Parallel()
	p := asker("gpu.io/x=1")
	draft := orderOf(p, map[corev1.ResourceName]string{"gpu.io/x": "x"}).draft(p)
	user := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: "p"}
	chosen := &Choice{Pod: "p", Changes: []Change{{Claim: draft, Allocation: allocated(draft.DeepCopy()).Status.Allocation, User: user}}}
	made := func(version string, uid types.UID) *resourcev1.ResourceClaim {
		m := draft.DeepCopy()
		m.UID, m.ResourceVersion = uid, version
		return m
	}
	taken := func(c *Cache) int { v := c.View(); return len(v.taken().AllocatedDevices) }

	for what, test := range map[string]struct {
		then    func(c *Cache)
		taken   int
		special bool
	}{
		"assumed":                {func(*Cache) {}, 1, true},
		"taken back":             {func(c *Cache) { c.Forget(chosen) }, 0, false},
		"shown":                  {func(c *Cache) { c.SetClaim(made("1", "u")) }, 1, true},
		"shown, then taken back": {func(c *Cache) { c.SetClaim(made("1", "u")); c.Forget(chosen) }, 0, true},
		"written before shown":   {func(c *Cache) { c.Wrote(allocated(made("3", "u")), "p"); c.SetClaim(made("1", "u")) }, 1, true},
		"shown when all is done": {func(c *Cache) { c.SetClaim(allocated(made("3", "u"))); c.Wrote(allocated(made("3", "u")), "p") }, 1, true},
		"another one's end":      {func(c *Cache) { c.DeleteClaim(made("1", "before")) }, 1, true},
		"its own":                {func(c *Cache) { c.Wrote(allocated(made("3", "u")), "p"); c.DeleteClaim(made("4", "u")) }, 0, false},
		"somebody else's name":   {func(c *Cache) { m := made("1", "u"); m.OwnerReferences = nil; c.SetClaim(m) }, 0, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := NewCache()
			if !c.Assume(chosen) {
				t.Fatal("not assumed")
			}
			if c.Assume(chosen) {
				t.Error("assumed twice")
			}
			test.then(c)
			if got := taken(c); got != test.taken {
				t.Errorf("%d devices are taken", got)
			}
			if got := c.View().Special(p); (got != nil) != test.special {
				t.Errorf("the special claim is %v", got)
			}
			c.Wrote(allocated(made("5", "u")), "p")
			c.Forget(chosen)
			if len(c.pending) != 0 {
				t.Errorf("pending for ever: %v", c.pending)
			}
		})
	}
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	p := asker("gpu.io/x=1")
	draft := orderOf(p, map[corev1.ResourceName]string{"gpu.io/x": "x"}).draft(p)
	if len(SpecialName(p)) > 63 || !strings.HasPrefix(draft.Name, "p-extended-resources-") || draft.GenerateName != "p-extended-resources-" {
		t.Errorf("it is called %s", draft.Name)
	}
	for what, test := range map[string]struct {
		change func(c *resourcev1.ResourceClaim)
		want   string
	}{
		"the same":       {func(*resourcev1.ResourceClaim) {}, ""},
		"another's":      {func(c *resourcev1.ResourceClaim) { c.OwnerReferences[0].UID = "q" }, "not for the extended resources of the pod"},
		"not special":    {func(c *resourcev1.ResourceClaim) { c.Annotations = nil }, "not for the extended resources of the pod"},
		"on its way out": {func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{} }, "being deleted"},
		"of more":        {func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.Count = 2 }, "for other devices"},
		"with devices":   {func(c *resourcev1.ResourceClaim) { allocated(c) }, "for other devices"},
	} {
		there := draft.DeepCopy()
		there.UID = "u"
		test.change(there)
		if err := Adopt(draft, there); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
