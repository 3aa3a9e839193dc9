package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/scheduler/internal/plugin"
	"howdah.dev/services/scheduler/internal/queue"
)

func class(name, provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
}

func claim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
}

// local is an available volume on a node.
func local(name, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "local", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func podUsing(name, cpu string, claims ...string) *corev1.Pod {
	p := pod(name, cpu)
	for _, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
	}
	return p
}

func create[T object.Object](w *world, kind object.Kind[T], objects ...T) {
	w.Helper()
	for _, o := range objects {
		if _, err := object.For(w.client, kind).Create(context.Background(), o); err != nil {
			w.Fatal(err)
		}
	}
}

// soon waits for what the scheduler keeps to itself, of which nothing tells.
func (w *world) soon(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("waited in vain for %s", what)
		}
	}
}

// await follows a kind until an object is as it is to be, and returns it.
func await[T object.Object](w *world, kind object.Kind[T], what string, is func(T) bool) T {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all, list, err := object.For(w.client, kind).List(ctx, "", metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	watch, err := object.For(w.client, kind).Watch(ctx, "", metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		w.Fatal(err)
	}
	defer watch.Stop()
	for e := range watch.ResultChan() {
		if o, ok := e.Object.(T); ok && e.Type != "DELETED" && is(o) {
			return o
		}
	}
	w.Fatalf("waited 30 s for %s", what)
	panic("unreachable")
}

// bind does what the volume controller does: it binds a claim to a volume for good.
func (w *world) bind(claim, pv string) {
	w.Helper()
	patch := `{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"` + pv + `"}}`
	if _, err := object.For(w.client, object.PersistentVolumeClaim).Patch(context.Background(), "shop", claim, "application/merge-patch+json", []byte(patch), ""); err != nil {
		w.Fatal(err)
	}
}

func chosen(claim string) func(*corev1.PersistentVolumeClaim) bool {
	return func(c *corev1.PersistentVolumeClaim) bool {
		return c.Name == claim && c.Annotations[volume.AnnSelectedNode] != ""
	}
}

// TestAPodWaitsForItsVolumes: a volume that is found and one that is made. Other pods do not wait for them.
func TestAPodWaitsForItsVolumes(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n1", "2"))
		w.addNode(node("n2", "2"))
		create(w, object.StorageClass, class("local", volume.NotSupportedProvisioner), class("late", "disks.example.com"))
		create(w, object.PersistentVolumeClaim, claim("found", "local"), claim("made", "late"))
		create(w, object.PersistentVolume, local("pv", "n2"))
	})
	w.addPod(t.Context(), podUsing("db", "2", "found", "made"))
	pv := await(w, object.PersistentVolume, "the volume to be claimed", func(pv *corev1.PersistentVolume) bool { return pv.Spec.ClaimRef != nil })
	c, err := object.For(w.client, object.PersistentVolumeClaim).Get(t.Context(), "shop", "found")
	if err != nil {
		t.Fatal(err)
	}
	if ref := pv.Spec.ClaimRef; ref.Namespace != "shop" || ref.Name != "found" || ref.UID != c.UID || pv.Annotations[volume.AnnBoundByController] != "yes" {
		t.Errorf("the volume refers to %+v and has the annotations %v", ref, pv.Annotations)
	}
	made := await(w, object.PersistentVolumeClaim, "the claim to be provisioned", chosen("made"))
	if on := made.Annotations[volume.AnnSelectedNode]; on != "n2" {
		t.Errorf("the claim is to be provisioned for %q", on)
	}
	w.awaitPods("the node that is kept for the pod", func(pods map[string]*corev1.Pod) bool { return pods["db"].Status.NominatedNodeName == "n2" })
	w.soon("what was written to be answered", func() bool { return w.s.volumes.node(w.s.pods.List("")[0].UID) != "" })
	r := explain(t, w, "db")
	if best := r.GetNodes()[0]; best.GetNode() != "n2" || !best.GetFeasible() {
		t.Errorf("Explain says that it does not fit where it waits: %v", best)
	}
	if message := r.GetMessage(); message != "Waiting for the volumes to be bound, on node n2" {
		t.Errorf("Explain says %q", message)
	}

	w.addPod(t.Context(), pod("web", "2"))
	w.addPod(t.Context(), pod("late", "1")) // for which there is no room: the pod that waits has it
	w.awaitPods("the others", func(pods map[string]*corev1.Pod) bool {
		return pods["web"] != nil && pods["web"].Spec.NodeName == "n1" && condition(pods["late"]) != nil
	})
	w.bind("found", "pv")
	create(w, object.PersistentVolume, local("new", "n2"))
	if pods := w.awaitPods("nothing", bound(0)); pods["db"].Spec.NodeName != "" {
		t.Error("the pod did not wait for the second claim")
	}
	w.bind("made", "new")
	pods := w.awaitPods("the pod with the volumes", bound(2))
	if pods["db"].Spec.NodeName != "n2" {
		t.Errorf("the pod is on %q", pods["db"].Spec.NodeName)
	}
	if n := w.api.Calls("patch persistentvolumes") + w.api.Calls("patch persistentvolumeclaims"); n != 4 { // two of them the test's
		t.Errorf("%d writes for two claims", n-2)
	}
}

// TestAProvisionerThatGivesUpSendsThePodBack: it takes the chosen node off the claim. The pod is then placed anew.
func TestAProvisionerThatGivesUpSendsThePodBack(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n1", "1"))
		create(w, object.StorageClass, class("late", "disks.example.com"))
		create(w, object.PersistentVolumeClaim, claim("data", "late"))
	})
	w.addPod(t.Context(), podUsing("db", "1", "data"))
	await(w, object.PersistentVolumeClaim, "the claim to be provisioned", chosen("data"))
	if _, err := object.For(w.client, object.PersistentVolumeClaim).Patch(t.Context(), "shop", "data", "application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":null,"tried":"yes"}}}`), ""); err != nil {
		t.Fatal(err)
	}
	const message = `running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"`
	pods := w.awaitPods("the condition", func(pods map[string]*corev1.Pod) bool { return condition(pods["db"]) != nil })
	if c := condition(pods["db"]); c.Reason != corev1.PodReasonSchedulerError || c.Message != message || pods["db"].Status.NominatedNodeName != "" {
		t.Errorf("the condition is %+v, the node that is kept %q", c, pods["db"].Status.NominatedNodeName)
	}
	if e := w.awaitEvent("FailedScheduling"); e.Message != message {
		t.Errorf("the event says %q", e.Message)
	}
	again := await(w, object.PersistentVolumeClaim, "the next try", chosen("data"))
	if again.Annotations[volume.AnnSelectedNode] != "n1" {
		t.Errorf("the claim is to be provisioned for %q", again.Annotations[volume.AnnSelectedNode])
	}
	create(w, object.PersistentVolume, local("new", "n1"))
	w.bind("data", "new")
	w.awaitPods("the pod", bound(1))
}

// TestAVolumeThatCannotBeWrittenIsGivenBack: the write is refused once. The pod, which takes the whole node, is tried again.
func TestAVolumeThatCannotBeWrittenIsGivenBack(t *testing.T) {
	t.Parallel()
	var refusals atomic.Int32
	refusals.Store(1)
	w := start(t, leadingtest.New(), func(w *world) {
		w.api.Intercept = func(write objecttest.Write) error {
			if write.Resource == "persistentvolumes" && write.Verb == "patch" && refusals.Add(-1) >= 0 {
				return apierrors.NewConflict(object.PersistentVolume.GroupResource(), write.Name, errors.New("try again"))
			}
			return nil
		}
		w.addNode(node("n1", "1"))
		create(w, object.StorageClass, class("local", volume.NotSupportedProvisioner))
		create(w, object.PersistentVolumeClaim, claim("data", "local"))
		create(w, object.PersistentVolume, local("pv", "n1"))
	})
	w.addPod(t.Context(), podUsing("db", "1", "data"))
	e := w.awaitEvent("FailedScheduling")
	if !strings.HasPrefix(e.Message, `running PreBind plugin "VolumeBinding": Operation cannot be fulfilled on persistentvolumes "pv"`) {
		t.Errorf("the event says %q", e.Message)
	}
	await(w, object.PersistentVolume, "the second write", func(pv *corev1.PersistentVolume) bool { return pv.Spec.ClaimRef != nil })
	w.bind("data", "pv")
	w.awaitPods("the pod", bound(1))
}

// TestAPodThatGoesWhileItWaits leaves its place, and its volume to nobody but its claim.
func TestAPodThatGoesWhileItWaits(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n1", "1"))
		create(w, object.StorageClass, class("local", volume.NotSupportedProvisioner))
		create(w, object.PersistentVolumeClaim, claim("data", "local"))
		create(w, object.PersistentVolume, local("pv", "n1"))
	})
	gone := w.addPod(t.Context(), podUsing("gone", "1", "data"))
	await(w, object.PersistentVolume, "the volume to be claimed", func(pv *corev1.PersistentVolume) bool { return pv.Spec.ClaimRef != nil })
	now := int64(0)
	if err := object.For(w.client, object.Pod).Delete(t.Context(), "shop", "gone", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	w.addPod(t.Context(), pod("next", "1"))
	w.awaitPods("the next pod to take the place", bound(1))
	w.soon("the pod that is gone to wait no more", func() bool { return w.s.volumes.node(gone.UID) == "" })
	if on := w.s.volumes.node(gone.UID); on != "" || w.s.cache.Placed(gone.UID) {
		t.Errorf("a pod that is gone waits on %q, and counts: %t", on, w.s.cache.Placed(gone.UID))
	}
	if owner := w.s.cache.Storage.View().Volume("pv").Spec.ClaimRef; owner == nil || owner.Name != "data" {
		t.Errorf("what was written counts as %v", owner)
	}
}

// TestAPodThatAnotherBindsWhileItWaits is where the other put it, and its place is free.
func TestAPodThatAnotherBindsWhileItWaits(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n1", "1"))
		create(w, object.StorageClass, class("late", "disks.example.com"))
		create(w, object.PersistentVolumeClaim, claim("data", "late"))
	})
	p := w.addPod(t.Context(), podUsing("taken", "1", "data"))
	await(w, object.PersistentVolumeClaim, "the claim to be provisioned", chosen("data"))
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "taken"}, Target: corev1.ObjectReference{Kind: "Node", Name: "elsewhere"}}
	if err := object.For(w.client, object.Pod).Post(t.Context(), "shop", "taken", "binding", binding, nil); err != nil {
		t.Fatal(err)
	}
	w.addPod(t.Context(), pod("next", "1"))
	pods := w.awaitPods("the next pod to take the place", bound(2))
	if pods["taken"].Spec.NodeName != "elsewhere" || pods["next"].Spec.NodeName != "n1" || w.s.cache.Place(p.UID) != "elsewhere" {
		t.Errorf("the pods are on %q and %q, and the first counts on %q", pods["taken"].Spec.NodeName, pods["next"].Spec.NodeName, w.s.cache.Place(p.UID))
	}
}

// TestTheLossOfLeadershipEndsTheWait: the next leader goes on from what is written.
func TestTheLossOfLeadershipEndsTheWait(t *testing.T) {
	t.Parallel()
	election := leadingtest.New()
	w := start(t, election, func(w *world) {
		w.addNode(node("n1", "1"))
		create(w, object.StorageClass, class("late", "disks.example.com"))
		create(w, object.PersistentVolumeClaim, claim("data", "late"))
	})
	p := w.addPod(t.Context(), podUsing("db", "1", "data"))
	await(w, object.PersistentVolumeClaim, "the claim to be provisioned", chosen("data"))
	election.End(t)
	if on := w.s.volumes.node(p.UID); on != "" || w.s.cache.Placed(p.UID) {
		t.Errorf("the pod waits on %q, and counts: %t, after the leadership ended", on, w.s.cache.Placed(p.UID))
	}
	election.Open()
	create(w, object.PersistentVolume, local("new", "n1"))
	w.bind("data", "new")
	w.awaitPods("the pod", bound(1))
}

// TestWhatIsNotWrittenIsGivenBack: a leader that is deposed before it could write leaves the volume to whoever comes first.
func TestWhatIsNotWrittenIsGivenBack(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.Closed(), func(w *world) {
		w.addNode(node("n1", "1"))
		create(w, object.StorageClass, class("local", volume.NotSupportedProvisioner))
		create(w, object.PersistentVolumeClaim, claim("data", "local"))
		create(w, object.PersistentVolume, local("pv", "n1"))
		w.addPod(t.Context(), podUsing("db", "1", "data"))
	})
	kept := func() bool { return w.s.cache.Storage.View().Volume("pv").Spec.ClaimRef != nil }
	w.soon("the caches, which are told one after the other", func() bool {
		view := w.s.cache.Storage.View()
		return view.Volume("pv") != nil && view.Claim("shop", "data") != nil && view.Class("local") != nil && len(w.s.cache.Snapshot().Nodes) > 0
	})
	decisions := w.s.place(w.s.queue.Pop(t.Context(), groupLimit))
	if !kept() || len(decisions) != 1 || decisions[0].node != "n1" {
		t.Fatalf("decided %+v; the volume is kept: %t", decisions, kept())
	}
	newBinder(w.s).abandon(decisions)
	if kept() || w.s.cache.Place(decisions[0].item.Pod.UID) != "" {
		t.Errorf("the volume is kept: %t; the pod counts on %q", kept(), w.s.cache.Place(decisions[0].item.Pod.UID))
	}
}

// TestStorageWakesPods: each change lets the pod in that failed for it, at once and not after five minutes.
func TestStorageWakesPods(t *testing.T) {
	t.Parallel()
	csiNode := func(limit int32) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "disks.example.com", NodeID: "n1", Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(limit)}}}}}
	}
	driver := func(counted bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disks.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &counted}}
	}
	room := func(size string) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"}, StorageClassName: "late",
			NodeTopology: &metav1.LabelSelector{}, Capacity: ptr.To(resource.MustParse(size))}
	}
	inNowhere := class("late", "disks.example.com")
	inNowhere.AllowedTopologies = []corev1.TopologySelectorTerm{{}}
	tests := []struct {
		name    string
		prepare func(w *world)
		change  func(w *world)
	}{
		{"a claim", func(w *world) { create(w, object.StorageClass, class("late", "disks.example.com")) },
			func(w *world) { create(w, object.PersistentVolumeClaim, claim("data", "late")) }},
		{"a class", func(w *world) { create(w, object.PersistentVolumeClaim, claim("data", "late")) },
			func(w *world) { create(w, object.StorageClass, class("late", "disks.example.com")) }},
		{"the topologies of a class", func(w *world) {
			create(w, object.StorageClass, inNowhere)
			create(w, object.PersistentVolumeClaim, claim("data", "late"))
		}, func(w *world) { replace(w, object.StorageClass, class("late", "disks.example.com")) }},
		{"a volume", func(w *world) {
			create(w, object.StorageClass, class("local", volume.NotSupportedProvisioner))
			create(w, object.PersistentVolumeClaim, claim("data", "local"))
		}, func(w *world) { create(w, object.PersistentVolume, local("pv", "n1")) }},
		{"a higher limit", func(w *world) {
			create(w, object.StorageClass, class("late", "disks.example.com"))
			create(w, object.PersistentVolumeClaim, claim("data", "late"))
			create(w, object.CSINode, csiNode(0))
		}, func(w *world) { replace(w, object.CSINode, csiNode(1)) }},
		{"room", func(w *world) {
			create(w, object.StorageClass, class("late", "disks.example.com"))
			create(w, object.CSIDriver, driver(true))
			create(w, object.PersistentVolumeClaim, claim("data", "late"))
		}, func(w *world) { create(w, object.CSIStorageCapacity, room("1Gi")) }},
		{"more room", func(w *world) {
			create(w, object.StorageClass, class("late", "disks.example.com"))
			create(w, object.CSIDriver, driver(true))
			create(w, object.CSIStorageCapacity, room("1Mi"))
			create(w, object.PersistentVolumeClaim, claim("data", "late"))
		}, func(w *world) { replace(w, object.CSIStorageCapacity, room("1Gi")) }},
		{"room that is not counted any more", func(w *world) {
			create(w, object.StorageClass, class("late", "disks.example.com"))
			create(w, object.CSIDriver, driver(true))
			create(w, object.PersistentVolumeClaim, claim("data", "late"))
		}, func(w *world) { replace(w, object.CSIDriver, driver(false)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := start(t, leadingtest.New(), func(w *world) {
				w.addNode(node("n1", "1"))
				tt.prepare(w)
			})
			w.addPod(t.Context(), podUsing("db", "1", "data"))
			w.awaitPods("the pod to be refused", func(pods map[string]*corev1.Pod) bool { return condition(pods["db"]) != nil })
			tt.change(w)
			w.awaitPods("the pod to have a node", func(pods map[string]*corev1.Pod) bool { return pods["db"].Status.NominatedNodeName == "n1" })
		})
	}
}

// replace puts an object in the place of the one of its name.
func replace[T object.Object](w *world, kind object.Kind[T], obj T) {
	w.Helper()
	if _, err := object.For(w.client, kind).Update(context.Background(), obj); err != nil {
		w.Fatal(err)
	}
}

// TestNobodyWaitsForEver: after ten minutes a pod gives its place to others and is tried again.
func TestNobodyWaitsForEver(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := &world{TB: t, api: objecttest.New()}
	w.client = w.api.Serve(t)
	w.clock = fake
	w.addNode(node("n1", "1"))
	create(w, object.StorageClass, class("late", "disks.example.com"))
	create(w, object.PersistentVolumeClaim, claim("data", "late"))
	w.s = w.scheduler(leadingtest.New())
	p := w.addPod(t.Context(), podUsing("db", "1", "data"))
	w.awaitPods("the pod to wait", func(pods map[string]*corev1.Pod) bool { return pods["db"].Status.NominatedNodeName == "n1" })
	w.soon("what was written to be answered", func() bool { return w.s.volumes.node(p.UID) != "" })
	fake.Step(plugin.VolumeTimeout)
	w.s.volumes.poke() // the timer may not have been set yet
	pods := w.awaitPods("the condition", func(pods map[string]*corev1.Pod) bool { return condition(pods["db"]) != nil })
	if got, want := condition(pods["db"]).Message, `running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.soon("the write to be answered", func() bool { _, attempts := w.s.queue.Lookup(p.UID); return attempts > 0 })
	state, attempts := w.s.queue.Lookup(p.UID)
	if attempts != 1 || state != queue.Backoff {
		t.Errorf("the pod is %s after %d attempts", state, attempts)
	}
}

func remove[T object.Object](w *world, kind object.Kind[T], namespace, name string) {
	w.Helper()
	if err := object.For(w.client, kind).Delete(w.Context(), namespace, name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}
