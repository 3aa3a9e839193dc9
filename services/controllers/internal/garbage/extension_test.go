package garbage

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/discovery"
)

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s in time", what)
		}
	}
}

func ownedBy(o *metav1.PartialObjectMetadata) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, BlockOwnerDeletion: ptr.To(true)}
}

func podOwner(p *corev1.Pod) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}
}

// TestWhatExtensionsKeep follows owners and dependents across the border between this API and an extension API server.
func TestWhatExtensionsKeep(t *testing.T) {
	t.Parallel()
	e := objecttest.NewExtension()
	owner := e.Put("widgets", metav1.ObjectMeta{Namespace: "default", Name: "owner"})
	rack := e.Put("racks", metav1.ObjectMeta{Name: "rack"})
	c := start(t, func(c *controllertest.Cluster) { c.API.Extend(e) })
	controllertest.Create(c, object.Pod, newPod("of-the-widget", ownedBy(owner)))
	controllertest.Create(c, object.Pod, newPod("of-the-rack", ownedBy(rack)))
	local := controllertest.Create(c, object.Pod, newPod("local"))
	e.Put("widgets", metav1.ObjectMeta{Namespace: "default", Name: "of-the-pod", OwnerReferences: []metav1.OwnerReference{podOwner(local)}})
	e.Put("widgets", metav1.ObjectMeta{Namespace: "default", Name: "of-nobody", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "never", UID: "never"}}})

	names := func() map[string]bool {
		found := map[string]bool{}
		for _, p := range controllertest.List(c, object.Pod) {
			found[p.Name] = true
		}
		return found
	}
	until(t, "end of a widget whose owner there is not", func() bool { return len(e.Names("widgets")) == 2 })
	remote := func(resource, kind string, namespaced bool) object.Resource[*metav1.PartialObjectMetadata] {
		return object.For(c.Client, discovery.Resource{GVK: objecttest.ExtensionGroup.WithKind(kind), Name: resource, Namespaced: namespaced, Remote: true}.Metadata())
	}
	if err := remote("widgets", "Widget", true).Delete(t.Context(), "default", "owner", policy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	until(t, "end of the widget after its pod", func() bool { return !names()["of-the-widget"] && len(e.Names("widgets")) == 1 })
	controllertest.Delete(c, object.Pod, "default", "local", policy(metav1.DeletePropagationBackground))
	until(t, "end of the pod's widget", func() bool { return len(e.Names("widgets")) == 0 })
	if err := remote("racks", "Rack", false).Delete(t.Context(), "", "rack", policy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	until(t, "end of the rack", func() bool { return len(e.Names("racks")) == 0 })
	pods := controllertest.List(c, object.Pod)
	if len(pods) != 1 || pods[0].Name != "of-the-rack" || len(pods[0].OwnerReferences) != 0 {
		t.Errorf("the orphan: %+v", pods)
	}
}

// TestExtensionsThatFail has an extension API server that is away: the collector works without it, keeps what it might own, and
// goes on with that when the server is back.
func TestExtensionsThatFail(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request){
		"away": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		},
		"garbage": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>404 not found</html>")) },
		"no page": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"hanging": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			broken.Store(true)
			release := make(chan struct{})
			e := objecttest.NewExtension()
			e.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				if !broken.Load() {
					return false
				}
				if fault != nil {
					fault(w, r)
					return true
				}
				select {
				case <-r.Context().Done():
				case <-release:
					http.Error(w, "at last", http.StatusServiceUnavailable)
				}
				return true
			}
			gone := metav1.OwnerReference{APIVersion: objecttest.ExtensionGroup.String(), Kind: "Widget", Name: "gone", UID: "gone"}
			c := start(t, func(c *controllertest.Cluster) { c.API.Extend(e) })
			controllertest.Create(c, object.Pod, newPod("doubtful", gone))
			family(c, 2)
			controllertest.Delete(c, object.Deployment, "default", "web", policy(metav1.DeletePropagationForeground))
			until(t, "end of the family", func() bool {
				return len(controllertest.List(c, object.Deployment)) == 0 && len(controllertest.List(c, object.Pod)) == 1
			})
			if pods := controllertest.List(c, object.Pod); len(pods) != 1 || pods[0].Name != "doubtful" {
				t.Fatalf("left: %v", pods)
			}
			broken.Store(false)
			close(release)
			until(t, "end of the pod whose owner is gone", func() bool { return len(controllertest.List(c, object.Pod)) == 0 })
		})
	}
}

// Extension API servers decide about their own objects only.
func TestExtensionsDoNotSpeakForOthers(t *testing.T) {
	t.Parallel()
	g := newGraph()
	pods := discovery.Resource{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Name: "pods", Namespaced: true}
	remote := discovery.Resource{GVK: objecttest.ExtensionGroup.WithKind("Widget"), Name: "widgets", Namespaced: true, Remote: true}
	meta := func(uid string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid)}}
	}
	if !g.put(remote, meta("first")) || !g.put(pods, meta("first")) || !g.put(pods, meta("own")) {
		t.Fatal("an object was refused")
	}
	if g.put(remote, meta("")) || g.put(remote, meta("own")) || g.remove(remote, "own") || g.remove(remote, "first") || g.remove(remote, "unknown") {
		t.Error("an extension API server spoke for what is not its own")
	}
	ended := func(uid types.UID) bool {
		return g.ended(metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "a", UID: uid}, "")
	}
	if n := g.get("own"); n == nil || n.resource.Remote || ended("own") || ended("unknown") {
		t.Errorf("%+v", n)
	}
}
