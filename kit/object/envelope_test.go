package object

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func samplePod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", ResourceVersion: "5", Labels: map[string]string{"a": "b"}}}
	c := corev1.Container{Name: "c", Image: "registry.example.com/team/application:1.2.3"}
	for e := range 20 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", e), Value: strings.Repeat("v", 80)})
	}
	pod.Spec.Containers = []corev1.Container{c}
	return pod
}

// TestDecodeIsWhatTheSerializerDoes compares with the serializer, which decodes what is unusual.
func TestDecodeIsWhatTheSerializerDoes(t *testing.T) {
	t.Parallel()
	whole, err := Encode(Pod, samplePod())
	if err != nil {
		t.Fatal(err)
	}
	status, err := runtime.Encode(codec, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"a pod": whole, "a status": status, "nothing": nil, "the magic number only": whole[:4], "half a pod": whole[:len(whole)/2],
		"something behind it": append(bytes.Clone(whole), 0xff), "a field that nobody knows": append(bytes.Clone(whole), 9<<3|2, 1, 'x'),
		"no magic number": whole[4:], "a number in the envelope": append(bytes.Clone(whole), 7<<3, 1),
		"a body that is none": append([]byte(magic+"\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x03"), 0x0a, 0x7f, 0x01),
	} {
		want, _, wantErr := codec.Decode(data, &Pod.GVK, Pod.New())
		got, err := Decode(Pod, data)
		if pod, ok := want.(*corev1.Pod); wantErr != nil || !ok {
			if err == nil {
				t.Errorf("%s is decoded, which it was not: %v", name, wantErr)
			}
		} else if err != nil || !equality.Semantic.DeepEqual(got, pod) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestDecodeList(t *testing.T) {
	t.Parallel()
	data, err := runtime.Encode(codec, &corev1.PodList{
		TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Pod{*samplePod(), *samplePod()},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeList(data)
	if list, ok := got.(*corev1.PodList); err != nil || !ok || len(list.Items) != 2 || list.ResourceVersion != "7" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, data[:40], []byte(magic)} {
		if got, err := decodeList(bad); err == nil {
			t.Errorf("%d bytes are %v", len(bad), got)
		}
	}
}

// BenchmarkDecode compares decoding a pod with the serializer.
func BenchmarkDecode(b *testing.B) {
	data, err := Encode(Pod, samplePod())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := Decode(Pod, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("serializer", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, _, err := codec.Decode(data, &Pod.GVK, Pod.New()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
