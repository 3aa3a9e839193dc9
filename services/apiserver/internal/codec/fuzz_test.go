package codec

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

var podGVK = corev1.SchemeGroupVersion.WithKind("Pod")

// refused fails where an error is none that a client may get for what it sent. Kubernetes has no reason for some of its refusals,
// which are 500s then.
func refused(t *testing.T, err error) {
	t.Helper()
	status := apierrors.APIStatus(nil)
	if err == nil {
		return
	}
	if !errors.As(err, &status) {
		t.Fatalf("%T is no Status: %v", err, err)
	}
	s := status.Status()
	if s.Code < http.StatusBadRequest || s.Code > http.StatusInternalServerError || s.Code == http.StatusInternalServerError && s.Reason != metav1.StatusReasonUnknown {
		t.Fatalf("%d %s: %s", s.Code, s.Reason, s.Message)
	}
}

func FuzzEnvelope(f *testing.F) {
	value, err := seal(podGVK, pod("p"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Add(value[:len(value)/2])
	f.Add([]byte("k8s\x00\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("k8s\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := Body{Data: b, ContentType: Protobuf.String()}.Into(&corev1.Pod{}, podGVK)
		refused(t, err)
	})
}

// FuzzBody holds that bodies are accepted, and understood, as Kubernetes' own serializer does it.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"Pod"}`, `{"metadata":{"name":1}}`, "a: &a [*a]", "{", `{"spec":{"containers":[null]}}`, "- - - -", "\xff", `{"kind":"Secret","apiVersion":"v1"}`,
		`{"apiVersion":"a/b/c"}`, `{"kind":"Pod","apiVersion":"apps/v1"}`, `{"KIND":"Pod"}`, `{"KIND":"A"}`, `{"a":1,"a":2}`, "metadata: {name: a}\nmetadata: {name: b}", `{} {}`, "null", "[]", `{"kind":"Status","apiVersion":"v1"}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","creationTimestamp":"2020-01-01T00:00:00Z"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}}`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, isYAML bool) {
		contentType := "application/json"
		if isYAML {
			contentType = "application/yaml"
		}
		for _, level := range []Validation{Warn, Strict} {
			_, err := Body{Data: b, ContentType: contentType, Validation: level}.Into(&corev1.Pod{}, podGVK)
			refused(t, err)
		}
		got := &corev1.Pod{}
		_, err := Body{Data: b, ContentType: contentType, Validation: Ignore}.Into(got, podGVK)
		refused(t, err)
		if jsonDepth(b) != nil || isYAML && yamlDepth(b) != nil {
			return // Kubernetes recurses
		}
		serializer := kubejson.NewSerializerWithOptions(kubejson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, kubejson.SerializerOptions{Yaml: isYAML})
		model := &corev1.Pod{}
		made, gvk, modelErr := serializer.Decode(b, &podGVK, model)
		if want := modelErr == nil && made == model && *gvk == podGVK; want != (err == nil) {
			t.Fatalf("%v; Kubernetes: %v %v", err, gvk, modelErr)
		}
		got.TypeMeta, model.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
		if err == nil && !equality.Semantic.DeepEqual(got, model) {
			t.Fatalf("got %+v, Kubernetes %+v", got, model)
		}
	})
}

func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`[{"op":"add","path":"/metadata/labels/x","value":"y"}]`, `{"metadata":{"labels":null}}`, `{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}`,
		`{"$patch":"replace"}`, `[{"op":"move","from":"/spec","path":"/spec/x"}]`, `{"spec":{"containers":{}}}`, `null`, `1`, `{"kind":"Secret"}`, `{"apiVersion":"a/b/c"}`,
		`[{"op":"replace","path":"","value":[]}]`, `[{"op":"replace","path":""}]`, `{"spec":{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"name":"c"}]}}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`, `{"spec":{"$retainKeys":["containers"]}}`, `[{"op":"test","path":"/metadata/name","value":"p"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		in := pod("p")
		for _, kind := range []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType} {
			for _, strict := range []bool{false, true} {
				_, err := Patch(kind, patch, in, &corev1.Pod{}, podGVK, nil, strict)
				refused(t, err)
			}
		}
		if !equality.Semantic.DeepEqual(in, pod("p")) {
			t.Error("a patch changed what it was applied to")
		}
	})
}

func FuzzConfiguration(f *testing.F) {
	for _, seed := range []string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}", `{"apiVersion":"v1","kind":"Pod"}`, "", "null", "[]", "text", "{", "a: b: c", "a: 1\na: 2", "a: &x [*x, *y]", "? {a: b}\n: c", "1: 2", "\xff",
		"apiVersion: a/b/c\nkind: Pod", "kind: [Pod]", "apiVersion: 1\nkind: Pod",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, level := range []Validation{Ignore, Warn, Strict} {
			u, problems, err := Configuration(body, podGVK, level)
			refused(t, err)
			if err == nil && u.GroupVersionKind() != podGVK {
				t.Fatalf("accepted as %v", u.GroupVersionKind())
			}
			_ = Warnings(problems)
		}
		_, err := ConfigurationCBOR(body, podGVK)
		refused(t, err)
	})
}

func FuzzOptions(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":5}`, `{"kind":"ConfigMap"}`, `{"apiVersion":"a/b/c"}`, `{"dryRun":"All"}`, `{`, "preconditions: {uid: x}", "k8s\x00", "null",
	} {
		for media := range 4 {
			f.Add([]byte(seed), uint8(media))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, media uint8) {
		o := metav1.DeleteOptions{}
		refused(t, Offer{CBOR: true}.Options(body, Media(media%4).String(), &o))
	})
}
