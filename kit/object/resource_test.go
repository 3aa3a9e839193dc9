package object_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func TestLifeOfAnObject(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	ctx, maps := t.Context(), object.For(client, object.ConfigMap)

	made, err := maps.Create(ctx, configMap("a", "one", "1"))
	if err != nil || made.UID == "" || made.ResourceVersion == "" {
		t.Fatalf("create: %+v, %v", made.ObjectMeta, err)
	}
	if _, err := maps.Create(ctx, configMap("a", "one", "1")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second create: %v, want AlreadyExists", err)
	}
	got, err := maps.Get(ctx, "a", "one")
	if err != nil || got.Data["value"] != "1" || got.UID != made.UID {
		t.Fatalf("get: %v, %v", got, err)
	}

	changed := got.DeepCopy()
	changed.Data["value"] = "2"
	changed, err = maps.Update(ctx, changed)
	if err != nil || changed.Data["value"] != "2" || changed.ResourceVersion == got.ResourceVersion {
		t.Fatalf("update: %v, %v", changed, err)
	}
	if _, err := maps.Update(ctx, got); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v, want Conflict", err)
	}

	patched, err := maps.Patch(ctx, "a", "one", types.MergePatchType, []byte(`{"data":{"more":"3"}}`), "")
	if err != nil || patched.Data["value"] != "2" || patched.Data["more"] != "3" {
		t.Fatalf("patch: %v, %v", patched, err)
	}

	wrong := types.UID("another")
	if err := maps.Delete(ctx, "a", "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}); !apierrors.IsConflict(err) {
		t.Errorf("a delete of another UID: %v, want Conflict", err)
	}
	if err := maps.Delete(ctx, "a", "one", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if _, err := maps.Get(ctx, "a", "one"); !apierrors.IsNotFound(err) {
		t.Errorf("get of what is gone: %v, want NotFound", err)
	}
}

func TestStatusIsASubresource(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	pods := object.For(client, object.Pod)
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", Labels: map[string]string{"app": "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase, pod.Labels = corev1.PodRunning, nil
	if pod, err = pods.UpdateStatus(t.Context(), pod); err != nil || pod.Status.Phase != corev1.PodRunning || pod.Labels["app"] != "x" {
		t.Errorf("status update: phase %q, labels %v, %v", pod.Status.Phase, pod.Labels, err)
	}
	pod.Status.Phase = corev1.PodFailed
	pod.Annotations = map[string]string{"note": "kept"}
	if pod, err = pods.Update(t.Context(), pod); err != nil || pod.Status.Phase != corev1.PodRunning || pod.Annotations["note"] != "kept" {
		t.Errorf("update: phase %q, annotations %v, %v", pod.Status.Phase, pod.Annotations, err)
	}
}

func TestListSelectsAndJoinsItsChunks(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	maps := object.For(client, object.ConfigMap)
	long := make([]byte, 30<<10)
	for i := range long {
		long[i] = 'x'
	}
	for i := range 10 { // some 300 KiB: several chunks of a stream
		m := configMap([]string{"a", "b"}[i%2], fmt.Sprint("m", i), string(long))
		m.Labels = map[string]string{"third": fmt.Sprint(i%3 == 0)}
		if _, err := maps.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, namespace string
		options         metav1.ListOptions
		want            int
	}{
		{"all", "", metav1.ListOptions{}, 10},
		{"of a namespace", "a", metav1.ListOptions{}, 5},
		{"by label", "", metav1.ListOptions{LabelSelector: "third=true"}, 4},
		{"by field", "", metav1.ListOptions{FieldSelector: "metadata.name=m3"}, 1},
		{"none", "c", metav1.ListOptions{}, 0},
	}
	for _, tt := range tests {
		got, list, err := maps.List(t.Context(), tt.namespace, tt.options)
		if err != nil || len(got) != tt.want || list.ResourceVersion != "10" {
			t.Errorf("%s: %d objects at revision %q (%v), want %d at 10", tt.name, len(got), list.ResourceVersion, err, tt.want)
		}
		for _, m := range got {
			if len(m.Data["value"]) != len(long) {
				t.Errorf("%s: %s has %d bytes", tt.name, m.Name, len(m.Data["value"]))
			}
		}
	}
	if _, _, err := maps.List(t.Context(), "", metav1.ListOptions{LabelSelector: "!!"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a selector that does not parse: %v, want BadRequest", err)
	}
}

func TestMetadataOnlyKinds(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	if _, err := object.For(client, object.ConfigMap).Create(t.Context(), configMap("a", "one", "1")); err != nil {
		t.Fatal(err)
	}
	metadata := object.For(client, object.Metadata(object.ConfigMap.GVK, "configmaps", true))
	got, err := metadata.Get(t.Context(), "a", "one")
	if err != nil || got.Name != "one" || got.UID == "" {
		t.Fatalf("get: %+v, %v", got, err)
	}
	list, _, err := metadata.List(t.Context(), "", metav1.ListOptions{})
	if err != nil || len(list) != 1 || list[0].Name != "one" {
		t.Fatalf("list: %v, %v", list, err)
	}
	patched, err := metadata.Patch(t.Context(), "a", "one", types.MergePatchType, []byte(`{"metadata":{"finalizers":["x/y"]}}`), "")
	if err != nil || len(patched.Finalizers) != 1 {
		t.Fatalf("patch: %v, %v", patched, err)
	}
	full, err := object.For(client, object.ConfigMap).Get(t.Context(), "a", "one")
	if err != nil || full.Data["value"] != "1" || len(full.Finalizers) != 1 {
		t.Errorf("the object behind it: %v, %v", full, err)
	}
}

func TestFencedWrites(t *testing.T) {
	t.Parallel()
	api := objecttest.New()
	fences := make(chan string, 10)
	api.Intercept = func(w objecttest.Write) error { fences <- w.Fence; return nil }
	client := api.Serve(t)
	create := func(c *object.Client, name string) string {
		t.Helper()
		if _, err := object.For(c, object.ConfigMap).Create(t.Context(), configMap("a", name, "")); err != nil {
			t.Fatal(err)
		}
		return <-fences
	}
	if got := create(client, "1"); got != "" {
		t.Errorf("unfenced client: %q", got)
	}
	if got := create(client.Fenced("scheduler", 7), "2"); got != "scheduler/7" {
		t.Errorf("Fenced: %q", got)
	}
	if got := create(client, "3"); got != "" {
		t.Errorf("Fenced changed its parent: %q", got)
	}
	maps := object.For(client, object.ConfigMap) // made before the election
	client.SetFence("controllers", 8)
	if _, err := maps.Create(t.Context(), configMap("a", "4", "")); err != nil || <-fences != "controllers/8" {
		t.Errorf("SetFence does not reach what was made before (%v)", err)
	}
	if _, err := client.Batch(t.Context(), []object.Item{maps.CreateItem(configMap("a", "5", ""))}, false); err != nil || <-fences != "controllers/8" {
		t.Errorf("a batch is not fenced (%v)", err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	maps := object.For(client, object.ConfigMap)
	first, err := maps.Create(t.Context(), configMap("a", "one", "1"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := maps.Watch(t.Context(), "a", metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*corev1.ConfigMap{configMap("b", "not-asked-for", ""), configMap("a", "two", "1"), configMap("a", "three", "1")} {
		if _, err := maps.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := maps.Patch(t.Context(), "a", "two", types.MergePatchType, []byte(`{"data":{"value":"2"}}`), ""); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "a", "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		event       watch.EventType
		name, value string
	}{{watch.Added, "two", "1"}, {watch.Added, "three", "1"}, {watch.Modified, "two", "2"}, {watch.Deleted, "one", "1"}} {
		e := await(t, "an event", w.ResultChan())
		m, ok := e.Object.(*corev1.ConfigMap)
		if !ok || e.Type != want.event || m.Name != want.name || m.Data["value"] != want.value {
			t.Fatalf("got %s %v, want %+v", e.Type, e.Object, want)
		}
	}
	w.Stop()
	w.Stop()
	if _, open := <-w.ResultChan(); open {
		t.Error("the channel stays open after Stop")
	}
}

func TestWatchThatIsRefused(t *testing.T) {
	t.Parallel()
	api, client := startFaulty(t)
	api.refuse <- apierrors.NewResourceExpired("too old resource version: 1 (9)")
	_, err := object.For(client, object.ConfigMap).Watch(t.Context(), "", metav1.ListOptions{ResourceVersion: "1"})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v, want Expired", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"none":         {nil, false},
		"a conflict":   {apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("x")), true},
		"wrapped":      {fmt.Errorf("write: %w", apierrors.NewAlreadyExists(corev1.Resource("pods"), "p")), true},
		"no answer":    {apistatus.FromGRPC(status.FromContextError(context.DeadlineExceeded).Err()), false},
		"asker left":   {apistatus.FromGRPC(status.FromContextError(context.Canceled).Err()), false},
		"server's own": {apierrors.NewInternalError(errors.New("x")), false},
		"no status":    {errors.New("x"), false},
	} {
		if got := object.Refused(tt.err); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
