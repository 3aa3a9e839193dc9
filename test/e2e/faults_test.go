package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestKilledContainers kills one container of the mesh after the other with
// SIGKILL while clients write, and checks that every acknowledged write is
// there, that no pod was touched, and that the cluster works again in seconds.
func TestKilledContainers(t *testing.T) {
	c := setup(t)
	web(c)
	before := c.containers()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	config.Timeout = time.Minute
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, victim := range []string{"apiserver1", "gateway", "scheduler1", "controllers1", "controllers2", "postgres", "dns", "jaeger", "prometheus"} {
		t.Run(victim, func(t *testing.T) {
			load := startLoad(t, client, c.namespace, victim)
			load.awaitWrites(t, 20)
			if out, err := run(time.Minute, "", "docker", "kill", "--signal=KILL", "howdah-"+victim+"-1"); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			// docker does not restart what was killed by hand: the test plays the machine that comes back.
			if out, err := run(time.Minute, "", "docker", "start", "howdah-"+victim+"-1"); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			load.awaitWrites(t, load.count()+50)
			load.finish(t)

			name := "after-" + victim
			c.apply(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {replicas: 1, selector: {matchLabels: {app: %s}},
  template: {metadata: {labels: {app: %s}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, imagePullPolicy: IfNotPresent, command: [sleep, "1000"]}]}}}}`, name, name, name))
			c.kubectl("rollout", "status", "deploy/"+name, "--timeout=180s")
			if after := c.containers(); after != before {
				t.Errorf("running pods were touched:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// TestNodeAgentRestart kills a node's agent: its containers run on.
func TestNodeAgentRestart(t *testing.T) {
	c := setup(t)
	web(c)
	before := c.containers()
	pid, err := run(time.Minute, "", "docker", "exec", "howdah-node1-1", "pgrep", "-f", "howdah nodeagent")
	if err != nil {
		t.Fatal(err)
	}
	agent := strings.Fields(pid)[0]
	if _, err := run(time.Minute, "", "docker", "exec", "howdah-node1-1", "kill", "-9", agent); err != nil {
		t.Fatal(err)
	}
	c.await(2*time.Minute, "a new agent", func() bool {
		pid, err := run(time.Minute, "", "docker", "exec", "howdah-node1-1", "pgrep", "-f", "howdah nodeagent")
		return err == nil && len(strings.Fields(pid)) > 0 && strings.Fields(pid)[0] != agent
	})
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: later}, spec: {nodeName: node1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, imagePullPolicy: IfNotPresent, command: [sleep, "1000"]}]}}`)
	c.kubectl("wait", "--for=condition=Ready", "pod/later", "--timeout=180s")
	if after := c.containers(); after != before {
		t.Errorf("running pods were touched:\n%s\nbefore:\n%s", after, before)
	}
}

// TestContainersStartAgainWithoutTheAPI: a container that ends while no API server is there starts again, with what its pod has of ConfigMaps.
func TestContainersStartAgainWithoutTheAPI(t *testing.T) {
	c := setup(t)
	c.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: words}, data: {word: "4242"}}`)
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: alone}, spec: {nodeName: node1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, imagePullPolicy: IfNotPresent,
  command: [sh, -c, "exec sleep $(cat /words/word)"], env: [{name: WORD, valueFrom: {configMapKeyRef: {name: words, key: word}}}], volumeMounts: [{name: words, mountPath: /words}]}],
  volumes: [{name: words, configMap: {name: words}}]}}`)
	c.kubectl("wait", "--for=condition=Ready", "pod/alone", "--timeout=180s")
	process := func() string {
		pid, err := run(time.Minute, "", "docker", "exec", "howdah-node1-1", "pgrep", "-f", "^sleep 4242")
		if err != nil {
			return ""
		}
		return strings.TrimSpace(pid)
	}
	if process() == "" {
		t.Fatal("the container's process is not there")
	}
	servers := []string{"howdah-apiserver1-1", "howdah-apiserver2-1"}
	start := func() {
		if out, err := run(time.Minute, "", "docker", append([]string{"start"}, servers...)...); err != nil {
			t.Errorf("%v %s", err, out)
		}
	}
	if out, err := run(time.Minute, "", "docker", append([]string{"kill", "--signal=KILL"}, servers...)...); err != nil {
		start()
		t.Fatalf("%v %s", err, out)
	}
	t.Cleanup(start) // before the namespace goes
	// The second time it waits for ten seconds, as what failed before does: long after what the agent has read counted as new.
	for range 2 {
		ended := process()
		if out, err := run(time.Minute, "", "docker", "exec", "howdah-node1-1", "kill", "-9", ended); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		c.await(time.Minute, "another process", func() bool { now := process(); return now != "" && now != ended })
	}
	start()
	c.await(2*time.Minute, "the API's word of it", func() bool {
		out, err := run(time.Minute, "", "kubectl", "-n", c.namespace, "get", "pod", "alone", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
		return err == nil && out == "2"
	})
}

// containers lists the web pods' container ids and restart counts.
func (c *cluster) containers() string {
	c.t.Helper()
	return c.kubectl("get", "pods", "-l", "app=web", "--sort-by=.metadata.name",
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}{"\n"}{end}`)
}

// load writes config maps until it is stopped, and remembers which writes
// were acknowledged.
type load struct {
	client    kubernetes.Interface
	namespace string
	prefix    string
	stop      context.CancelFunc
	wg        sync.WaitGroup
	written   atomic.Int64
	mu        sync.Mutex
	acked     []string
	refused   map[string]int
}

func startLoad(t *testing.T, client kubernetes.Interface, namespace, prefix string) *load {
	ctx, stop := context.WithCancel(t.Context())
	l := &load{client: client, namespace: namespace, prefix: prefix, stop: stop, refused: map[string]int{}}
	for worker := range 4 {
		l.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				l.write(fmt.Sprintf("%s-%d-%d", prefix, worker, i))
			}
		})
	}
	return l
}

// write creates one object. A refusal is fine, as long as it says that it is
// one. No name exists already: the client library, which tries again by itself
// where it is asked to, is not asked where a try may have been a success.
func (l *load) write(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := l.client.CoreV1().ConfigMaps(l.namespace).Create(ctx, object, metav1.CreateOptions{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.acked = append(l.acked, name)
		l.written.Add(1)
		return
	}
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = "connection"
		time.Sleep(20 * time.Millisecond) // the port is closed: do not spin
	}
	l.refused[reason]++
}

func (l *load) count() int { return int(l.written.Load()) }

func (l *load) awaitWrites(t *testing.T, n int) {
	t.Helper()
	start := time.Now()
	for l.count() < n {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("only %d of %d writes in two minutes; refused: %v", l.count(), n, l.refused)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d writes acknowledged after %s", n, time.Since(start).Round(time.Millisecond))
}

func (l *load) finish(t *testing.T) {
	t.Helper()
	l.stop()
	l.wg.Wait()
	list, err := l.client.CoreV1().ConfigMaps(l.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, object := range list.Items {
		there[object.Name] = true
	}
	lost := 0
	for _, name := range l.acked {
		if !there[name] {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(l.acked))
	}
	t.Logf("%d writes acknowledged and there; refused: %v", len(l.acked), l.refused)
	for reason := range l.refused {
		switch reason {
		case "connection", "ServiceUnavailable", "Timeout", "ServerTimeout", "TooManyRequests":
		default:
			t.Errorf("writes were refused with %s, which is not retriable", reason)
		}
	}
}

// TestNodeComesBack kills a whole node with SIGKILL: its pods are started
// again when it is back, on the node and under the names that they had, and
// the other node's are not touched.
func TestNodeComesBack(t *testing.T) {
	c := setup(t)
	web(c)
	names := strings.Join(c.pods("app=web"), " ")
	untouched := c.on("node1")
	if out, err := run(time.Minute, "", "docker", "kill", "--signal=KILL", "howdah-node2-1"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if out, err := run(time.Minute, "", "docker", "start", "howdah-node2-1"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	c.await(2*time.Minute, "the node's pods to run again", func() bool {
		restarts := strings.Fields(c.kubectl("get", "pods", "-l", "app=web", "--field-selector=spec.nodeName=node2",
			"-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}"))
		ready := strings.Count(c.kubectl("get", "pods", "-l", "app=web", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`), "True")
		for _, n := range restarts {
			if n == "0" {
				return false
			}
		}
		return ready == 3 && len(restarts) > 0
	})
	if after := strings.Join(c.pods("app=web"), " "); after != names {
		t.Errorf("the pods are %s, they were %s", after, names)
	}
	if after := c.on("node1"); after != untouched {
		t.Errorf("the other node's pods were touched:\n%s\nbefore:\n%s", after, untouched)
	}
	port := c.jsonpath("service/web-outside", "{.spec.ports[0].nodePort}")
	c.await(2*time.Minute, "the node to balance", func() bool {
		_, err := fetch("http://" + c.nodeAddress("node2") + ":" + port + "/hostname")
		return err == nil
	})
	evenly(t, c.pods("app=web"), 60, func() (string, error) { return fetch("http://" + c.nodeAddress("node2") + ":" + port + "/hostname") })
}

// on lists the web pods of a node with their container ids.
func (c *cluster) on(node string) string {
	c.t.Helper()
	return c.kubectl("get", "pods", "-l", "app=web", "--field-selector=spec.nodeName="+node,
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].containerID}{"\n"}{end}`)
}
