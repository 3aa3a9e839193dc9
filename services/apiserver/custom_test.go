package apiserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const widget = "example.com/v1/widgets"

func widgetBody(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

func (f *fixture) getAs(resource, namespace, name, subresource, accept string) ([]byte, string, error) {
	g, v, r := split(resource)
	resp, err := f.api.Get(f.ctx, &apiv1.GetRequest{
		Group: g, Version: v, Resource: r, Namespace: namespace, Name: name, Subresource: subresource, Accept: accept,
	})
	return resp.GetObject(), resp.GetContentType(), apistatus.FromGRPC(err)
}

// Each part of the machinery does for a custom kind what it does for the others.
func TestCustomResources(t *testing.T) {
	f := startMemory(t)
	f.define(widgets)

	t.Run("create and read", func(t *testing.T) {
		made := f.object(f.create(widget, "default", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","labels":{"x":"y"}},
			"spec":{"size":"big","extra":1,"free":{"b":[1]},"maybe":null,"color":null},"status":{"replicas":3},"other":true}`))
		if made.GetGeneration() != 1 || made.GetUID() == "" || made.GetResourceVersion() == "" || len(made.GetManagedFields()) != 1 {
			t.Errorf("metadata: %v", made.Object["metadata"])
		}
		// Unknown fields and the status go; null goes where it is not allowed, and a default takes its place.
		want := `{"color":"red","free":{"b":[1]},"maybe":null,"replicas":1,"size":"big"}`
		if spec, _ := json.Marshal(made.Object["spec"]); string(spec) != want || made.Object["status"] != nil || made.Object["other"] != nil {
			t.Errorf("spec %s, wanted %s; %v", spec, want, made.Object)
		}
		got := f.object(f.get(widget, "default", "a"))
		if fmt.Sprint(got.Object) != fmt.Sprint(made.Object) {
			t.Errorf("read\n%v\nwrote\n%v", got.Object, made.Object)
		}
		if _, err := f.create(widget, "default", widgetBody("a", `{}`)); !apierrors.IsAlreadyExists(err) || err.Error() != `widgets.example.com "a" already exists` {
			t.Errorf("a second one: %v", err)
		}
		if _, err := f.create(widget, "default", `{"metadata":{"name":"b"},"spec":{}}`); err != nil {
			t.Error(err)
		}
		if _, err := f.create(widget, "default", `{ "metadata":{"name":"c"},"spec":{}}`); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "Object 'Kind' is missing") {
			t.Errorf("without a kind: %v", err)
		}
		if u := f.object(f.create(widget, "default", `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"generateName":"g-"},"spec":{}}`)); !strings.HasPrefix(u.GetName(), "g-") {
			t.Errorf("generated %s", u.GetName())
		}
	})

	t.Run("forms", func(t *testing.T) {
		for accept, want := range map[string]string{
			"application/yaml": "kind: Widget",
			"application/json;as=Table;v=v1;g=meta.k8s.io":                                    `"cells":["a","red",1,`,
			"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io":                    `"kind":"PartialObjectMetadata"`,
			"application/vnd.kubernetes.protobuf,application/json":                            `"kind":"Widget"`,
			"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io": "k8s\x00",
		} {
			b, _, err := f.getAs(widget, "default", "a", "", accept)
			if err != nil || !strings.Contains(string(b), want) {
				t.Errorf("%s: %v\n%s", accept, err, b)
			}
		}
		_, _, err := f.getAs(widget, "default", "a", "", "application/vnd.kubernetes.protobuf")
		if s := apistatus.Of(err); s.Code != 406 || s.Message != "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf" {
			t.Errorf("protobuf: %+v", s)
		}
		list := &apiv1.ListRequest{Group: "example.com", Version: "v1", Resource: "widgets", Accept: "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
		b, err := f.list(list)
		if err != nil {
			t.Fatal(err)
		}
		var unknown runtime.Unknown
		var partial metav1.PartialObjectMetadataList
		if err := unknown.Unmarshal(b[4:]); err != nil {
			t.Fatal(err)
		}
		if err := partial.Unmarshal(unknown.Raw); err != nil || len(partial.Items) != 3 || partial.Items[0].Name != "a" || partial.Items[0].ResourceVersion == "" || partial.Items[0].Labels["x"] != "y" {
			t.Errorf("%v %+v", err, partial)
		}
		list.Accept = ""
		if b, err = f.list(list); err != nil || !strings.HasPrefix(string(b), `{"apiVersion":"example.com/v1","items":[{`) || strings.Count(string(b), `"kind":"Widget"`) != 3 {
			t.Errorf("%v %s", err, b)
		}
		list.Accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
		b, err = f.list(list)
		var table metav1.Table
		if err == nil {
			err = json.Unmarshal(b, &table)
		}
		if err != nil || len(table.Rows) != 3 || len(table.ColumnDefinitions) != 4 {
			t.Fatalf("%v %s", err, b)
		}
		if c := table.ColumnDefinitions[2]; c.Name != "Replicas" || c.Priority != 1 || c.Type != "integer" || c.Description != "Custom resource definition column (in JSONPath format): .spec.replicas" {
			t.Errorf("%+v", c)
		}
	})

	t.Run("selectors", func(t *testing.T) {
		if _, err := f.create(widget, "default", widgetBody("green", `{"color":"green"}`)); err != nil {
			t.Fatal(err)
		}
		for selector, want := range map[string]int{"spec.color=green": 1, "spec.color!=green": 3, "metadata.name=a": 1, "spec.color=green,metadata.name=a": 0} {
			b, err := f.list(&apiv1.ListRequest{Group: "example.com", Version: "v1", Resource: "widgets", Namespace: "default", FieldSelector: selector})
			if got := strings.Count(string(b), `"kind":"Widget"`); err != nil || got != want {
				t.Errorf("%s selects %d, wanted %d: %v", selector, got, want, err)
			}
		}
		_, err := f.list(&apiv1.ListRequest{Group: "example.com", Version: "v1", Resource: "widgets", FieldSelector: "spec.size=big"})
		if s := apistatus.Of(err); s.Code != 400 || s.Message != "field label not supported: spec.size" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("watch", func(t *testing.T) {
		w := f.open(t, &apiv1.WatchRequest{Group: "example.com", Version: "v1", Resource: "widgets", Namespace: "default", FieldSelector: "spec.color=green", ResourceVersion: f.object(f.get(widget, "default", "green")).GetResourceVersion()})
		f.object(f.create(widget, "default", widgetBody("w", `{"color":"red"}`)))
		made := f.object(f.change(widget, "default", "w", "merge-patch+json", `{"spec":{"color":"green"}}`))
		w.expect("ADDED", made)
		if made.GetGeneration() != 2 {
			t.Errorf("generation %d", made.GetGeneration())
		}
		made = f.object(f.change(widget, "default", "w", "merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`))
		w.expect("MODIFIED", made)
		if made.GetGeneration() != 2 {
			t.Errorf("generation %d after labels", made.GetGeneration())
		}
		if _, err := f.drop(widget, "default", "w"); err != nil {
			t.Fatal(err)
		}
		if e := w.next(); e.GetType() != "DELETED" {
			t.Errorf("%v", e)
		}
	})

	t.Run("update", func(t *testing.T) {
		u := f.object(f.get(widget, "default", "a"))
		same := f.object(f.put(widget, "", u))
		if same.GetResourceVersion() != u.GetResourceVersion() {
			t.Error("an update that changes nothing is written")
		}
		stale := u.DeepCopy()
		u.Object["spec"].(map[string]any)["size"] = int64(3)
		u = f.object(f.put(widget, "", u))
		if u.GetGeneration() != 2 {
			t.Errorf("generation %d", u.GetGeneration())
		}
		if _, err := f.put(widget, "", stale); !apierrors.IsConflict(err) {
			t.Errorf("of a past revision: %v", err)
		}
		u.SetResourceVersion("")
		if _, err := f.put(widget, "", u); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.resourceVersion: Invalid value: ") || !strings.Contains(err.Error(), "must be specified for an update") {
			t.Errorf("without a revision: %v", err)
		}
	})

	t.Run("status", func(t *testing.T) {
		u := f.object(f.get(widget, "default", "a"))
		u.Object["status"] = map[string]any{"replicas": int64(2), "selector": "app=a", "nonsense": "x"}
		u.Object["spec"].(map[string]any)["color"] = "green"
		u.SetLabels(map[string]string{"ignored": "yes"})
		got := f.object(f.put(widget, "status", u))
		if field(got, "status", "replicas") != int64(2) || field(got, "status", "nonsense") != nil || field(got, "spec", "color") != "red" ||
			got.GetLabels()["ignored"] != "" || got.GetGeneration() != 2 {
			t.Errorf("%v", got.Object)
		}
		got = f.object(f.change(widget, "default", "a", "merge-patch+json", `{"status":{"replicas":9},"spec":{"size":4}}`))
		if field(got, "status", "replicas") != int64(2) || got.GetGeneration() != 3 {
			t.Errorf("the main resource changes the status: %v", got.Object)
		}
		if _, err := f.change(widget, "default", "a", "merge-patch+json", `{"status":{"replicas":"x"}}`, func(r *apiv1.PatchRequest) { r.Subresource = "status" }); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), `status.replicas: Invalid value: "string": replicas in body must be of type integer: "string"`) {
			t.Errorf("%v", err)
		}
	})

	t.Run("scale", func(t *testing.T) {
		b, _, err := f.getAs(widget, "default", "a", "scale", "")
		if err != nil || !strings.Contains(string(b), `"spec":{"replicas":1},"status":{"replicas":2,"selector":"app=a"}`) {
			t.Errorf("%v %s", err, b)
		}
		if b, _, err := f.getAs(widget, "default", "a", "scale", "application/vnd.kubernetes.protobuf"); status(err).Code != 406 {
			t.Errorf("protobuf, which Kubernetes has not of it: %v %s", err, b)
		}
		before := f.object(f.get(widget, "default", "a")).GetGeneration()
		b, err = f.change(widget, "default", "a", "merge-patch+json", `{"spec":{"replicas":5}}`, func(r *apiv1.PatchRequest) { r.Subresource = "scale" })
		if err != nil || !strings.Contains(string(b), `"replicas":5`) {
			t.Errorf("%v %s", err, b)
		}
		u := f.object(f.get(widget, "default", "a"))
		if field(u, "spec", "replicas") != int64(5) || u.GetGeneration() != before+1 {
			t.Errorf("%v", u.Object)
		}
		if _, err := f.change(widget, "default", "a", "merge-patch+json", `{"spec":{"replicas":50}}`, func(r *apiv1.PatchRequest) { r.Subresource = "scale" }); !apierrors.IsInvalid(err) {
			t.Errorf("a scale beyond what the rules allow: %v", err)
		}
	})

	t.Run("patch types", func(t *testing.T) {
		u := f.object(f.change(widget, "default", "a", "json-patch+json", `[{"op":"replace","path":"/spec/replicas","value":2},{"op":"add","path":"/spec/nowhere","value":1}]`))
		if field(u, "spec", "replicas") != int64(2) || field(u, "spec", "nowhere") != nil {
			t.Errorf("%v", u.Object)
		}
		_, err := f.change(widget, "default", "a", "strategic-merge-patch+json", `{}`)
		if s := apistatus.Of(err); s.Code != 415 || s.Message != "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("dry run and collections", func(t *testing.T) {
		if _, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Group: "example.com", Version: "v1", Resource: "widgets", Namespace: "default", Object: []byte(widgetBody("dry", `{}`)), DryRun: []string{"All"}}); err != nil {
			t.Error(err)
		}
		if _, err := f.get(widget, "default", "dry"); !apierrors.IsNotFound(err) || err.Error() != `widgets.example.com "dry" not found` {
			t.Errorf("%v", err)
		}
		if _, err := f.api.DeleteCollection(f.ctx, &apiv1.DeleteCollectionRequest{Group: "example.com", Version: "v1", Resource: "widgets", Namespace: "default"}); err != nil {
			t.Error(err)
		}
		if b, err := f.list(&apiv1.ListRequest{Group: "example.com", Version: "v1", Resource: "widgets"}); err != nil ||
			!strings.HasPrefix(string(b), `{"apiVersion":"example.com/v1","items":[],"kind":"WidgetList","metadata":{"continue":"","resourceVersion":"`) {
			t.Errorf("%v %s", err, b)
		}
	})
}

func TestCustomResourceValidation(t *testing.T) {
	f := startMemory(t)
	f.define(widgets)
	for name, c := range map[string]struct{ spec, want string }{
		"type":      {`{"replicas":"x"}`, `Widget.example.com "v" is invalid: [spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string", `},
		"enum":      {`{"color":"blue"}`, `spec.color: Unsupported value: "blue": supported values: "red", "green", "black"`},
		"minimum":   {`{"replicas":-1}`, `spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0`},
		"rule":      {`{"replicas":11}`, `spec.replicas: Forbidden: no more than ten`},
		"list map":  {`{"parts":[{"name":"a"},{"name":"a"}]}`, `spec.parts[1]: Duplicate value: {"name":"a"}`},
		"list set":  {`{"tags":["a","a"]}`, `spec.tags[1]: Duplicate value: "a"`},
		"required":  {`{"parts":[{"value":"a"}]}`, `spec.parts[0].name: Required value`},
		"blocked":   {`{"parts":[{"value":"a"}],"replicas":11}`, `some validation rules were not checked because the object was invalid; correct the existing errors to complete validation`},
		"either":    {`{"size":true}`, `spec.size: Invalid value: "boolean": spec.size in body must be of type integer,string: "boolean"`},
		"embedded":  {`{"template":{"metadata":{"name":"x"}}}`, `spec.template.apiVersion: Required value`},
		"null":      {`{"replicas":null,"parts":null}`, ""},
		"any depth": {`{"free":{"a":{"b":[{"c":1}]}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.create(widget, "default", widgetBody("v", c.spec))
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				if _, err := f.drop(widget, "default", "v"); err != nil {
					t.Error(err)
				}
				return
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwanted %s", err, c.want)
			}
		})
	}
	t.Run("required at the root", func(t *testing.T) {
		_, err := f.create(widget, "default", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"v"}}`)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec: Required value") {
			t.Error(err)
		}
	})
	t.Run("transition", func(t *testing.T) {
		if _, err := f.create(widget, "default", widgetBody("t", `{"color":"black"}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.change(widget, "default", "t", "merge-patch+json", `{"spec":{"color":"red"}}`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec: Invalid value: `) || !strings.Contains(err.Error(), "black stays black") {
			t.Error(err)
		}
	})
	t.Run("blocked by metadata", func(t *testing.T) {
		const blocked = "some validation rules were not checked"
		long := strings.Repeat("x", 256<<10)
		for body, want := range map[string]bool{
			widgetBody("", `{"replicas":11}`): true,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","annotations":{"a":"` + long + `"}},"spec":{"replicas":11}}`: true,
			widgetBody("X_Y", `{"replicas":11}`): false,
		} {
			_, err := f.create(widget, "default", body)
			if !apierrors.IsInvalid(err) || strings.Contains(err.Error(), blocked) != want || strings.Contains(err.Error(), "no more than ten") == want {
				t.Errorf("%.100s: %.300s", body, err)
			}
		}
		if _, err := f.create(widget, "default", widgetBody("m", `{}`)); err != nil {
			t.Fatal(err)
		}
		_, err := f.change(widget, "default", "m", "merge-patch+json", `{"metadata":{"annotations":{"a":"`+long+`"}},"spec":{"replicas":11}}`)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), blocked) {
			t.Errorf("%.300s", err)
		}
	})
	t.Run("metadata", func(t *testing.T) {
		for _, body := range []string{`{"metadata":{"name":"X_Y"},"spec":{}}`, `{"metadata":{"name":"x","labels":{"-":"y"}},"spec":{}}`} {
			if _, err := f.create(widget, "default", body); !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v", body, err)
			}
		}
		for _, body := range []string{
			`{"metadata":{"name":3},"spec":{}}`, `{"metadata":"x"}`, `[]`, `{`, `"x"`, `{"apiVersion":7}`, `{"kind":"Gadget","metadata":{"name":"x"},"spec":{}}`,
			`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"x"},"spec":{}}`,
		} {
			if _, err := f.create(widget, "default", body); !apierrors.IsBadRequest(err) {
				t.Errorf("%s: %v", body, err)
			}
		}
	})
}

// warned creates an object and returns the warnings of the answer.
func (f *fixture) warned(level, body string) ([]string, error) {
	var header metadata.MD
	_, err := f.api.Create(f.ctx, &apiv1.CreateRequest{
		Group: "example.com", Version: "v1", Resource: "widgets", Namespace: "default", Object: []byte(body), FieldValidation: level, DryRun: []string{"All"},
	}, grpc.Header(&header))
	return header.Get("warning"), apistatus.FromGRPC(err)
}

func TestCustomResourceFieldValidation(t *testing.T) {
	f := startMemory(t)
	f.define(widgets)
	body := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","unknownMeta":1},"spec":{"color":"red","color":"green","parts":[{"name":"x","extra":1}],"extra":1,
		"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","unknownMeta":2}}}}`
	want := []string{`duplicate field "spec.color"`, `unknown field "metadata.unknownMeta"`, `unknown field "spec.extra"`, `unknown field "spec.parts[0].extra"`, `unknown field "spec.template.metadata.unknownMeta"`}
	for _, level := range []string{"Warn", ""} {
		warnings, err := f.warned(level, body)
		if err != nil || strings.Join(warnings, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: %v\n%s", level, err, strings.Join(warnings, "\n"))
		}
	}
	if warnings, err := f.warned("Ignore", body); err != nil || len(warnings) > 0 {
		t.Errorf("Ignore: %v %v", err, warnings)
	}
	_, err := f.warned("Strict", body)
	text := `Widget in version "v1" cannot be handled as a Widget: strict decoding error: ` + strings.Join(want, ", ")
	if s := apistatus.Of(err); s.Code != 400 || s.Message != text {
		t.Errorf("Strict: %+v", s)
	}
	if warnings, err := f.warned("Strict", widgetBody("a", `{"free":{"any":{"thing":1}}}`)); err != nil || len(warnings) > 0 {
		t.Errorf("what may be unknown: %v %v", err, warnings)
	}
	if _, err := f.create(widget, "default", widgetBody("p", `{}`)); err != nil {
		t.Fatal(err)
	}
	_, err = f.change(widget, "default", "p", "merge-patch+json", `{"spec":{"extra":1}}`, func(r *apiv1.PatchRequest) { r.FieldValidation = "Strict" })
	if err == nil || !strings.Contains(err.Error(), `: strict decoding error: unknown field "spec.extra"`) ||
		!strings.Contains(err.Error(), `patch: Invalid value: "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\"`) || !strings.Contains(err.Error(), `managedFields`) {
		t.Errorf("patch, which is to show what it makes: %v", err)
	}
	_, err = f.change(widget, "default", "p", "apply-patch+yaml", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {extra: 1}")
	if s := apistatus.Of(err); err == nil || !strings.Contains(s.Message, ".spec.extra: field not declared in schema") {
		t.Errorf("apply: %+v", s)
	}
	if warnings, err := f.warned("", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","finalizers":["short","a.b","a.b/c","orphan"]},"spec":{}}`); err != nil || len(warnings) != 2 ||
		warnings[0] != `metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers` {
		t.Errorf("finalizers: %v %q", err, warnings)
	}
}

func TestCustomResourceApply(t *testing.T) {
	f := startMemory(t)
	f.define(widgets)
	apply := func(manager, spec string, force bool) ([]byte, error) {
		return f.change(widget, "default", "a", "apply-patch+yaml", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: "+spec, func(r *apiv1.PatchRequest) {
			r.FieldManager = manager
			if force {
				r.Force = "true"
			}
		})
	}
	u := f.object(apply("one", `{parts: [{name: a, value: "1"}], color: green, tags: [x]}`, false))
	if u.GetGeneration() != 1 {
		t.Errorf("%v", u.Object)
	}
	again := f.object(apply("one", `{parts: [{name: a, value: "1"}], color: green, tags: [x]}`, false))
	if again.GetResourceVersion() != u.GetResourceVersion() {
		t.Error("the same configuration again is written")
	}
	u = f.object(apply("two", `{parts: [{name: b, value: "2"}], tags: [z]}`, false))
	if parts, _ := json.Marshal(field(u, "spec", "parts")); string(parts) != `[{"name":"a","value":"1"},{"name":"b","value":"2"}]` {
		t.Errorf("lists are not merged by key: %s", parts)
	}
	if tags, _ := json.Marshal(field(u, "spec", "tags")); string(tags) != `["x","z"]` {
		t.Errorf("sets are not merged: %s", tags)
	}
	_, err := apply("two", `{color: black}`, false)
	if s := apistatus.Of(err); !apierrors.IsConflict(err) || !strings.Contains(s.Message, `conflict with "one": .spec.color`) {
		t.Errorf("%+v", s)
	}
	u = f.object(apply("two", `{color: black}`, true))
	if field(u, "spec", "color") != "black" {
		t.Errorf("%v", u.Object)
	}
	// What nobody wants any more goes; what somebody else wants stays.
	if parts, _ := json.Marshal(field(u, "spec", "parts")); string(parts) != `[{"name":"a","value":"1"}]` {
		t.Errorf("%s", parts)
	}
	// The status has its own managers.
	u = f.object(f.change(widget, "default", "a", "apply-patch+yaml", "apiVersion: example.com/v1\nkind: Widget\nstatus: {replicas: 4}", func(r *apiv1.PatchRequest) {
		r.FieldManager, r.Subresource = "three", "status"
	}))
	if field(u, "status", "replicas") != int64(4) || field(u, "spec", "color") != "black" {
		t.Errorf("%v", u.Object)
	}
	found := false
	for _, m := range u.GetManagedFields() {
		found = found || m.Manager == "three" && m.Subresource == "status" && string(m.FieldsV1.Raw) == `{"f:status":{"f:replicas":{}}}`
	}
	if !found {
		t.Errorf("%v", u.GetManagedFields())
	}
}
