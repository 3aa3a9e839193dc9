package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/spec3"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/review"
)

func documents(t *testing.T) *Documents {
	table, err := registry.NewTable(kind.All(kind.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	return New(table, review.Resources(), "1.36")
}

func TestEveryDocumentIsWhole(t *testing.T) {
	d := documents(t)
	for _, accept := range []string{"application/json", protobufV2} {
		body, media, err := d.Document("/openapi/v2", "", accept)
		if err != nil || media != accept || len(body) < 10_000 {
			t.Fatalf("/openapi/v2 as %s: %d bytes of %s, %v", accept, len(body), media, err)
		}
	}
	body, _, err := d.Document("/openapi/v3", "", "")
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(body, &index); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"api/v1", "apis/apps/v1", "apis/extensions/v1beta1", "apis/coordination.k8s.io/v1"} {
		if _, ok := index.Paths[want]; !ok {
			t.Errorf("the index lacks %s", want)
		}
	}
	for name := range index.Paths {
		body, _, err := d.Document("/openapi/v3/"+name, "", "application/json")
		if err != nil {
			t.Fatal(err)
		}
		var doc spec3.OpenAPI
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for path, item := range doc.Paths.Paths {
			if item.Patch == nil || item.Patch.Extensions["x-kubernetes-action"] == "connect" {
				continue
			}
			found := false
			for _, p := range item.Patch.Parameters {
				found = found || p.Name == "fieldValidation" && p.In == "query"
			}
			if !found {
				t.Errorf("%s: PATCH %s has no fieldValidation", name, path)
			}
		}
	}
}

func TestNoReferenceDangles(t *testing.T) {
	d := documents(t)
	for _, path := range []string{"/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"} {
		body, _, err := d.Document(path, "", "")
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Fatal(err)
		}
		schemas, _ := doc["definitions"].(map[string]any)
		prefix := "#/definitions/"
		if schemas == nil {
			components, _ := doc["components"].(map[string]any)
			schemas, _ = components["schemas"].(map[string]any)
			prefix = "#/components/schemas/"
		}
		var walk func(any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				if ref, ok := v["$ref"].(string); ok && strings.HasPrefix(ref, "#/parameters/") {
					if parameters, _ := doc["parameters"].(map[string]any); parameters[strings.TrimPrefix(ref, "#/parameters/")] == nil {
						t.Errorf("%s: %s leads nowhere", path, ref)
					}
				} else if ok {
					if len(ref) <= len(prefix) || schemas[ref[len(prefix):]] == nil {
						t.Errorf("%s: %s leads nowhere", path, ref)
					}
				}
				for _, x := range v {
					walk(x)
				}
			case []any:
				for _, x := range v {
					walk(x)
				}
			}
		}
		walk(doc)
	}
}
