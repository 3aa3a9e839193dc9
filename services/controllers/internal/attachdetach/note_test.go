package attachdetach

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// disks is a cluster of nodes with a claim whose volume is a disk of a target.
type disks struct {
	*controllertest.Cluster
}

func startDisks(t *testing.T, c clock.WithTicker, mode corev1.PersistentVolumeAccessMode, prepare func(*controllertest.Cluster), nodes ...string) disks {
	t.Helper()
	d := disks{controllertest.Start(t, c, prepare, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })}
	for _, name := range nodes {
		controllertest.Create(d.Cluster, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{managed: "true"}}})
	}
	claim := controllertest.Create(d.Cluster, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
	})
	controllertest.Create(d.Cluster, object.PersistentVolume, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{mode}, ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "192.0.2.7:3260", IQN: "iqn.2001-04.com.example:disk"}},
	}})
	return d
}

func (d disks) start(name, node string) {
	controllertest.Create(d.Cluster, object.Pod, pod(name, node))
}

func (d disks) end(name string) {
	controllertest.Delete(d.Cluster, object.Pod, "ns", name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}

// says has a node say what it uses, as its agent would.
func (d disks) says(node string, names ...corev1.UniqueVolumeName) {
	d.Helper()
	for { // the controller writes, too
		n, err := object.For(d.Client, object.Node).Get(d.Context(), "", node)
		if err != nil {
			d.Fatal(err)
		}
		n.Status.VolumesInUse = names
		if _, err = object.For(d.Client, object.Node).UpdateStatus(d.Context(), n); err == nil {
			return
		}
	}
}

// has awaits that the disk is attached to these nodes.
func (d disks) has(nodes ...string) {
	d.Helper()
	controllertest.Await(d.Cluster, object.Node, "the disk at "+strings.Join(nodes, ", "), func(all []*corev1.Node) bool { return slices.Equal(having(all), nodes) })
}

func having(all []*corev1.Node) []string {
	var names []string
	for _, n := range all {
		if told(n, disk) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

// heard awaits an event.
func (d disks) heard(text string) {
	d.Helper()
	patience := time.After(time.Minute)
	for {
		select {
		case e := <-d.Events.Events:
			if strings.Contains(e, text) {
				return
			}
		case <-patience:
			d.Fatalf("nobody was told %q", text)
		}
	}
}

// TestDiskMoves gives a disk that one node has at a time to the second when the first has said that it does not use it any more. There is no object
// of it, and nodes are told that it is looked after.
func TestDiskMoves(t *testing.T) {
	t.Parallel()
	d := startDisks(t, clock.RealClock{}, corev1.ReadWriteOnce, nil, "n1", "n2")
	d.start("p1", "n1")
	d.has("n1")
	d.heard(`Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "pv"`)
	d.says("n1", disk)
	d.start("p2", "n2")
	d.heard(`Warning FailedAttachVolume Multi-Attach error for volume "pv" Volume is already used by pod(s) p1`)
	d.says("n2", disk) // it waits
	d.end("p1")
	d.start("p3", "n2")
	d.heard("can't be attached to another")
	d.has("n1")
	d.says("n1")
	d.has("n2")
	controllertest.Await(d.Cluster, object.Node, "announcements", func(all []*corev1.Node) bool {
		return !slices.ContainsFunc(all, func(n *corev1.Node) bool { return n.Annotations[object.AttachesAnnotation] != "kubernetes.io/iscsi" })
	})
	if all := controllertest.List(d.Cluster, object.VolumeAttachment); len(all) > 0 {
		t.Errorf("objects of a disk: %v", all)
	}
}

// TestDiskIsShared gives a disk to all who want it, where its access modes say so, and where there are none because the pod names it itself.
func TestDiskIsShared(t *testing.T) {
	t.Parallel()
	d := startDisks(t, clock.RealClock{}, corev1.ReadOnlyMany, nil, "n1", "n2")
	d.start("p1", "n1")
	d.start("p2", "n2")
	d.has("n1", "n2")
	d.end("p1")
	d.has("n2")
	own := pod("p3", "n1")
	own.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7:3260", IQN: "iqn.2001-04.com.example:disk"}}
	controllertest.Create(d.Cluster, object.Pod, own)
	d.has("n1", "n2")
}

// passing has time go on by steps, one a millisecond of the real one while somebody waits for it, until the test ends or stop is called.
func passing(t *testing.T, fake *clocktesting.FakeClock, step time.Duration) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if fake.HasWaiters() {
					fake.Step(step)
				}
			}
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// TestDiskOfALostNode leaves a disk with a node that is gone from the API, and used it, for six minutes.
func TestDiskOfALostNode(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(now)
	d := startDisks(t, fake, corev1.ReadWriteOnce, nil, "n1", "n2")
	stop := passing(t, fake, time.Millisecond) // the controller looks again soon where somebody else has written
	d.start("p1", "n1")
	d.has("n1")
	d.says("n1", disk)
	d.start("p2", "n2")
	d.heard("already used by pod(s) p1")
	controllertest.Delete(d.Cluster, object.Node, "", "n1", metav1.DeleteOptions{})
	ended := fake.Now()
	d.end("p1")
	d.start("p3", "n2")
	d.heard("can't be attached to another")
	d.has()
	stop()
	// The six minutes begin when the controller sees that nobody wants it any more; time goes on until they are over.
	stop = passing(t, fake, time.Minute)
	d.has("n2")
	stop()
	if gone := fake.Since(ended); gone < maxWait {
		t.Errorf("given away after %s", gone)
	}
}

// TestDiskOfANodeThatTheCacheHasLost is that node's until it is heard of that its Node is gone, and then, as it used the disk, until somebody takes it away: the
// cache loses a Node before its end is heard of.
func TestDiskOfANodeThatTheCacheHasLost(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	c := &attacher{noted: newLedger(), made: map[string]string{}, nodes: object.InformerFor(object.NewInformers(client), object.Node, object.Option{Indexers: cache.Indexers{
		byNote: func(any) ([]string, error) { return nil, nil },
	}})}
	elsewhere := func(want ...string) {
		t.Helper()
		var got []string
		for _, a := range c.notedElsewhere("n2", disk) {
			got = append(got, a.Node)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the disk is at %v, want %v", got, want)
		}
	}
	idle := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1"}, Status: corev1.NodeStatus{VolumesAttached: []corev1.AttachedVolume{{Name: disk}}}}
	using := idle.DeepCopy()
	using.Status.VolumesInUse = []corev1.UniqueVolumeName{disk}
	elsewhere()
	c.heard(nil, idle)
	elsewhere("n1")
	c.heard(idle, nil)
	elsewhere()
	c.heard(nil, using)
	elsewhere("n1")
	c.heard(using, nil)
	elsewhere("n1")
	c.forget("n1", disk)
	elsewhere()
}

// TestDiskOfANodeThatEndsUnheard stays reserved for a node whose Node is gone until that is heard of: what it used before is told by then, and not earlier.
func TestDiskOfANodeThatEndsUnheard(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	c := &attacher{
		client: client, noted: newLedger(), made: map[string]string{string(disk): "n1"}, nodes: object.InformerFor(object.NewInformers(client), object.Node),
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1"}}
	reserved := func(want string) {
		t.Helper()
		if err := c.settle(t.Context(), "n1", &Situation{}); err != nil || c.made[string(disk)] != want {
			t.Errorf("reserved for %q, want %q; %v", c.made[string(disk)], want, err)
		}
	}
	c.heard(nil, node)
	reserved("n1")
	c.heard(node, nil)
	reserved("")
}

// TestDiskOfANodeThatComesBack tells a node whose Node was removed and made again that it still has what it says to use.
func TestDiskOfANodeThatComesBack(t *testing.T) {
	t.Parallel()
	d := startDisks(t, clock.RealClock{}, corev1.ReadWriteOnce, nil, "n1", "n2")
	d.start("p1", "n1")
	d.has("n1")
	d.says("n1", disk)
	controllertest.Delete(d.Cluster, object.Node, "", "n1", metav1.DeleteOptions{})
	d.start("p2", "n2")
	d.heard("already used by pod(s) p1")
	controllertest.Create(d.Cluster, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{managed: "true"}}})
	d.has("n1")
	d.end("p1")
	d.has("n2")
}

// TestDiskIsNeverOnTwoNodes lets pods of three nodes come and go while one write of four fails, and follows every version of the nodes: no two of them
// are ever told that they have the disk, and it is not taken from a node that says that it is in use.
func TestDiskIsNeverOnTwoNodes(t *testing.T) {
	t.Parallel()
	var calm atomic.Bool
	d := startDisks(t, clock.RealClock{}, corev1.ReadWriteOnce, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			if n, ok := w.Object.(*corev1.Node); ok && w.Verb == "update" && len(n.Status.VolumesInUse) == 0 && !calm.Load() && rand.IntN(4) == 0 {
				return apierrors.NewInternalError(errors.New("test"))
			}
			return nil
		}
	}, "n1", "n2", "n3")
	list, m, err := object.For(d.Client, object.Node).List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := object.For(d.Client, object.Node).Watch(t.Context(), "", metav1.ListOptions{ResourceVersion: m.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	nodes := map[string]*corev1.Node{}
	for _, n := range list {
		nodes[n.Name] = n
	}
	// after follows the nodes until the disk is at another node than one, "" is at none.
	after := func(one string) string {
		for {
			var all []*corev1.Node
			for _, n := range nodes {
				all = append(all, n)
			}
			has := append(having(all), "")
			if len(has) > 2 {
				t.Fatalf("the disk is at %v", has)
			}
			if has[0] != one {
				return has[0]
			}
			select {
			case e := <-w.ResultChan():
				n := e.Object.(*corev1.Node)
				if old := nodes[n.Name]; old != nil && told(old, disk) && !told(n, disk) && slices.Contains(n.Status.VolumesInUse, disk) {
					t.Fatalf("taken from %s, which uses it", n.Name)
				}
				nodes[n.Name] = n
			case <-time.After(time.Minute):
				t.Fatalf("it stays at %q", one)
			}
		}
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		d.start("of-"+name, name)
	}
	for range 40 {
		has := after("")
		d.says(has, disk)
		d.end("of-" + has)
		d.says(has)
		after(has)
		d.start("of-"+has, has)
	}
	calm.Store(true)
	for _, name := range []string{"n1", "n2", "n3"} {
		d.end("of-" + name)
	}
	for has := "?"; has != ""; {
		has = after(has)
	}
}
