package nodeagent_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// testRolling deletes a pod of a service under load: no request may fail, though the pod's program ends with its signal
// and the endpoints change a while after the deletion.
func (n *node) testRolling(t *testing.T) {
	n = n.in(t)
	services, slices := object.For(n.client, object.Service), object.For(n.client, object.EndpointSlice)
	name, port, protocol := "", int32(8080), corev1.ProtocolTCP
	if _, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.80", ClusterIPs: []string{"10.96.0.80"}, Ports: []corev1.ServicePort{{Port: 80, Protocol: protocol}}},
	}); err != nil {
		t.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	yes, no, node, grace := true, false, nodeName, int64(10)
	for _, pod := range []string{"old", "new"} {
		n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{shell("echo " + pod + " >/tmp/index.html; trap 'kill $!; exit 0' TERM; httpd -f -p 8080 -h /tmp & wait")},
		}})
		p := n.await(pod, "ready", time.Minute, ready)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p.Status.PodIP}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &yes},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod, UID: p.UID},
		})
	}
	if _, err := slices.Create(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		clients := n.load("http://10.96.0.80/index.html")
		defer clients.stop()
		time.Sleep(50 * time.Millisecond)
		clients.mu.Lock()
		defer clients.mu.Unlock()
		if clients.answers["new\n"] == 0 || clients.answers["old\n"] == 0 {
			return fmt.Sprintf("the service is not there: %v", clients.answers)
		}
		return ""
	})
	clients := n.load("http://10.96.0.80/index.html")
	clients.await(t, "old\n", 50)
	clients.await(t, "new\n", 50)

	if err := object.For(n.client, object.Pod).Delete(t.Context(), "default", "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The endpoints controller's part, slow.
	time.Sleep(300 * time.Millisecond)
	stored, err := slices.Get(t.Context(), "default", "web-1")
	if err != nil {
		t.Fatal(err)
	}
	stored.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	if _, err := slices.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	changed := time.Now()
	eventually(t, time.Minute, func() string {
		if n.get("old") != nil {
			return "the old pod is still there"
		}
		return ""
	})
	t.Logf("gone %v after its endpoint", time.Since(changed))
	clients.await(t, "new\n", 100)
	clients.stop()
	t.Logf("%v requests, by answer", clients.answers)
	for answer := range clients.answers {
		if answer != "old\n" && answer != "new\n" {
			t.Errorf("a request failed: %s", answer)
		}
	}
	n.remove("new")
	if err := services.Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// load asks one address again and again, each time over a new connection.
type load struct {
	stop func()

	mu      sync.Mutex
	answers map[string]int // by body, or by error
}

// load starts two clients in the group of processes that the node's load balancer serves.
func (n *node) load(address string) *load {
	n.t.Helper()
	group := n.unified()
	join := func(group string) {
		n.t.Helper()
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
			n.t.Fatal(err)
		}
	}
	join(group)
	ctx, cancel := context.WithCancel(n.t.Context())
	l := &load{answers: map[string]int{}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for ctx.Err() == nil {
				answer := ask(client, address)
				l.mu.Lock()
				l.answers[answer]++
				l.mu.Unlock()
			}
		})
	}
	l.stop = func() {
		cancel()
		clients.Wait()
		join(filepath.Dir(group))
	}
	return l
}

func ask(client *http.Client, address string) string {
	response, err := client.Get(address)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// await waits for more answers of one kind.
func (l *load) await(t *testing.T, answer string, more int) {
	t.Helper()
	count := func() (int, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answers[answer], fmt.Sprint(l.answers)
	}
	before, _ := count()
	eventually(t, time.Minute, func() string {
		now, all := count()
		if now < before+more {
			return fmt.Sprintf("not %d more answers %q: %s", more, answer, all)
		}
		return ""
	})
}
