// Package storageversion takes API servers that are gone out of the StorageVersions: what they would have stored matters no more.
package storageversion

import (
	"slices"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type storageVersion = apiserverinternalv1alpha1.StorageVersion

// Without returns a StorageVersion without the API servers that are not alive; nil where nothing changes. empty says that none is left, and that the object goes.
func Without(sv *storageVersion, alive func(server string) bool, now metav1.Time) (want *storageVersion, empty bool) {
	left := slices.DeleteFunc(slices.Clone(sv.Status.StorageVersions), func(s apiserverinternalv1alpha1.ServerStorageVersion) bool { return !alive(s.APIServerID) })
	if len(left) == len(sv.Status.StorageVersions) {
		return nil, false
	}
	if len(left) == 0 {
		return nil, true
	}
	want = sv.DeepCopy()
	want.Status.StorageVersions = left
	agree(want, now)
	return want, false
}

// agree says in the status which version all servers store, if they do.
func agree(sv *storageVersion, now metav1.Time) {
	before := sv.Status.CommonEncodingVersion
	sv.Status.CommonEncodingVersion = nil
	c := apiserverinternalv1alpha1.StorageVersionCondition{
		Type: apiserverinternalv1alpha1.AllEncodingVersionsEqual, Status: apiserverinternalv1alpha1.ConditionFalse, ObservedGeneration: sv.Generation,
		LastTransitionTime: now, Reason: "CommonEncodingVersionUnset", Message: "Common encoding version unset",
	}
	first := sv.Status.StorageVersions[0].EncodingVersion
	if !slices.ContainsFunc(sv.Status.StorageVersions, func(s apiserverinternalv1alpha1.ServerStorageVersion) bool { return s.EncodingVersion != first }) {
		sv.Status.CommonEncodingVersion = &first
		c.Status, c.Reason, c.Message = apiserverinternalv1alpha1.ConditionTrue, "CommonEncodingVersionSet", "Common encoding version set"
	}
	another := before != nil && sv.Status.CommonEncodingVersion != nil && *before != first
	i := slices.IndexFunc(sv.Status.Conditions, func(old apiserverinternalv1alpha1.StorageVersionCondition) bool { return old.Type == c.Type })
	if i < 0 {
		sv.Status.Conditions = append(sv.Status.Conditions, c)
		return
	}
	if old := sv.Status.Conditions[i]; old.Status == c.Status && !another {
		c.LastTransitionTime = old.LastTransitionTime
	}
	sv.Status.Conditions[i] = c
}
