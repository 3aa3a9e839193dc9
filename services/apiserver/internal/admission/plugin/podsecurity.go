package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	psa "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	psapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"howdah.dev/services/apiserver/internal/admission"
)

// PodSecurity holds pods to the Pod Security Standard that their namespace's labels name: it enforces, warns and audits.
type PodSecurity struct{ checks *psa.Admission }

// NewPodSecurity reads the plugin's configuration, a PodSecurityConfiguration; nil is the default one.
func NewPodSecurity(objects admission.Objects, config []byte, registerer prometheus.Registerer) (*PodSecurity, error) {
	settings, err := load.LoadFromData(config)
	if err != nil {
		return nil, err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, err
	}
	checks := &psa.Admission{
		Configuration: settings, Evaluator: evaluator, Metrics: newPodSecurityMetrics(registerer),
		PodSpecExtractor: psa.DefaultPodSpecExtractor{},
		NamespaceGetter:  namespaceGetter{objects}, PodLister: podLister{objects},
	}
	if err := checks.CompleteConfiguration(); err != nil {
		return nil, err
	}
	if err := checks.ValidateConfiguration(); err != nil {
		return nil, err
	}
	return &PodSecurity{checks: checks}, nil
}

// Name implements admission.Plugin.
func (*PodSecurity) Name() string { return "PodSecurity" }

// Handles implements admission.Plugin.
func (*PodSecurity) Handles(a *admission.Attributes) bool {
	if a.Operation != admission.Create && a.Operation != admission.Update {
		return false
	}
	switch a.Resource.Kind.GVK.Group {
	case "":
		switch a.Resource.Kind.Resource {
		case "pods":
			return a.Subresource == "" || a.Subresource == "ephemeralcontainers" || a.Subresource == "resize"
		case "namespaces", "replicationcontrollers", "podtemplates":
			return a.Subresource == ""
		}
	case "apps", "batch":
		return a.Subresource == "" && psa.DefaultPodSpecExtractor{}.HasPodSpec(a.Resource.Kind.GroupResource())
	}
	return false
}

// Validate implements admission.Validator.
func (p *PodSecurity) Validate(ctx context.Context, a *admission.Attributes) error {
	kind := a.Resource.Kind
	record := &psapi.AttributesRecord{
		Name: a.Name, Namespace: a.Namespace, Kind: kind.GVK, Subresource: a.Subresource, Operation: admissionv1.Operation(a.Operation),
		Resource: schema.GroupVersionResource{Group: kind.GVK.Group, Version: kind.GVK.Version, Resource: kind.Resource}, Object: a.Object,
	}
	if a.Old != nil {
		record.OldObject = a.Old
	}
	if a.User != nil {
		record.Username = a.User.Name
	}
	if a.Is("", "namespaces") {
		record.Namespace = a.Name
	}
	response := p.checks.Validate(ctx, record)
	for _, w := range response.Warnings {
		a.Warn(w)
	}
	for _, key := range slices.Sorted(maps.Keys(response.AuditAnnotations)) {
		a.Annotate("pod-security.kubernetes.io/"+key, response.AuditAnnotations[key])
	}
	switch {
	case response.Allowed:
		return nil
	case response.Result == nil:
		return a.Forbidden(errors.New("Not allowed by PodSecurity"))
	}
	return &apierrors.StatusError{ErrStatus: *response.Result}
}

type namespaceGetter struct{ objects admission.Objects }

// GetNamespace implements psa.NamespaceGetter.
func (g namespaceGetter) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	obj, err := g.objects.Get(ctx, "", "namespaces", "", name)
	if err != nil {
		return nil, err
	}
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, fmt.Errorf("namespace %s is a %T", name, obj)
	}
	return ns, nil
}

type podLister struct{ objects admission.Objects }

// ListPods implements psa.PodLister.
func (l podLister) ListPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, obj := range l.objects.List(ctx, "", "pods", namespace) {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}
