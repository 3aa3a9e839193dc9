package codec

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

var withCBOR = Offer{CBOR: true}

func TestCBORIsNegotiatedWhereOffered(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]Form{
		"application/cbor": {Media: CBOR},
		"application/json;q=0.9,application/cbor;q=1":                   {Media: CBOR},
		"application/cbor;q=0.1, application/json":                      {},
		"application/cbor;as=Table;v=v1;g=meta.k8s.io,application/yaml": {Media: YAML},
		"application/cbor;as=PartialObjectMetadata;v=v1;g=meta.k8s.io":  {Media: CBOR, As: PartialMetadata},
		"*/*": {Pretty: true},
	} {
		if got, err := withCBOR.Negotiate(accept, map[bool]string{true: "true"}[accept == "*/*"], ""); err != nil || got != want {
			t.Errorf("%q: %+v %v, wanted %+v", accept, got, err, want)
		}
	}
	for offer, want := range map[Offer]string{
		{}:       "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
		withCBOR: "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor",
	} {
		if _, err := offer.Negotiate("text/html", "", ""); err == nil || err.Error() != want {
			t.Errorf("%+v: %v", offer, err)
		}
	}
}

func code(err error) int32 {
	if status, ok := err.(apierrors.APIStatus); ok {
		return status.Status().Code
	}
	return 0
}

func TestBadCBORIsRefused(t *testing.T) {
	t.Parallel()
	res := pods(t)
	twice := "\xa2\x44kind\x43Pod\x44kind\x43Pod"
	whole, err := encodeCBOR(pod("p"))
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"empty":                    "",
		"JSON":                     `{"kind":"Pod"}`,
		"truncated":                string(whole[:len(whole)/2]),
		"followed by more":         string(whole) + "\xf6",
		"a field twice":            twice,
		"no map":                   "\x01",
		"a huge array announced":   "\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",
		"a string without its end": "\xa1\x44kind\x7f",
		"nested too deep":          "\xa1\x44spec" + strings.Repeat("\x81", 12_000) + "\x01",
		"nested millions deep":     strings.Repeat("\x81", 3<<20),
		"endless arrays":           strings.Repeat("\x9f", 3<<20),
		"nested tags":              strings.Repeat("\xd9\xd9\xf7", 1<<20),
		"not a number":             "\xa1\x44spec\xf9\x7e\x00",
		"another kind":             "\xa1\x44kind\x44Node",
	} {
		_, err := Body{Data: []byte(body), ContentType: "application/cbor", Offer: withCBOR}.Into(&corev1.Pod{}, res.GVK)
		if code(err) != http.StatusBadRequest {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ConfigurationCBOR([]byte(body), res.GVK); code(err) != http.StatusBadRequest {
			t.Errorf("%s, applied: %v", name, err)
		}
		if name == "another kind" {
			continue
		}
		if err := withCBOR.Options([]byte(body), "application/cbor", &metav1.DeleteOptions{}); code(err) != http.StatusBadRequest {
			t.Errorf("%s, as options: %v", name, err)
		}
	}
	if _, err := (Body{Data: whole, ContentType: "application/cbor"}).Into(&corev1.Pod{}, res.GVK); code(err) != http.StatusUnsupportedMediaType {
		t.Errorf("where it is not offered: %v", err)
	}
}

// Of the fields that are not known the first is told, by its place.
func TestUnknownFieldsOfCBORAreTold(t *testing.T) {
	t.Parallel()
	body, err := direct.Marshal(map[string]any{"kind": "Pod", "apiVersion": "v1", "spec": map[string]any{"wrong": int64(1), "bad": 2}})
	if err != nil {
		t.Fatal(err)
	}
	b := Body{Data: body, ContentType: "application/cbor", Offer: withCBOR, Validation: Warn}
	if warnings, err := b.Into(&corev1.Pod{}, pods(t).GVK); err != nil || len(warnings) != 1 || warnings[0] != `cbor: found unknown field at map element index 0` {
		t.Errorf("%q, %v", warnings, err)
	}
	b.Validation = Strict
	if _, err := b.Into(&corev1.Pod{}, pods(t).GVK); code(err) != http.StatusBadRequest {
		t.Errorf("strict: %v", err)
	}
}

// What cannot be read of a body is told with the kind that it says it is of, and where that cannot be told with its beginning.
func TestKindsOfBadCBORAreTold(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"\xa2\x44kind\x43Pod\x44spec\xa2\x41a\x01\x41a\x01": `Pod in version "v1" cannot be handled as a Pod: cbor: found duplicate map key "a" at map element index 1`,
		"\xa2\x44kind\x43Pod\x44kind\x43Pod":                `the object provided is unrecognized (must be of type Pod): unable to determine group/version/kind: cbor: found duplicate map key "kind"`,
		"\xa2\x44kind\x44Node\x4aapiVersion\x42v1":          `Node in version "v1" cannot be handled as a Pod: converting (v1.Node) to (core.Pod): unknown conversion`,
		"\xa2\x44kind\x44Nope\x4aapiVersion\x42v1":          `Nope in version "v1" cannot be handled as a Pod: no kind "Nope" is registered for version "v1" in scheme`,
		"\xa2\x44kind\x43Pod\x4aapiVersion\x42v2":           `Pod in version "v2" cannot be handled as a Pod: no kind "Pod" is registered for version "v2" in scheme`,
		"\xa2\x44kind\x44Node\x44spec\x01":                  `Node in version "v1" cannot be handled as a Pod: cbor: cannot unmarshal positive integer into Go struct field v1.Node.spec of type v1.NodeSpec`,
	} {
		_, err := Body{Data: []byte(body), ContentType: "application/cbor", Offer: withCBOR}.Into(&corev1.Pod{}, pods(t).GVK)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// The list that is written by hand is to the byte what the library makes of the whole, but for the length of its array.
func TestListInCBORIsDeterministic(t *testing.T) {
	t.Parallel()
	res := pods(t)
	want := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "9"}}
	one := pod("p")
	one.TypeMeta, one.ResourceVersion = metav1.TypeMeta{}, "5"
	want.Items = append(want.Items, *one)
	theirs, err := encodeCBOR(want)
	if err != nil {
		t.Fatal(err)
	}
	var ours bytes.Buffer
	i := item(t, res, "p", 5)
	if err := List(res, []*Item{i}, want.ListMeta, Form{Media: CBOR}, func(b []byte) error { ours.Write(b); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := bytes.Replace(ours.Bytes(), []byte("\x45items\x9a\x00\x00\x00\x01"), []byte("\x45items\x81"), 1); !bytes.Equal(got, theirs) {
		t.Errorf("%q, the library %q", got, theirs)
	}
	if obj, err := i.Object(); err != nil || obj.GetObjectKind().GroupVersionKind() != res.GVK {
		t.Errorf("the item has become a %v, %v", obj.GetObjectKind(), err)
	}
}

func FuzzCBOR(f *testing.F) {
	seed, err := encodeCBOR(pod("p"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)/2])
	f.Add([]byte("\x9f\x9f\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := &corev1.Pod{}
		want := corev1.SchemeGroupVersion.WithKind("Pod")
		if _, err := (Body{Data: b, ContentType: "application/cbor", Offer: withCBOR}).Into(got, want); err != nil {
			return
		}
		again, out := &corev1.Pod{}, []byte(nil)
		if out, err = encodeCBOR(got); err != nil {
			t.Fatal(err)
		}
		if _, err := (Body{Data: out, ContentType: "application/cbor", Offer: withCBOR}).Into(again, want); err != nil || !equality.Semantic.DeepEqual(got, again) {
			t.Errorf("%v became %v, %v", got, again, err)
		}
	})
}

// In JSON a quantity may be a number, in CBOR it may not.
func TestQuantitiesInCBORAreTexts(t *testing.T) {
	t.Parallel()
	quota := corev1.SchemeGroupVersion.WithKind("ResourceQuota")
	for want, pods := range map[string]any{"": "3", "cannot unmarshal positive integer": 3, "cannot unmarshal primitives": 1.5} {
		body, err := direct.Marshal(map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "spec": map[string]any{"hard": map[string]any{"pods": pods}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Body{Data: body, ContentType: "application/cbor", Offer: withCBOR}.Into(&corev1.ResourceQuota{}, quota)
		if want == "" && err != nil || want != "" && (!apierrors.IsBadRequest(err) || !strings.Contains(err.Error(),
			`ResourceQuota in version "v1" cannot be handled as a ResourceQuota: cbor: `+want+" into Go struct field v1.ResourceQuota.spec of type string")) {
			t.Errorf("%v: %v", pods, err)
		}
	}
}

// Watches are offered as sequences, too.
func TestStreamsOfCBORAreOffered(t *testing.T) {
	t.Parallel()
	for accept, refused := range map[string]error{"text/html": withCBOR.Route("text/html", true), "application/yaml": second(withCBOR.NegotiateStream("application/yaml", ""))} {
		if refused == nil || !strings.HasSuffix(refused.Error(), "application/vnd.kubernetes.protobuf;stream=watch, application/cbor-seq") {
			t.Errorf("%s: %v", accept, refused)
		}
	}
}

func second(_ Form, err error) error { return err }
