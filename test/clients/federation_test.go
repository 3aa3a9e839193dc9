package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/pgtest"
)

// federated are a federation and its two members, each a standalone in a process of its own.
type federated struct {
	*testing.T
	fed, north, south *cluster
}

// startFederation starts all three, and joins the members.
func startFederation(t *testing.T) *federated {
	t.Helper()
	path := howdah.bin(t)
	kubectl.bin(t)
	start := func(name string, args ...string) *cluster {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		c, err := newCluster(t.Context(), path, dir, pgtest.New(t), args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() {
			c.Stop()
			if text, err := os.ReadFile(filepath.Join(dir, "standalone.log")); err == nil && t.Failed() {
				t.Logf("%s said:\n%s", name, text)
			}
		})
		return c
	}
	f := &federated{T: t}
	f.fed = start("federation", "--federation", "--federation-probe-interval", "500ms", "--federation-probe-failures", "2", "--federation-inspect-interval", "2s")
	f.north = start("north", "--simulate", "2")
	f.south = start("south", "--simulate", "2")
	for name, member := range map[string]*cluster{"north": f.north, "south": f.south} {
		out, err := f.howdah("federation", "join", name, "--kubeconfig", f.fed.Kubeconfig(), "--member-kubeconfig", member.Kubeconfig(), "--region", name, "--wait", patience.String(),
			"--resource", "customresourcedefinitions.apiextensions.k8s.io", "--resource", "shops.example.com")
		if err != nil || !strings.Contains(out, "is ready") {
			t.Fatalf("join %s: %v\n%s", name, err, out)
		}
	}
	return f
}

func (f *federated) howdah(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(f.Context(), 2*patience)
	defer cancel()
	return command(ctx, "", nil, howdah.path, args...)
}

// must runs kubectl in a cluster; the test ends where it fails.
func (f *federated) must(c *cluster, in string, args ...string) string {
	f.Helper()
	out, err := c.try(patience, in, args...)
	if err != nil {
		f.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// get reads an object; nil where there is none, or where the cluster does not answer.
func get[T any](c *cluster, args ...string) *T {
	out, err := c.try(patience, "", append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return nil
	}
	o := new(T)
	if json.Unmarshal([]byte(out), o) != nil {
		return nil
	}
	return o
}

// await waits until something is so, and otherwise says what is.
func (f *federated) await(what string, ok func() bool) {
	f.Helper()
	for deadline := time.Now().Add(2 * patience); !ok(); {
		if time.Now().After(deadline) {
			placements, _ := f.fed.try(patience, "", "get", "clusters,placements,events,deployments", "-A", "-o", "yaml")
			f.Fatalf("%s: not after %s\n%s", what, 2*patience, placements)
		}
		select {
		case <-f.Context().Done():
			f.Fatal(f.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// replicas are those of the Deployment in a cluster, and how many of them are available; -1 where there is none.
func replicas(c *cluster) (want, available int32) {
	d := get[appsv1.Deployment](c, "deployment", "web", "-n", "shop")
	if d == nil {
		return -1, -1
	}
	return *d.Spec.Replicas, d.Status.AvailableReplicas
}

func (f *federated) awaitReplicas(north, south int32) {
	f.Helper()
	f.await(fmt.Sprintf("%d replicas in north and %d in south", north, south), func() bool {
		n, available := replicas(f.north)
		if n != north || available != max(north, -1) {
			return false
		}
		s, available := replicas(f.south)
		return s == south && available == s
	})
}

// TestFederation spreads one Deployment over two clusters: by weights, with another image in one, through scaling, the loss of a cluster and its return, up to its
// deletion.
func TestFederation(t *testing.T) {
	t.Parallel()
	f := startFederation(t)

	// What is refused is refused when it is written.
	for field, part := range map[string]string{
		"minClusters is greater than maxClusters":         `"placement":{"minClusters":3,"maxClusters":2}`,
		"weights are for the mode Divided":                `"replicas":{"weights":[{"weight":1}]}`,
		"what names an object":                            `"overrides":[{"patches":[{"op":"replace","path":"/metadata/name","value":"x"}]}]`,
		"a toleration with the operator Exists has no va": `"placement":{"tolerations":[{"key":"k","operator":"Exists","value":"v"}]}`,
	} {
		policy := `{"apiVersion":"federation.howdah.dev/v1","kind":"PropagationPolicy","metadata":{"name":"bad","namespace":"default"},"spec":{"resourceSelectors":[{"apiVersion":"apps/v1","kind":"Deployment"}],` + part + `}}`
		if out, err := f.fed.try(patience, policy, "apply", "-f", "-"); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v %s", field, err, out)
		}
	}

	// Somebody in north has a Service of that name already; it is refused and stays as it is.
	f.must(f.north, "", "create", "namespace", "shop")
	f.must(f.north, "", "create", "service", "externalname", "web", "-n", "shop", "--external-name", "elsewhere.example")

	f.must(f.fed, "", "apply", "-f", "../../examples/federation/shop.yaml")
	f.must(f.fed, "", "patch", "propagationpolicy", "web", "-n", "shop", "--type", "merge", "-p", `{"spec":{"failover":{"tolerationSeconds":3,"returnSeconds":2}}}`)
	f.must(f.fed, "", "rollout", "status", "deployment/web", "-n", "shop", "--timeout", patience.String())
	f.awaitReplicas(6, 4)
	f.must(f.fed, "", "wait", "--for=condition=Available", "deployment/web", "-n", "shop", "--timeout", patience.String())
	d := get[appsv1.Deployment](f.fed, "deployment", "web", "-n", "shop")
	if d.Status.Replicas != 10 || d.Status.ReadyReplicas != 10 || d.Status.AvailableReplicas != 10 || d.Status.UpdatedReplicas != 10 || d.Status.ObservedGeneration != d.Generation {
		t.Errorf("the status is not that of both clusters: %+v at generation %d", d.Status, d.Generation)
	}
	for c, want := range map[*cluster]string{f.north: "nginx:1.9.1", f.south: "mirror.example/nginx:1.9.1"} {
		if image := get[appsv1.Deployment](c, "deployment", "web", "-n", "shop").Spec.Template.Spec.Containers[0].Image; image != want {
			t.Errorf("the image is %s, want %s", image, want)
		}
		f.await("the ConfigMap that the pods need", func() bool {
			m := get[corev1.ConfigMap](c, "configmap", "settings", "-n", "shop")
			return m != nil && m.Data["colour"] == "blue"
		})
	}
	f.await("the Service in south", func() bool { return get[corev1.Service](f.south, "service", "web", "-n", "shop") != nil })
	if s := get[corev1.Service](f.north, "service", "web", "-n", "shop"); s == nil || s.Spec.Type != corev1.ServiceTypeExternalName {
		t.Errorf("north's own Service was not left alone: %+v", s)
	}
	f.await("word of the conflict", func() bool {
		out, err := f.fed.try(patience, "", "get", "placements", "-n", "shop", "-o", `jsonpath={range .items[?(@.spec.object.kind=="Service")]}{.status.clusters}{end}`)
		return err == nil && strings.Contains(out, "Refused")
	})
	if out, err := f.howdah("federation", "clusters", "--kubeconfig", f.fed.Kubeconfig()); err != nil || !strings.Contains(out, "north   True") || !strings.Contains(out, "2/2") {
		t.Errorf("howdah federation clusters: %v\n%s", err, out)
	}

	// What changes here changes there, and what is changed there is set right.
	f.must(f.fed, "", "patch", "configmap", "settings", "-n", "shop", "--type", "merge", "-p", `{"data":{"colour":"red"}}`)
	f.must(f.fed, "", "scale", "deployment/web", "-n", "shop", "--replicas=5")
	f.must(f.fed, "", "rollout", "status", "deployment/web", "-n", "shop", "--timeout", patience.String())
	f.awaitReplicas(3, 2)
	f.must(f.south, "", "scale", "deployment/web", "-n", "shop", "--replicas=7")
	f.awaitReplicas(3, 2)
	for _, c := range []*cluster{f.north, f.south} {
		f.await("the changed ConfigMap", func() bool {
			m := get[corev1.ConfigMap](c, "configmap", "settings", "-n", "shop")
			return m != nil && m.Data["colour"] == "red"
		})
	}

	// A cluster is lost, and the other has its share; the lost one returns, and there are no more than there should be.
	f.south.Kill()
	f.await("all replicas in north", func() bool { n, available := replicas(f.north); return n == 5 && available == 5 })
	f.await("a status without south", func() bool {
		d := get[appsv1.Deployment](f.fed, "deployment", "web", "-n", "shop")
		return d != nil && d.Status.AvailableReplicas == 5 && d.Status.Replicas == 5 && d.Status.ObservedGeneration == d.Generation
	})
	if err := f.south.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.awaitReplicas(3, 2)
	f.await("one status of both", func() bool {
		d := get[appsv1.Deployment](f.fed, "deployment", "web", "-n", "shop")
		return d != nil && d.Status.AvailableReplicas == 5 && d.Status.Replicas == 5
	})

	f.custom()

	// The federation is killed, and goes on where it was.
	f.fed.Kill()
	if err := f.fed.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.must(f.fed, "", "scale", "deployment/web", "-n", "shop", "--replicas=4")
	f.awaitReplicas(2, 2)

	// A cluster leaves: what was carried there goes, and its share to the other.
	if out, err := f.howdah("federation", "unjoin", "south", "--kubeconfig", f.fed.Kubeconfig(), "--member-kubeconfig", f.south.Kubeconfig()); err != nil {
		t.Fatalf("unjoin: %v\n%s", err, out)
	}
	if n, _ := replicas(f.south); n != -1 {
		t.Errorf("%d replicas are left in south", n)
	}
	f.await("all replicas in north", func() bool { n, available := replicas(f.north); return n == 4 && available == 4 })

	// The end of the Deployment is its end everywhere; north's own things stay.
	f.must(f.fed, "", "delete", "deployment", "web", "-n", "shop", "--timeout", patience.String())
	if n, _ := replicas(f.north); n != -1 {
		t.Errorf("%d replicas are left in north", n)
	}
	f.await("the end of the ConfigMap", func() bool {
		return get[metav1.PartialObjectMetadata](f.north, "configmap", "settings", "-n", "shop") == nil
	})
	f.must(f.fed, "", "delete", "namespace", "shop", "--timeout", patience.String())
	if s := get[corev1.Service](f.north, "service", "web", "-n", "shop"); s == nil {
		t.Error("north's own Service is gone")
	}
}

// custom carries a kind of a user's own, and takes over what was there; what is deleted stays there.
func (f *federated) custom() {
	f.Helper()
	const example = "../../examples/federation/everywhere.yaml"
	f.must(f.north, "", "create", "configmap", "taken", "-n", "default", "--from-literal=by=north")
	f.must(f.fed, "", "create", "configmap", "taken", "-n", "default", "--from-literal=by=federation")
	f.must(f.fed, "", "apply", "-f", example)
	f.must(f.fed, "", "wait", "--for=condition=Established", "customresourcedefinition/shops.example.com", "--timeout", patience.String())
	f.must(f.fed, "", "patch", "clusterpropagationpolicy", "shops", "--type", "json", "-p", `[{"op":"add","path":"/spec/failover/returnSeconds","value":0},{"op":"add","path":"/spec/resourceSelectors/-","value":{"apiVersion":"v1","kind":"ConfigMap","name":"taken"}}]`)
	f.must(f.fed, `{"apiVersion":"example.com/v1","kind":"Shop","metadata":{"name":"corner","namespace":"default"},"spec":{"town":"here"}}`, "apply", "-f", "-")
	for _, c := range []*cluster{f.north, f.south} {
		f.await("an object of a kind of one's own", func() bool {
			out, err := c.try(patience, "", "get", "shops.example.com", "corner", "-n", "default", "-o", "jsonpath={.spec.town}")
			return err == nil && out == "here"
		})
	}
	f.await("what was taken over", func() bool {
		m := get[corev1.ConfigMap](f.north, "configmap", "taken", "-n", "default")
		return m != nil && m.Data["by"] == "federation"
	})
	f.must(f.fed, "", "delete", "shops.example.com", "corner", "-n", "default", "--timeout", patience.String())
	for _, c := range []*cluster{f.north, f.south} {
		if o := get[metav1.PartialObjectMetadata](c, "shops.example.com", "corner", "-n", "default"); o == nil || len(o.Labels) > 0 || len(o.Annotations) > 0 {
			f.Errorf("what was to stay is not there as others are: %+v", o)
		}
	}
}
