package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/internal/devicetaint"
)

// TestARuleTakesDevicesFromPods has a pod with a device on the real API, and the device given up: the pod is deleted, and the rule tells of it.
func TestARuleTakesDevicesFromPods(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "devicetainteviction,serviceaccount")
	await(t, client, object.ServiceAccount, "the namespace's account", func(s []*corev1.ServiceAccount) bool { return in(s, "default", "default") })
	create(t, client, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	p := create(t, client, object.Pod, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec: corev1.PodSpec{
			NodeName: "n", ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("gpu")}},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
		},
	})
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
	claim = create(t, client, object.ResourceClaim, claim)
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "one", Driver: "gpu.example.com", Pool: "n", Device: "gpu-0"}},
	}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: p.UID}}
	if _, err := object.For(client, object.ResourceClaim).UpdateStatus(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	create(t, client, devicetaint.Kind, &devicetaint.Rule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: resourcev1beta2.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Driver: ptr.To("gpu.example.com"), Device: ptr.To("gpu-0")},
		Taint:          resourcev1beta2.DeviceTaint{Key: "example.com/broken", Effect: resourcev1beta2.DeviceTaintEffectNoExecute},
	}})
	await(t, client, object.Pod, "the pod to be deleted, and why", func(list []*corev1.Pod) bool {
		return len(list) == 1 && list[0].DeletionTimestamp != nil && slices.ContainsFunc(list[0].Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByDeviceTaintManager"
		})
	})
	await(t, client, devicetaint.Kind, "the rule's status", func(rules []*devicetaint.Rule) bool {
		return len(rules) == 1 && len(rules[0].Status.Conditions) == 1 && rules[0].Status.Conditions[0].Reason == "Completed" &&
			rules[0].Status.Conditions[0].Message == "1 pod evicted since starting the controller."
	})
}
