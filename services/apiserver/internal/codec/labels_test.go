package codec

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestStoredLabels compares selecting by the stored bytes with selecting by the decoded object.
func TestStoredLabels(t *testing.T) {
	t.Parallel()
	res, _ := items(t, 1)
	for _, set := range []map[string]string{nil, {}, {"a": "b"}, {"a": ""}, {"app": "web", "tier": "1", "example.com/x": "y"}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", Labels: set, Annotations: map[string]string{"a": "z", "tier": "9"}, Finalizers: []string{"a"}}}
		value, err := Encode(context.Background(), res.Kind, pod)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", "a", "!a", "a=b", "a!=b", "a=", "app in (web,db),tier", "tier notin (1)", "tier>0", "example.com/x=y", "z"} {
			selector, err := labels.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			item := NewItem(res.Kind, res.Kind.Key("n", "p"), value, 1, 1)
			if got, want := item.Matches(selector, nil), selector.Matches(labels.Set(set)); got != want {
				t.Errorf("%q on %v is %v", text, set, got)
			}
			if item.decoded.Load() != nil {
				t.Fatalf("%q has decoded the object", text)
			}
			if selector.Matches(labels.Set(set)) && !item.MayHave(MarksOf(selector)) {
				t.Errorf("%q on %v: the object has the labels and not their marks", text, set)
			}
		}
	}
	broken := NewItem(res.Kind, res.Kind.Key("n", "p"), []byte("nothing"), 1, 1)
	if !broken.Matches(labels.SelectorFromSet(labels.Set{"a": "b"}), nil) {
		t.Error("what cannot be read is left out, and nobody hears of it")
	}
}

// TestMarksSpareMostLooks: marks are worth their while only if few objects have them by chance.
func TestMarksSpareMostLooks(t *testing.T) {
	t.Parallel()
	res, _ := items(t, 1)
	marks := MarksOf(labels.SelectorFromSet(labels.Set{"share": "7", "app": "web"}))
	if marks == 0 || MarksOf(nil) != 0 || MarksOf(labels.Everything()) != 0 {
		t.Fatal("there are marks of nothing, or none of something")
	}
	have := 0
	for n := range 1000 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"share": fmt.Sprint(n % 100), "app": "web", "tier": "x", "track": fmt.Sprint(n)}}}
		value, err := Encode(context.Background(), res.Kind, pod)
		if err != nil {
			t.Fatal(err)
		}
		if NewItem(res.Kind, res.Kind.Key("n", "p"), value, 1, 1).MayHave(marks) {
			have++
		}
	}
	if have < 10 || have > 200 {
		t.Errorf("%d of 1,000 objects have the marks, 10 of them rightly", have)
	}
	if broken := NewItem(res.Kind, res.Kind.Key("n", "p"), []byte("nothing"), 1, 1); !broken.MayHave(marks) {
		t.Error("what cannot be read has no marks")
	}
}

// BenchmarkSelect compares selecting one percent of 1,000 pods by their stored bytes with decoding them for it.
func BenchmarkSelect(b *testing.B) {
	res, all := items(b, 1000)
	selector := labels.SelectorFromSet(labels.Set{"app": "other"})
	b.Run("stored", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			for _, i := range all {
				i.Matches(selector, nil)
			}
		}
	})
	b.Run("decoded", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			for _, i := range all {
				obj, err := Decode(res.Kind, i.Value())
				if err != nil {
					b.Fatal(err)
				}
				selector.Matches(labels.Set(obj.GetLabels()))
			}
		}
	})
}
