package aggregate

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// swagger is what the tests look at of a document.
type swagger struct {
	Paths       map[string]map[string]any `json:"paths"`
	Definitions map[string]map[string]any `json:"definitions"`
	Parameters  map[string]map[string]any `json:"parameters"`
}

func read(t *testing.T, text []byte, err error) swagger {
	t.Helper()
	var s swagger
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// path describes a GET that answers with a model.
func path(name, model string) string {
	return `"` + name + `":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/` + model + `"}}}}}`
}

const head = `{"swagger":"2.0","info":{"title":"t","version":"v"},`

func TestOwnPathsOfV2(t *testing.T) {
	t.Parallel()
	form := own("g.example.com", "v1")
	got, err := form([]byte(head + `"paths":{` + path("/apis/g.example.com/v1/loads", "Load") + `,` + path("/apis/g.example.com/v10/loads", "Later") + `,` +
		path("/apis/", "Group") + `},"definitions":{"Load":{"type":"object"},"Later":{"type":"object"},"Group":{"type":"object"}}}`))
	s := read(t, got, err)
	if paths, models := slices.Collect(maps.Keys(s.Paths)), slices.Collect(maps.Keys(s.Definitions)); !reflect.DeepEqual(paths, []string{"/apis/g.example.com/v1/loads"}) ||
		!reflect.DeepEqual(models, []string{"Load"}) {
		t.Errorf("%v %v", paths, models)
	}
	if _, err := form([]byte(`{"paths":[]}`)); err == nil {
		t.Error("what is no document is taken")
	}
}

func TestMergeV2(t *testing.T) {
	t.Parallel()
	local := head + `"paths":{` + path("/apis/a/v1/as", "A") + `},"definitions":{"A":{"type":"object","description":"here"},
		"Shared":{"type":"string","x-kubernetes-group-version-kind":[{"group":"a","kind":"S","version":"v1"}]}},
		"parameters":{"pretty":{"name":"pretty","in":"query","type":"string"}}}`
	one := head + `"paths":{` + path("/apis/b/v1/bs", "A") + `,` + path("/apis/b/v1/ss", "Shared") + `,` + path("/apis/a/v1/as", "Mine") + `},"definitions":{
		"A":{"type":"object","description":"there"},"Mine":{"type":"integer"},"Shared":{"type":"string","x-kubernetes-group-version-kind":[{"group":"b","kind":"S","version":"v1"}]}},
		"parameters":{"pretty":{"name":"pretty","in":"query","type":"string"}}}`
	odd := head + `"paths":{` + path("/apis/c/v1/cs", "Shared") + `},"definitions":{"Shared":{"type":"string","x-kubernetes-group-version-kind":["S"]}}}`
	got, err := merge([]byte(local), [][]byte{[]byte(odd), []byte(one)})
	s := read(t, got, err)
	model := func(path string) any {
		return s.Paths[path]["get"].(map[string]any)["responses"].(map[string]any)["200"].(map[string]any)["schema"].(map[string]any)["$ref"]
	}
	if len(s.Paths) != 3 {
		t.Errorf("%v", s.Paths)
	}
	for path, want := range map[string]string{"/apis/a/v1/as": "A", "/apis/b/v1/bs": "A_v2", "/apis/b/v1/ss": "Shared"} {
		if got := model(path); got != "#/definitions/"+want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if s.Definitions["A"]["description"] != "here" || s.Definitions["A_v2"]["description"] != "there" || len(s.Parameters) != 1 {
		t.Errorf("%v %v", s.Definitions, s.Parameters)
	}
	if kinds := s.Definitions["Shared"]["x-kubernetes-group-version-kind"].([]any); len(kinds) != 2 {
		t.Errorf("%v", kinds)
	}
}

func TestConvertedToV3(t *testing.T) {
	t.Parallel()
	if got := converted(document{}); got.body != nil {
		t.Errorf("of nothing: %s", got.body)
	}
	got := converted(newDocument([]byte(head+`"paths":{`+path("/apis/g/v1/loads", "Load")+`},"definitions":{"Load":{"type":"object","description":"a load"}}}`), "x"))
	var v3 struct {
		OpenAPI    string         `json:"openapi"`
		Paths      map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(got.body, &v3); err != nil || !strings.HasPrefix(v3.OpenAPI, "3.") || v3.Paths["/apis/g/v1/loads"] == nil || v3.Components.Schemas["Load"]["description"] != "a load" {
		t.Errorf("%v %s", err, got.body)
	}
	if got.hash == "" || got.etag != "" {
		t.Errorf("%q %q", got.hash, got.etag)
	}
}
