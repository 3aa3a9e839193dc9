package api

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// SelectorLabels are the cluster's labels, with those that it has by what it is.
func (c *Cluster) SelectorLabels() labels.Set {
	all := labels.Set{}
	maps.Copy(all, c.Labels)
	all[NameLabel] = c.Name
	for label, value := range map[string]string{ProviderLabel: c.Spec.Provider, RegionLabel: c.Spec.Region, ZoneLabel: c.Spec.Zone} {
		if value != "" {
			all[label] = value
		}
	}
	return all
}

// ReadySince says whether the cluster is ready, and since when it is, or is not. One that was never looked at is not, since it was made.
func (c *Cluster) ReadySince() (bool, time.Time) {
	ready := meta.FindStatusCondition(c.Status.Conditions, Ready)
	if ready == nil {
		return false, c.CreationTimestamp.Time
	}
	return ready.Status == metav1.ConditionTrue, ready.LastTransitionTime.Time
}

// Serves reports whether the cluster serves a kind, as far as is known.
func (c *Cluster) Serves(groupVersion, kind string) bool {
	for _, a := range c.Status.APIs {
		if a.GroupVersion != groupVersion {
			continue
		}
		for _, k := range a.Kinds {
			if k == kind {
				return true
			}
		}
	}
	return false
}
