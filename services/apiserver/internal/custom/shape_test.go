package custom

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/codec"
)

// author draws schemas, and objects that mostly agree with them.
type author struct{ *rand.Rand }

func (a author) one(of ...string) string { return of[a.Intn(len(of))] }
func (a author) often() bool             { return a.Intn(12) > 0 }
func (a author) seldom() bool            { return a.Intn(6) == 0 }

func (a author) schema(depth int) map[string]any {
	if depth == 0 {
		depth = 1
	}
	kinds := []string{"string", "integer", "number", "boolean", "int-or-string", "string", "integer"}
	if depth < 4 {
		kinds = append(kinds, "object", "object", "array", "values", "any", "embedded")
	}
	s := map[string]any{}
	if a.seldom() {
		s["nullable"] = true
	}
	switch kind := a.one(kinds...); kind {
	case "string":
		s["type"] = "string"
		switch a.Intn(8) {
		case 0:
			s["enum"] = []any{"a", "b", "abc"}
		case 1:
			s["pattern"] = "^[a-c]*$"
		case 2:
			s["minLength"], s["maxLength"] = 1, 4
		case 3:
			s["format"] = a.one("date-time", "date", "uuid", "ipv4", "unheard-of", "duration", "byte")
		case 4:
			s["default"] = "b"
		}
	case "integer", "number":
		s["type"] = kind
		switch a.Intn(8) {
		case 0:
			s["minimum"], s["maximum"] = 0, 5
		case 1:
			s["minimum"], s["exclusiveMinimum"] = 0, true
		case 2:
			s["format"] = a.one("int32", "int64", "float", "double")
		case 3:
			s["multipleOf"] = 2
		case 4:
			s["enum"] = []any{1, 2, 3}
		case 5:
			s["default"] = 2
		}
	case "boolean":
		s["type"] = "boolean"
	case "int-or-string":
		s["x-kubernetes-int-or-string"] = true
		switch a.Intn(3) {
		case 0:
			s["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
		case 1:
			s["pattern"] = "^[0-9]+%$"
		}
	case "any":
		s["x-kubernetes-preserve-unknown-fields"] = true
		if a.seldom() {
			s["type"] = "object"
		}
	case "embedded":
		s["type"], s["x-kubernetes-embedded-resource"], s["x-kubernetes-preserve-unknown-fields"] = "object", true, true
	case "values":
		s["type"], s["additionalProperties"] = "object", a.schema(depth+1)
		if a.seldom() {
			s["maxProperties"] = 2
		}
	case "array":
		s["type"] = "array"
		a.list(s, depth)
	case "object":
		s["type"] = "object"
		fields := map[string]any{}
		for _, name := range []string{"a", "b", "c", "d"} {
			if a.Intn(3) > 0 {
				fields[name] = a.schema(depth + 1)
			}
		}
		s["properties"] = fields
		if a.seldom() {
			s["required"] = []any{"a"}
		}
		if a.seldom() {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
		if a.seldom() {
			s["oneOf"] = []any{map[string]any{"required": []any{"a"}}, map[string]any{"required": []any{"b"}}}
		}
		if a.seldom() {
			s["default"] = map[string]any{}
		}
	}
	return s
}

func (a author) list(s map[string]any, depth int) {
	switch a.Intn(4) {
	case 0:
		s["x-kubernetes-list-type"], s["items"] = "set", map[string]any{"type": a.one("string", "integer", "number", "boolean")}
	case 1:
		s["x-kubernetes-list-type"], s["x-kubernetes-list-map-keys"] = "map", []any{"k"}
		key := map[string]any{"type": a.one("string", "integer")}
		items := map[string]any{"type": "object", "properties": map[string]any{"k": key, "v": a.schema(depth + 1)}}
		if a.seldom() {
			key["type"], key["default"] = "string", "x"
		} else {
			items["required"] = []any{"k"}
		}
		s["items"] = items
	default:
		s["items"] = a.schema(depth + 1)
		if a.seldom() {
			s["minItems"], s["maxItems"] = 1, 3
		}
	}
}

// value draws one for a schema, and now and then any other.
func (a author) value(s map[string]any, depth int) any {
	if !a.often() && a.seldom() {
		return a.other(depth)
	}
	if s["nullable"] == true && a.seldom() {
		return nil
	}
	switch s["type"] {
	case "string":
		return a.one("a", "b", "abc", "c", "", "ä", "abcde", "2026-01-02T03:04:05Z", "2026-01-02", "1.2.3.4", "5s")
	case "integer":
		return int64(a.Intn(8) - 1)
	case "number":
		return []any{int64(2), 0.5, -1.0, int64(1) << 60, 1e300}[a.Intn(5)]
	case "boolean":
		return a.Intn(2) == 0
	case "array":
		items := []any{}
		for range a.Intn(4) {
			items = append(items, a.value(s["items"].(map[string]any), depth+1))
		}
		return items
	case "object":
		object := map[string]any{}
		if values, ok := s["additionalProperties"].(map[string]any); ok {
			for range a.Intn(4) {
				object[a.one("x", "y", "z")] = a.value(values, depth+1)
			}
		}
		if fields, ok := s["properties"].(map[string]any); ok {
			for name, field := range fields {
				if a.Intn(5) > 0 {
					object[name] = a.value(field.(map[string]any), depth+1)
				}
			}
		}
		if !a.often() {
			object["unknown"] = a.other(depth)
		}
		return object
	}
	return a.other(depth)
}

func (a author) other(depth int) any {
	switch a.Intn(8) {
	case 0:
		return nil
	case 1:
		return []any{"text", "zwölf\n\t\"x\"", "a<b", "\u2028\x01"}[a.Intn(4)]
	case 2:
		return int64(3)
	case 3:
		return []any{1.5, -2.5e-9, 1e22, 0.1}[a.Intn(4)]
	case 4:
		return true
	case 5:
		return []any{"a", map[string]any{"b": nil}}
	}
	if depth > 3 {
		return map[string]any{}
	}
	return map[string]any{"a": a.other(depth + 1), "b": a.other(depth + 1)}
}

// sure holds what shapes say of an object against what the libraries do with it, and reports whether nothing was doubted.
func sure(t *testing.T, seed int64) bool {
	a := author{rand.New(rand.NewSource(seed))}
	spec := a.schema(0)
	text, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"spec": spec, "status": a.schema(2)}})
	if err != nil {
		t.Fatal(err)
	}
	props := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal(text, props); err != nil {
		t.Fatal(err)
	}
	d := definition(func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = d.Spec.Versions[:1]
		d.Spec.Versions[0].Schema.OpenAPIV3Schema = props
	})
	_, versions := kinds(t, Config{}, d)
	v := versions["v1"].Custom.(*version)
	c, err := v.schema()
	if err != nil {
		return false // no schema that a definition could have
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{
		"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z"}}}
	if a.often() {
		obj.Object["spec"] = a.value(spec, 0)
	}
	doubted := c.shape.object(obj.Object)
	about := func() string { b, _ := json.Marshal(obj.Object); return fmt.Sprintf("seed %d: %s\n%s", seed, text, b) }
	if doubted&unpruned == 0 {
		cut := obj.DeepCopy()
		unknown, err := v.refit(c, cut, true)
		if err != nil || len(unknown) > 0 || !reflect.DeepEqual(cut.Object, obj.Object) {
			t.Fatalf("%s\nis not what fits: %v %v %v", about(), unknown, err, cut.Object)
		}
	}
	if doubted&(unpruned|undefaulted) == 0 {
		filled := runtime.DeepCopyJSON(obj.Object)
		if defaulting.Default(filled, c.structural); !reflect.DeepEqual(filled, obj.Object) {
			t.Fatalf("%s\nlacks defaults: %v", about(), filled)
		}
	}
	answered(t, v, obj, about)
	if doubted != 0 {
		return false
	}
	errs := validation.ValidateCustomResource(nil, obj.Object, c.whole)
	if errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, obj.Object)...); len(errs) > 0 {
		t.Fatalf("%s\nis invalid: %v", about(), errs)
	}
	return true
}

// answered holds what a version answers of a stored object against decoding and encoding it, and reports whether it did.
func answered(t *testing.T, v *version, obj *unstructured.Unstructured, about func() string) bool {
	stored, err := v.Encode(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := v.Answer([]byte("before "), stored, "42")
	if !ok {
		return false
	}
	objects, errs := v.Decode(t.Context(), [][]byte{stored})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	objects[0].SetResourceVersion("42")
	want, err := json.Marshal(objects[0].(*unstructured.Unstructured).Object)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "before "+string(want) {
		t.Fatalf("%s\nis answered as\n%s, not\n%s", about(), got, want)
	}
	return true
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	_, versions := kinds(t, Config{}, definition(nil))
	v := versions["v1"].Custom.(*version)
	for stored, want := range map[string]string{
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"one":"x"}}`:                                                                   `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"7"},"spec":{"one":"x"}}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","uid":"u"}}`:                                                                            `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"7","uid":"u"}}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{"zz":"[\"\\]"},"labels":{"resourceVersion":"x","z":"y"},"selfLink":"s","uid":"u"}}`: `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{"zz":"[\"\\]"},"labels":{"resourceVersion":"x","z":"y"},"resourceVersion":"7","selfLink":"s","uid":"u"}}`,
		// What a library has to look at.
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{}}`:                                               "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"1"}}`:               "",
		`{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a"}}`:                                     "",
		`{"apiVersion":"example.com/v1","metadata":{"name":"a"}}`:                                                    "",
		`{"apiVersion":"example.com/v1","kind":"Thing"}`:                                                             "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"unknown":1}}`:                "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":null}`:                         "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"one":"<"}}`:                  "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"one":"ä 世\n\t\b\f\r"}}`:      `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"7"},"spec":{"one":"ä 世\n\t\b\f\r"}}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a":[1.5,-1e-9,1e+21,0.1]}}`:                      `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a":[1.5,-1e-9,1e+21,0.1],"resourceVersion":"7"}}`,
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a":1.50}}`:                                       "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a":-0.0}}`:                                       "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a":1e5}}`:                                        "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a":1e999}}`:                                      "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a":1.2.3}}`:                                      "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a\nb":1}}`:                                       "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a":"\u0001"}}`:                                   "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"a":"\/"}}`:                                       "",
		"{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"metadata\":{\"a\":\"\u2028\"}}":                     "",
		"{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"metadata\":{\"a\":\"\xff\"}}":                       "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"one":1.5}}`:                  "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"uid":"u","name":"a"}}`:                           "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","name":"b"}}`:                          "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"generation":01,"name":"a"}}`:                     "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"generation":9223372036854775808,"name":"a"}}`:    "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}} `:                                    "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}`:                                      "",
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"managedFields":[{"a\"z":1,"a#":1}],"name":"a"}}`: `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"managedFields":[{"a\"z":1,"a#":1}],"name":"a","resourceVersion":"7"}}`,
	} {
		got, ok := v.Answer(nil, []byte(stored), "7")
		if ok != (want != "") || ok && string(got) != want {
			t.Errorf("%s is answered as %s (%v)", stored, got, ok)
		}
	}
}

func TestMostIsAnsweredAsItIsStored(t *testing.T) {
	t.Parallel()
	_, versions := kinds(t, Config{}, definition(nil))
	v := versions["v1"].Custom.(*version)
	obj := object(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"uid":"u","managedFields":[
		{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{".":{},"k:{\"name\":\"x\"}":{},"k:{\"name\":\"x-1\"}":{}}}}]},"spec":{"one":"x"}}`)
	if !answered(t, v, obj, func() string { return "a usual object" }) {
		t.Error("a usual object has to be decoded")
	}
}

func TestShapesAreSure(t *testing.T) {
	t.Parallel()
	const seeds = 4000
	certain := 0
	for seed := range int64(seeds) {
		if sure(t, seed) {
			certain++
		}
	}
	if certain < seeds/4 {
		t.Errorf("only %d of %d objects are found to be well", certain, seeds)
	}
}

func FuzzShapesAreSure(f *testing.F) {
	for seed := range int64(64) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) { sure(t, seed) })
}

func TestSettledMetadata(t *testing.T) {
	t.Parallel()
	_, versions := kinds(t, Config{}, definition(nil))
	v := versions["v1"].Custom.(*version)
	c, err := v.schema()
	if err != nil {
		t.Fatal(err)
	}
	certain := 0
	for _, meta := range []string{
		`{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z"}`, `{"name":"a"}`, `{"name":"a","creationTimestamp":null}`, `{}`, `{"name":""}`, `{"name":1}`,
		`{"name":"a","creationTimestamp":"2026-01-02T03:04:05+01:00"}`, `{"name":"a","creationTimestamp":"2026-01-02T03:04:05.5Z"}`, `{"name":"a","creationTimestamp":"x"}`,
		`{"name":"a","generation":0}`, `{"name":"a","generation":1,"labels":{},"creationTimestamp":"2026-01-02T03:04:05Z"}`, `{"name":"a","labels":{"a":1}}`, `{"name":"a","unheard":1}`,
		`{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"labels":{"a":""},"annotations":{"b":"c"},"finalizers":["f"],"deletionGracePeriodSeconds":0,"deletionTimestamp":"2026-01-02T03:04:05Z",
		"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true,"blockOwnerDeletion":false}],"uid":"u","resourceVersion":"1","namespace":"n","generateName":"g","selfLink":"s",
		"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","subresource":"status","fieldsV1":{"f:a":{".":{},"k:{\"name\":\"x\"}":{}}}}]}`,
		`{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p"}]}`, `{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","ownerReferences":[{"apiVersion":"v1","kind":"","name":"p","uid":""}]}`,
		`{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","managedFields":[{"manager":"m","fieldsV1":{}}]}`, `{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","managedFields":[{"manager":"m","fieldsV1":{"f:a":1.5}}]}`,
		`{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","managedFields":[{}]}`, `{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","finalizers":[]}`, `{"name":"a","creationTimestamp":"0001-01-01T00:00:00Z"}`,
	} {
		obj := object(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":`+meta+`,"spec":{"one":"x"}}`)
		if !settled(obj.Object["metadata"]) {
			continue
		}
		certain++
		fitted := obj.DeepCopy()
		if unknown, err := v.refit(c, fitted, true); err != nil || len(unknown) > 0 || !reflect.DeepEqual(fitted.Object, obj.Object) {
			t.Errorf("%s becomes %v, %v, %v", meta, fitted.Object["metadata"], unknown, err)
		}
	}
	if certain < 5 {
		t.Errorf("only %d are settled", certain)
	}
}

// The metadata of an object that was not decoded are those of one that was, down to the times and sets of fields.
func TestMetadataAreReadFromTheAnswer(t *testing.T) {
	t.Parallel()
	_, versions := kinds(t, Config{}, definition(nil))
	kind := versions["v1"]
	stored := []byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{"a":"b"},"creationTimestamp":"2026-01-02T03:04:05Z","deletionGracePeriodSeconds":0,"deletionTimestamp":"2026-01-02T03:04:06Z","finalizers":["f"],"generation":2,"labels":{"c":"d"},"managedFields":[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"k:{\"name\":\"x\"}":{}}},"manager":"m","operation":"Update","time":"2026-01-02T03:04:05Z"}],"name":"a","namespace":"n","ownerReferences":[{"apiVersion":"v1","controller":true,"kind":"Pod","name":"p","uid":"q"}],"uid":"u"},"spec":{"one":"x"}}`)
	if _, ok := kind.Custom.Answer(nil, stored, "7"); !ok {
		t.Fatal("it has to be decoded")
	}
	cold, warm := codec.NewItem(kind, kind.Key("n", "a"), stored, 7, 7), codec.NewItem(kind, kind.Key("n", "a"), stored, 7, 7)
	if _, err := warm.Object(); err != nil {
		t.Fatal(err)
	}
	got, err := cold.Metadata(false)
	if err != nil {
		t.Fatal(err)
	}
	want, err := warm.Metadata(false)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) || got.ResourceVersion != "7" || len(got.ManagedFields) != 1 {
		t.Errorf("%+v instead of %+v", got, want)
	}
}
