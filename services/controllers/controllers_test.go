package controllers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/pki"
)

// setup runs controllers against a test API with a default namespace.
func setup(t *testing.T, change func(*Config)) (*objecttest.Server, *object.Client) {
	t.Helper()
	api, client := objecttest.Start(t)
	create(t, client, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	cfg := Config{
		Objects: client, Leadership: leadingtest.New(), Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(),
		ClusterCIDR: "10.244.0.0/16", RootCA: &pki.Authorities{PEM: []byte("the CA")},
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	start(t, s.Run)
	if !s.Ready(t.Context()) {
		t.Fatal("the caches do not fill")
	}
	return api, client
}

// start runs f until the test ends.
func start(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil && ctx.Err() == nil {
				t.Errorf("ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("did not end")
		}
	})
}

func create[T object.Object](t *testing.T, client *object.Client, kind object.Kind[T], obj T) T {
	t.Helper()
	made, err := object.For(client, kind).Create(t.Context(), obj)
	if err != nil {
		t.Fatalf("create %s %s: %v", kind.GVK.Kind, obj.GetName(), err)
	}
	return made
}

// await polls nothing: it follows a watch until the objects of a kind
// satisfy ok, and returns them.
func await[T object.Object](t *testing.T, client *object.Client, kind object.Kind[T], what string, ok func([]T) bool) []T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	namespace := ""
	resource := object.For(client, kind)
	for {
		list, m, err := resource.List(ctx, namespace, metav1.ListOptions{})
		if err != nil {
			t.Fatalf("list %s while waiting for %s: %v", kind.Resource, what, err)
		}
		if ok(list) {
			return list
		}
		w, err := resource.Watch(ctx, namespace, metav1.ListOptions{ResourceVersion: m.ResourceVersion})
		if err != nil {
			t.Fatalf("watch %s while waiting for %s: %v", kind.Resource, what, err)
		}
		select {
		case <-w.ResultChan():
			w.Stop()
		case <-ctx.Done():
			for _, o := range list {
				t.Logf("%s %s: %+v", kind.GVK.Kind, object.KeyOf(o), o)
			}
			t.Fatalf("no %s in time", what)
		}
	}
}

// kubelet binds pods to node-1, gives them an address, makes them ready, and
// ends those that are being deleted.
func kubelet(t *testing.T, client *object.Client) {
	t.Helper()
	informers := object.NewInformers(client)
	inf := object.InformerFor(informers, object.Pod)
	pods := object.For(client, object.Pod)
	next := 0
	inf.AddHandler(func(_, p *corev1.Pod) {
		if p == nil {
			return
		}
		ctx := context.Background()
		if p.DeletionTimestamp != nil {
			_ = pods.Delete(ctx, p.Namespace, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
			return
		}
		if p.Spec.NodeName == "" {
			p = p.DeepCopy()
			p.Spec.NodeName = "node-1"
			_, _ = pods.Update(ctx, p)
			return
		}
		if p.Status.Phase == corev1.PodRunning {
			return
		}
		p = p.DeepCopy()
		next++
		p.Status.Phase = corev1.PodRunning
		p.Status.PodIP = fmt.Sprintf("10.244.%d.%d", next/250, next%250+1)
		p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		if _, err := pods.UpdateStatus(ctx, p); err != nil {
			t.Logf("kubelet: %v", err)
		}
	})
	start(t, informers.Run)
}

func nginx(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:1.7.9"}}},
			},
			Strategy:                appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
			RevisionHistoryLimit:    ptr.To[int32](1),
			ProgressDeadlineSeconds: ptr.To[int32](600),
		},
	}
}

func available(n int32, image string) func([]*appsv1.Deployment) bool {
	return func(ds []*appsv1.Deployment) bool {
		for _, d := range ds {
			s := d.Status
			if s.ObservedGeneration >= d.Generation && s.AvailableReplicas == n && s.UpdatedReplicas == n && s.Replicas == n &&
				d.Spec.Template.Spec.Containers[0].Image == image {
				return true
			}
		}
		return false
	}
}

func TestDeploymentBecomesServedPods(t *testing.T) {
	t.Parallel()
	_, client := setup(t, nil)
	kubelet(t, client)
	create(t, client, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	create(t, client, object.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "nginx"}, ClusterIP: "10.96.0.5", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}},
		},
	})
	create(t, client, object.Deployment, nginx(3))
	await(t, client, object.Deployment, "3 available replicas", available(3, "nginx:1.7.9"))
	await(t, client, object.Endpoints, "3 ready addresses", func(es []*corev1.Endpoints) bool {
		return len(es) == 1 && len(es[0].Subsets) == 1 && len(es[0].Subsets[0].Addresses) == 3 && es[0].Subsets[0].Ports[0].Port == 8080
	})

	// A rolling update replaces all of them and keeps the old set.
	d, err := object.For(client, object.Deployment).Get(t.Context(), "default", "nginx")
	if err != nil {
		t.Fatal(err)
	}
	if d.Annotations["deployment.kubernetes.io/revision"] != "1" {
		t.Errorf("revision is %q, want 1", d.Annotations["deployment.kubernetes.io/revision"])
	}
	d.Spec.Template.Spec.Containers[0].Image = "nginx:1.9.1"
	if _, err := object.For(client, object.Deployment).Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.Deployment, "the new image on 3 replicas", available(3, "nginx:1.9.1"))
	sets := await(t, client, object.ReplicaSet, "two sets", func(s []*appsv1.ReplicaSet) bool { return len(s) == 2 })
	for _, rs := range sets {
		if *rs.Spec.Replicas != 0 && *rs.Spec.Replicas != 3 {
			t.Errorf("set %s asks for %d", rs.Name, *rs.Spec.Replicas)
		}
	}
	await(t, client, object.Pod, "3 pods of the new image", func(ps []*corev1.Pod) bool {
		for _, p := range ps {
			if p.Spec.Containers[0].Image != "nginx:1.9.1" {
				return false
			}
		}
		return len(ps) == 3
	})
	await(t, client, object.ServiceAccount, "the default account", func(s []*corev1.ServiceAccount) bool { return len(s) == 1 && s[0].Name == "default" })
	await(t, client, object.ConfigMap, "the root CA", func(s []*corev1.ConfigMap) bool { return len(s) == 1 && s[0].Data["ca.crt"] == "the CA" })
	await(t, client, object.Node, "a pod CIDR", func(s []*corev1.Node) bool { return s[0].Spec.PodCIDR == "10.244.0.0/24" })
}

func TestFiveThousandReplicas(t *testing.T) {
	t.Parallel()
	api, client := setup(t, func(c *Config) { c.Enabled = "deployment,replicaset" })
	begin := time.Now()
	create(t, client, object.Deployment, nginx(5000))
	await(t, client, object.ReplicaSet, "5000 replicas", func(s []*appsv1.ReplicaSet) bool { return len(s) == 1 && s[0].Status.Replicas == 5000 })
	t.Logf("5000 pods in %v", time.Since(begin))
	if n := api.Calls("create pods"); n != 5000 {
		t.Errorf("%d pods were created, want 5000", n)
	}
	if n := api.Calls("batch"); n > 400 { // one each would be 5,000
		t.Errorf("%d batches, want few", n)
	}
	if n := api.Calls("update replicasets"); n > 400 {
		t.Errorf("the set's status was written %d times, want few", n)
	}
}
