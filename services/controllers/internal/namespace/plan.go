// Package namespace empties namespaces that are being deleted and then lets
// them go.
package namespace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Remains is what a pass over a namespace has found and could not remove.
type Remains struct {
	// Discovery is why not all kinds could be found out.
	Discovery error
	// Failures are why content could not be deleted.
	Failures []error
	// Counts are the objects that are still there, by resource.
	Counts map[schema.GroupResource]int
	// Finalizers count the objects that each finalizer holds.
	Finalizers map[string]int
	// Youngest is when the last of them was deleted.
	Youngest time.Time
}

// Empty says whether nothing is left, for sure.
func (r Remains) Empty() bool {
	return r.Discovery == nil && len(r.Failures) == 0 && len(r.Counts) == 0
}

// Conditions returns the namespace's conditions after a pass, with those of
// others kept. Their transition times move only when their status does.
func Conditions(had []corev1.NamespaceCondition, r Remains, now metav1.Time) []corev1.NamespaceCondition {
	result := slices.Clone(had)
	set := func(kind corev1.NamespaceConditionType, bad bool, reason, message string) {
		c := corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: now}
		if bad {
			c.Status = corev1.ConditionTrue
		}
		i := slices.IndexFunc(result, func(o corev1.NamespaceCondition) bool { return o.Type == kind })
		if i < 0 {
			result = append(result, c)
			return
		}
		if result[i].Status == c.Status {
			c.LastTransitionTime = result[i].LastTransitionTime
		}
		result[i] = c
	}
	if r.Discovery != nil {
		set(corev1.NamespaceDeletionDiscoveryFailure, true, "DiscoveryFailed", undiscovered(r.Discovery))
	} else {
		set(corev1.NamespaceDeletionDiscoveryFailure, false, "ResourcesDiscovered", "All resources successfully discovered")
	}
	set(corev1.NamespaceDeletionGVParsingFailure, false, "ParsedGroupVersions", "All legacy kube types successfully parsed")
	if len(r.Failures) > 0 {
		var texts []string
		for _, err := range r.Failures {
			texts = append(texts, err.Error())
		}
		slices.Sort(texts)
		set(corev1.NamespaceDeletionContentFailure, true, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(texts), strings.Join(texts, ", ")))
	} else {
		set(corev1.NamespaceDeletionContentFailure, false, "ContentDeleted", "All content successfully deleted, may be waiting on finalization")
	}
	if len(r.Counts) > 0 {
		var texts []string
		for gr, n := range r.Counts {
			texts = append(texts, fmt.Sprintf("%s.%s has %d resource instances", gr.Resource, gr.Group, n))
		}
		slices.Sort(texts)
		set(corev1.NamespaceContentRemaining, true, "SomeResourcesRemain", "Some resources are remaining: "+strings.Join(texts, ", "))
	} else {
		set(corev1.NamespaceContentRemaining, false, "ContentRemoved", "All content successfully removed")
	}
	if len(r.Finalizers) > 0 {
		var texts []string
		for f, n := range r.Finalizers {
			texts = append(texts, fmt.Sprintf("%s in %d resource instances", f, n))
		}
		slices.Sort(texts)
		set(corev1.NamespaceFinalizersRemaining, true, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+strings.Join(texts, ", "))
	} else {
		set(corev1.NamespaceFinalizersRemaining, false, "ContentHasNoFinalizers", "All content-preserving finalizers finished")
	}
	return result
}

// finalized returns the namespace without our finalizer, or nil where it is gone already.
func finalized(ns *corev1.Namespace) *corev1.Namespace {
	i := slices.Index(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	if i < 0 {
		return nil
	}
	ns = ns.DeepCopy()
	ns.Spec.Finalizers = slices.Delete(ns.Spec.Finalizers, i, i+1)
	return ns
}

// undiscovered says of how many groups, where the error is of several, the kinds are not known.
func undiscovered(err error) string {
	var each interface{ Unwrap() []error }
	if !errors.As(err, &each) {
		return err.Error()
	}
	return fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(each.Unwrap()), err)
}
