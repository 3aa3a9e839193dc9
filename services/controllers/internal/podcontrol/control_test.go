package podcontrol

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
)

var kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// podOf is a pod that the owner of a uid controls.
func podOf(name string, owner types.UID) *corev1.Pod {
	o := &metav1.ObjectMeta{Name: "web", UID: owner}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, kind)},
	}}
}

// TestNameIsTaken: a pod that exists before the cache shows it is awaited where it is the owner's, and is an error where it is not.
func TestNameIsTaken(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		of      types.UID
		awaited bool
	}{
		"by itself":       {"set", true},
		"by someone else": {"another", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := objecttest.Start(t)
			env := &controller.Env{Client: client, Informers: object.NewInformers(client), Clock: clock.RealClock{}} // whose caches never fill
			c := New(env, kind, record.NewFakeRecorder(10))
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set"}}
			if _, err := object.For(client, object.Pod).Create(t.Context(), podOf("web-0", tt.of)); err != nil {
				t.Fatal(err)
			}
			err := c.Create(t.Context(), set, []string{"web-0"}, func(name string) *corev1.Pod { return podOf(name, "set") }, false)
			if (err == nil) != tt.awaited || c.Settled(set.UID) == tt.awaited {
				t.Errorf("error %v, settled %t", err, c.Settled(set.UID))
			}
		})
	}
}

// TestAnEndingProcessTellsNothing: that a creation was broken off is no news about its owner.
func TestAnEndingProcessTellsNothing(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	env := &controller.Env{Client: client, Informers: object.NewInformers(client), Clock: clock.RealClock{}}
	events := record.NewFakeRecorder(10)
	c := New(env, kind, events)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set"}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Create(ctx, set, []string{"web-0"}, func(name string) *corev1.Pod { return podOf(name, "set") }, false); err == nil {
		t.Fatal("a creation succeeds though its context has ended")
	}
	select {
	case e := <-events.Events:
		t.Errorf("told of: %s", e)
	default:
	}
}
