package controllers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/lease"
	"howdah.dev/kit/object"
	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
	"howdah.dev/migrations"
	"howdah.dev/services/apiserver"
)

// setupReal runs the controllers, elected in PostgreSQL, against a real apiserver.
func setupReal(t *testing.T, enabled string, configure ...func(*Config)) *object.Client {
	t.Helper()
	url := pgtest.New(t, pgtest.Template{Name: "controllers", Setup: func(ctx context.Context, url string) error {
		return migrations.Apply(ctx, url)
	}})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	api, err := apiserver.New(apiserver.Config{DatabaseURL: url, ServiceAccountKey: key, Features: map[string]bool{"GenericWorkload": true, "PodCertificateRequest": true}})
	if err != nil {
		t.Fatal(err)
	}
	start(t, api.Run)
	select {
	case <-api.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the apiserver does not become ready")
	}
	listener := rpc.ListenInMemory()
	server := rpc.NewServer(nil, nil)
	api.Register(server)
	start(t, func(ctx context.Context) error { return server.ServeUntil(ctx, listener) })
	dial := func(name string) *object.Client {
		conn, err := listener.Dial(rpc.User{Name: name, Groups: []string{"system:masters"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return object.NewClient(conn, name)
	}
	leadership, err := lease.New(lease.Config{DatabaseURL: url, Role: Role, Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Objects: dial("controllers"), Leadership: leadership, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(),
		ClusterCIDR: "10.244.0.0/16", RootCA: &pki.Authorities{PEM: []byte("the CA")}, Enabled: enabled,
	}
	for _, change := range configure {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	start(t, s.Run)
	return dial("test")
}

// readyNode registers a node that is ready.
func readyNode(t *testing.T, client *object.Client, name string) {
	t.Helper()
	n := create(t, client, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	if _, err := object.For(client, object.Node).UpdateStatus(t.Context(), n); err != nil {
		t.Fatalf("make node ready: %v", err)
	}
}

// onNode is the nginx Deployment with its pods placed already: no scheduler runs here.
func onNode(replicas int32) *appsv1.Deployment {
	d := nginx(replicas)
	d.Spec.Template.Spec.NodeName = "node-1"
	return d
}

// TestOnTheRealAPI is the whole life of a Deployment and its namespace on the
// real API: what the API in memory got wrong would show here.
func TestOnTheRealAPI(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "")
	kubelet(t, client)
	create(t, client, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	readyNode(t, client, "node-1")
	await(t, client, object.Node, "a node with a range and no taint", func(nodes []*corev1.Node) bool {
		return nodes[0].Spec.PodCIDR == "10.244.0.0/24" && len(nodes[0].Spec.Taints) == 0
	})
	await(t, client, object.ServiceAccount, "the namespace's account", func(s []*corev1.ServiceAccount) bool { return in(s, "team", "default") })
	await(t, client, object.ConfigMap, "the namespace's root CA", func(s []*corev1.ConfigMap) bool { return in(s, "team", "kube-root-ca.crt") })

	create(t, client, object.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "nginx"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "nginx"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}},
		},
	})
	d := onNode(3)
	d.Namespace = "team"
	create(t, client, object.Deployment, d)
	await(t, client, object.Deployment, "3 available replicas", available(3, "nginx:1.7.9"))
	await(t, client, object.EndpointSlice, "3 ready endpoints", func(slices []*discoveryv1.EndpointSlice) bool {
		for _, s := range slices {
			if s.Namespace == "team" && len(s.Endpoints) == 3 && *s.Endpoints[0].Conditions.Ready {
				return true
			}
		}
		return false
	})

	for _, image := range []string{"nginx:1.9.1", "nginx:1.7.9"} {
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":%q}]}}}}`, image)
		if _, err := object.For(client, object.Deployment).Patch(t.Context(), "team", "nginx", "application/strategic-merge-patch+json", []byte(patch), ""); err != nil {
			t.Fatal(err)
		}
		await(t, client, object.Deployment, "3 replicas of "+image, available(3, image))
	}
	ds := await(t, client, object.Deployment, "revision 3", func(ds []*appsv1.Deployment) bool {
		return ds[0].Annotations["deployment.kubernetes.io/revision"] == "3"
	})
	if ds[0].Generation != 3 {
		t.Errorf("generation %d, want 3: the controller's own writes must not count", ds[0].Generation)
	}

	foreground := metav1.DeletePropagationForeground
	if err := object.For(client, object.Deployment).Delete(t.Context(), "team", "nginx", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.Pod, "the end of the pods", func(p []*corev1.Pod) bool { return len(p) == 0 })
	await(t, client, object.Deployment, "the end of the deployment", func(d []*appsv1.Deployment) bool { return len(d) == 0 })

	if err := object.For(client, object.Namespace).Delete(t.Context(), "", "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.Namespace, "the end of the namespace", func(n []*corev1.Namespace) bool { return !in(n, "", "team") })
	await(t, client, object.Service, "the end of its services", func(s []*corev1.Service) bool { return !in(s, "team", "nginx") })
	await(t, client, object.EndpointSlice, "the end of its slices", func(slices []*discoveryv1.EndpointSlice) bool {
		for _, s := range slices {
			if s.Namespace == "team" {
				return false
			}
		}
		return true
	})
}

func in[T object.Object](objects []T, namespace, name string) bool {
	for _, o := range objects {
		if o.GetNamespace() == namespace && o.GetName() == name {
			return true
		}
	}
	return false
}

// TestManyReplicasOnTheRealAPI measures what the design promises: thousands
// of pods made, and removed, in a few calls.
func TestManyReplicasOnTheRealAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 5,000 pods in PostgreSQL")
	}
	client := setupReal(t, "deployment,replicaset,garbagecollector,serviceaccount")
	await(t, client, object.ServiceAccount, "the default account", func(s []*corev1.ServiceAccount) bool { return in(s, "default", "default") })
	d := nginx(5000)
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	begin := time.Now()
	create(t, client, object.Deployment, d)
	await(t, client, object.Deployment, "5000 replicas", func(ds []*appsv1.Deployment) bool { return ds[0].Status.Replicas == 5000 })
	t.Logf("made in %v", time.Since(begin))
	begin = time.Now()
	if err := object.For(client, object.Deployment).Delete(t.Context(), "default", "nginx", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		t.Fatal(err)
	}
	// A pod's end is awaited by its set's: listing 5,000 pods again and again would be the test's own load.
	await(t, client, object.ReplicaSet, "the end of the set", func(s []*appsv1.ReplicaSet) bool { return len(s) == 0 })
	for len(must(object.For(client, object.Pod).List(t.Context(), "", metav1.ListOptions{Limit: 1}))) > 0 {
		await(t, client, object.Pod, "fewer pods", func(p []*corev1.Pod) bool { return len(p) < 2500 })
		await(t, client, object.Pod, "no pods", func(p []*corev1.Pod) bool { return len(p) == 0 })
	}
	t.Logf("removed in %v", time.Since(begin))
}

func must[T any](list []T, _ metav1.ListMeta, err error) []T {
	if err != nil {
		panic(err)
	}
	return list
}
