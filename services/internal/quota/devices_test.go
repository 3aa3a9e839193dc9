package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestUsageOfExtendedResources: devices of a class that gives them a name count under that name, too; what the pod counts for already does not count once
// more for the claim that it has for it.
func TestUsageOfExtendedResources(t *testing.T) {
	t.Parallel()
	const plain, class = "count/resourceclaims.resource.k8s.io=1,", "gpu.deviceclass.resource.k8s.io/devices=4"
	known := func(status string) Known {
		pod := read[corev1.Pod](t, "{metadata: {name: p, uid: u}, spec: {containers: [{name: a, resources: {requests: {example.com/gpu: 3}}}]}, status: {"+status+"}}")
		return Known{
			Classes: []*resourcev1.DeviceClass{
				{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/gpu")}},
				{ObjectMeta: metav1.ObjectMeta{Name: "nic"}},
			},
			Pod: func(name string) *corev1.Pod {
				if name != "p" {
					return nil
				}
				return pod
			},
			Claims: func() []*resourcev1.ResourceClaim {
				older := claimOf(t, "gpu", "a", "u", "true")
				foreign := claimOf(t, "gpu", "a", "other", "true")
				return []*resourcev1.ResourceClaim{claimOf(t, "gpu", "c", "u", "true"), foreign, older}
			},
		}
	}
	for what, test := range map[string]struct {
		claim *resourcev1.ResourceClaim
		known Known
		want  string
	}{
		"nothing known":          {claimOf(t, "gpu", "c", "", ""), Known{}, plain + class},
		"a class without a name": {claimOf(t, "nic", "c", "", ""), known(""), plain + "nic.deviceclass.resource.k8s.io/devices=4"},
		"of nobody":              {claimOf(t, "gpu", "c", "", ""), known(""), plain + class + ",requests.deviceclass.resource.kubernetes.io/gpu=4,requests.example.com/gpu=4"},
		"of the pod, which says so": {claimOf(t, "gpu", "c", "u", "true"), known("extendedResourceClaimStatus: {resourceClaimName: c}"),
			plain + class + ",requests.deviceclass.resource.kubernetes.io/gpu=4,requests.example.com/gpu=1"},
		"of the pod, which names another": {claimOf(t, "gpu", "c", "u", "true"), known("extendedResourceClaimStatus: {resourceClaimName: b}"),
			plain + class + ",requests.deviceclass.resource.kubernetes.io/gpu=4,requests.example.com/gpu=4"},
		"of the pod, the first":     {claimOf(t, "gpu", "a", "u", "true"), known(""), plain + class + ",requests.deviceclass.resource.kubernetes.io/gpu=4,requests.example.com/gpu=1"},
		"of the pod, not the first": {claimOf(t, "gpu", "c", "u", "true"), known(""), plain + class + ",requests.deviceclass.resource.kubernetes.io/gpu=4,requests.example.com/gpu=4"},
		"of a pod of before":        {claimOf(t, "gpu", "c", "was", "true"), known(""), plain + class + ",requests.deviceclass.resource.kubernetes.io/gpu=4,requests.example.com/gpu=4"},
		"not for the resource":      {claimOf(t, "gpu", "a", "u", ""), known(""), plain + class + ",requests.deviceclass.resource.kubernetes.io/gpu=4,requests.example.com/gpu=4"},
		"of a pod that has ended": {claimOf(t, "gpu", "a", "u", "true"), known("phase: Failed"),
			plain + class + ",requests.deviceclass.resource.kubernetes.io/gpu=4,requests.example.com/gpu=4"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			used := Usage(devices, test.claim, time.Unix(1000, 0), test.known)
			if got := Format(used); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			for consumed := range used {
				if !Relevant(devices, consumed) {
					t.Errorf("%s is consumed and not relevant", consumed)
				}
			}
		})
	}
}

var devices = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}

// claimOf is a claim for four devices of a class, for a pod's extended resources where it says so.
func claimOf(t *testing.T, class, name, pod, extended string) *resourcev1.ResourceClaim {
	c := read[resourcev1.ResourceClaim](t, "{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: "+class+", allocationMode: ExactCount, count: 4}}]}}}")
	c.Name = name
	if pod != "" {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: types.UID(pod), Controller: ptr.To(true)}}
	}
	if extended != "" {
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: extended}
	}
	return c
}
