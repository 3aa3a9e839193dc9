package apiserver

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const crds = "apiextensions.k8s.io/v1/customresourcedefinitions"

// widgets is a definition with most of what one can have.
const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    selectableFields:
    - jsonPath: .spec.color
    schema:
      openAPIV3Schema:
        type: object
        description: A widget.
        required: [spec]
        properties:
          spec:
            type: object
            description: What is wanted.
            x-kubernetes-validations:
            - {rule: "self.replicas <= 10", message: "no more than ten", fieldPath: .replicas, reason: FieldValueForbidden}
            - {rule: "!has(oldSelf.color) || self.color == oldSelf.color || oldSelf.color != 'black'", message: "black stays black"}
            properties:
              color: {type: string, default: red, enum: [red, green, black]}
              replicas: {type: integer, default: 1, minimum: 0}
              size: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              maybe: {type: string, nullable: true}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, value: {type: string}}
              tags:
                type: array
                x-kubernetes-list-type: set
                items: {type: string}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
`

// define creates a definition from YAML and waits until it is established.
func (f *fixture) define(text string) *apiextensionsv1.CustomResourceDefinition {
	f.t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		f.t.Fatal(err)
	}
	answer, err := f.create(crds, "", string(body))
	if err != nil {
		f.t.Fatal(err)
	}
	var d apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(answer, &d); err != nil {
		f.t.Fatal(err)
	}
	return f.definition(d.Name, established)
}

func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// definition waits until a definition is as it should be and, where that is established, until the server's table has it:
// requests wait for that by themselves, but who looks into the table (typeOf, among others) has to, too.
func (f *fixture) definition(name string, is func(*apiextensionsv1.CustomResourceDefinition) bool) *apiextensionsv1.CustomResourceDefinition {
	f.t.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	f.await("definition "+name, func() bool {
		b, err := f.get(crds, "", name)
		if err != nil {
			return false
		}
		d = &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(b, d); err != nil {
			f.t.Fatal(err)
		}
		return is(d)
	})
	if !established(d) || d.DeletionTimestamp != nil {
		return d
	}
	f.await("the resources of "+d.Name, func() bool {
		return !slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			resource := schema.GroupVersionResource{Group: d.Spec.Group, Version: v.Name, Resource: d.Spec.Names.Plural}
			return v.Served && f.server.objects.Table.Known(resource) == nil
		})
	})
	return d
}

// await polls until something is so.
func (f *fixture) await(what string, is func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !is() {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not in time", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *fixture) object(b []byte, err error) *unstructured.Unstructured {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(b); err != nil {
		f.t.Fatalf("%v\n%s", err, b)
	}
	return u
}

// change patches an object; options change the request.
func (f *fixture) change(resource, namespace, name, media, body string, options ...func(*apiv1.PatchRequest)) ([]byte, error) {
	g, v, r := split(resource)
	req := &apiv1.PatchRequest{
		Group: g, Version: v, Resource: r, Namespace: namespace, Name: name, ContentType: "application/" + media, Object: []byte(body),
	}
	if media == "apply-patch+yaml" {
		req.FieldManager = "applier"
	}
	for _, o := range options {
		o(req)
	}
	resp, err := f.api.Patch(f.ctx, req)
	return resp.GetObject(), apistatus.FromGRPC(err)
}

// put replaces an object, or a subresource of it.
func (f *fixture) put(resource, subresource string, u *unstructured.Unstructured) ([]byte, error) {
	f.t.Helper()
	g, v, r := split(resource)
	body, err := u.MarshalJSON()
	if err != nil {
		f.t.Fatal(err)
	}
	resp, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{
		Group: g, Version: v, Resource: r, Namespace: u.GetNamespace(), Name: u.GetName(), Subresource: subresource, Object: body,
	})
	return resp.GetObject(), apistatus.FromGRPC(err)
}

func (f *fixture) drop(resource, namespace, name string) ([]byte, error) {
	g, v, r := split(resource)
	resp, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Group: g, Version: v, Resource: r, Namespace: namespace, Name: name})
	return resp.GetObject(), apistatus.FromGRPC(err)
}

// field returns what is at a path of fields, nil where nothing is.
func field(u *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	return value
}

func asJSON(t testing.TB, text string) string {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
