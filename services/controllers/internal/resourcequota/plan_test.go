package resourcequota

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"howdah.dev/services/internal/quota"
)

var start = time.Unix(1_700_000_000, 0)

func pod(phase corev1.PodPhase, cpu string, deadline int64) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	p.Status.Phase = phase
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	if deadline > 0 {
		p.Spec.ActiveDeadlineSeconds = &deadline
	}
	return p
}

func quotaOf(scopes []corev1.ResourceQuotaScope, hard ...string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}, Scopes: scopes}}
	for _, name := range hard {
		q.Spec.Hard[corev1.ResourceName(name)] = resource.MustParse("10")
	}
	return q
}

func TestUsed(t *testing.T) {
	t.Parallel()
	seen := Seen{
		Objects: map[schema.GroupResource][]any{pods: {
			pod(corev1.PodRunning, "1", 0), pod(corev1.PodPending, "500m", 60), pod(corev1.PodSucceeded, "4", 0), pod(corev1.PodRunning, "", 0),
		}},
		Numbers: map[schema.GroupResource]int64{{Resource: "secrets"}: 7, {Group: "apps", Resource: "deployments"}: 2},
	}
	tests := map[string]struct {
		quota *corev1.ResourceQuota
		want  string
	}{
		"pods and counts": {quotaOf(nil, "pods", "count/pods", "requests.cpu", "secrets", "count/deployments.apps", "limits.memory"),
			"count/deployments.apps=2,count/pods=4,limits.memory=0,pods=3,requests.cpu=1500m,secrets=7"},
		"terminating":     {quotaOf([]corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}, "pods", "requests.cpu"), "pods=1,requests.cpu=500m"},
		"not terminating": {quotaOf([]corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotTerminating}, "pods"), "pods=2"},
		"best effort":     {quotaOf([]corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}, "pods"), "pods=1"},
		"not best effort": {quotaOf([]corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort}, "pods"), "pods=2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			used := Used(test.quota, seen, start)
			if got := quota.Format(used); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			status, news := Status(test.quota, used)
			if !news {
				t.Error("it is news")
			}
			test.quota.Status = status
			if _, news := Status(test.quota, used); news {
				t.Error("it is no news any more")
			}
		})
	}
}

// TestUsedByExtendedResources: what a pod asks for and the claim that it has for it count once.
func TestUsedByExtendedResources(t *testing.T) {
	t.Parallel()
	asking := pod(corev1.PodRunning, "1", 0)
	asking.Name, asking.UID = "p", "u"
	asking.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("2")
	claim := func(name string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 3}}}
		return c
	}
	own, other := claim("own"), claim("other")
	own.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	own.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(asking, corev1.SchemeGroupVersion.WithKind("Pod"))}
	seen := Seen{
		Objects: map[schema.GroupResource][]any{pods: {asking}, devices: {own, other}},
		Classes: []*resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/gpu")}}},
	}
	q := quotaOf(nil, "requests.example.com/gpu", "gpu.deviceclass.resource.k8s.io/devices")
	if got, want := quota.Format(Used(q, seen, start)), "gpu.deviceclass.resource.k8s.io/devices=6,requests.example.com/gpu=6"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := NeedsOf(q); !slices.Contains(n.Whole, pods) || !slices.Contains(n.Whole, devices) {
		t.Errorf("needs %+v", n)
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	n := NeedsOf(quotaOf(nil, "pods", "requests.cpu", "services", "services.nodeports", "count/secrets", "requests.storage", "count/widgets.example.com"))
	if len(n.Whole) != 3 || len(n.Number) != 3 {
		t.Errorf("needs %+v", n)
	}
	if n := NeedsOf(quotaOf([]corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}, "pods")); len(n.Whole) != 1 || len(n.Number) != 0 {
		t.Errorf("a scoped quota needs %+v", n)
	}
}

func TestFreed(t *testing.T) {
	t.Parallel()
	running, ended := pod(corev1.PodRunning, "1", 0), pod(corev1.PodFailed, "1", 0)
	smaller := pod(corev1.PodRunning, "500m", 0)
	going := pod(corev1.PodRunning, "1", 0)
	grace := int64(30)
	going.DeletionTimestamp, going.DeletionGracePeriodSeconds = &metav1.Time{Time: start}, &grace
	for name, test := range map[string]struct {
		old, new *corev1.Pod
		want     bool
	}{
		"made": {nil, running, false}, "gone": {running, nil, true}, "ended": {running, ended, true}, "same": {running, running, false},
		"smaller": {running, smaller, true}, "larger": {smaller, running, false}, "going": {running, going, true},
	} {
		if got := freed(test.old, test.new, start); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	seen := Seen{Objects: map[schema.GroupResource][]any{pods: {running, going}}}
	if got := NextEnd(seen, start); got != 31*time.Second {
		t.Errorf("next end in %s", got)
	}
	if got := NextEnd(seen, start.Add(time.Minute)); got != 0 {
		t.Errorf("next end in %s after it", got)
	}
}
