package codec

import (
	"reflect"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

var flows = []string{
	`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b","c":"2001-01-01","d":"yes","e":"<<"}}`, `{"a":1,"b":[-1,true,null,{}],"c":[]}`, `{"a":-0}`, `{"a":1.5}`, `{"a":1e3}`,
	`{"<<":{"a":1}}`, "{\"a\"\n:1}", "{\"a\":\n1,\n \"b\" : \"x\"\n}\n", "{\t\"a\":1}", `{"a":"\/"}`, `{"a":"\u0041"}`, `{"a":"x\n\t\"\\y"}`, `{"a":"ä"}`, "{\"a\":\"\x7f\"}",
	`{"` + strings.Repeat("k", 1100) + `":1}`, `{"a":12345678901234567890}`, `{"a":1,"a":2}`, `{"a":"  two  spaces "}`, `{"a":"# no comment"}`, `{"a":"x: y"}`, `{"a":"---"}`,
	`{"a":""}`, `{"":1}`, `{"a":"!!int 3"}`, `{"a":"&x *y"}`, `[1]`, `"x"`, ``, `{} {}`, `{"a":{"b":{"c":["d","e"]}}}`, "{\"a\":\"x\" ,\n\"b\":2}", "{\"a\" \n :1}", `{"a" :1}`,
	`{"null":null,"true":true,"1":1}`, `{"a":[ ]}`, `{"a":{ }}`, "{\"a\":1}\n\n", "\n{\"a\":1}", `{"a":00}`, `{"a":"'"}`, `{"=":1,"?":2,"-":3}`,
}

// asYAML holds what is read as JSON against what YAML makes of it.
func asYAML(t *testing.T, body []byte) bool {
	got, ok := flow(body)
	if !ok {
		return false
	}
	want := map[string]any{}
	data, err := yaml.YAMLToJSONStrict(body)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &want)
	}
	if err != nil {
		t.Fatalf("%q: read, although %v", body, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: %#v, want %#v", body, got, want)
	}
	return true
}

func TestFlowIsYAML(t *testing.T) {
	t.Parallel()
	read := 0
	for _, body := range flows {
		if asYAML(t, []byte(body)) {
			read++
		}
	}
	if read < 15 {
		t.Errorf("only %d of %d bodies are read as JSON", read, len(flows))
	}
}

func FuzzFlowIsYAML(f *testing.F) {
	for _, body := range flows {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { asYAML(t, body) })
}
