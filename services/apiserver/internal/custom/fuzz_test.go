package custom

import (
	"context"
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Whatever is in the store or comes from a client is read or refused, and what was read reads the same again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"both":null,"one":1}}`,
		`{"apiVersion":"example.com/v2","kind":"Thing","spec":[]}`, `{"apiVersion":3}`, `{"metadata":[]}`, `[]`, `{"apiVersion":"example.com/v1","spec":{"both":{"a":[[{}]]}}}`,
	} {
		f.Add([]byte(seed))
	}
	d := definition(nil)
	f.Fuzz(func(t *testing.T, value []byte) {
		_, v := kinds(t, Config{}, d)
		for _, k := range v {
			objects, errs := k.Custom.Decode(context.Background(), [][]byte{value})
			if errs[0] != nil {
				continue
			}
			obj := objects[0]
			if _, err := k.Custom.Fit(obj, true); err != nil {
				continue
			}
			k.Default(obj)
			_ = k.ValidateCreate(obj)
			_ = k.Cells(obj)
			stored, err := k.Custom.Encode(context.Background(), obj)
			if err != nil {
				t.Fatal(err)
			}
			if _, errs := k.Custom.Decode(context.Background(), [][]byte{stored}); errs[0] != nil {
				t.Errorf("%s was stored and is not read: %v", stored, errs[0])
			}
		}
	})
}

// What is answered without decoding is what decoding would have led to.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","uid":"u"},"spec":{"both":{"a":"b"},"one":1}}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"managedFields":[{"k:{\"a\"}":{}}]},"spec":{"one":"\\"},"status":{}}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{"größe":"zwölf\n\tzeilen \b\f\r"}},"spec":{"both":{"a":1.5,"b":-1e-9,"c":1e+21,"d":0.1}}}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a\nb":1.0,"b":-0.0,"c":1E5},"spec":{"both":"\u2028\u0001\u003c"}}`,
	} {
		f.Add([]byte(seed))
	}
	_, versions := kinds(f, Config{}, definition(nil))
	v := versions["v1"].Custom
	f.Fuzz(func(t *testing.T, value []byte) {
		got, ok := v.Answer(nil, value, "7")
		if !ok {
			return
		}
		objects, errs := v.Decode(t.Context(), [][]byte{value})
		if errs[0] != nil {
			t.Fatalf("%s cannot be decoded: %v", value, errs[0])
		}
		objects[0].SetResourceVersion("7")
		want, err := json.Marshal(objects[0].(*unstructured.Unstructured).Object)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s\nis answered as\n%s, not\n%s (%v)", value, got, want, err)
		}
	})
}
