package aggregate

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Registration is what an APIService says of a group version, whoever serves it: that it is part of the API, and where among others.
type Registration struct {
	schema.GroupVersion
	GroupPriority, VersionPriority int32
}

// Registered returns what all APIServices say. Nothing may write to it; the number that Versions returns changes with it.
func (a *Aggregator) Registered() []Registration { return a.snapshot().registered }

func registrationOf(s *apiregistrationv1.APIService) Registration {
	r := Registration{
		GroupVersion:  schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version},
		GroupPriority: s.Spec.GroupPriorityMinimum, VersionPriority: s.Spec.VersionPriority,
	}
	if s.Spec.Service == nil && r.Group == moved {
		r.GroupPriority = LocalGroupPriority(moved)
	}
	return r
}

// LocalRegistration is what the APIService of a group version that is served here says.
func LocalRegistration(gv schema.GroupVersion) Registration {
	return registrationOf(local(gv, priorityOf(gv.Group) == customPriority))
}

// Ordered returns the registrations in the order of Kubernetes' unaggregated list, each group's together: groups by the highest priority of their
// versions and then by the first name of their APIServices, which begins with a version; in a group, versions by theirs and then by age.
func Ordered(all []Registration) []Registration {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Registration) int {
		return cmp.Or(cmp.Compare(b.GroupPriority, a.GroupPriority), cmp.Compare(a.service(), b.service()))
	})
	place := map[string]int{}
	for _, r := range all {
		if _, seen := place[r.Group]; !seen {
			place[r.Group] = len(place)
		}
	}
	slices.SortStableFunc(all, func(a, b Registration) int {
		return cmp.Or(
			cmp.Compare(place[a.Group], place[b.Group]), cmp.Compare(b.VersionPriority, a.VersionPriority),
			version.CompareKubeAwareVersionStrings(b.Version, a.Version),
		)
	})
	return all
}

// service is the name of the APIService.
func (r Registration) service() string { return r.Version + "." + r.Group }
