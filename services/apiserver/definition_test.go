package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
)

// gadgets is a cluster-scoped definition in as many versions as are named, the first one stored, without a schema to speak of.
func gadgets(plural, kind, more string, versions ...string) string {
	text := fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.example.org}\n"+
		"spec:\n  group: example.org\n  scope: Cluster\n  names: {plural: %s, kind: %s%s}\n  versions:\n", plural, plural, kind, more)
	for n, v := range versions {
		text += fmt.Sprintf("  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n", v, n == 0)
	}
	return text
}

func is(of apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus, reason string) func(*apiextensionsv1.CustomResourceDefinition) bool {
	return func(d *apiextensionsv1.CustomResourceDefinition) bool {
		for _, c := range d.Status.Conditions {
			if c.Type == of && c.Status == status && c.Reason == reason {
				return true
			}
		}
		return false
	}
}

func TestDefinitionIsValidated(t *testing.T) {
	f := startMemory(t)
	for name, c := range map[string]struct{ old, new, want string }{
		"name":        {"name: widgets.example.com", "name: other.example.com", `metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group`},
		"scope":       {"scope: Namespaced", "scope: Somewhere", `spec.scope: Unsupported value: "Somewhere": supported values: "Cluster", "Namespaced"`},
		"no storage":  {"storage: true", "storage: false", "must have exactly one version marked as storage version"},
		"structure":   {"{type: integer, default: 1, minimum: 0}", "{default: 1}", "spec.validation.openAPIV3Schema.properties[spec].properties[replicas].type: Required value: must not be empty for specified object fields"},
		"bad rule":    {`self.replicas <= 10`, `self.nothing <= 10`, "undefined field 'nothing'"},
		"dear rule":   {`"self.replicas <= 10"`, `"self.tags.all(x, self.tags.all(y, self.tags.all(z, x.contains(y + z))))"`, "estimated rule cost exceeds budget by factor of"},
		"bad default": {"default: red", "default: blue", `spec.validation.openAPIV3Schema.properties[spec].properties[color].default: Unsupported value: "blue"`},
		"kind":        {"kind: Widget", "kind: wid_get", "spec.names.kind"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(widgets, c.old, c.new, 1)
			_, err := f.create(crds, "", asJSON(t, text))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwanted %s", err, c.want)
			}
		})
	}
	b, _, err := f.getAs(crds, "", f.define(widgets).Name, "", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if err != nil || !strings.Contains(string(b), `"columnDefinitions":[{"name":"Name"`) || !strings.Contains(string(b), `"name":"Created At"`) {
		t.Errorf("%v %s", err, b)
	}
	if _, err := f.change(crds, "", "widgets.example.com", "merge-patch+json", `{"spec":{"scope":"Cluster"}}`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.scope: Invalid value: \"Cluster\": field is immutable") {
		t.Errorf("a change of scope: %v", err)
	}
	if _, err := f.change(crds, "", "widgets.example.com", "apply-patch+yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {labels: {a: b}}"); err != nil {
		t.Errorf("apply: %v", err)
	}
}

// A name belongs to who had it first, and to the next when that one goes.
func TestDefinitionNames(t *testing.T) {
	f := startMemory(t)
	f.define(gadgets("gadgets", "Gadget", ", shortNames: [gd]", "v1"))
	if _, err := f.create(crds, "", asJSON(t, gadgets("gizmos", "Gadget", ", shortNames: [gd, gz]", "v1"))); err != nil {
		t.Fatal(err)
	}
	d := f.definition("gizmos.example.org", is(apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse, "ListKindConflict"))
	if d.Status.AcceptedNames.Plural != "gizmos" || d.Status.AcceptedNames.Kind != "" || !is(apiextensionsv1.Established, apiextensionsv1.ConditionFalse, "NotAccepted")(d) {
		t.Errorf("%+v", d.Status)
	}
	if _, err := f.get("example.org/v1/gizmos", "", "x"); !apierrors.IsNotFound(err) || err.Error() != apistatus.PageNotFound {
		t.Errorf("it is served: %v", err)
	}
	if _, err := f.drop(crds, "", "gadgets.example.org"); err != nil {
		t.Fatal(err)
	}
	f.definition("gizmos.example.org", is(apiextensionsv1.Established, apiextensionsv1.ConditionTrue, "InitialNamesAccepted"))
	if _, err := f.create("example.org/v1/gizmos", "", `{"metadata":{"name":"x"}}`); err != nil {
		t.Error(err)
	}
}

// A definition goes with its objects, and waits for those that something holds.
func TestDefinitionIsDeletedWithItsObjects(t *testing.T) {
	f := startMemory(t)
	f.define(widgets)
	for _, name := range []string{"a", "b"} {
		if _, err := f.create(widget, "default", widgetBody(name, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.create(widget, "default", `{"metadata":{"name":"held","finalizers":["example.com/f"]},"spec":{}}`); err != nil {
		t.Fatal(err)
	}
	w := f.open(t, &apiv1.WatchRequest{Group: "example.com", Version: "v1", Resource: "widgets", ResourceVersion: f.object(f.get(widget, "default", "held")).GetResourceVersion()})
	answer := f.object(f.drop(crds, "", "widgets.example.com"))
	if answer.GetDeletionTimestamp() == nil || answer.GetFinalizers()[0] != "customresourcecleanup.apiextensions.k8s.io" {
		t.Errorf("%v", answer.Object["metadata"])
	}
	if _, err := f.create(widget, "default", widgetBody("early", `{}`)); apistatus.Of(err).Code != 403 { // who was told of the end meets it
		t.Errorf("a creation at once: %v", err)
	}
	f.definition("widgets.example.com", is(apiextensionsv1.Terminating, apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress"))
	f.await("the deletion of the objects", func() bool { _, err := f.get(widget, "default", "b"); return apierrors.IsNotFound(err) })
	_, err := f.create(widget, "default", widgetBody("late", `{}`))
	if s := apistatus.Of(err); s.Code != 403 || s.Message != `widgets.example.com "late" is forbidden: create not allowed while custom resource definition is terminating` {
		t.Errorf("a creation meanwhile: %+v", s)
	}
	f.await("the deletion of what is held", func() bool { return f.object(f.get(widget, "default", "held")).GetDeletionTimestamp() != nil })
	if _, err := f.change(widget, "default", "held", "merge-patch+json", `{"metadata":{"finalizers":null}}`); err != nil {
		t.Fatal(err)
	}
	f.await("the end of the definition", func() bool { _, err := f.get(crds, "", "widgets.example.com"); return apierrors.IsNotFound(err) })
	select {
	case <-w.ended: // as the kind did
	case <-time.After(time.Minute):
		t.Error("the watch goes on")
	}
	told := map[string]int{}
	for len(w.events) > 0 { // all came before the end
		told[(<-w.events).GetType()]++
	}
	if told["DELETED"] != 3 {
		t.Errorf("the watch told of %v, and three objects went", told)
	}
	if _, err := f.get(widget, "default", "a"); err == nil || err.Error() != apistatus.PageNotFound {
		t.Errorf("%v", err)
	}
	if _, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/apis/example.com"}); status(err).Code != 404 {
		t.Errorf("discovery: %v", err)
	}
	f.define(widgets)
	if b, err := f.list(&apiv1.ListRequest{Group: "example.com", Version: "v1", Resource: "widgets"}); err != nil || !strings.Contains(string(b), `"items":[]`) {
		t.Errorf("objects of the past: %v %s", err, b)
	}
}

// A schema, and the versions, may change while objects are there.
func TestDefinitionChanges(t *testing.T) {
	st := memstore.New()
	f := start(t, memory{st})
	f.define(widgets)
	if _, err := f.create(widget, "default", widgetBody("a", `{}`)); err != nil {
		t.Fatal(err)
	}
	edit := func(edit string) {
		t.Helper()
		if _, err := f.change(crds, "", "widgets.example.com", "json-patch+json", edit); err != nil {
			t.Fatal(err)
		}
		f.fresh()
	}
	const spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/"
	edit(`[{"op":"add","path":"` + spec + `weight","value":{"type":"integer","default":7}},{"op":"add","path":"/spec/names/shortNames","value":["wdg"]}]`)
	if u := f.object(f.get(widget, "default", "a")); field(u, "spec", "weight") != int64(7) {
		t.Errorf("a new default is not read: %v", u.Object)
	}
	if doc, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/openapi/v3/apis/example.com/v1"}); err != nil || !strings.Contains(string(doc.GetObject()), `"weight"`) {
		t.Errorf("OpenAPI: %v", err)
	}
	f.await("the new short name", func() bool {
		doc, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/apis/example.com/v1"})
		return err == nil && strings.Contains(string(doc.GetObject()), `"shortNames":["wdg"]`)
	})
	// What was good before the rules changed may stay; what is changed has to be good.
	edit(`[{"op":"replace","path":"` + spec + `replicas/minimum","value":5},{"op":"replace","path":"` + spec + `replicas/default","value":5}]`)
	if _, err := f.change(widget, "default", "a", "merge-patch+json", `{"spec":{"color":"green"}}`); err != nil {
		t.Errorf("ratcheting: %v", err)
	}
	if _, err := f.change(widget, "default", "a", "merge-patch+json", `{"spec":{"replicas":2}}`); !apierrors.IsInvalid(err) {
		t.Errorf("a changed field: %v", err)
	}
	// Another storage version.
	edit(`[{"op":"copy","from":"/spec/versions/0","path":"/spec/versions/-"},{"op":"replace","path":"/spec/versions/1/name","value":"v2"},{"op":"replace","path":"/spec/versions/0/storage","value":false},
		{"op":"add","path":"/spec/versions/0/deprecated","value":true},{"op":"remove","path":"/spec/versions/0/additionalPrinterColumns"}]`)
	d := f.definition("widgets.example.com", func(*apiextensionsv1.CustomResourceDefinition) bool { return true })
	if fmt.Sprint(d.Status.StoredVersions) != "[v1 v2]" {
		t.Errorf("stored versions %v", d.Status.StoredVersions)
	}
	warnings, err := f.warnings(widget, "default", widgetBody("b", `{"replicas":6}`))
	if err != nil || len(warnings) != 1 || warnings[0] != "example.com/v1 Widget is deprecated; use example.com/v2 Widget" {
		t.Errorf("%v %q", err, warnings)
	}
	if _, err := f.change(crds, "", "widgets.example.com", "json-patch+json", `[{"op":"remove","path":"/spec/versions/0"}]`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `status.storedVersions[0]: Invalid value: "v1": missing from spec.versions`) {
		t.Errorf("a version that objects are stored in: %v", err)
	}
	for _, resource := range []string{"example.com/v1/widgets", "example.com/v2/widgets"} {
		u := f.object(f.get(resource, "default", "a"))
		if g, v, _ := split(resource); u.GetAPIVersion() != g+"/"+v {
			t.Errorf("%s: %v", resource, u.Object)
		}
		b, _, err := f.getAs(resource, "default", "a", "", "application/json;as=Table;v=v1;g=meta.k8s.io")
		if want := map[bool]string{true: `"name":"Color"`, false: `"name":"Age"`}[strings.Contains(resource, "v2")]; err != nil || !strings.Contains(string(b), want) {
			t.Errorf("columns of %s: %v %s", resource, err, b)
		}
	}
	// A write migrates, even where it changes nothing.
	before := f.object(f.get("example.com/v2/widgets", "default", "a"))
	if after := f.object(f.put("example.com/v2/widgets", "", before)); after.GetResourceVersion() == before.GetResourceVersion() {
		t.Error("an object is not migrated to the storage version")
	}

	// A server that starts later knows the same.
	late := start(t, memory{st})
	if u := late.object(late.get(widget, "default", "a")); field(u, "spec", "color") != "green" {
		t.Errorf("%v", u.Object)
	}
}

// What is established through one apiserver is served by the other at once.
func TestDefinitionIsServedByEveryServer(t *testing.T) {
	st := memstore.New()
	a, b := start(t, memory{st}), start(t, memory{st})
	for n := range 10 {
		plural := fmt.Sprintf("things%d", n)
		a.define(gadgets(plural, fmt.Sprintf("Thing%d", n), "", "v1"))
		body := fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Thing%d","metadata":{"name":"x"}}`, n)
		if _, err := b.create("example.org/v1/"+plural, "", body); err != nil {
			t.Fatalf("%s: %v", plural, err)
		}
		doc, err := b.docs.Document(b.ctx, &apiv1.DocumentRequest{Path: "/apis/example.org/v1"})
		if err != nil || !strings.Contains(string(doc.GetObject()), plural) {
			t.Errorf("discovery: %v", err)
		}
		if u := a.object(a.get("example.org/v1/"+plural, "", "x")); u.GetName() != "x" {
			t.Errorf("%v", u.Object)
		}
	}
	if _, err := b.drop(crds, "", "things3.example.org"); err != nil {
		t.Fatal(err)
	}
	a.await("the end of a definition", func() bool { _, err := a.get(crds, "", "things3.example.org"); return apierrors.IsNotFound(err) })
	if _, err := a.get("example.org/v1/things3", "", "x"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// A definition of what is built in changes nothing, and takes nothing with it.
func TestDefinitionOfWhatIsBuiltIn(t *testing.T) {
	f := startMemory(t)
	if _, err := f.create("rbac.authorization.k8s.io/v1/clusterroles", "", `{"metadata":{"name":"mine"},"rules":[]}`); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("gadgets.example.org", "clusterroles.rbac.authorization.k8s.io", "example.org", "rbac.authorization.k8s.io",
		"metadata: {", `metadata: {annotations: {api-approved.kubernetes.io: "unapproved, for a test"}, `).Replace(gadgets("gadgets", "Gadget", "", "v1"))
	d := f.define(strings.Replace(text, "plural: gadgets", "plural: clusterroles", 1))
	if !is(apiextensionsv1.KubernetesAPIApprovalPolicyConformant, apiextensionsv1.ConditionFalse, "UnapprovedAnnotation")(d) {
		t.Errorf("%+v", d.Status)
	}
	if _, err := f.drop(crds, "", d.Name); err != nil {
		t.Fatal(err)
	}
	f.await("the end of the definition", func() bool { _, err := f.get(crds, "", d.Name); return apierrors.IsNotFound(err) })
	if u := f.object(f.get("rbac.authorization.k8s.io/v1/clusterroles", "", "mine")); u.GetDeletionTimestamp() != nil {
		t.Error("the objects of the built-in kind are deleted")
	}
}

func TestDefinitionIsPublished(t *testing.T) {
	f := startMemory(t)
	get := func(path, accept string) string {
		t.Helper()
		resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: path, Accept: accept})
		if err != nil {
			t.Fatalf("%s: %v", path, status(err))
		}
		return string(resp.GetObject())
	}
	before := get("/openapi/v2", "")
	etag := func() string {
		resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/apis", Accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetEtag()
	}
	old := etag()
	f.define(widgets)
	if etag() == old {
		t.Error("the ETag of discovery stays")
	}
	whole := get("/openapi/v2", "")
	for _, want := range []string{`"com.example.v1.Widget":{"description":"A widget.","type":"object"`, `"com.example.v1.WidgetList"`, `"/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/status"`, `"createExampleComV1NamespacedWidget"`} {
		if !strings.Contains(whole, want) || strings.Contains(before, want) {
			t.Errorf("/openapi/v2 lacks %s", want)
		}
	}
	if binary := get("/openapi/v2", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"); !strings.Contains(binary, "com.example.v1.Widget") {
		t.Error("/openapi/v2 as protobuf lacks the kind")
	}
	if index := get("/openapi/v3", ""); !strings.Contains(index, `"apis/example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/example.com/v1?hash=`) {
		t.Errorf("%.300s", index)
	}
	one := get("/openapi/v3/apis/example.com/v1", "")
	for _, want := range []string{`"com.example.v1.Widget":{`, `"x-kubernetes-selectable-fields"`, `"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"`, `"application/apply-patch+yaml"`} {
		if !strings.Contains(one, want) {
			t.Errorf("/openapi/v3 lacks %s", want)
		}
	}
	if strings.Contains(one, "strategic-merge-patch") {
		t.Error("strategic merge patches are offered")
	}
}

func TestCustomExamples(t *testing.T) {
	f := startMemory(t)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	f.define(read("crd.yaml"))
	u := f.object(f.create(widget, "default", asJSON(t, read("custom/widget.yaml"))))
	if field(u, "spec", "color") != "blue" {
		t.Errorf("%v", u.Object)
	}
}
