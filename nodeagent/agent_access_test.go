package nodeagent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// registry has one image, for those whose password it knows.
type registry struct {
	*httptest.Server
	blobs map[string][]byte // by digest; the manifest is one of them
	top   string            // the manifest's digest

	mu    sync.Mutex
	asked int // for the manifest, by those who may have it
}

const typeOfManifest = "application/vnd.oci.image.manifest.v1+json"

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{blobs: map[string][]byte{}}
	add := func(data []byte) string {
		name := "sha256:" + digest(data)
		r.blobs[name] = data
		return name
	}
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	layer := busyboxLayer(t)
	config := encode(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Cmd": []string{"sleep", "1000"}, "Env": []string{"PATH=/bin", "PRIVATE=yes"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	r.top = add(encode(map[string]any{
		"schemaVersion": 2, "mediaType": typeOfManifest,
		"config": map[string]any{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": add(config), "size": len(config)},
		"layers": []any{map[string]any{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": add(layer), "size": len(layer)}},
	}))
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if user, password, _ := request.BasicAuth(); user != "me" || password != "hush" {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	name := request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	kind := "application/octet-stream"
	if strings.Contains(request.URL.Path, "/manifests/") {
		r.mu.Lock()
		r.asked++
		r.mu.Unlock()
		name, kind = r.top, typeOfManifest
	}
	blob, ok := r.blobs[name]
	if !ok {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Docker-Content-Digest", name)
	w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
	if request.Method != http.MethodHead {
		_, _ = w.Write(blob)
	}
}

func (r *registry) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// An image that one pod's secret has pulled is there for those that can show as much, and for nobody else, also after a restart of the agent.
func (n *node) testAccess(t *testing.T) {
	outer := n
	n = n.in(t)
	r := newRegistry(t)
	host := strings.TrimPrefix(r.URL, "http://")
	for name, password := range map[string]string{"mine": "hush", "copy": "hush", "wrong": "guess"} {
		config := fmt.Sprintf(`{"auths":{%q:{"username":"me","password":%q}}}`, host, password)
		if _, err := object.For(n.client, object.Secret).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(name string, policy corev1.PullPolicy, secrets ...string) {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: host + "/team/app:1", ImagePullPolicy: policy}}}
		for _, s := range secrets {
			spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
		}
		n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	}
	waits := func(name string, reasons ...string) {
		t.Helper()
		n.await(name, "waiting with one of "+strings.Join(reasons, ", "), time.Minute, func(p *corev1.Pod) bool {
			for _, s := range p.Status.ContainerStatuses {
				for _, reason := range reasons {
					if w := s.State.Waiting; w != nil && w.Reason == reason {
						return true
					}
				}
			}
			return false
		})
	}
	pod("puller", corev1.PullIfNotPresent, "wrong", "mine")
	n.await("puller", "ready", time.Minute, ready)
	if stdout, _, _ := n.run("puller", "echo $PRIVATE", ""); stdout != "yes\n" {
		t.Errorf("the image says %q", stdout)
	}
	pulled := r.requests()
	if pulled == 0 {
		t.Error("nobody asked the registry")
	}
	pod("nothing", corev1.PullNever)
	waits("nothing", "ErrImageNeverPull")
	pod("wrong", corev1.PullIfNotPresent, "wrong")
	waits("wrong", "ErrImagePull", "ImagePullBackOff")
	pod("copy", corev1.PullNever, "copy")
	n.await("copy", "ready", time.Minute, ready)

	outer.stop()
	outer.startAgent()
	n = outer.in(t)
	pod("later", corev1.PullNever, "wrong")
	waits("later", "ErrImageNeverPull")
	pod("again", corev1.PullIfNotPresent, "mine")
	n.await("again", "ready", time.Minute, ready)
	if got := r.requests(); got != pulled {
		t.Errorf("the registry let somebody in %d times more", got-pulled)
	}
	n.hasEvent("again", "already present on machine and can be accessed by the pod")
	for _, name := range []string{"puller", "nothing", "wrong", "copy", "later", "again"} {
		n.remove(name)
	}
}
