package cache

import (
	"bytes"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/store"
)

func TestAWriterSharesItsItemWithTheCache(t *testing.T) {
	w := setup(t)
	create := func(name string, hand, committed bool) (*Handed, *corev1.Pod, []byte) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
		value, err := codec.Encode(context.Background(), w.kind, pod)
		if err != nil {
			t.Fatal(err)
		}
		var h *Handed
		key := w.kind.Key("ns", name)
		if hand {
			h = w.cache.Hand(w.kind, key, value, pod)
		}
		if !committed {
			value = bytes.Clone(value) // as what comes out of the log
		}
		revision := w.commit(store.Write{Op: store.Create, Key: key, Value: value})
		if h != nil {
			if item := h.Done(w.cache, revision, revision); committed != (item == w.pods.Get(key)) || item.Revision != revision {
				t.Errorf("%s: the writer has %p at %d, the cache %p", name, item, item.Revision, w.pods.Get(key))
			}
		}
		return h, pod, value
	}
	_, pod, _ := create("handed", true, true)
	item := w.pods.Get(w.kind.Key("ns", "handed"))
	if obj, err := item.Object(); err != nil || obj != pod || pod.ResourceVersion != "1" {
		t.Errorf("the cache has decoded %v, %v", obj, err)
	}
	create("not", false, true)
	create("read from the log", true, false)
	if n := len(w.cache.hands.byValue); n != 0 {
		t.Errorf("%d objects are still on their way", n)
	}
	item.Trim()
	if obj, err := item.Object(); err != nil || obj == pod || obj.GetName() != "handed" {
		t.Errorf("after it was trimmed: %v, %v", obj, err)
	}

	failed := w.cache.Hand(w.kind, w.kind.Key("ns", "x"), []byte("value"), pod)
	failed.Drop()
	failed.Drop()
	ahead := w.cache.Hand(w.kind, w.kind.Key("ns", "x"), []byte("another"), &corev1.Pod{})
	if got := ahead.Done(w.cache, 100, 100); got.Revision != 100 || len(w.cache.hands.byValue) != 1 {
		t.Errorf("a write that the cache does not know yet is at %d, %d are on their way", got.Revision, len(w.cache.hands.byValue))
	}
	w.cache.hands.forget(99)
	if w.cache.hands.forget(100); len(w.cache.hands.byValue) != 0 {
		t.Error("what has passed is not forgotten")
	}
	w.cache.Hand(w.kind, w.kind.Key("ns", "x"), nil, pod).Drop() // nothing to find it by
}
