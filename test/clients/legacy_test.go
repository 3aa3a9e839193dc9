package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/kit/pgtest"
)

// tree is an object as JSON has it: no type of today has the field that initializers are in.
type tree = map[string]any

// initializer is a controller as people wrote them for Kubernetes 1.7: it watches what waits for it, adds a container, and takes its name off.
type initializer struct {
	client rest.Interface
	name   string
}

// run initializes the pods of a namespace until ctx ends. What else it meets, it leaves to the next event.
func (i *initializer) run(ctx context.Context, namespace string) {
	for ctx.Err() == nil {
		stream, err := i.client.Get().Namespace(namespace).Resource("pods").Param("watch", "true").Param("includeUninitialized", "true").Stream(ctx)
		if err != nil {
			continue
		}
		lines := bufio.NewReader(stream)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			var event struct {
				Type   string
				Object tree
			}
			if json.Unmarshal(line, &event) == nil && event.Type != "DELETED" && i.first(event.Object) {
				i.initialize(ctx, namespace, event.Object)
			}
		}
		_ = stream.Close()
	}
}

// first reports whether it is this one's turn.
func (i *initializer) first(pod tree) bool {
	metadata, _ := pod["metadata"].(tree)
	initializers, _ := metadata["initializers"].(tree)
	pending, _ := initializers["pending"].([]any)
	if len(pending) == 0 {
		return false
	}
	next, _ := pending[0].(tree)
	return next["name"] == i.name
}

func (i *initializer) initialize(ctx context.Context, namespace string, pod tree) {
	metadata, spec := pod["metadata"].(tree), pod["spec"].(tree)
	initializers := metadata["initializers"].(tree)
	if left := initializers["pending"].([]any)[1:]; len(left) > 0 {
		initializers["pending"] = left
	} else {
		delete(metadata, "initializers")
	}
	spec["containers"] = append(spec["containers"].([]any), tree{"name": "sidecar", "image": "envoy"})
	body, err := json.Marshal(pod)
	if err != nil {
		return
	}
	_, _ = i.client.Put().Namespace(namespace).Resource("pods").Name(metadata["name"].(string)).Body(body).Do(ctx).Raw()
}

const podInitializer = `apiVersion: admissionregistration.k8s.io/v1alpha1
kind: InitializerConfiguration
metadata: {name: sidecar}
initializers:
- name: sidecar.example.com
  rules:
  - {apiGroups: [""], apiVersions: [v1], resources: [pods]}
`

// newLegacy starts a cluster with what Kubernetes has removed, of its own: an initializer concerns all pods.
func newLegacy(t *testing.T) (*cluster, *user) {
	t.Helper()
	c, err := newCluster(t.Context(), howdah.bin(t), t.TempDir(), pgtest.Start(t, pgtest.Config{}).URL(),
		"--simulate", "2", "--runtime-config", "api/legacy=true", "--enable-admission-plugins", "Initializers")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c, newUserOf(t, c)
}

// TestLegacyManifests applies what old books print, unchanged.
func TestLegacyManifests(t *testing.T) {
	t.Parallel()
	_, u := newLegacy(t)
	if out := u.must("apply", "-f", "../../examples/nginx-extensions-v1beta1.yaml"); !strings.Contains(out, "deployment.extensions/nginx-deployment created") {
		t.Errorf("kubectl says %s", out)
	}
	u.must("rollout", "status", "deployment/nginx-deployment", "--timeout=60s")
	if out := u.must("apply", "-f", "../../examples/nginx-extensions-v1beta1.yaml"); !strings.Contains(out, "deployment.extensions/nginx-deployment unchanged") {
		t.Errorf("kubectl says %s", out)
	}
	if out := u.must("get", "deployments.v1beta1.extensions", "nginx-deployment", "-o", "jsonpath={.apiVersion} {.spec.selector.matchLabels.app} {.status.readyReplicas}"); !strings.Contains(out, "extensions/v1beta1 nginx 3") {
		t.Errorf("it is %s", out)
	}
	if out := u.must("apply", "-f", "testdata/seed-policies.yaml"); strings.Count(out, " created") != 3 || strings.Count(out, " configured") != 2 {
		t.Errorf("kubectl says %s", out)
	}
	if out := u.must("get", "networkpolicy", "test-network-policy", "allow-all", "-o", "jsonpath={.items[0].spec.ingress[0].from[0].ipBlock.except} {.items[1].spec.policyTypes}"); !strings.Contains(out, `["172.17.1.0/24"] ["Egress"]`) {
		t.Errorf("they are %s", out)
	}
}

// TestInitializers has kubectl create pods that an initializer changes before anybody sees them; while it is away, nobody does, not even
// after the control plane was killed.
func TestInitializers(t *testing.T) {
	t.Parallel()
	c, u := newLegacy(t)
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	core := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()
	u.feed(podInitializer, "apply", "-f", "-")

	if out, err := u.try("", "run", "away", "--image=nginx", "--request-timeout=2s"); err == nil {
		t.Errorf("kubectl says %s", out)
	}
	c.Kill()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := u.must("get", "pods", "-o", "name"); strings.Contains(out, "away") {
		t.Errorf("kubectl shows %s", out)
	}
	body, err := core.Get().Namespace(u.namespace).Resource("pods").Param("includeUninitialized", "true").Do(t.Context()).Raw()
	if err != nil || !bytes.Contains(body, []byte(`"initializers":{"pending":[{"name":"sidecar.example.com"}]}`)) || bytes.Contains(body, []byte(`"nodeName"`)) {
		t.Errorf("a list that asks for it: %v %s", err, body)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		(&initializer{core, "sidecar.example.com"}).run(ctx, u.namespace)
	}()
	t.Cleanup(func() { stop(); <-ended })
	if out := u.must("run", "web", "--image=nginx"); !strings.Contains(out, "pod/web created") {
		t.Errorf("kubectl says %s", out)
	}
	u.must("create", "deployment", "shop", "--image=nginx", "--replicas=2")
	u.must("rollout", "status", "deployment/shop", "--timeout=60s")
	for _, pods := range [][]string{{"pod/web"}, {"pod/away"}, {"pods", "--selector=app=shop"}} {
		u.must(append([]string{"wait", "--for=condition=Ready", "--timeout=60s"}, pods...)...)
		out := u.must(append([]string{"get", "-o", "jsonpath={..containers[*].name}"}, pods...)...)
		if !strings.Contains(out, "sidecar") {
			t.Errorf("%v have the containers %s", pods, out)
		}
	}
}
