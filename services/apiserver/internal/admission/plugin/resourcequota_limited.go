package plugin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/internal/quota"
)

// covered refuses what may only be consumed under a quota where there is none for it.
func (p *ResourceQuota) covered(a *admission.Attributes, write quota.Write, delta quota.List, quotas []registry.Object) error {
	var names []corev1.ResourceName
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, l := range p.Limited {
		if l.APIGroup != write.Resource.Group || l.Resource != write.Resource.Resource {
			continue
		}
		for _, name := range quota.Names(delta) {
			more := delta[name]
			if more.Sign() > 0 && slices.ContainsFunc(l.MatchContains, func(part string) bool { return strings.Contains(string(name), part) }) {
				names = append(names, name)
			}
		}
		for _, s := range l.MatchScopes {
			if quota.InScope(s, a.Object) {
				scopes = append(scopes, s)
			}
		}
	}
	if len(names) == 0 && len(scopes) == 0 {
		return nil
	}
	for _, obj := range quotas {
		q, ok := obj.(*corev1.ResourceQuota)
		if !ok || !quota.Counts(&q.Spec, a.Object) {
			continue
		}
		names = slices.DeleteFunc(names, func(n corev1.ResourceName) bool { _, limited := q.Status.Hard[n]; return limited })
		has := quota.Scopes(&q.Spec)
		scopes = slices.DeleteFunc(scopes, func(s corev1.ScopedResourceSelectorRequirement) bool {
			return slices.ContainsFunc(has, func(h corev1.ScopedResourceSelectorRequirement) bool { return h.ScopeName == s.ScopeName })
		})
	}
	if len(names) > 0 {
		var texts []string
		for _, n := range names {
			texts = append(texts, string(n))
		}
		return a.Forbidden(fmt.Errorf("insufficient quota to consume: %v", strings.Join(texts, ",")))
	}
	if len(scopes) > 0 {
		return a.Forbidden(fmt.Errorf("insufficient quota to match these scopes: %v", scopes))
	}
	return nil
}
