package scheduler

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
)

const apartByDefault = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]
`

// TestWhoSelectsPodsHasThemSpread: Services, and each kind of controller; what is selected no more is woken.
func TestWhoSelectsPodsHasThemSpread(t *testing.T) {
	t.Parallel()
	web := map[string]string{"app": "web"}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}
	gone := func(w *world, err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	for kind, test := range map[string]struct{ create, remove func(w *world) }{
		"Service": {
			func(w *world) {
				create(w, object.Service, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: web}})
			},
			func(w *world) {
				replace(w, object.Service, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"}}})
			},
		},
		"ReplicaSet": {
			func(w *world) {
				create(w, object.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: web}}})
			},
			func(w *world) {
				gone(w, object.For(w.client, object.ReplicaSet).Delete(w.Context(), "shop", "web", metav1.DeleteOptions{}))
			},
		},
		"StatefulSet": {
			func(w *world) {
				create(w, object.StatefulSet, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: web}}})
			},
			func(w *world) {
				gone(w, object.For(w.client, object.StatefulSet).Delete(w.Context(), "shop", "web", metav1.DeleteOptions{}))
			},
		},
		"ReplicationController": {
			func(w *world) {
				create(w, object.ReplicationController, &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: web}})
			},
			func(w *world) {
				gone(w, object.For(w.client, object.ReplicationController).Delete(w.Context(), "shop", "web", metav1.DeleteOptions{}))
			},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var owner []metav1.OwnerReference
			w := start(t, leadingtest.New(), func(w *world) {
				w.configuration = configured(t, apartByDefault)
				w.addNode(node("roomy", "4"))
				w.addNode(node("full", "10m"))
				test.create(w)
				switch kind {
				case "ReplicaSet":
					owner = ownerOf(w, object.ReplicaSet, kind)
				case "StatefulSet":
					owner = ownerOf(w, object.StatefulSet, kind)
				case "ReplicationController":
					owner = ownerOf(w, object.ReplicationController, kind)
				}
				there := pod("there", "1")
				there.Spec.NodeName, there.OwnerReferences = "roomy", owner
				w.addPod(t.Context(), there)
			})
			another := pod("another", "1")
			another.OwnerReferences = owner
			w.addPod(t.Context(), another)
			pods := w.awaitPods("the second to be refused", func(pods map[string]*corev1.Pod) bool { return condition(pods["another"]) != nil })
			if got := condition(pods["another"]).Message; !strings.HasPrefix(got, "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints.") {
				t.Fatalf("it is refused with %q", got)
			}
			test.remove(w)
			w.awaitPods("the second to be bound", bound(2))
		})
	}
}

// ownerOf is a reference to the controller web of a kind.
func ownerOf[T object.Object](w *world, kind object.Kind[T], name string) []metav1.OwnerReference {
	w.Helper()
	o, err := object.For(w.client, kind).Get(w.Context(), "shop", "web")
	if err != nil {
		w.Fatal(err)
	}
	return []metav1.OwnerReference{{APIVersion: kind.GVK.GroupVersion().String(), Kind: name, Name: "web", UID: o.GetUID(), Controller: ptr.To(true)}}
}
