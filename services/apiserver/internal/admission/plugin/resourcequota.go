package plugin

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/internal/quota"
)

// ResourceQuota keeps the namespaces within their quotas. What a write consumes is counted in the transaction that commits it.
type ResourceQuota struct {
	Objects admission.Objects
	Clock   clock.PassiveClock
	// Limited are resources that may be consumed only where a quota covers them.
	Limited []LimitedResource
}

// LimitedResource names a resource that nobody may consume without a quota for it.
type LimitedResource struct {
	APIGroup string `json:"apiGroup"`
	Resource string `json:"resource"`
	// MatchContains are parts of the names of what is consumed, as ".storageclass.storage.k8s.io/requests.storage".
	MatchContains []string `json:"matchContains"`
	// MatchScopes are the scopes for which a quota is needed.
	MatchScopes []corev1.ScopedResourceSelectorRequirement `json:"matchScopes"`
}

// NewResourceQuota reads the plugin's configuration; nil is an empty one.
func NewResourceQuota(objects admission.Objects, config []byte, clock clock.PassiveClock) (*ResourceQuota, error) {
	var c struct {
		APIVersion       string            `json:"apiVersion"`
		Kind             string            `json:"kind"`
		LimitedResources []LimitedResource `json:"limitedResources"`
	}
	if config != nil {
		kind := "ResourceQuotaConfiguration"
		if strings.Contains(string(config), "resourcequota.admission.k8s.io") {
			kind = "Configuration"
		}
		if err := decodeConfig(config, &c, kind, "apiserver.config.k8s.io/v1", "resourcequota.admission.k8s.io/v1", "resourcequota.admission.k8s.io/v1beta1",
			"resourcequota.admission.k8s.io/v1alpha1"); err != nil {
			return nil, err
		}
	}
	for n, l := range c.LimitedResources {
		if l.Resource == "" {
			return nil, fmt.Errorf("limitedResources[%d].resource: Required value", n)
		}
	}
	return &ResourceQuota{Objects: objects, Clock: clock, Limited: c.LimitedResources}, nil
}

// Name implements admission.Plugin.
func (*ResourceQuota) Name() string { return "ResourceQuota" }

// terminating is the one scope that an update can bring a pod into.
var terminating = corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopeTerminating, Operator: corev1.ScopeSelectorOpExists}

// Handles implements admission.Plugin. Only of these kinds can a change consume more.
func (*ResourceQuota) Handles(a *admission.Attributes) bool {
	if a.Namespace == "" || !a.Resource.Kind.Namespaced || a.Object == nil {
		return false
	}
	if a.Operation == admission.Create {
		return a.Subresource == ""
	}
	if a.Operation != admission.Update {
		return false
	}
	switch a.Subresource {
	case "":
	case "status":
		return a.Is("", "persistentvolumeclaims")
	default:
		return a.Subresource == "resize" && a.Is("", "pods")
	}
	if a.Is("", "pods") {
		return quota.InScope(terminating, a.Old) != quota.InScope(terminating, a.Object)
	}
	return a.Is("", "services") || a.Is("", "persistentvolumeclaims") || a.Is("resource.k8s.io", "resourceclaims")
}

// Validate implements admission.Validator.
func (p *ResourceQuota) Validate(ctx context.Context, a *admission.Attributes) error {
	quotas := p.Objects.List(ctx, "", "resourcequotas", a.Namespace)
	if len(quotas) == 0 && len(p.Limited) == 0 {
		return nil
	}
	write := quota.Write{Resource: a.Resource.Kind.GroupResource(), Object: a.Object, Now: p.Clock.Now()}
	if a.Is("resource.k8s.io", "resourceclaims") {
		write.Known = p.known(ctx, a.Namespace)
	}
	if a.Old != nil {
		write.Old = a.Old
	}
	delta, err := write.Delta()
	if err != nil {
		return a.Forbidden(err)
	}
	if len(delta) > 0 {
		if err := p.covered(a, write, delta, quotas); err != nil {
			return err
		}
	}
	charge := func(q *corev1.ResourceQuota) (corev1.ResourceList, error) {
		list, err := write.Charge(q, delta)
		if err != nil {
			return nil, a.Forbidden(err)
		}
		return list, nil
	}
	counted := false
	for _, obj := range quotas {
		q, ok := obj.(*corev1.ResourceQuota)
		if !ok {
			continue
		}
		list, err := charge(q)
		if err != nil {
			return err
		}
		counted = counted || len(list) > 0
	}
	if counted {
		a.Usage = &admission.Usage{Namespace: a.Namespace, Charge: charge}
	}
	return nil
}

// known is what claims to devices of a namespace are counted with.
func (p *ResourceQuota) known(ctx context.Context, namespace string) quota.Known {
	return quota.Known{
		Classes: listed[*resourcev1.DeviceClass](p.Objects.List(ctx, "resource.k8s.io", "deviceclasses", "")),
		Pod: func(name string) *corev1.Pod {
			obj, err := p.Objects.Get(ctx, "", "pods", namespace, name)
			if pod, ok := obj.(*corev1.Pod); ok && err == nil {
				return pod
			}
			return nil
		},
		Claims: func() []*resourcev1.ResourceClaim {
			return listed[*resourcev1.ResourceClaim](p.Objects.List(ctx, "resource.k8s.io", "resourceclaims", namespace))
		},
	}
}

// listed are the objects of one kind.
func listed[T registry.Object](objects []registry.Object) []T {
	var list []T
	for _, obj := range objects {
		if o, ok := obj.(T); ok {
			list = append(list, o)
		}
	}
	return list
}
