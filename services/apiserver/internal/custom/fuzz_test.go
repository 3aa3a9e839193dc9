package custom

import (
	"context"
	"testing"
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
