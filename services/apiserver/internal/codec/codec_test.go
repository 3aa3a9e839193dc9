package codec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/registry"
)

func pods(t testing.TB) *registry.Resource {
	kind := &registry.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Singular: "pod", Namespaced: true,
		New: func() registry.Object { return &corev1.Pod{} }, NewList: func() runtime.Object { return &corev1.PodList{} },
	}
	table, err := registry.NewTable([]*registry.Kind{kind})
	if err != nil {
		t.Fatal(err)
	}
	return table.FindKind(kind.GVK)
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"a": "<b>", "c": "d"}, UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func item(t testing.TB, res *registry.Resource, name string, revision int64) *Item {
	value, err := Encode(context.Background(), res.Kind, pod(name))
	if err != nil {
		t.Fatal(err)
	}
	return NewItem(res.Kind, res.Kind.Key("ns", name), value, revision, revision)
}

func TestRevisionZeroIsNone(t *testing.T) {
	res := pods(t)
	b, err := item(t, res, "p", 0).Encoded(res, Form{Media: Protobuf})
	if err != nil {
		t.Fatal(err)
	}
	e, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := got.Unmarshal(e.raw); err != nil || got.ResourceVersion != "" || got.Name != "p" {
		t.Errorf("%q has resourceVersion %q, %v", got.Name, got.ResourceVersion, err)
	}
}

// TestRevisionsAreAppended checks the one trick of this package: a stored body gets its resourceVersion by appending.
func TestRevisionsAreAppended(t *testing.T) {
	res := pods(t)
	for _, revision := range []int64{1, 9, 10, 12345, 1 << 62} {
		want := pod("p")
		want.ResourceVersion = strconv.FormatInt(revision, 10)
		i := item(t, res, "p", revision)
		if n := len(revisionSuffix(nil, revision)); n != revisionSuffixSize(revision) {
			t.Errorf("the suffix of %d has %d bytes, not %d", revision, n, revisionSuffixSize(revision))
		}
		b, err := i.Encoded(res, Form{Media: Protobuf})
		if err != nil {
			t.Fatal(err)
		}
		got := &corev1.Pod{}
		if _, err := (Body{Data: b, ContentType: Protobuf.String()}).Into(got, res.GVK); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("protobuf at %d: %v", revision, got)
		}
		if b, err = i.Encoded(res, Form{}); err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(want)
		if err != nil || string(b) != string(plain)+"\n" {
			t.Errorf("JSON at %d: %s, wanted %s", revision, b, plain)
		}
	}
}

func TestListsAreWhole(t *testing.T) {
	res := pods(t)
	var items []*Item
	var want corev1.PodList
	remaining := int64(7)
	want.ListMeta = metav1.ListMeta{ResourceVersion: "99", Continue: "x<y", RemainingItemCount: &remaining}
	for n := range 2000 { // more than a piece
		items = append(items, item(t, res, fmt.Sprintf("p%d", n), int64(n+1)))
		p := pod(fmt.Sprintf("p%d", n))
		p.ResourceVersion = strconv.Itoa(n + 1)
		p.TypeMeta = metav1.TypeMeta{}
		want.Items = append(want.Items, *p)
	}
	for _, n := range []int{0, 1, 2000} {
		want := want
		want.Items = want.Items[:n]
		for _, form := range []Form{{}, {Media: Protobuf}, {Media: YAML}, {Media: CBOR}, {Pretty: true}} {
			var body bytes.Buffer
			err := List(res, items[:n], want.ListMeta, form, func(piece []byte) error {
				if len(piece) > 1<<20 {
					t.Errorf("a piece has %d bytes", len(piece))
				}
				body.Write(piece)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var got corev1.PodList
			if _, err := (Body{Data: body.Bytes(), ContentType: form.ContentType(), Offer: Offer{CBOR: true}}).Into(&got, res.GVK.GroupVersion().WithKind("PodList")); err != nil {
				t.Fatal(err)
			}
			got.TypeMeta = metav1.TypeMeta{}
			if len(got.Items) == 0 {
				got.Items = want.Items
			}
			if !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("%d items as %+v differ", n, form)
			}
		}
	}
}

func TestPartialMetadata(t *testing.T) {
	res := pods(t)
	i := item(t, res, "p", 5)
	for _, media := range []Media{JSON, Protobuf, CBOR} {
		b, err := i.Encoded(res, Form{Media: media, As: PartialMetadata})
		if err != nil {
			t.Fatal(err)
		}
		got := &metav1.PartialObjectMetadata{}
		if _, err := (Body{Data: b, ContentType: media.String(), Offer: Offer{CBOR: true}}).Into(got, partialKind(false)); err != nil {
			t.Fatal(err)
		}
		want := pod("p").ObjectMeta
		want.ResourceVersion = "5"
		if !equality.Semantic.DeepEqual(got.ObjectMeta, want) {
			t.Errorf("%s: %+v", media, got)
		}
	}
}

func TestTrimForgetsNothing(t *testing.T) {
	res := pods(t)
	i := item(t, res, "p", 5)
	before, err := i.Encoded(res, Form{})
	if err != nil {
		t.Fatal(err)
	}
	i.Trim()
	after, err := i.Encoded(res, Form{})
	if err != nil || string(before) != string(after) {
		t.Errorf("%s became %s, %v", before, after, err)
	}
}

func BenchmarkList10000(b *testing.B) {
	res := pods(b)
	var items []*Item
	for n := range 10_000 {
		items = append(items, item(b, res, fmt.Sprintf("p%d", n), int64(n+1)))
	}
	for _, form := range []Form{{}, {Media: Protobuf}} {
		b.Run(form.ContentType()[12:], func(b *testing.B) {
			for b.Loop() {
				size := 0
				if err := List(res, items, metav1.ListMeta{ResourceVersion: "1"}, form, func(p []byte) error { size += len(p); return nil }); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size))
			}
		})
	}
}
