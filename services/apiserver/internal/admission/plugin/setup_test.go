package plugin

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/registry"
)

// sort is a kind that tests write about.
type sort struct {
	group, version, kind, resource string
	namespaced                     bool
	new                            func() registry.Object
}

var sorts = []sort{
	{"", "v1", "Pod", "pods", true, func() registry.Object { return &corev1.Pod{} }},
	{"batch", "v1", "Job", "jobs", true, func() registry.Object { return &batchv1.Job{} }},
	{"", "v1", "Namespace", "namespaces", false, func() registry.Object { return &corev1.Namespace{} }},
	{"", "v1", "Node", "nodes", false, func() registry.Object { return &corev1.Node{} }},
	{"", "v1", "Service", "services", true, func() registry.Object { return &corev1.Service{} }},
	{"", "v1", "Event", "events", true, func() registry.Object { return &corev1.Event{} }},
	{"", "v1", "ConfigMap", "configmaps", true, func() registry.Object { return &corev1.ConfigMap{} }},
	{"", "v1", "ServiceAccount", "serviceaccounts", true, func() registry.Object { return &corev1.ServiceAccount{} }},
	{"", "v1", "LimitRange", "limitranges", true, func() registry.Object { return &corev1.LimitRange{} }},
	{"", "v1", "ResourceQuota", "resourcequotas", true, func() registry.Object { return &corev1.ResourceQuota{} }},
	{"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, func() registry.Object { return &corev1.PersistentVolumeClaim{} }},
	{"", "v1", "PersistentVolume", "persistentvolumes", false, func() registry.Object { return &corev1.PersistentVolume{} }},
	{"storage.k8s.io", "v1", "StorageClass", "storageclasses", false, func() registry.Object { return &storagev1.StorageClass{} }},
	{"storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", false, func() registry.Object { return &storagev1.VolumeAttributesClass{} }},
	{"storage.k8s.io", "v1", "CSINode", "csinodes", false, func() registry.Object { return &storagev1.CSINode{} }},
	{"storage.k8s.io", "v1", "CSIDriver", "csidrivers", false, func() registry.Object { return &storagev1.CSIDriver{} }},
	{"networking.k8s.io", "v1", "Ingress", "ingresses", true, func() registry.Object { return &networkingv1.Ingress{} }},
	{"networking.k8s.io", "v1", "IngressClass", "ingressclasses", false, func() registry.Object { return &networkingv1.IngressClass{} }},
	{"node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false, func() registry.Object { return &nodev1.RuntimeClass{} }},
	{"scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false, func() registry.Object { return &schedulingv1.PriorityClass{} }},
	{"resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true, func() registry.Object { return &resourcev1.ResourceClaim{} }},
	{"resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false, func() registry.Object { return &resourcev1.DeviceClass{} }},
	{"coordination.k8s.io", "v1", "Lease", "leases", true, func() registry.Object { return &coordinationv1.Lease{} }},
	{"certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", false, func() registry.Object { return &certificatesv1.CertificateSigningRequest{} }},
	{"certificates.k8s.io", "v1beta1", "ClusterTrustBundle", "clustertrustbundles", false, func() registry.Object { return &certificatesv1beta1.ClusterTrustBundle{} }},
	{"certificates.k8s.io", "v1beta1", "PodCertificateRequest", "podcertificaterequests", true, func() registry.Object { return &certificatesv1beta1.PodCertificateRequest{} }},
	{"scheduling.k8s.io", "v1alpha2", "Workload", "workloads", true, func() registry.Object { return &schedulingv1alpha2.Workload{} }},
	{"scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", true, func() registry.Object { return &schedulingv1alpha2.PodGroup{} }},
}

func sortOf(t testing.TB, resource string) sort {
	t.Helper()
	for _, s := range sorts {
		if s.resource == resource {
			return s
		}
	}
	t.Fatalf("no kind has the resource %s", resource)
	return sort{}
}

func (s sort) read(t testing.TB, text string) registry.Object {
	t.Helper()
	obj := s.new()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}

// world implements admission.Objects over objects given as YAML, by resource.
type world map[string][]registry.Object

func worldOf(t testing.TB, objects map[string][]string) world {
	t.Helper()
	w := world{}
	for resource, texts := range objects {
		for _, text := range texts {
			w[resource] = append(w[resource], sortOf(t, resource).read(t, text))
		}
	}
	return w
}

func (w world) Get(_ context.Context, group, resource, namespace, name string) (registry.Object, error) {
	for _, obj := range w[resource] {
		if obj.GetName() == name && (obj.GetNamespace() == namespace || obj.GetNamespace() == "") {
			return obj, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: resource}, name)
}

func (w world) List(_ context.Context, _, resource, namespace string) []registry.Object {
	var out []registry.Object
	for _, obj := range w[resource] {
		if namespace == "" || obj.GetNamespace() == "" || obj.GetNamespace() == namespace {
			out = append(out, obj)
		}
	}
	return out
}

// may allows what it lists, as "user verb group/resource/subresource name".
type may []string

func (m may) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	ask := fmt.Sprintf("%s %s %s/%s/%s %s", a.User.Name, a.Verb, a.Group, a.Resource, a.Subresource, a.Name)
	for _, allowed := range m {
		if allowed == ask {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, "no", nil
}

// write is one write of a test; objects are YAML.
type write struct {
	op          admission.Operation // Create where empty
	resource    string              // pods where empty
	subresource string
	object, old string
	user        authn.User
	dryRun      bool
	query       string
}

type notes struct {
	warnings    []string
	annotations map[string]string
}

func (n *notes) Warn(text string)           { n.warnings = append(n.warnings, text) }
func (n *notes) Annotate(key, value string) { n.annotations[key] = value }

func (w write) attributes(t testing.TB) (*admission.Attributes, *notes) {
	t.Helper()
	if w.op == "" {
		w.op = admission.Create
	}
	if w.resource == "" {
		w.resource = "pods"
	}
	s := sortOf(t, w.resource)
	gvk := schema.GroupVersionKind{Group: s.group, Version: s.version, Kind: s.kind}
	n := &notes{annotations: map[string]string{}}
	a := &admission.Attributes{
		Operation: w.op, Subresource: w.subresource, User: &w.user, DryRun: w.dryRun, Query: w.query, Notes: n,
		Resource: &registry.Resource{
			GVK: gvk, GVR: gvk.GroupVersion().WithResource(w.resource),
			Kind: &registry.Kind{GVK: gvk, Resource: w.resource, Namespaced: s.namespaced},
		},
	}
	if w.user.Name == "" {
		a.User = &authn.User{Name: "alice"}
	}
	if s.namespaced {
		a.Namespace = "default"
	}
	for _, part := range []struct {
		text string
		into *registry.Object
	}{{w.object, &a.Object}, {w.old, &a.Old}} {
		if part.text == "" {
			continue
		}
		*part.into = s.read(t, part.text)
		(*part.into).SetNamespace(a.Namespace)
		a.Name = (*part.into).GetName()
	}
	return a, n
}

// admit runs a plugin as the chain does.
func admit(p admission.Plugin, a *admission.Attributes) error {
	if !p.Handles(a) {
		return nil
	}
	if m, ok := p.(admission.Mutator); ok {
		if err := m.Admit(context.Background(), a); err != nil {
			return err
		}
	}
	if v, ok := p.(admission.Validator); ok {
		return v.Validate(context.Background(), a)
	}
	return nil
}

// verdict is a case: what a plugin does about a write.
type verdict struct {
	write
	// refused is a part of the refusal's text; empty: it is admitted.
	refused string
	// becomes are parts of the object's YAML afterwards, and not those that it must not have.
	becomes, not []string
}

func (v verdict) check(t *testing.T, p admission.Plugin) {
	t.Helper()
	a, _ := v.attributes(t)
	err := admit(p, a)
	switch {
	case v.refused == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case v.refused != "" && (err == nil || !strings.Contains(err.Error(), v.refused)):
		t.Fatalf("got %v, want %s", err, v.refused)
	}
	if a.Object == nil {
		return
	}
	out, err := yaml.Marshal(a.Object)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range v.becomes {
		if !strings.Contains(string(out), part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
	for _, part := range v.not {
		if strings.Contains(string(out), part) {
			t.Errorf("%q is in\n%s", part, out)
		}
	}
}

// verdicts checks a plugin against cases.
func verdicts(t *testing.T, p admission.Plugin, cases map[string]verdict) {
	t.Helper()
	for name, v := range cases {
		t.Run(name, func(t *testing.T) { v.check(t, p) })
	}
}
