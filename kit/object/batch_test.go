package object_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func TestBatchAnswersEachItem(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	maps := object.For(client, object.ConfigMap)
	one, err := maps.Create(t.Context(), configMap("a", "one", "1"))
	if err != nil {
		t.Fatal(err)
	}
	old := one.DeepCopy()
	old.ResourceVersion = "99"
	results, err := client.Batch(t.Context(), []object.Item{
		maps.CreateItem(configMap("a", "two", "2")),
		maps.CreateItem(configMap("a", "one", "1")),
		maps.UpdateItem(old, ""),
		maps.PatchItem("a", "one", types.MergePatchType, []byte(`{"data":{"value":"9"}}`), ""),
		maps.PatchItem("a", "none", types.MergePatchType, []byte(`{}`), ""),
		maps.DeleteItem("a", "two", metav1.DeleteOptions{}),
	}, false)
	if err != nil || len(results) != 6 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for i, want := range []func(error) bool{isNil, apierrors.IsAlreadyExists, apierrors.IsConflict, isNil, apierrors.IsNotFound, isNil} {
		if !want(results[i].Err) {
			t.Errorf("item %d: %v", i, results[i].Err)
		}
	}
	patched, err := object.Decode(object.ConfigMap, results[3].Object)
	if err != nil || patched.Data["value"] != "9" || patched.UID != one.UID {
		t.Errorf("the patched object: %v, %v", patched, err)
	}
}

func isNil(err error) bool { return err == nil }

func TestAtomicBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	api, client := objecttest.Start(t)
	maps := object.For(client, object.ConfigMap)
	results, err := client.Batch(t.Context(), []object.Item{
		maps.CreateItem(configMap("a", "one", "")),
		maps.PatchItem("a", "none", types.MergePatchType, []byte(`{}`), ""),
	}, true)
	if err != nil || results[0].Err == nil || !apierrors.IsNotFound(results[1].Err) {
		t.Fatalf("got %v, %v: both items must fail", results, err)
	}
	if api.Revision() != 0 {
		t.Errorf("revision %d: the first item was kept", api.Revision())
	}
	if _, err := client.Batch(t.Context(), make([]object.Item, object.MaxBatch+1), true); err == nil {
		t.Error("an atomic batch of more than MaxBatch items must be refused")
	}
}

func TestLargeBatchTakesSeveralCalls(t *testing.T) {
	t.Parallel()
	api, client := objecttest.Start(t)
	maps := object.For(client, object.ConfigMap)
	var items []object.Item
	for i := range 2*object.MaxBatch + 1 {
		items = append(items, maps.CreateItem(configMap("a", fmt.Sprint("m", i), "")))
	}
	results, err := client.Batch(t.Context(), items, false)
	if err != nil || len(results) != len(items) || api.Calls("batch") != 3 {
		t.Fatalf("%d results of %d items in %d calls, %v", len(results), len(items), api.Calls("batch"), err)
	}
	last, err := object.Decode(object.ConfigMap, results[len(results)-1].Object)
	if err != nil || last.Name != fmt.Sprint("m", len(items)-1) {
		t.Errorf("the last result is of %v (%v)", last, err)
	}
}

func TestBatchWithABadItemSendsNothing(t *testing.T) {
	t.Parallel()
	api, client := objecttest.Start(t)
	pods := object.For(client, object.Pod)
	bad := pods.PostItem("a", "p", "binding", nil)
	if _, err := client.Batch(t.Context(), []object.Item{bad}, false); err == nil {
		t.Error("a body that cannot be encoded must fail")
	}
	if n := api.Calls("batch"); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

func TestBatchItemThatFailsWithoutAStatus(t *testing.T) {
	t.Parallel()
	api := objecttest.New()
	api.Intercept = func(objecttest.Write) error { return errors.New("broken") }
	client := api.Serve(t)
	results, err := client.Batch(t.Context(), []object.Item{object.For(client, object.ConfigMap).CreateItem(configMap("a", "x", ""))}, false)
	if err != nil || !apierrors.IsInternalError(results[0].Err) {
		t.Errorf("got %v, %v: an error without a Status is an InternalError of its item", results, err)
	}
}
