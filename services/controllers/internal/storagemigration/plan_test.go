package storagemigration

import (
	"testing"
	"time"

	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSteps(t *testing.T) {
	t.Parallel()
	m := &storagemigrationv1beta1.StorageVersionMigration{}
	if Next(m) != Begin {
		t.Error("a new migration does not begin")
	}
	begun(m, "")
	if Next(m) != Begin {
		t.Error("a migration without a revision goes on")
	}
	begun(m, "7")
	if Next(m) != Migrate {
		t.Error("a migration that has begun does not go on")
	}
	succeeded(m)
	if Next(m) != Nothing || !meta.IsStatusConditionFalse(m.Status.Conditions, "Running") || !meta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") {
		t.Errorf("%+v", m.Status)
	}
	lost := &storagemigrationv1beta1.StorageVersionMigration{}
	begun(lost, "")
	since := lost.Status.Conditions[0].LastTransitionTime.Time
	if waits(lost, since.Add(15*time.Second)) != 25*time.Second || waits(lost, since.Add(time.Hour)) != 0 {
		t.Errorf("waits %s, %s", waits(lost, since.Add(15*time.Second)), waits(lost, since.Add(time.Hour)))
	}
	failed(lost, "why")
	if Next(lost) != Nothing || !meta.IsStatusConditionFalse(lost.Status.Conditions, "Running") {
		t.Errorf("%+v", lost.Status)
	}
}

func TestOld(t *testing.T) {
	t.Parallel()
	for revision, want := range map[string]bool{"6": true, "7": true, "8": false, "10": false, "x": true} {
		if got := old(&metav1.ObjectMeta{ResourceVersion: revision}, "7"); got != want {
			t.Errorf("%s: %v", revision, got)
		}
	}
}
