package codec

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]Form{
		"":                      {},
		"*/*":                   {},
		"application/json":      {},
		"application/yaml":      {Media: YAML},
		"application/json, */*": {},
		"text/html, */*;q=0.1":  {},
		"application/cbor, application/json;q=0.9":                                        {},
		"application/json;q=0.5, application/vnd.kubernetes.protobuf":                     {Media: Protobuf},
		"application/vnd.kubernetes.protobuf;q=0.1, application/yaml;q=0.2":               {Media: YAML},
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json":                   {As: Table},
		"application/json;as=Table;v=v1beta1;g=meta.k8s.io":                               {As: Table, Beta: true},
		"application/json;as=Table;v=v9;g=meta.k8s.io,application/json":                   {},
		"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io, */*":            {},
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io": {Media: Protobuf, As: PartialMetadata},
		"application/json;pretty=1":                                                       {Pretty: true},
	} {
		if got, err := (Offer{}).Negotiate(accept, "", ""); err != nil || got != want {
			t.Errorf("%q: %+v %v, wanted %+v", accept, got, err, want)
		}
	}
	for _, accept := range []string{"text/html", "application/cbor", "application/json;as=Other;v=v1;g=meta.k8s.io"} {
		_, err := Offer{}.Negotiate(accept, "", "")
		if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code != http.StatusNotAcceptable {
			t.Errorf("%q: %v", accept, err)
		}
	}
}

func FuzzNegotiate(f *testing.F) {
	f.Add("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5")
	f.Add(";;;,,,=\"")
	f.Fuzz(func(t *testing.T, accept string) {
		form, err := Offer{}.Negotiate(accept, "", "")
		if err == nil && form.As == Table && form.Media == Protobuf {
			t.Error("a table has no protobuf form")
		}
	})
}

func TestNegotiateUntabled(t *testing.T) {
	t.Parallel()
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for accept, want := range map[string]string{
		"": "application/json", "application/json": "application/json", table: "406", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io": "application/json",
		table + ",application/json": "application/json", table + ", application/yaml": "application/yaml", "text/html": "406",
	} {
		form, err := Offer{}.NegotiateUntabled(accept, "")
		got := form.ContentType()
		if err != nil {
			got = "406"
		}
		if got != want || err == nil && form.As == Table {
			t.Errorf("%s: %s, %v, want %s", accept, got, err, want)
		}
	}
}
