package plain_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	kjson "sigs.k8s.io/json"

	"howdah.dev/services/apiserver/internal/plain"
)

var texts = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":-1,"b":0,"c":0.5,"d":-0.5e3,"e":1E2,"f":9223372036854775807,"g":9223372036854775808}`,
	`{"a":-0}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":1e}`, `{"a":1-2}`, `{"a":1e400}`, `{"a":-0.0}`, `{"a":1.0}`, `{"a":0e1}`,
	`{"a":null,"b":true,"c":false,"d":[],"e":[1,"x",{}],"f":{}}`, `{"a":nul}`, `{"a":[1,]}`, `{"a":1,}`, `{"a" : [ 1 , 2 ] }`, `{"a":1}x`, `{"a":1} {}`,
	`{"a":1,"a":2}`, `{"a":"\u00e4\n\"\\\/"}`, `{"\u0061":1}`, `{"a":"\ud83d\ude00 \ud83d"}`, `{"a":"ä< > & ` + "\u2028" + `"}`, "{\"a\":\"\x01\"}", "{\"a\":\"\x7f\xff\"}",
	`[]`, `null`, `"x"`, ``, `{`, `{"a"`, `{"a":`, `{"a":"`, `{"a":"\`, `{"a":"\x"}`, `{a:1}`, `{"":""}`, "\ufeff{}", `{"b":{"z":1,"y":[{"q":1,"p":2}]},"a":0}`,
}

// agree holds what is read and written against the libraries.
func agree(t *testing.T, data []byte) {
	want := map[string]any{}
	problems, err := kjson.UnmarshalStrict(data, &want)
	got, ok := plain.Decode(data)
	if !ok {
		return
	}
	if err != nil || len(problems) > 0 {
		t.Fatalf("%q: read, although %v, %v", data, err, problems)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: %#v, want %#v", data, got, want)
	}
	if !plain.Equal(got, want) {
		t.Fatalf("%q does not equal itself", data)
	}
	for _, html := range []bool{false, true} {
		written, ok := plain.Append([]byte("before "), got, html)
		if !ok {
			t.Fatalf("%q cannot be written", data)
		}
		var buffer bytes.Buffer
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(html)
		if err := encoder.Encode(want); err != nil {
			t.Fatal(err)
		}
		if want := "before " + string(bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))); string(written) != want {
			t.Fatalf("%s, want %s", written, want)
		}
	}
}

func TestAsTheLibraries(t *testing.T) {
	t.Parallel()
	read := 0
	for _, text := range texts {
		agree(t, []byte(text))
		if _, ok := plain.Decode([]byte(text)); ok {
			read++
		}
	}
	if read < 12 {
		t.Errorf("only %d of %d texts are read here", read, len(texts))
	}
}

func TestUnusualTrees(t *testing.T) {
	t.Parallel()
	for _, tree := range []any{1, map[string]any{"a": int32(1)}, []any{json.Number("1")}, map[string]any{"a": map[string]string{}}} {
		if b, ok := plain.Append(nil, tree, false); ok {
			t.Errorf("%#v is written as %s", tree, b)
		}
		if plain.Equal(tree, tree) {
			t.Errorf("%#v equals something", tree)
		}
	}
	for _, pair := range [][2]any{
		{int64(1), float64(1)}, {map[string]any(nil), map[string]any{}}, {[]any(nil), []any{}}, {nil, false}, {"", nil},
		{map[string]any{"a": nil}, map[string]any{"b": nil}}, {[]any{int64(1)}, []any{int64(1), int64(2)}},
	} {
		if plain.Equal(pair[0], pair[1]) || plain.Equal(pair[1], pair[0]) {
			t.Errorf("%#v equals %#v", pair[0], pair[1])
		}
	}
	for tree, want := range map[string]any{"null": []any(nil), `{"a":null}`: map[string]any{"a": map[string]any(nil)}} {
		if b, ok := plain.Append(nil, want, false); !ok || string(b) != tree {
			t.Errorf("%#v: %s, want %s", want, b, tree)
		}
	}
}

func FuzzAsTheLibraries(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, data) })
}
