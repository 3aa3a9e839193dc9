package webhooks

import (
	"encoding/json"
	"reflect"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// reviewOf is a review of a user of whom somebody says what could be taken for a place of the objects.
func reviewOf() *admissionv1.AdmissionReview {
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u", Name: `"object":null,"oldObject":null`, Operation: admissionv1.Create, DryRun: new(bool),
			UserInfo: authenticationv1.UserInfo{Username: "<&>", Extra: map[string]authenticationv1.ExtraValue{"object": nil, "oldObject": nil}},
			Options:  runtime.RawExtension{Object: &metav1.CreateOptions{FieldManager: `"object":null,"oldObject":null`}},
		},
	}
}

// TestEncode holds the encoding against that of encoding/json.
func TestEncode(t *testing.T) {
	t.Parallel()
	one, other := []byte(`{"kind":"Pod","metadata":{"name":"a \u003c b"}}`), []byte(`{}`)
	for _, c := range []struct {
		name        string
		object, old []byte
	}{{"none", nil, nil}, {"a new one", one, nil}, {"one that goes", nil, one}, {"both", one, other}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			whole := reviewOf()
			whole.Request.Object.Raw, whole.Request.OldObject.Raw = c.object, c.old
			want, err := json.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			got, err := encode(reviewOf(), c.object, c.old)
			if err != nil || string(got) != string(want) {
				t.Errorf("got %s, %v\nwant %s", got, err, want)
			}
		})
	}
	if _, err := encode(&admissionv1.AdmissionReview{}, one, nil); err == nil {
		t.Error("encoded a review of no request")
	}
}

// TestRead holds what is read directly against the decoder's outcome.
func TestRead(t *testing.T) {
	t.Parallel()
	r := newReviews()
	for _, body := range []string{
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"patch":"W10=","patchType":"JSONPatch","warnings":["w"],"status":{"code":403}}}`,
		` {"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":{"kind":"Pod","apiVersion":"v1"}},"response":{"Allowed":true,"unknown":1}} `,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"allowed":true},"response":{"uid":"v"}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"allowed":"yes"}}`,
		`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"allowed":true}}`,
		`{"apiVersion":"v1","kind":"Pod"}`, `{"response":{"allowed":true}}`, `{}`, `[]`, `null`, `x`, `{} {}`,
		"apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nresponse: {uid: u, allowed: true}\n",
	} {
		want := &admissionv1.AdmissionReview{}
		wantErr := runtime.DecodeInto(r.decoder, []byte(body), want)
		got, err := r.read([]byte(body), "v1")
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Errorf("%s: %v, want %v", body, err, wantErr)
		}
		if err == nil && (!reflect.DeepEqual(got.Response, want.Response) || got.TypeMeta != want.TypeMeta) {
			t.Errorf("%s:\n%+v\nwant\n%+v", body, got, want)
		}
	}
}

// BenchmarkEncode encodes a review of an object of 3 kB.
func BenchmarkEncode(b *testing.B) {
	object, err := json.Marshal(map[string]any{"kind": "Pod", "data": make([]string, 1000)})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("around the object", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encode(reviewOf(), object, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			whole := reviewOf()
			whole.Request.Object.Raw = object
			if _, err := json.Marshal(whole); err != nil {
				b.Fatal(err)
			}
		}
	})
}
