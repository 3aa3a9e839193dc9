package splice

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

const object = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","labels":{"a":"1","b/c":"2","d~e":"3"},"annotations":{},"none":null},` +
	`"spec":{"list":[{"name":"c","env":[{"name":"A","value":"\"}]{[,"}]},{"name":"d"}],"empty":[],"numbers":[1,-2.5e3,true,null,"x"],"text":"a\\\"\\\\","deep":{"er":{"x":{}}}}}`

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, patch string
		ok          bool
	}{
		{"a field", `[{"op":"replace","path":"/metadata/name","value":"y"}]`, true},
		{"a new field", `[{"op":"add","path":"/metadata/uid","value":"y"}]`, true},
		{"replacing what is not there sets it", `[{"op":"replace","path":"/metadata/uid","value":"y"}]`, true},
		{"into an empty object", `[{"op":"add","path":"/metadata/annotations/a","value":{"b": [1, 2]}}]`, true},
		{"into what was added", `[{"op":"add","path":"/metadata/new","value":{ }},{"op":"add","path":"/metadata/new/a","value":1},{"op":"add","path":"/metadata/new/b","value":2}]`, true},
		{"a name with a slash", `[{"op":"replace","path":"/metadata/labels/b~1c","value":"y"}]`, true},
		{"a name with a tilde", `[{"op":"remove","path":"/metadata/labels/d~0e"}]`, true},
		{"a name that needs escapes", `[{"op":"add","path":"/metadata/labels/\"<\n","value":"y"}]`, true},
		{"the first of three", `[{"op":"remove","path":"/metadata/labels/a"}]`, true},
		{"the middle of three", `[{"op":"remove","path":"/metadata/labels/b~1c"}]`, true},
		{"all of three", `[{"op":"remove","path":"/metadata/labels/b~1c"},{"op":"remove","path":"/metadata/labels/d~0e"},{"op":"remove","path":"/metadata/labels/a"}]`, true},
		{"behind the last", `[{"op":"add","path":"/spec/list/-","value":{"name":"e"}}]`, true},
		{"at the end", `[{"op":"add","path":"/spec/list/2","value":{"name":"e"}}]`, true},
		{"before the first", `[{"op":"add","path":"/spec/list/0","value":{"name":"e"}}]`, true},
		{"before the second", `[{"op":"add","path":"/spec/list/1","value":{"name":"e"}}]`, true},
		{"of an empty list", `[{"op":"add","path":"/spec/empty/0","value":7}]`, true},
		{"behind an empty list", `[{"op":"add","path":"/spec/empty/-","value":7}]`, true},
		{"an element", `[{"op":"replace","path":"/spec/list/1","value":{"name":"e"}}]`, true},
		{"without an element", `[{"op":"remove","path":"/spec/list/0"}]`, true},
		{"without the last element", `[{"op":"remove","path":"/spec/list/1"}]`, true},
		{"without elements", `[{"op":"remove","path":"/spec/list/0"},{"op":"remove","path":"/spec/list/0"}]`, true},
		{"in an element", `[{"op":"replace","path":"/spec/list/0/env/0/value","value":"y"}]`, true},
		{"numbers", `[{"op":"replace","path":"/spec/numbers/1","value":3},{"op":"remove","path":"/spec/numbers/2"}]`, true},
		{"behind escapes", `[{"op":"replace","path":"/spec/deep/er/x","value":[]}]`, true},
		{"a test that holds", `[{"op":"test","path":"/metadata/name","value":"x"},{"op":"replace","path":"/metadata/name","value":"z"}]`, true},
		{"with spaces", "[ {\"op\": \"add\", \"path\": \"/spec/deep/a\", \"value\": {\n \"b\" : [ 1 , 2 ] , \"c\" : { } }},{\"op\":\"remove\",\"path\":\"/spec/deep/a/b/1\"},{\"op\":\"add\",\"path\":\"/spec/deep/a/c/d\",\"value\":1},{\"op\":\"remove\",\"path\":\"/spec/deep/a/b\"}]", true},

		{"no operations", `[]`, true},
		{"a test that fails", `[{"op":"test","path":"/metadata/name","value":"y"}]`, false},
		{"a test that is written otherwise", `[{"op":"test","path":"/spec/numbers/1","value":-2500}]`, false},
		{"the whole", `[{"op":"replace","path":"","value":{}}]`, false},
		{"the kind", `[{"op":"replace","path":"/kind","value":"Node"}]`, false},
		{"no path", `[{"op":"add","value":1}]`, false},
		{"no slash", `[{"op":"add","path":"metadata/name","value":1}]`, false},
		{"a move", `[{"op":"move","from":"/metadata/name","path":"/metadata/uid"}]`, false},
		{"a copy", `[{"op":"copy","from":"/metadata/name","path":"/metadata/uid"}]`, false},
		{"another operation", `[{"op":"put","path":"/metadata/name","value":1}]`, false},
		{"null", `[{"op":"add","path":"/metadata/name","value":null}]`, false},
		{"no value", `[{"op":"add","path":"/metadata/name"}]`, false},
		{"through null", `[{"op":"add","path":"/metadata/none/a","value":1}]`, false},
		{"through what is not there", `[{"op":"add","path":"/metadata/nothing/a","value":1}]`, false},
		{"through a text", `[{"op":"add","path":"/metadata/name/a","value":1}]`, false},
		{"removing what is not there", `[{"op":"remove","path":"/metadata/nothing"}]`, false},
		{"removing behind the end", `[{"op":"remove","path":"/spec/list/2"}]`, false},
		{"replacing behind the end", `[{"op":"replace","path":"/spec/list/2","value":1}]`, false},
		{"adding far behind the end", `[{"op":"add","path":"/spec/list/3","value":1}]`, false},
		{"from the end", `[{"op":"remove","path":"/spec/list/-1"}]`, false},
		{"an odd index", `[{"op":"remove","path":"/spec/list/01"}]`, false},
		{"no index", `[{"op":"remove","path":"/spec/list/a"}]`, false},
		{"an element that is null", `[{"op":"replace","path":"/spec/numbers/3","value":1}]`, false},
		{"a field that is twice there", `[{"op":"add","path":"/metadata/new","value":{"a":1,"a":2}},{"op":"remove","path":"/metadata/new/a"}]`, false},
		{"beside a field with escapes", `[{"op":"add","path":"/metadata/new","value":{"\u0061":1}},{"op":"add","path":"/metadata/new/a","value":2}]`, false},
		{"more than are worth it", "[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/spec/empty/-","value":1},`, maxOperations+1), ",") + "]", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if ok := likeLibrary(t, []byte(object), c.patch); ok != c.ok {
				t.Errorf("applied %t, want %t", ok, c.ok)
			}
		})
	}
}

// likeLibrary fails where the library makes something else of a patch, and reports whether the package applied it.
func likeLibrary(t *testing.T, before []byte, patch string) bool {
	t.Helper()
	operations, err := jsonpatch.DecodePatch([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	kept := string(before)
	got, ok := Apply(before, operations)
	if string(before) != kept {
		t.Fatal("the object has changed")
	}
	if !ok {
		return false
	}
	want, err := operations.Apply(before)
	if err != nil {
		t.Fatalf("applied what the library does not: %v", err)
	}
	var x, y any
	if err := json.Unmarshal(got, &x); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal(want, &y); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(x, y) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	return true
}

// FuzzApply compares with the library, which panics over some patches that are left to it.
func FuzzApply(f *testing.F) {
	f.Add(`{"a":{"b":[1,{"c":"\\"}]}}`, `[{"op":"add","path":"/a/b/1/d","value":{}},{"op":"remove","path":"/a/b/0"}]`)
	f.Add(`{"a":{"":{"":1}}}`, `[{"op":"add","path":"/a//","value":2},{"op":"add","path":"/a/","value":3}]`)
	f.Add(object, `[{"op":"test","path":"/metadata/name","value":"x"},{"op":"replace","path":"/spec/list/1","value":[]}]`)
	f.Fuzz(func(t *testing.T, document, patch string) {
		var whole map[string]any
		if json.Unmarshal([]byte(document), &whole) != nil || whole == nil {
			return
		}
		if _, err := jsonpatch.DecodePatch([]byte(patch)); err != nil {
			return
		}
		before, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		likeLibrary(t, before, patch)
	})
}

// BenchmarkApply sets an annotation of a pod of 3 kB, and adds a container to it, as many webhooks do.
func BenchmarkApply(b *testing.B) {
	var env []map[string]string
	for range 40 {
		env = append(env, map[string]string{"name": "SETTING", "value": strings.Repeat("x", 40)})
	}
	pod, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "env": env}}}})
	if err != nil {
		b.Fatal(err)
	}
	operations, err := jsonpatch.DecodePatch([]byte(`[{"op":"add","path":"/metadata/annotations","value":{"seen":"yes"}},{"op":"add","path":"/spec/containers/-","value":{"name":"d"}}]`))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("spliced", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := Apply(pod, operations); !ok {
				b.Fatal("left to the library")
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := operations.Apply(pod); err != nil {
				b.Fatal(err)
			}
		}
	})
}
