package storageversion

import (
	"testing"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stored is a StorageVersion with pairs of an API server and the version that it stores.
func stored(pairs ...string) *storageVersion {
	sv := &storageVersion{ObjectMeta: metav1.ObjectMeta{Name: "apps.deployments"}}
	for i := 0; i < len(pairs); i += 2 {
		sv.Status.StorageVersions = append(sv.Status.StorageVersions, apiserverinternalv1alpha1.ServerStorageVersion{
			APIServerID: pairs[i], EncodingVersion: pairs[i+1], DecodableVersions: []string{pairs[i+1]},
		})
	}
	return sv
}

func TestWithout(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(time.Unix(2000, 0))
	for what, c := range map[string]struct {
		sv      *storageVersion
		changes bool
		empty   bool
		common  string
	}{
		"all are there":             {stored("a", "v1", "b", "v2"), false, false, ""},
		"one went, the rest agree":  {stored("a", "v1", "gone", "v2", "b", "v1"), true, false, "v1"},
		"one went, the rest do not": {stored("a", "v1", "gone", "v2", "b", "v2"), true, false, ""},
		"all went":                  {stored("gone", "v1"), false, true, ""},
		"nobody was there":          {stored(), false, false, ""},
	} {
		want, empty := Without(c.sv, func(server string) bool { return server != "gone" }, now)
		if (want != nil) != c.changes || empty != c.empty {
			t.Errorf("%s: %v, %v", what, want, empty)
			continue
		}
		if want == nil {
			continue
		}
		common, condition := "", want.Status.Conditions[0]
		if want.Status.CommonEncodingVersion != nil {
			common = *want.Status.CommonEncodingVersion
		}
		if common != c.common || (condition.Status == apiserverinternalv1alpha1.ConditionTrue) != (common != "") || condition.LastTransitionTime != now || len(want.Status.StorageVersions) != 2 {
			t.Errorf("%s: %+v", what, want.Status)
		}
	}
}

// TestTransition keeps the time of a condition that stays, and not where the servers agree on another version.
func TestTransition(t *testing.T) {
	t.Parallel()
	then, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	for before, want := range map[string]metav1.Time{"v1": then, "v0": now} {
		sv := stored("a", "v1", "gone", "v1")
		sv.Status.CommonEncodingVersion = &before
		sv.Status.Conditions = []apiserverinternalv1alpha1.StorageVersionCondition{{
			Type: apiserverinternalv1alpha1.AllEncodingVersionsEqual, Status: apiserverinternalv1alpha1.ConditionTrue, LastTransitionTime: then,
		}}
		got, _ := Without(sv, func(server string) bool { return server != "gone" }, now)
		if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].LastTransitionTime != want {
			t.Errorf("after %s: %+v", before, got.Status.Conditions)
		}
	}
}
