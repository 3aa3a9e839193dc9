package view

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
)

func table(t *testing.T) *registry.Table {
	t.Helper()
	tab, err := registry.NewTable(kind.All(kind.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// namespaces are the only objects that a match asks for.
type namespaces map[string]map[string]string

func (n namespaces) Get(_ context.Context, _, resource, _, name string) (registry.Object, error) {
	labels, ok := n[name]
	if resource != "namespaces" || !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, nil
}

func (namespaces) List(context.Context, string, string, string) []registry.Object { return nil }

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "ns", Labels: map[string]string{"app": "x"}},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

func request(t *testing.T, gvk schema.GroupVersionKind, subresource string, operation admission.Operation, obj, old registry.Object) *Request {
	t.Helper()
	tab := table(t)
	a := &admission.Attributes{
		Operation: operation, Resource: tab.FindKind(gvk), Subresource: subresource, Namespace: "ns", Name: "d", Object: obj, Old: old,
		User: &authn.User{Name: "jane"},
	}
	if !a.Resource.Kind.Namespaced {
		a.Namespace = ""
	}
	return New(a, tab)
}

var (
	apps       = appsv1.SchemeGroupVersion.WithKind("Deployment")
	extensions = schema.GroupVersionKind{Group: "extensions", Version: "v1beta1", Kind: "Deployment"}
)

func rules(operation, group, version, resource string) []registrationv1.NamedRuleWithOperations {
	return []registrationv1.NamedRuleWithOperations{{RuleWithOperations: registrationv1.RuleWithOperations{
		Operations: []registrationv1.OperationType{registrationv1.OperationType(operation)},
		Rule:       registrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
	}}}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	named := rules("*", "apps", "v1", "deployments")
	named[0].ResourceNames = []string{"e"}
	cluster := rules("*", "*", "*", "*")
	cluster[0].Scope = ptr.To(registrationv1.ClusterScope)
	selects := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	exact, equivalent := registrationv1.Exact, registrationv1.Equivalent
	for name, test := range map[string]struct {
		gvk         schema.GroupVersionKind
		subresource string
		rules, not  []registrationv1.NamedRuleWithOperations
		policy      registrationv1.MatchPolicyType
		namespaces  *metav1.LabelSelector
		objects     *metav1.LabelSelector
		want        string // the version in which it is shown; empty: not at all
	}{
		"its version":          {gvk: apps, rules: rules("UPDATE", "apps", "v1", "deployments"), policy: exact, want: "apps/v1"},
		"everything":           {gvk: extensions, rules: rules("*", "*", "*", "*"), policy: exact, want: "extensions/v1beta1"},
		"another version":      {gvk: extensions, rules: rules("*", "apps", "v1", "deployments"), policy: equivalent, want: "apps/v1"},
		"exactly another":      {gvk: extensions, rules: rules("*", "apps", "v1", "deployments"), policy: exact},
		"another operation":    {gvk: apps, rules: rules("CREATE", "apps", "v1", "deployments"), policy: equivalent},
		"another resource":     {gvk: apps, rules: rules("*", "apps", "v1", "replicasets"), policy: equivalent},
		"no subresource":       {gvk: apps, subresource: "status", rules: rules("*", "apps", "v1", "deployments"), policy: equivalent},
		"the subresource":      {gvk: apps, subresource: "status", rules: rules("*", "apps", "v1", "deployments/status"), policy: equivalent, want: "apps/v1"},
		"any subresource":      {gvk: apps, subresource: "scale", rules: rules("*", "apps", "v1", "deployments/*"), policy: equivalent, want: "apps/v1"},
		"this of all":          {gvk: apps, subresource: "scale", rules: rules("*", "apps", "v1", "*/scale"), policy: equivalent, want: "apps/v1"},
		"another name":         {gvk: apps, rules: named, policy: equivalent},
		"cluster scope":        {gvk: apps, rules: cluster, policy: equivalent},
		"excluded":             {gvk: apps, rules: rules("*", "*", "*", "*"), not: rules("*", "apps", "v1", "deployments"), policy: equivalent},
		"excluded in another":  {gvk: extensions, rules: rules("*", "*", "*", "*"), not: rules("*", "apps", "v1", "deployments"), policy: equivalent},
		"the namespace":        {gvk: apps, rules: rules("*", "*", "*", "*"), policy: exact, namespaces: selects("team", "a"), want: "apps/v1"},
		"another namespace":    {gvk: apps, rules: rules("*", "*", "*", "*"), policy: exact, namespaces: selects("team", "b")},
		"as it will be":        {gvk: apps, rules: rules("*", "*", "*", "*"), policy: exact, objects: selects("app", "x"), want: "apps/v1"},
		"as it was":            {gvk: apps, rules: rules("*", "*", "*", "*"), policy: exact, objects: selects("app", "old"), want: "apps/v1"},
		"neither":              {gvk: apps, rules: rules("*", "*", "*", "*"), policy: exact, objects: selects("app", "z")},
		"a scale has no label": {gvk: apps, subresource: "scale", rules: rules("*", "*", "*", "*/*"), policy: exact, objects: selects("app", "x")},
	} {
		old := deployment(1)
		old.Labels["app"] = "old"
		r := request(t, test.gvk, test.subresource, admission.Update, deployment(2), old)
		m, err := NewMatch(test.rules, test.not, &test.policy, test.namespaces, test.objects)
		if err != nil {
			t.Fatal(err)
		}
		res, err := m.Matches(t.Context(), r, namespaces{"ns": {"team": "a"}})
		got := ""
		if res != nil {
			got = res.GVK.GroupVersion().String()
		}
		if err != nil || got != test.want {
			t.Errorf("%s: shown as %q, %v; want %q", name, got, err, test.want)
		}
	}
	m, err := NewMatch(rules("*", "*", "*", "*"), nil, nil, &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Matches(t.Context(), request(t, apps, "", admission.Update, deployment(1), deployment(1)), namespaces{}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that is not there: %v", err)
	}
	// A Namespace is selected by its own labels, a node always.
	ns := request(t, corev1.SchemeGroupVersion.WithKind("Namespace"), "", admission.Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}, nil)
	node := request(t, corev1.SchemeGroupVersion.WithKind("Node"), "", admission.Create, &corev1.Node{}, nil)
	for _, r := range []*Request{ns, node} {
		if res, err := m.Matches(t.Context(), r, namespaces{}); res == nil || err != nil {
			t.Errorf("%s: %v, %v", r.Resource.GVK, res, err)
		}
	}
	if _, err := NewMatch(nil, nil, nil, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}, nil); err == nil {
		t.Error("a selector without sense is taken")
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	object := deployment(2)
	r := request(t, extensions, "", admission.Update, object, deployment(1))
	replace := func(r *Request, res *registry.Resource, change func(map[string]any)) (bool, error) {
		v, err := r.As(t.Context(), res)
		if err != nil {
			t.Fatal(err)
		}
		data, err := v.JSON(false)
		if err != nil || !v.Mutable() {
			t.Fatal(err, v.Mutable())
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		data, _ = json.Marshal(m)
		return v.Replace(t.Context(), data)
	}
	for _, res := range r.Equivalents() {
		r.Object.(*appsv1.Deployment).Spec.Paused = false
		r.Changed()
		changed, err := replace(r, res, func(m map[string]any) { m["spec"].(map[string]any)["paused"] = true })
		if err != nil || !changed || !object.Spec.Paused || *object.Spec.Replicas != 2 || object.Kind != "Deployment" || object.APIVersion != "apps/v1" {
			t.Errorf("%s: %v, %v: %+v", res.GVK, changed, err, object)
		}
	}
	if changed, err := replace(r, r.Resource, func(map[string]any) {}); changed || err != nil {
		t.Errorf("nothing new: %v, %v", changed, err)
	}
	if _, err := replace(r, r.Resource, func(m map[string]any) { m["metadata"].(map[string]any)["namespace"] = "other" }); !apierrors.IsBadRequest(err) {
		t.Errorf("another namespace: %v", err)
	}
	if _, err := replace(r, r.Resource, func(m map[string]any) { m["spec"] = "text" }); err == nil {
		t.Error("a spec of text is taken")
	}
	// A Scale changes the replicas and nothing else.
	scaled := request(t, apps, "scale", admission.Update, deployment(5), deployment(1))
	changed, err := replace(scaled, scaled.Resource, func(m map[string]any) { m["spec"].(map[string]any)["replicas"] = 3 })
	if err != nil || !changed || *scaled.Object.(*appsv1.Deployment).Spec.Replicas != 3 {
		t.Errorf("a Scale: %v, %v", changed, err)
	}
	v, err := scaled.As(t.Context(), scaled.Resource)
	if err != nil || v.Kind.Kind != "Scale" || v.Object.(*autoscalingv1.Scale).Spec.Replicas != 3 || v.Old.(*autoscalingv1.Scale).Spec.Replicas != 1 {
		t.Errorf("shown as %+v, %v", v, err)
	}
	gone := request(t, apps, "", admission.Delete, nil, deployment(1))
	if v, err := gone.As(t.Context(), gone.Resource); err != nil || v.Object != nil || v.Old == nil || v.Mutable() {
		t.Errorf("a deletion: %+v, %v", v, err)
	}
}

func TestConnectOptions(t *testing.T) {
	t.Parallel()
	tab := table(t)
	options := func(resource, subresource string, query url.Values) (string, string) {
		gvk := corev1.SchemeGroupVersion.WithKind("Pod")
		if resource == "nodes" {
			gvk.Kind = "Node"
		}
		obj, kind, err := connectOptions(&admission.Attributes{Operation: admission.Connect, Resource: tab.FindKind(gvk), Subresource: subresource, Query: query.Encode(), Path: "/x"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		return kind.Kind, string(b)
	}
	for _, test := range []struct {
		resource, subresource string
		query                 url.Values
		kind, want            string
	}{
		{"pods", "exec", url.Values{"command": {"sh", "-c"}, "stdin": {"1"}, "stdout": {"false"}, "container": {"c"}}, "PodExecOptions", `"stdin":true,"container":"c","command":["sh","-c"]`},
		{"pods", "attach", url.Values{"tty": {"true"}}, "PodAttachOptions", `"tty":true`},
		{"pods", "portforward", url.Values{"ports": {"80,81", "x"}}, "PodPortForwardOptions", `"ports":[80,81]`},
		{"pods", "log", url.Values{"tailLines": {"5"}, "follow": {"true"}}, "PodLogOptions", `"follow":true,"tailLines":5`},
		{"nodes", "proxy", url.Values{"path": {"/other"}}, "NodeProxyOptions", `"path":"/x"`},
		{"pods", "other", nil, "Pod", "null"},
	} {
		if kind, got := options(test.resource, test.subresource, test.query); kind != test.kind || !strings.Contains(got, test.want) {
			t.Errorf("%s/%s: %s %s", test.resource, test.subresource, kind, got)
		}
	}
	if _, _, err := connectOptions(&admission.Attributes{Resource: tab.FindKind(corev1.SchemeGroupVersion.WithKind("Pod")), Subresource: "exec", Query: "%"}); err == nil {
		t.Error("a malformed query is taken")
	}
}

// What is configured is not known before the cache stands: until then nobody may pass by it.
func TestAwait(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	f := &Followed[int]{ready: ready}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Await(ctx); f.Ready() || !apierrors.IsServiceUnavailable(err) {
		t.Errorf("before it is ready: %v", err)
	}
	close(ready)
	if err := f.Await(t.Context()); !f.Ready() || err != nil {
		t.Errorf("when it is ready: %v", err)
	}
}
