package codec

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
)

// items are n stored pods of about 3 kB.
func items(tb testing.TB, n int) (*registry.Resource, []*Item) {
	table, err := registry.NewTable(kind.All(kind.Config{Now: time.Now}))
	if err != nil {
		tb.Fatal(err)
	}
	res := table.Find(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	made := make([]*Item, n)
	for i := range made {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i), Namespace: "n", UID: "u", Labels: map[string]string{"app": "bench"}}}
		c := corev1.Container{Name: "c", Image: "registry.example.com/team/application:1.2.3"}
		for e := range 20 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", e), Value: strings.Repeat("v", 80)})
		}
		pod.Spec.Containers = []corev1.Container{c}
		value, err := Encode(context.Background(), res.Kind, pod)
		if err != nil {
			tb.Fatal(err)
		}
		made[i] = NewItem(res.Kind, res.Kind.Key("n", pod.Name), value, int64(i+1), int64(i+1))
	}
	return res, made
}

// encoderOf is client-go's own encoder, as the alternative to the cached bytes.
func encoderOf(tb testing.TB, media string) runtime.Encoder {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		tb.Fatal("no encoder of ", media)
	}
	return scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
}

var forms = map[string]struct {
	media string
	form  Form
}{
	"protobuf": {runtime.ContentTypeProtobuf, Form{Media: Protobuf}},
	"json":     {runtime.ContentTypeJSON, Form{Media: JSON}},
}

// TestListIsWhatAnEncoderWouldWrite holds that the list that is put together from bytes decodes to the same objects.
func TestListIsWhatAnEncoderWouldWrite(t *testing.T) {
	res, all := items(t, 300)
	for name, f := range forms {
		var body []byte
		err := List(res, all, metav1.ListMeta{ResourceVersion: "300"}, f.form, func(piece []byte) error {
			body = append(body, piece...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		list, ok := obj.(*corev1.PodList)
		if !ok || len(list.Items) != len(all) || list.ResourceVersion != "300" {
			t.Fatalf("%s: %T of %d", name, obj, len(list.Items))
		}
		for i := range list.Items {
			want, err := all[i].Object()
			if err != nil {
				t.Fatal(err)
			}
			got := &list.Items[i]
			if got.Name != want.GetName() || got.ResourceVersion != want.GetResourceVersion() || len(got.Spec.Containers[0].Env) != 20 {
				t.Fatalf("%s: item %d is %s of %s", name, i, got.Name, got.ResourceVersion)
			}
		}
	}
}

// BenchmarkList compares a list of 1,000 pods from their cached bytes with one that is encoded from decoded objects.
func BenchmarkList(b *testing.B) {
	res, all := items(b, 1000)
	decoded := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1000"}}
	for _, i := range all {
		obj, err := i.Copy()
		if err != nil {
			b.Fatal(err)
		}
		decoded.Items = append(decoded.Items, *obj.(*corev1.Pod))
	}
	for name, f := range forms {
		b.Run(name+"/cached", func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if err := List(res, all, metav1.ListMeta{ResourceVersion: "1000"}, f.form, func([]byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
		encoder := encoderOf(b, f.media)
		b.Run(name+"/encoded", func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := runtime.Encode(encoder, decoded); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFanOut compares an event's encoding for 1,000 watchers, made once, with one a watcher.
func BenchmarkFanOut(b *testing.B) {
	const watchers = 1000
	res, all := items(b, 1)
	for name, f := range forms {
		b.Run(name+"/once", func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				all[0].Trim() // a new event
				for range watchers {
					if _, err := all[0].Encoded(res, f.form); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		encoder := encoderOf(b, f.media)
		obj, err := all[0].Object()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/each", func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				for range watchers {
					if _, err := runtime.Encode(encoder, obj); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
