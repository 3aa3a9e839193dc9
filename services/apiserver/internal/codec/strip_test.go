package codec

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// podContainers leads to spec.containers of a Pod.
var podContainers = []uint64{2, 2}

func TestDecodeWithout(t *testing.T) {
	t.Parallel()
	res := pods(t)
	whole := pod("a")
	value, err := Encode(context.Background(), res.Kind, whole)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeWithout(res.Kind, value, podContainers...)
	if err != nil {
		t.Fatal(err)
	}
	want := whole.DeepCopy()
	want.Spec.Containers = nil
	want.SetGroupVersionKind(res.Kind.GVK)
	if !equality.Semantic.DeepEqual(got, want) || len(whole.Spec.Containers) == 0 {
		t.Errorf("%+v\nwanted %+v", got, want)
	}
	for n := range value {
		// Whatever is cut off is an error or a smaller object, never a panic.
		if obj, err := DecodeWithout(res.Kind, value[:n], podContainers...); err == nil {
			_ = obj.(*corev1.Pod).Name
		}
	}
}

func FuzzStrip(f *testing.F) {
	f.Add([]byte{0x0a, 0x01, 0x01, 0x12, 0x02, 0x12, 0x00, 0x08, 0x01})
	f.Add([]byte{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := strip(b, podContainers)
		if err != nil {
			return
		}
		again, err := strip(out, podContainers)
		if err != nil || string(again) != string(out) {
			t.Errorf("%x: %x, then %x (%v)", b, out, again, err)
		}
	})
}
