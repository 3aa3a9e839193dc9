// Package storagemigration carries StorageVersionMigrations out: it has all objects of a resource stored anew, in the version and with
// the encryption that hold now.
package storagemigration

import (
	"strconv"
	"time"

	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Step is what a migration needs next.
type Step int

// The steps.
const (
	Nothing Step = iota // it has ended
	Begin               // the revision up to which objects are old is to be noted
	Migrate             // the objects are to be written
)

// Next tells what a migration needs.
func Next(m *storagemigrationv1beta1.StorageVersionMigration) Step {
	is := func(t storagemigrationv1beta1.MigrationConditionType) bool {
		return meta.IsStatusConditionTrue(m.Status.Conditions, string(t))
	}
	switch {
	case m.DeletionTimestamp != nil, is(storagemigrationv1beta1.MigrationSucceeded), is(storagemigrationv1beta1.MigrationFailed):
		return Nothing
	case !is(storagemigrationv1beta1.MigrationRunning), m.Status.ResourceVersion == "":
		return Begin
	}
	return Migrate
}

// old reports whether an object was last written at a revision up to limit. What cannot be compared is.
func old(obj metav1.Object, limit string) bool {
	revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	last, err2 := strconv.ParseUint(limit, 10, 64)
	return err != nil || err2 != nil || revision <= last
}

func begun(m *storagemigrationv1beta1.StorageVersionMigration, revision string) {
	m.Status.ResourceVersion = revision
	set(m, storagemigrationv1beta1.MigrationRunning, metav1.ConditionTrue, "MigrationRunning", "The migration is running")
}

func succeeded(m *storagemigrationv1beta1.StorageVersionMigration) {
	set(m, storagemigrationv1beta1.MigrationRunning, metav1.ConditionFalse, "MigrationCompleted", "Migration completed")
	set(m, storagemigrationv1beta1.MigrationSucceeded, metav1.ConditionTrue, "StorageVersionMigrationSucceeded", "")
}

func failed(m *storagemigrationv1beta1.StorageVersionMigration, why string) {
	set(m, storagemigrationv1beta1.MigrationRunning, metav1.ConditionFalse, "MigrationCompleted", "Migration completed")
	set(m, storagemigrationv1beta1.MigrationFailed, metav1.ConditionTrue, "StorageVersionMigrationFailed", why)
}

// patience is how long after its beginning a migration waits for a resource that is not served, which may be about to be defined.
const patience = 40 * time.Second

// waits returns how long a migration that has begun still waits for its resource; 0 is not at all.
func waits(m *storagemigrationv1beta1.StorageVersionMigration, now time.Time) time.Duration {
	c := meta.FindStatusCondition(m.Status.Conditions, string(storagemigrationv1beta1.MigrationRunning))
	if c == nil {
		return patience
	}
	return max(patience-now.Sub(c.LastTransitionTime.Time), 0)
}

func set(m *storagemigrationv1beta1.StorageVersionMigration, t storagemigrationv1beta1.MigrationConditionType, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: string(t), Status: status, Reason: reason, Message: message})
}
