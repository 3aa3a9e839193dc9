package custom

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// definition has two versions; v1 is stored.
func definition(change func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	spec := func(field string) *apiextensionsv1.CustomResourceValidation {
		return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"both": {Type: "string"}, field: {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"x"`)}},
				},
			}},
		}}
	}
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Name, d.UID, d.Generation = "things.example.com", "u", 1
	d.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1", Served: true, Storage: true, Schema: spec("one")}, {Name: "v2", Served: true, Schema: spec("two")},
		},
	}
	if change != nil {
		change(d)
	}
	d.Status.AcceptedNames = d.Spec.Names
	return d
}

func kinds(t testing.TB, cfg Config, d *apiextensionsv1.CustomResourceDefinition) (registry.CustomKind, map[string]*registry.Kind) {
	t.Helper()
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return now }
	}
	made := New(cfg, d, true, false, func() (*apiextensionsv1.CustomResourceDefinition, error) { return d, nil })
	byVersion := map[string]*registry.Kind{}
	for _, k := range made.Versions {
		byVersion[k.GVK.Version] = k
	}
	return made, byVersion
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestVersionsWithoutConversion(t *testing.T) {
	t.Parallel()
	made, v := kinds(t, Config{}, definition(nil))
	if made.Home != v["v1"] || v["v2"].Custom.Remote() {
		t.Error("the storage version is not where objects are kept")
	}
	u := object(t, `{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a","resourceVersion":"7"},"spec":{"both":"b","two":"2","three":"3"}}`)
	unknown, err := v["v2"].Custom.Fit(u, true)
	if err != nil || fmt.Sprint(unknown) != "[spec.three]" {
		t.Errorf("%v %v", unknown, err)
	}
	before := u.DeepCopy()
	value, err := v["v2"].Custom.Encode(context.Background(), u)
	if want := `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"both":"b"}}`; err != nil || string(value) != want {
		t.Errorf("stored %s, wanted %s: %v", value, want, err)
	}
	if fmt.Sprint(before.Object) != fmt.Sprint(u.Object) {
		t.Errorf("encoding changes the object: %v", u.Object)
	}
	for version, want := range map[string]string{"v1": `{"both":"b","one":"x"}`, "v2": `{"both":"b"}`} {
		objects, errs := v[version].Custom.Decode(context.Background(), [][]byte{value, []byte("{"), []byte(`{"apiVersion":"example.com/v9","kind":"Thing"}`)})
		if errs[0] != nil || errs[1] == nil || errs[2] == nil || !strings.Contains(errs[2].Error(), "request to convert CR from an invalid group/version: example.com/v9") {
			t.Fatal(errs)
		}
		got := objects[0].(*unstructured.Unstructured)
		if spec, _ := json.Marshal(got.Object["spec"]); string(spec) != want || got.GetAPIVersion() != "example.com/"+version {
			t.Errorf("%s reads %v", version, got.Object)
		}
	}
}

// doubling is a converter that counts its calls.
type doubling struct{ calls, objects int }

func (d *doubling) Convert(_ context.Context, in []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
	d.calls++
	d.objects += len(in)
	var out []*unstructured.Unstructured
	for _, u := range in {
		u = u.DeepCopy()
		u.SetAPIVersion(to.String())
		out = append(out, u)
	}
	return out, nil
}

func TestVersionsWithWebhook(t *testing.T) {
	t.Parallel()
	converter := &doubling{}
	d := definition(func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	})
	made, v := kinds(t, Config{Converter: func(*apiextensionsv1.CustomResourceDefinition) Converter { return converter }}, d)
	if made.Home.Custom.Remote() || !v["v1"].Custom.Remote() {
		t.Error("the cache would call webhooks")
	}
	old, young := []byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}`), []byte(`{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"b"}}`)
	if _, errs := made.Home.Custom.Decode(context.Background(), [][]byte{old, young}); errs[0] != nil || errs[1] != nil || converter.calls != 0 {
		t.Errorf("%v, %d calls", errs, converter.calls)
	}
	objects, errs := v["v2"].Custom.Decode(context.Background(), [][]byte{old, young, old})
	if errs[0] != nil || converter.calls != 1 || converter.objects != 2 || objects[1].GetName() != "b" || objects[2].(*unstructured.Unstructured).GetAPIVersion() != "example.com/v2" {
		t.Errorf("%v, %d calls for %d objects", errs, converter.calls, converter.objects)
	}
}

func TestNothingIsServedBeforeItIsEstablished(t *testing.T) {
	t.Parallel()
	d := definition(nil)
	made := New(Config{}, d, false, false, func() (*apiextensionsv1.CustomResourceDefinition, error) { return d, nil })
	if len(made.Versions) != 0 || made.Home == nil || made.Home.Prefix("") != "/example.com/things/" {
		t.Errorf("%+v", made)
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	u := object(t, `{"apiVersion":"a/v1","kind":"K","metadata":{"name":"a","creationTimestamp":"2026-01-02T03:00:05Z"},
		"s":"text","i":3,"f":1.5,"b":true,"list":[{"n":"x"},{"n":"y"}],"map":{"k":"v"},"bad":"yesterday","null":null}`)
	for _, c := range []struct {
		kind, path string
		want       any
	}{
		{"string", ".s", "text"}, {"string", ".i", "3"}, {"string", ".missing", nil}, {"string", ".null", "<no value>"}, {"string", ".map", `{"k":"v"}`},
		{"string", ".list[*].n", "x"}, {"string", `.list[?(@.n=="y")].n`, "y"}, {"integer", ".i", int64(3)}, {"integer", ".f", int64(1)}, {"integer", ".s", nil},
		{"number", ".f", 1.5}, {"number", ".i", float64(3)}, {"boolean", ".b", true}, {"boolean", ".s", nil},
		{"date", ".metadata.creationTimestamp", "4m"}, {"date", ".bad", "<invalid>"}, {"date", ".i", nil},
	} {
		got := columnsOf([]apiextensionsv1.CustomResourceColumnDefinition{{Name: "X", Type: c.kind, JSONPath: c.path}})[0].cell(u.Object, now)
		if got != c.want {
			t.Errorf("%s %s is %#v, wanted %#v", c.kind, c.path, got, c.want)
		}
	}
}

func TestDeprecation(t *testing.T) {
	t.Parallel()
	text := "custom text"
	d := definition(func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = append(d.Spec.Versions, *d.Spec.Versions[0].DeepCopy(), *d.Spec.Versions[0].DeepCopy())
		d.Spec.Versions[2].Name, d.Spec.Versions[3].Name = "v1beta1", "v3alpha1"
		for n := range d.Spec.Versions {
			d.Spec.Versions[n].Storage = n == 1
			d.Spec.Versions[n].Deprecated = n != 1
		}
		d.Spec.Versions[2].DeprecationWarning = &text
	})
	_, v := kinds(t, Config{}, d)
	for version, want := range map[string]string{
		"v1": "example.com/v1 Thing is deprecated; use example.com/v2 Thing", "v2": "", "v1beta1": text,
		"v3alpha1": "example.com/v3alpha1 Thing is deprecated; use example.com/v2 Thing",
	} {
		if v[version].Deprecated != want {
			t.Errorf("%s: %q", version, v[version].Deprecated)
		}
	}
}

func TestPublishedSchema(t *testing.T) {
	t.Parallel()
	open := true
	d := definition(func(d *apiextensionsv1.CustomResourceDefinition) {
		root := d.Spec.Versions[0].Schema.OpenAPIV3Schema
		root.Properties["free"] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}
		root.Properties["pod"] = apiextensionsv1.JSONSchemaProps{Type: "object", XEmbeddedResource: true, Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object"}}}
		d.Spec.Versions[1].Schema.OpenAPIV3Schema.XPreserveUnknownFields = &open
		d.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.both"}}
	})
	_, v := kinds(t, Config{}, d)
	for _, version := range []int{2, 3} {
		b, err := json.Marshal(v["v1"].Custom.Schema(version))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`"required":["kind","apiVersion"]`, `"x-kubernetes-group-version-kind":[{"group":"example.com","kind":"Thing","version":"v1"}]`, `"metadata":{`, `.meta.v1.ObjectMeta"`,
		} {
			if !strings.Contains(string(b), want) {
				t.Errorf("version %d lacks %s: %s", version, want, b)
			}
		}
		if !strings.Contains(string(b), `"x-kubernetes-selectable-fields":[{"fieldPath":"spec.both"}]`) {
			t.Errorf("no selectable fields in version %d: %s", version, b)
		}
	}
	if s := v["v2"].Custom.Schema(2); len(s.Properties) > 0 {
		t.Errorf("an open schema closes version 2: %v", s)
	}
	if s := v["v2"].Custom.Schema(3); len(s.Properties) == 0 {
		t.Error("an open schema is empty in version 3")
	}
}
