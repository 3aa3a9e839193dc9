package device

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func claim(version string, users ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "x", ResourceVersion: version}}
	for _, u := range users {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: u, UID: types.UID(u)})
	}
	return c
}

func allocated(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "a"}},
	}}
	return c
}

// choice is that of a pod, which allocates where the claim has no devices.
func choice(of *resourcev1.ResourceClaim, pod types.UID) *Choice {
	change := Change{Claim: of, User: resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: string(pod), UID: pod}}
	if of.Status.Allocation == nil {
		change.Allocation = allocated(of.DeepCopy()).Status.Allocation
	}
	return &Choice{Pod: pod, Changes: []Change{change}}
}

// is tells how a claim counts: whether its device is taken, whether that is still to be written, and by how many pods it is used.
func is(t *testing.T, c *Cache, when string, taken, pending bool, users int) {
	t.Helper()
	v := c.View()
	got := v.Claim("default", "x")
	if len(v.taken().AllocatedDevices) > 0 != taken || got.Pending != pending || len(got.Status.ReservedFor) != users {
		t.Errorf("%s: taken %v, pending %v, users %v", when, v.taken().AllocatedDevices, got.Pending, got.Status.ReservedFor)
	}
}

func TestWhatIsDecidedCounts(t *testing.T) {
	t.Parallel()
	c := NewCache()
	c.SetClaim(claim("1"))
	before := c.View()
	first := choice(before.Claim("default", "x").ResourceClaim, "p")
	if !c.Assume(first) {
		t.Fatal("the claim is as it was")
	}
	is(t, c, "assumed", true, true, 1)
	if c.Assume(choice(claim("1"), "q")) {
		t.Error("a claim whose devices are not written was given to another pod")
	}
	if before.Claim("default", "x").Pending || len(before.taken().AllocatedDevices) != 0 {
		t.Error("a view has changed")
	}
	c.SetClaim(claim("2")) // the finalizer, perhaps
	is(t, c, "changed meanwhile", true, true, 1)
	c.Wrote(allocated(claim("3", "p")), "p")
	is(t, c, "written", true, false, 1)
	c.SetClaim(claim("2"))
	is(t, c, "the watch is behind", true, false, 1)
	c.Forget(first)
	is(t, c, "what is written is not forgotten", true, false, 1)
	c.SetClaim(claim("4"))
	is(t, c, "let go", false, false, 0)
}

func TestWhatIsNotWrittenIsTakenBack(t *testing.T) {
	t.Parallel()
	c := NewCache()
	c.SetClaim(claim("1"))
	first := choice(claim("1"), "p")
	c.Assume(first)
	c.Forget(first)
	is(t, c, "forgotten", false, false, 0)
	c.Forget(first)
	c.Forget(nil)

	shared := allocated(claim("2", "other"))
	c.SetClaim(shared)
	p, q := choice(shared, "p"), choice(shared, "q")
	if !c.Assume(p) || !c.Assume(q) {
		t.Fatal("a claim with devices cannot be shared")
	}
	is(t, c, "shared", true, false, 3)
	if users := c.Shown("default", "x").Status.ReservedFor; len(users) != 1 {
		t.Errorf("the API has %v", users)
	}
	c.Forget(p)
	is(t, c, "one less", true, false, 2)
	c.Wrote(allocated(claim("3", "other", "q")), "q")
	is(t, c, "written", true, false, 2)
}

func TestAChangedClaimIsNotAssumed(t *testing.T) {
	t.Parallel()
	another := claim("2")
	another.UID = "y"
	deleted := claim("2")
	deleted.DeletionTimestamp = &metav1.Time{}
	elsewhere := allocated(claim("2"))
	elsewhere.Status.Allocation.NodeSelector = &corev1.NodeSelector{}
	for what, test := range map[string]struct{ was, is *resourcev1.ResourceClaim }{
		"gone":                {claim("1"), nil},
		"another of the name": {claim("1"), another},
		"deleted":             {claim("1"), deleted},
		"allocated":           {claim("1"), allocated(claim("2"))},
		"deallocated":         {allocated(claim("1")), claim("2")},
		"allocated anew":      {allocated(claim("1")), elsewhere},
	} {
		c := NewCache()
		c.SetClaim(test.was)
		chosen := choice(test.was, "p")
		c.DeleteClaim(test.was)
		if test.is != nil {
			c.SetClaim(test.is)
		}
		if c.Assume(chosen) {
			t.Errorf("%s: assumed", what)
		}
	}
}
