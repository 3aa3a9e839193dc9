package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/pgtest"
)

// freePort returns an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// TestStandalone is the whole product but for containers: REST in, a
// Deployment on simulated nodes, explain, and a stop.
func TestStandalone(t *testing.T) {
	databaseURL, address, metrics, dir := pgtest.New(t), freePort(t), freePort(t), t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	root := command()
	root.SetArgs([]string{"standalone", "--database-url", databaseURL, "--listen", address, "--dir", dir, "--simulate", "3", "--log-level", "warn",
		"--metrics-listen", metrics, "--scheduler-config", filepath.Join("..", "..", "examples", "config", "scheduler.yaml")})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	ended := false
	defer func() {
		if stop(); !ended {
			<-done
		}
	}()

	config := filepath.Join(dir, "admin", "kubeconfig")
	client := connect(t, config, done)
	deployments := client.AppsV1().Deployments("default")
	labels := map[string]string{"app": "web"}
	_, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(5)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{SchedulerName: "packing", Containers: []corev1.Container{{Name: "c", Image: "nginx:1.9.1"}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := deployments.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web", TimeoutSeconds: ptr.To(int64(60))})
	if err != nil {
		t.Fatal(err)
	}
	available := int32(0)
	for e := range watch.ResultChan() {
		if d, ok := e.Object.(*appsv1.Deployment); ok {
			if available = d.Status.AvailableReplicas; available == 5 {
				break
			}
		}
	}
	watch.Stop()
	if available != 5 {
		t.Fatalf("%d of 5 replicas are available after a minute", available)
	}

	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(pods.Items) != 5 {
		t.Fatalf("%d pods (%v)", len(pods.Items), err)
	}
	pod := pods.Items[0]
	out, err := execute(t, "explain", "pod", pod.Name, "--kubeconfig", config)
	if err != nil || !strings.Contains(out, "Pod default/"+pod.Name+" is on node "+pod.Spec.NodeName) || strings.Count(out, "feasible") != 3 {
		t.Errorf("explain: %v\n%s", err, out)
	}

	// The roles let every part do its work: nothing was refused to any of them.
	resp, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(text), "apiserver_request_total{") {
		t.Fatalf("no metrics: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `code="403"`) {
			t.Errorf("refused: %s", line)
		}
	}

	// A second one on the same port must say what to do.
	other := command()
	other.SetArgs([]string{"standalone", "--database-url", databaseURL, "--listen", address, "--dir", dir, "--log-level", "error"})
	if err := other.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("a port that is taken: %v", err)
	}

	open, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{}) // is open when the stop comes
	if err != nil {
		t.Fatal(err)
	}
	defer open.Stop()
	start := time.Now()
	stop()
	select {
	case err := <-done:
		ended = true
		if took := time.Since(start); err != nil || took > 20*time.Second {
			t.Errorf("stopped after %s with %v", took, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not stop")
	}
}

// connect waits until the API serves and returns a client of it.
func connect(t *testing.T, config string, done <-chan error) kubernetes.Interface {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		cfg, err := clientcmd.BuildConfigFromFlags("", config)
		if err == nil {
			client, err2 := kubernetes.NewForConfig(cfg)
			if err2 != nil {
				t.Fatal(err2)
			}
			// The default namespace is made last of what a client needs.
			if _, err = client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{}); err == nil {
				return client
			}
		}
		select {
		case err := <-done:
			t.Fatalf("it ended with %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the API does not serve after a minute: %v", err)
		}
	}
}
