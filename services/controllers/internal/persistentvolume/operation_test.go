package persistentvolume

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	registry, start := prometheus.NewRegistry(), time.Unix(1_700_000_000, 0)
	o := newOperations(registry)
	a, b := operation{provisioning, "n/a"}, operation{provisioning, "n/b"}
	o.begins(a, "p", start)
	o.begins(a, "other", start.Add(time.Second)) // it has begun
	o.tried(a, errors.New("no"), start.Add(time.Second))
	o.tried(a, apierrors.NewConflict(object.PersistentVolume.GroupResource(), "a", errBehind), start.Add(time.Second))
	o.tried(a, nil, start.Add(4*time.Second))
	o.tried(a, nil, start.Add(5*time.Second)) // it is done
	o.begins(b, "p", start)
	o.dropped(b)
	o.tried(b, nil, start)
	o.begins(b, "p", start)
	o.forget()
	o.tried(b, errors.New("no"), start)
	if n, former := testutil.ToFloat64(o.errors.WithLabelValues("p", provisioning)), testutil.ToFloat64(o.former.WithLabelValues("p", provisioning)); n != 1 || former != 1 {
		t.Errorf("%v errors, and %v under the former name", n, former)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if h := f.Metric[0].GetHistogram(); h != nil && (len(f.Metric) != 1 || h.GetSampleCount() != 1 || h.GetSampleSum() != 4) {
			t.Errorf("%s: %v", f.GetName(), f.Metric)
		}
	}
}

// TestProvisioningIsMeasured plays the provisioner of a claim's class: it makes the volume, and deletes it when the claim is gone.
func TestProvisioningIsMeasured(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, m, false), nil })
	controllertest.Create(c, object.StorageClass, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com/p"})
	controllertest.Create(c, object.PersistentVolumeClaim, fresh(newClaim(), "one"))
	var claim *corev1.PersistentVolumeClaim
	controllertest.Await(c, object.PersistentVolumeClaim, "a claim that asks", func(list []*corev1.PersistentVolumeClaim) bool {
		claim = list[0]
		return claim.Annotations["volume.kubernetes.io/storage-provisioner"] == "example.com/p"
	})
	controllertest.Create(c, object.PersistentVolume, newVolume("v", "5Gi", func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		v.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "example.com/p"}
	}))
	measured := func(operations int) func() bool {
		return func() bool { return testutil.CollectAndCount(m.operations.seconds) == operations }
	}
	controllertest.Soon(t, "a volume that was provisioned", measured(1))
	controllertest.Delete(c, object.PersistentVolumeClaim, claim.Namespace, claim.Name, metav1.DeleteOptions{})
	controllertest.Soon(t, "a deletion that is asked for", func() bool {
		m.operations.mu.Lock()
		defer m.operations.mu.Unlock()
		return len(m.operations.begun) == 1
	})
	controllertest.Delete(c, object.PersistentVolume, "", "v", metav1.DeleteOptions{})
	controllertest.Soon(t, "a volume that was deleted", measured(2))
}

// TestUndeletableVolumesAreCounted: nothing deletes a volume that no provisioner made.
func TestUndeletableVolumesAreCounted(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, m, false), nil })
	controllertest.Create(c, object.PersistentVolume, newVolume("v", "5Gi", func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "n", Name: "gone", UID: "gone"}
		v.Spec.NFS = &corev1.NFSVolumeSource{}
	}))
	controllertest.Await(c, object.PersistentVolume, "a volume that has failed", func(list []*corev1.PersistentVolume) bool {
		return list[0].Status.Phase == corev1.VolumeFailed
	})
	if n := testutil.ToFloat64(m.operations.errors.WithLabelValues("N/A", deleting)); n != 1 {
		t.Errorf("%v are counted", n)
	}
}
