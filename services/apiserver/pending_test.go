package apiserver

import (
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Deletions of what is being deleted already change nothing, and ask nobody, unless they hasten it; admission is told how long the object has, and which object it is.
func TestPendingDeletions(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"a","finalizers":["x/y"]},"spec":{"nodeName":"n","terminationGracePeriodSeconds":17,"containers":[{"name":"c","image":"i"}]}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"nowhere","finalizers":["x/y"]},"spec":{"terminationGracePeriodSeconds":17,"containers":[{"name":"c","image":"i"}]}}`))
	f.must(f.create("v1/namespaces", "", `{"metadata":{"name":"gone"}}`))
	unbind := f.bind("validating", `"matchConstraints":{"resourceRules":[{"operations":["DELETE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods","namespaces"]}]},
		"validations":[{"expression":"!has(oldObject.metadata.deletionTimestamp)","message":"again"},
			{"expression":"request.resource.resource != 'pods' || request.options.gracePeriodSeconds == (oldObject.metadata.name == 'a' ? 17 : 0)","message":"not that long"},
			{"expression":"request.resource.resource != 'namespaces' || request.options.preconditions.uid == oldObject.metadata.uid","message":"no uid"}]`, `,"validationActions":["Deny"]`)
	remove := func(resource, namespace, name, options string) (*unstructured.Unstructured, error) {
		resp, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: resource, Namespace: namespace, Name: name,
			Options: []byte(`{"kind":"DeleteOptions","apiVersion":"v1"` + options + `}`), ContentType: "application/json"})
		if err != nil {
			return nil, apistatus.FromGRPC(err)
		}
		return f.object(resp.GetObject(), nil), nil
	}
	first, err := remove("pods", "default", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range []string{"", `,"gracePeriodSeconds":17`, `,"gracePeriodSeconds":40`, `,"propagationPolicy":"Foreground"`, `,"propagationPolicy":"Orphan"`} {
		if again, err := remove("pods", "default", "a", options); err != nil || !reflect.DeepEqual(again, first) {
			t.Errorf("%s: %v %v", options, err, again)
		}
	}
	if _, err := remove("pods", "default", "a", `,"gracePeriodSeconds":3`); err == nil || !strings.HasSuffix(err.Error(), "denied request: again") {
		t.Errorf("one that hastens it: %v", err)
	}
	if _, err := remove("pods", "default", "nowhere", ""); err != nil {
		t.Errorf("a pod that is nowhere: %v", err)
	}
	gone, err := remove("namespaces", "", "gone", "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := remove("namespaces", "", "gone", ""); err != nil || again.GetResourceVersion() != gone.GetResourceVersion() {
		t.Errorf("a namespace again: %v %v", err, again)
	}
	evict := func(uid string) error {
		_, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a", Subresource: "eviction", DryRun: []string{"All"},
			Object: []byte(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"},"deleteOptions":{"preconditions":{"uid":"` + uid + `"}}}`)})
		return apistatus.FromGRPC(err)
	}
	if err := evict("another"); !apierrors.IsConflict(err) {
		t.Errorf("an eviction of another pod of the name: %v", err)
	}
	if err := evict(string(first.GetUID())); err != nil {
		t.Errorf("an eviction: %v", err)
	}
	unbind()
	sooner, err := remove("pods", "default", "a", `,"gracePeriodSeconds":3`)
	if err != nil {
		t.Fatal(err)
	}
	if grace := sooner.GetDeletionGracePeriodSeconds(); grace == nil || *grace > 3 || !sooner.GetDeletionTimestamp().Time.Before(first.GetDeletionTimestamp().Time) {
		t.Errorf("%v", sooner)
	}
}
