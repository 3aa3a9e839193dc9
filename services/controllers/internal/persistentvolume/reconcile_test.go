package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func build(env *controller.Env) (controller.Unit, error) { return New(env, nil, false), nil }

// fresh takes from an object what the API gives.
func fresh[T object.Object](o T, name string) T {
	o.SetUID("")
	if name != "" {
		o.SetName(name)
	}
	return o
}

// wrong says what of a cluster's bindings must never be: two claims with one volume, or a claim whose volume has another.
func wrong(claims []*corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume) string {
	byName, owner := map[string]*corev1.PersistentVolume{}, map[string]string{}
	for _, v := range volumes {
		byName[v.Name] = v
	}
	for _, c := range claims {
		name := c.Spec.VolumeName
		if name == "" {
			continue
		}
		if other := owner[name]; other != "" {
			return fmt.Sprintf("%s and %s have the volume %s", other, c.Name, name)
		}
		owner[name] = c.Name
		if v := byName[name]; v == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID {
			return fmt.Sprintf("%s has %s, which does not have it", c.Name, name)
		}
	}
	return ""
}

// TestNeverTwoClaimsOnOneVolume binds claims to volumes of several sizes while writes fail at random and
// leaders come and go in between, two of them at a time. In the end all claims are bound, each to a volume of its own, and no volume is held
// by a claim that has another.
func TestNeverTwoClaimsOnOneVolume(t *testing.T) {
	t.Parallel()
	const n = 40
	var (
		mu    sync.Mutex
		rng   = rand.New(rand.NewPCG(7, 7))
		bound = map[string]string{} // what was ever written of a claim
		calm  bool
	)
	api := objecttest.New()
	api.Intercept = func(w objecttest.Write) error {
		mu.Lock()
		slow := time.Duration(rng.IntN(2000)) * time.Microsecond
		mu.Unlock()
		time.Sleep(slow) // a write takes its time, and others come in between
		mu.Lock()
		defer mu.Unlock()
		if c, ok := w.Object.(*corev1.PersistentVolumeClaim); ok && w.Verb == "update" && w.Subresource == "" && c.Spec.VolumeName != "" {
			if before := bound[c.Name]; before != "" && before != c.Spec.VolumeName {
				t.Errorf("%s is moved from %s to %s", c.Name, before, c.Spec.VolumeName)
			}
		}
		if w.Verb == "update" && !calm && rng.IntN(4) == 0 {
			return apierrors.NewInternalError(errors.New("a lost connection"))
		}
		return nil
	}
	client := api.Serve(t)
	ctx := t.Context()
	for i := range n {
		c := fresh(newClaim(), fmt.Sprintf("c-%d", i))
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
		v := newVolume(fmt.Sprintf("v-%d", i), fmt.Sprintf("%dGi", 2+i%3))
		v.Status.Phase = corev1.VolumePending
		if _, err := object.For(client, object.PersistentVolumeClaim).Create(ctx, c); err != nil {
			t.Fatal(err)
		}
		if _, err := object.For(client, object.PersistentVolume).Create(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	state := func() ([]*corev1.PersistentVolumeClaim, []*corev1.PersistentVolume) {
		// The claims first: a volume's side is written before a claim's.
		claims, _, err := object.For(client, object.PersistentVolumeClaim).List(ctx, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		volumes, _, err := object.For(client, object.PersistentVolume).List(ctx, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if problem := wrong(claims, volumes); problem != "" {
			t.Fatal(problem)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, c := range claims {
			if c.Spec.VolumeName != "" {
				bound[c.Name] = c.Spec.VolumeName
			}
		}
		return claims, volumes
	}
	done := func() bool {
		claims, volumes := state()
		for _, c := range claims {
			if c.Status.Phase != corev1.ClaimBound {
				return false
			}
		}
		for _, v := range volumes {
			if v.Status.Phase != corev1.VolumeBound {
				return false
			}
		}
		return true
	}
	for life := 0; !done(); life++ {
		if life == 200 {
			t.Fatal("claims stay unbound")
		}
		mu.Lock()
		calm = life > 20
		length := time.Duration(5+rng.IntN(40)) * time.Millisecond
		mu.Unlock()
		leaders := 1 + life%2
		ends := make([]func(), leaders)
		var started sync.WaitGroup
		for i := range leaders {
			started.Go(func() { ends[i] = controllertest.Lead(t, client, clock.RealClock{}, build) })
		}
		started.Wait()
		// A leader's life is some writes long, wherever that is.
		deadline := time.Now().Add(length)
		for time.Now().Before(deadline) && !done() {
		}
		for _, end := range ends {
			end()
		}
	}
	claims, volumes := state()
	if len(claims) != n || len(volumes) != n {
		t.Errorf("%d claims, %d volumes", len(claims), len(volumes))
	}
}

// TestLifeOfABinding follows a claim and its volume: bound, the claim deleted, the volume released and kept; and a claim whose volume goes is lost.
func TestLifeOfABinding(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, nil, build)
	controllertest.Create(c, object.PersistentVolume, newVolume("kept", "2Gi"))
	controllertest.Create(c, object.PersistentVolumeClaim, fresh(newClaim(), ""))
	bound := func(list []*corev1.PersistentVolumeClaim) bool {
		return len(list) == 1 && list[0].Status.Phase == corev1.ClaimBound
	}
	list := controllertest.Await(c, object.PersistentVolumeClaim, "bound", bound)
	if a := list[0].Annotations; a["pv.kubernetes.io/bind-completed"] != "yes" || a["pv.kubernetes.io/bound-by-controller"] != "yes" {
		t.Errorf("annotations %v", a)
	}
	controllertest.Delete(c, object.PersistentVolumeClaim, "n", "c", metav1.DeleteOptions{})
	controllertest.Await(c, object.PersistentVolume, "released", func(list []*corev1.PersistentVolume) bool {
		return len(list) == 1 && list[0].Status.Phase == corev1.VolumeReleased && list[0].Spec.ClaimRef != nil
	})
	// Another claim of the name does not get it: somebody else's data are there.
	controllertest.Create(c, object.PersistentVolumeClaim, fresh(newClaim(), ""))
	controllertest.Create(c, object.PersistentVolume, newVolume("new", "7Gi"))
	list = controllertest.Await(c, object.PersistentVolumeClaim, "bound to the new one", bound)
	if list[0].Spec.VolumeName != "new" {
		t.Errorf("bound to %s", list[0].Spec.VolumeName)
	}
	controllertest.Delete(c, object.PersistentVolume, "", "new", metav1.DeleteOptions{})
	controllertest.Await(c, object.PersistentVolumeClaim, "lost", func(list []*corev1.PersistentVolumeClaim) bool {
		return len(list) == 1 && list[0].Status.Phase == corev1.ClaimLost && list[0].Status.Capacity == nil
	})
}

// TestProvisionerIsAsked lets a default class come late, a pod, and the scheduler's choice; then whoever provisions makes the volume.
func TestProvisionerIsAsked(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, nil, build)
	claim := fresh(newClaim(classed(nil)), "")
	controllertest.Create(c, object.PersistentVolumeClaim, claim)
	event := func(want string) {
		t.Helper()
		for {
			select {
			case e := <-c.Events.Events:
				if e == want {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("no event %q", want)
			}
		}
	}
	event("Normal FailedBinding no persistent volumes available for this claim and no storage class is set")
	class := newClass(storagev1.VolumeBindingWaitForFirstConsumer)
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	controllertest.Create(c, object.StorageClass, class)
	event("Normal WaitForFirstConsumer waiting for first consumer to be created before binding")
	waiting := controllertest.List(c, object.PersistentVolumeClaim)[0]
	metav1.SetMetaDataAnnotation(&waiting.ObjectMeta, "volume.kubernetes.io/selected-node", "node-1")
	waiting, err := object.For(c.Client, object.PersistentVolumeClaim).Update(context.Background(), waiting)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Await(c, object.PersistentVolumeClaim, "the provisioner's name", func(list []*corev1.PersistentVolumeClaim) bool {
		return list[0].Annotations["volume.kubernetes.io/storage-provisioner"] == "x.example.com"
	})
	controllertest.Create(c, object.PersistentVolume, newVolume("pvc-1", "2Gi", refTo("c", waiting.UID), inPhaseOf(corev1.VolumePending), annotated[*corev1.PersistentVolume]("pv.kubernetes.io/provisioned-by", "x.example.com")))
	controllertest.Await(c, object.PersistentVolumeClaim, "bound", func(list []*corev1.PersistentVolumeClaim) bool {
		return list[0].Status.Phase == corev1.ClaimBound && list[0].Spec.VolumeName == "pvc-1"
	})
	if v := controllertest.List(c, object.PersistentVolume)[0]; v.Annotations["pv.kubernetes.io/bound-by-controller"] != "" {
		t.Errorf("whoever made the volume gave it to the claim: %v", v.Annotations)
	}
}
