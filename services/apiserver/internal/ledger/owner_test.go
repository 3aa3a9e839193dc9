package ledger

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChargesAgain(t *testing.T) {
	t.Parallel()
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		e := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource, FieldsV1: &metav1.FieldsV1{}}
		e.FieldsV1.SetRawString(fields)
		return e
	}
	client := entry("client", "", `{"f:spec":{"f:hard":{"f:pods":{}}}}`)
	controller := entry("controller", "status", `{"f:status":{"f:used":{".":{},"f:secrets":{}}}}`)
	server := entry("server", "status", `{"f:status":{"f:used":{"f:pods":{}}}}`)
	applier := entry("applier", "status", `{"f:status":{"f:used":{"f:pods":{}}}}`)
	used := func(pods, secrets string) corev1.ResourceList {
		return corev1.ResourceList{"pods": resource.MustParse(pods), "secrets": resource.MustParse(secrets)}
	}
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		after   corev1.ResourceList
		want    bool
	}{
		"the same again":           {[]metav1.ManagedFieldsEntry{client, controller, server}, used("2", "1"), true},
		"another resource":         {[]metav1.ManagedFieldsEntry{client, controller, server}, used("2", "2"), false},
		"a resource more":          {[]metav1.ManagedFieldsEntry{server}, corev1.ResourceList{"pods": resource.MustParse("2"), "secrets": resource.MustParse("1"), "services": resource.MustParse("1")}, false},
		"a resource less":          {[]metav1.ManagedFieldsEntry{server}, corev1.ResourceList{"pods": resource.MustParse("2")}, false},
		"another wrote last":       {[]metav1.ManagedFieldsEntry{server, controller}, used("2", "1"), false},
		"another owns it, too":     {[]metav1.ManagedFieldsEntry{applier, server}, used("2", "1"), false},
		"nobody owns anything":     {nil, used("2", "1"), false},
		"an entry without a field": {[]metav1.ManagedFieldsEntry{{Manager: "x"}, server}, used("2", "1"), false},
	} {
		before := &corev1.ResourceQuota{}
		before.ManagedFields, before.Status.Used = c.entries, used("1", "1")
		after := before.DeepCopy()
		after.Status.Used = c.after
		now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
		if got := chargesAgain(before, after, "server", now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if n := len(c.entries); c.want && (!after.ManagedFields[n-1].Time.Time.Equal(now.Truncate(time.Second)) || before.ManagedFields[n-1].Time != nil) {
			t.Errorf("%s: %v, before %v", name, after.ManagedFields[n-1].Time, before.ManagedFields[n-1].Time)
		}
	}
}
