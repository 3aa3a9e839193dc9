package answer

import (
	"errors"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestNegotiate(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                                    JSON,
		"*/*":                                 JSON,
		"text/html":                           JSON,
		"application/yaml":                    YAML,
		Protobuf:                              Protobuf,
		Protobuf + ",*/*":                     Protobuf,
		"application/json;q=0.5, " + Protobuf: Protobuf,
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json":      JSON,
		Protobuf + ";as=Table;g=meta.k8s.io;v=v1," + Protobuf:                Protobuf,
		"application/vnd.kubernetes.protobuf;stream=watch,application/json":  Protobuf,
		"nonsense;;;, application/yaml;q=0.1":                                YAML,
		"*/*, application/yaml":                                              YAML, // what is named before what is not
		"APPLICATION/YAML":                                                   JSON,
		"application/json;;, application/yaml":                               JSON,
		"application/json;as=,application/yaml":                              JSON,
		"application/cbor, application/vnd.kubernetes.protobuf;q=0.2, a/b;c": Protobuf,
	}
	if got := Negotiate("application/json;q=0.9,application/cbor;q=1", true); got != CBOR {
		t.Errorf("where CBOR is offered: %s", got)
	}
	for accept, want := range tests {
		if got := Negotiate(accept, false); got != want {
			t.Errorf("%q: %s, want %s", accept, got, want)
		}
	}
}

func TestErrorKeepsTheWholeStatus(t *testing.T) {
	t.Parallel()
	want := apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "deployments"}, "d", errors.New("moved on"))
	want.ErrStatus.Details.RetryAfterSeconds = 7
	for _, accept := range []string{JSON, YAML, Protobuf, CBOR} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		Error(w, r.WithContext(WithCBOR(r.Context())), want)
		if w.Code != 409 || w.Header().Get("Content-Type") != accept || w.Header().Get("Retry-After") != "7" {
			t.Errorf("%s: %d %v", accept, w.Code, w.Header())
		}
		decoder := scheme.Codecs.UniversalDeserializer()
		if accept == CBOR {
			decoder = cbor.NewSerializer(scheme.Scheme, scheme.Scheme)
		}
		decoded, _, err := decoder.Decode(w.Body.Bytes(), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", accept, err)
		}
		got, ok := decoded.(*metav1.Status)
		if !ok || got.Message != want.ErrStatus.Message || got.Reason != metav1.StatusReasonConflict || got.Details.Group != "apps" || got.Code != 409 {
			t.Errorf("%s: %+v", accept, decoded)
		}
	}
}

func TestWhatIsNotServedIsNotToldInCBOR(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{unserved: JSON, `namespaces "a" not found`: CBOR} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", CBOR)
		Status(w, r.WithContext(WithCBOR(r.Context())), metav1.Status{Code: 404, Message: message})
		if got := w.Header().Get("Content-Type"); got != want {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
}

func TestRefusedByAuthorization(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`nodes is forbidden: User "a" cannot list resource "nodes" in API group "" at the cluster scope`: "nosniff",
		`forbidden: User "a" cannot get path "/"`:                                                        "nosniff",
		`pods "p" is forbidden: exceeded quota: q`:                                                       "",
	} {
		w := httptest.NewRecorder()
		Status(w, httptest.NewRequest("GET", "/", nil), metav1.Status{Code: 403, Message: message})
		if got := w.Header().Get("X-Content-Type-Options"); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}
