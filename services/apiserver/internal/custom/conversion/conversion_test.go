package conversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/webhook"
)

var v2 = schema.GroupVersion{Group: "example.com", Version: "v2"}

// answering is a webhook that edits the right answer.
type answering struct {
	calls []webhook.Call
	edit  func(*review)
	err   error
}

func (a *answering) Post(_ context.Context, call webhook.Call) ([]byte, error) {
	a.calls = append(a.calls, call)
	if a.err != nil {
		return nil, a.err
	}
	var r review
	if err := json.Unmarshal(call.Body, &r); err != nil {
		return nil, err
	}
	r.Response = &response{UID: r.Request.UID}
	r.Response.Result.Status = "Success"
	for _, raw := range r.Request.Objects {
		r.Response.ConvertedObjects = append(r.Response.ConvertedObjects, []byte(strings.Replace(string(raw), "example.com/v1", r.Request.DesiredAPIVersion, 1)))
	}
	if a.edit != nil {
		a.edit(&r)
	}
	return json.Marshal(r)
}

func definition(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	port, path := int32(8443), "/c"
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Name = "things.example.com"
	d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: versions,
		ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte(" \n"), Service: &apiextensionsv1.ServiceReference{
			Namespace: "ns", Name: "hook", Path: &path, Port: &port,
		}},
	}}
	return d
}

func thing(name, more string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	text := `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"` + name + `","uid":"u"` + more + `}}`
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	return u
}

func TestConvert(t *testing.T) {
	t.Parallel()
	hook := &answering{}
	c := New(hook, nil).For(definition("v9", "v1"))
	var in []*unstructured.Unstructured
	for n := range maxObjects + 1 {
		in = append(in, thing(fmt.Sprint("t", n), ""))
	}
	out, err := c.Convert(context.Background(), in, v2)
	if err != nil || len(out) != len(in) || len(hook.calls) != 2 {
		t.Fatalf("%d objects by %d calls: %v", len(out), len(hook.calls), err)
	}
	for n, u := range out {
		if u.GetName() != in[n].GetName() || u.GetAPIVersion() != "example.com/v2" || in[n].GetAPIVersion() != "example.com/v1" {
			t.Fatalf("%d: %v of %v", n, u.Object, in[n].Object)
		}
	}
	call := hook.calls[0]
	if s := call.Target.Service; s == nil || s.Namespace != "ns" || s.Name != "hook" || s.Path != "/c" || s.Port != 8443 || call.Target.CABundle != nil || call.Timeout != timeout {
		t.Errorf("%+v", call)
	}
	// A large object goes alone.
	hook.calls = nil
	large := strings.Repeat("x", maxBytes/2+1)
	in = []*unstructured.Unstructured{thing("a", `,"annotations":{"a":"`+large+`"}`), thing("b", `,"annotations":{"a":"`+large+`"}`)}
	if _, err := c.Convert(context.Background(), in, v2); err != nil || len(hook.calls) != 2 {
		t.Errorf("%d calls: %v", len(hook.calls), err)
	}
}

func TestConvertRefuses(t *testing.T) {
	t.Parallel()
	object := func(text string) func(*review) {
		return func(r *review) { r.Response.ConvertedObjects[0] = []byte(text) }
	}
	for name, c := range map[string]struct {
		edit func(*review)
		want string
	}{
		"no response":     {func(r *review) { r.Response = nil }, "no response provided"},
		"other kind":      {func(r *review) { r.Kind = "Status" }, "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=Status"},
		"unknown review":  {func(r *review) { r.APIVersion = "apiextensions.k8s.io/v9" }, `no kind "ConversionReview" is registered for version "apiextensions.k8s.io/v9"`},
		"no status":       {func(r *review) { r.Response.Result.Status = "" }, "response.result.status was '', not 'Success'"},
		"another review":  {func(r *review) { r.APIVersion = "apiextensions.k8s.io/v1beta1" }, "failed: converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion"},
		"unknown kind":    {func(r *review) { r.Kind = "Nope" }, `failed: no kind "Nope" is registered for version "apiextensions.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"`},
		"null":            {object(`null`), "unexpected end of JSON input"},
		"a list":          {object(`[]`), "cannot unmarshal array into Go value"},
		"a text":          {object(`"x"`), "json: cannot unmarshal string into Go value of type map[string]interface {}"},
		"bad annotations": {object(`{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a","uid":"u","annotations":{"Bad Key!":"x"}}}`), "returned invalid metadata: metadata.annotation: Invalid value"},
		"no kind":         {object(`{"apiVersion":"example.com/v2"}`), "Object 'Kind' is missing"},
		"another kind":    {object(`{"apiVersion":"example.com/v2","kind":"T"}`), "invalid kind (expected Thing, received T)"},
		"another version": {object(`{"apiVersion":"example.com/v3","kind":"Thing"}`), "Kind=Thing returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)"},
		"another uid":     {object(`{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a","uid":"x"}}`), "must have the same UID: u != x"},
		"bad labels":      {object(`{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a","uid":"u","labels":{"-":"x"}}}`), "metadata.labels"},
		"odd labels":      {object(`{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a","uid":"u","labels":{"a":1}}}`), "metadata.labels[a] must be a string, but is int64 in converted object"},
		"no metadata":     {object(`{"apiVersion":"example.com/v2","kind":"Thing"}`), "must have the same name"},
	} {
		converter := New(&answering{edit: c.edit}, nil).For(definition("v1"))
		if _, err := converter.Convert(context.Background(), []*unstructured.Unstructured{thing("a", "")}, v2); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(&answering{err: errors.New("down")}, nil).For(definition("v1")).Convert(context.Background(), []*unstructured.Unstructured{thing("a", "")}, v2); err == nil ||
		!strings.HasSuffix(err.Error(), "conversion webhook for example.com/v1, Kind=Thing failed: down") {
		t.Error(err)
	}
	if _, err := New(&answering{}, nil).For(definition("v7")).Convert(context.Background(), []*unstructured.Unstructured{thing("a", "")}, v2); err == nil || !strings.Contains(err.Error(), "no supported conversion review versions") {
		t.Error(err)
	}
}

func TestAsksNoWebhookAboutWhatIsEmpty(t *testing.T) {
	t.Parallel()
	hook := &answering{}
	in := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
	out, err := New(hook, nil).For(definition("v1")).Convert(context.Background(), []*unstructured.Unstructured{in}, v2)
	if err != nil || len(hook.calls) != 0 || len(out) != 1 || out[0].GetAPIVersion() != v2.String() || in.GetAPIVersion() != "example.com/v1" {
		t.Fatalf("%v of %v by %d calls: %v", out, in, len(hook.calls), err)
	}
}
