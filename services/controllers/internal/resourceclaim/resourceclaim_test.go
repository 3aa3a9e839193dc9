package resourceclaim

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func newPod(name, node string, claims ...corev1.PodResourceClaim) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: corev1.PodSpec{NodeName: node, ResourceClaims: claims}}
}

func newTemplate() *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "gpu"}}
	t.Spec.Labels = map[string]string{"of": "gpu"}
	t.Spec.Annotations = map[string]string{"a": "b"}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}
	return t
}

func fromTemplate(name string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: new("gpu")}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	p := newPod("p", "")
	p.UID = "u"
	asked := fromTemplate("c")
	claim := generate(p, &asked, newTemplate())
	if !strings.HasPrefix(claim.Name, "p-c-") || len(claim.Name) != len("p-c-")+5 || claim.Name != generate(p, &asked, newTemplate()).Name || !metav1.IsControlledBy(claim, p) || isFor(p, claim) != nil {
		t.Errorf("claim %s, owned by %v", claim.Name, claim.OwnerReferences)
	}
	if claim.Labels["of"] != "gpu" || claim.Annotations["a"] != "b" || claim.Annotations[podClaimAnnotation] != "c" || len(claim.Spec.Devices.Requests) != 1 {
		t.Errorf("claim %+v", claim)
	}
	p.UID = "v"
	if again := generate(p, &asked, newTemplate()); again.Name == claim.Name || isFor(p, claim) == nil {
		t.Errorf("another pod of the name shares the claim %s", claim.Name)
	}
}

// TestNamesOfClaims: the prefixes are those that Kubernetes 1.36.3 gave claims of such pods, but for the last, where it wants a dash behind a dot and refuses that.
func TestNamesOfClaims(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ pod, claim, want string }{
		{strings.Repeat("p", 54), "c", strings.Repeat("p", 54) + "-c-"},
		{strings.Repeat("p", 55), "dd", strings.Repeat("p", 53) + "-d"},
		{strings.Repeat("p", 60), strings.Repeat("c", 30), strings.Repeat("p", 37) + "-" + strings.Repeat("c", 18)},
		{strings.Repeat("p", 36) + "." + strings.Repeat("q", 23), strings.Repeat("c", 30), strings.Repeat("p", 36) + "-" + strings.Repeat("c", 18)},
	} {
		p := newPod(tt.pod, "")
		asked := fromTemplate(tt.claim)
		claim := generate(p, &asked, newTemplate())
		if claim.GenerateName != tt.want || claim.Name[:len(claim.Name)-5] != tt.want || len(claim.Name) > 63 {
			t.Errorf("of %s and %s: %s, made of %s; want %s", tt.pod, tt.claim, claim.Name, claim.GenerateName, tt.want)
		}
	}
}

func TestLetGo(t *testing.T) {
	t.Parallel()
	claim := func(finalizer, deleted bool, users ...string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{}
		c.Status.Allocation = &resourcev1.AllocationResult{}
		c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "d"}}
		if finalizer {
			c.Finalizers = []string{"other", resourcev1.Finalizer}
		}
		if deleted {
			c.DeletionTimestamp = &metav1.Time{}
		}
		for _, u := range users {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: u})
		}
		return c
	}
	for what, c := range map[string]struct {
		claim     *resourcev1.ResourceClaim
		changes   bool
		users     int
		allocated bool
	}{
		"all users stay":                    {claim(true, false, "stays"), false, 1, true},
		"one goes":                          {claim(true, false, "stays", "goes"), true, 1, true},
		"the last goes":                     {claim(true, false, "goes"), true, 0, false},
		"the last goes, another allocates":  {claim(false, false, "goes"), true, 0, true},
		"just allocated, nobody uses it":    {claim(true, false), false, 0, true},
		"nobody uses it, and it is deleted": {claim(true, true), true, 0, false},
		"deleted, and used":                 {claim(true, true, "stays"), false, 1, true},
	} {
		got := letGo(c.claim, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.Name == "stays" })
		if (got != nil) != c.changes {
			t.Errorf("%s: %v", what, got)
		} else if got != nil && (len(got.Status.ReservedFor) != c.users || (got.Status.Allocation != nil) != c.allocated || (len(got.Status.Devices) != 0) != c.allocated) {
			t.Errorf("%s: %+v", what, got.Status)
		} else if got != nil && c.users == 0 && !c.allocated {
			if free := released(got); free == nil || len(free.Finalizers) != 1 {
				t.Errorf("%s: released %v", what, free)
			}
		}
	}
}

// TestLifeOfAClaim makes the claim of a pod, has it allocated and reserved, and lets it go with the pod's end.
func TestLifeOfAClaim(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
	p := controllertest.Create(c, object.Pod, newPod("p", "node", fromTemplate("c")))
	if e := <-c.Events.Events; e != `Warning FailedResourceClaimCreation PodResourceClaim c: resource claim template "gpu": resourceclaimtemplate.resource.k8s.io "gpu" not found` {
		t.Errorf("event %s", e)
	}
	controllertest.Create(c, templateKind, newTemplate())
	noted := controllertest.Await(c, object.Pod, "the claim in the pod's status", func(list []*corev1.Pod) bool {
		return len(list[0].Status.ResourceClaimStatuses) == 1
	})
	claims := controllertest.List(c, claimKind)
	if len(claims) != 1 || *noted[0].Status.ResourceClaimStatuses[0].ResourceClaimName != claims[0].Name {
		t.Fatalf("claims %v; pod's %v", claims, noted[0].Status.ResourceClaimStatuses)
	}
	claim := claims[0]
	claim.Finalizers = []string{resourcev1.Finalizer}
	claim, err := object.For(c.Client, claimKind).Update(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	controllertest.UpdateStatus(c, claimKind, claim)
	controllertest.Await(c, claimKind, "the reservation for a pod that came with a node", func(list []*resourcev1.ResourceClaim) bool {
		return resourceclaim.IsReservedForPod(p, list[0], false)
	})

	shared := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "shared", Finalizers: []string{resourcev1.Finalizer}}}
	shared.Status.Allocation = &resourcev1.AllocationResult{}
	shared.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "gone", UID: "x"}, {Resource: "pods", Name: "p", UID: p.UID}}
	controllertest.Create(c, claimKind, shared)
	controllertest.Await(c, claimKind, "one user less", func(list []*resourcev1.ResourceClaim) bool {
		for _, s := range list {
			if s.Name == "shared" {
				return len(s.Status.ReservedFor) == 1 && s.Status.Allocation != nil
			}
		}
		return false
	})

	ended := noted[0].DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	ended.ResourceVersion = ""
	controllertest.UpdateStatus(c, object.Pod, ended)
	controllertest.Await(c, claimKind, "the end of the pod's own claim", func(list []*resourcev1.ResourceClaim) bool {
		return len(list) == 1 && list[0].Name == "shared"
	})
}

func TestClaimsOf(t *testing.T) {
	t.Parallel()
	p := newPod("p", "", corev1.PodResourceClaim{Name: "c", ResourceClaimName: new("shared")}, fromTemplate("unmade"))
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "devices"}
	if keys, err := claimsOf(p); err != nil || strings.Join(keys, " ") != "n/shared n/devices" {
		t.Errorf("claims %v, %v", keys, err)
	}
	p.Spec.ResourceClaims = nil
	if !claims(p) || claims(newPod("q", "")) {
		t.Error("it is not known which pod has claims")
	}
}

// TestAClaimForExtendedResourcesGoesWithItsPod: a scheduler has made it, and the pod's spec does not name it.
func TestAClaimForExtendedResourcesGoesWithItsPod(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
	p := controllertest.Create(c, object.Pod, newPod("p", "node"))
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "p-extended-resources-1", Finalizers: []string{resourcev1.Finalizer},
		Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))},
	}}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "gone", UID: "x"}, {Resource: "pods", Name: "p", UID: p.UID}}
	controllertest.Create(c, claimKind, claim)
	controllertest.Await(c, claimKind, "one user less", func(list []*resourcev1.ResourceClaim) bool {
		return len(list) == 1 && len(list[0].Status.ReservedFor) == 1 && list[0].Status.Allocation != nil
	})
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name}
	p.ResourceVersion = ""
	p = controllertest.UpdateStatus(c, object.Pod, p)
	p.Status.Phase = corev1.PodFailed
	p.ResourceVersion = ""
	controllertest.UpdateStatus(c, object.Pod, p)
	controllertest.Await(c, claimKind, "the end of the claim", func(list []*resourcev1.ResourceClaim) bool { return len(list) == 0 })
}

// seen holds a token once the controller has heard of a pod.
type seen chan struct{}

func (s seen) note(_, _ *corev1.Pod) {
	select {
	case s <- struct{}{}:
	default: // and of more
	}
}

func (s seen) await(t *testing.T) {
	t.Helper()
	select {
	case <-s:
	case <-time.After(time.Minute):
		t.Fatal("the controller does not see the pod")
	}
}

// TestAClaimGoesWithItsReplacedPod: another pod of the name has come, and the garbage collector has not been there yet.
func TestAClaimGoesWithItsReplacedPod(t *testing.T) {
	t.Parallel()
	pods := make(seen, 1)
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) {
		env.Pods().AddHandler(pods.note)
		return New(env, nil), nil
	})
	controllertest.Create(c, object.Pod, newPod("p", ""))
	pods.await(t) // a claim of a pod that the controller has not seen is the garbage collector's
	gone := newPod("p", "")
	gone.UID = "gone"
	asked := fromTemplate("c")
	controllertest.Create(c, claimKind, generate(gone, &asked, newTemplate()))
	controllertest.Await(c, claimKind, "the end of the claim", func(list []*resourcev1.ResourceClaim) bool { return len(list) == 0 })
}

// TestAClaimOfAPodThatIsNotShownStays: the cache still shows the pod that had the name before, and a scheduler has made a claim for the one that has it now.
func TestAClaimOfAPodThatIsNotShownStays(t *testing.T) {
	t.Parallel()
	var late *objecttest.Late
	pods := make(seen, 1)
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		late, c.Client = c.API.ServeLate(t)
	}, func(env *controller.Env) (controller.Unit, error) {
		env.Pods().AddHandler(pods.note)
		return New(env, nil), nil
	})
	controllertest.Create(c, object.Pod, newPod("p", ""))
	pods.await(t)
	release := late.Hold("pods")
	defer release()
	controllertest.Delete(c, object.Pod, "n", "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	of := func(p *corev1.Pod, name string) {
		controllertest.Create(c, claimKind, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))},
		}})
	}
	of(controllertest.Create(c, object.Pod, newPod("p", "")), "stays")
	gone := newPod("p", "")
	gone.UID = "gone"
	for _, name := range []string{"goes", "too"} { // there are several workers: when these have gone, the first claim has been looked at
		of(gone, name)
		controllertest.Await(c, claimKind, "the end of a claim of another pod", func(list []*resourcev1.ResourceClaim) bool {
			return !slices.ContainsFunc(list, func(r *resourcev1.ResourceClaim) bool { return r.Name == name })
		})
	}
	if left := controllertest.List(c, claimKind); len(left) != 1 || left[0].Name != "stays" {
		t.Errorf("claims %v are left", left)
	}
}
