package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// web runs three nginx pods, exposed as ClusterIP and as NodePort, and a
// client pod on each node. When it returns, every node and the cluster's DNS
// have heard of them.
func web(c *cluster) {
	c.t.Helper()
	c.apply(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: nginx
        image: nginx:1.7.9
        ports: [{containerPort: 80}]
        readinessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 2}}}
`)
	c.kubectl("expose", "deploy/web", "--port=80")
	c.kubectl("expose", "deploy/web", "--port=80", "--type=NodePort", "--name=web-outside")
	c.client("client1", "node1")
	c.client("client2", "node2")
	c.kubectl("rollout", "status", "deploy/web", "--timeout=180s")
	port := c.jsonpath("service/web-outside", "{.spec.ports[0].nodePort}")
	for client, node := range map[string]string{"client1": "node1", "client2": "node2"} {
		c.await(2*time.Minute, node+" to balance", func() bool {
			_, inside := c.inPod(client, "curl", "-sf", "-m", "30", "-o", "/dev/null", "http://web/version")
			_, outside := fetch("http://" + c.nodeAddress(node) + ":" + port + "/version")
			return inside == nil && outside == nil
		})
	}
}

func TestServices(t *testing.T) {
	c := setup(t)
	web(c)
	ip := c.jsonpath("service/web", "{.spec.clusterIP}")
	pods := c.pods("app=web")
	c.await(2*time.Minute, "three endpoints", func() bool {
		return len(strings.Fields(c.kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}"))) == 3
	})

	for _, client := range []string{"client1", "client2"} {
		for what, url := range map[string]string{
			"cluster IP": "http://" + ip + "/hostname", "short name": "http://web/hostname",
			"full name": fmt.Sprintf("http://web.%s.svc.cluster.local/hostname", c.namespace),
		} {
			t.Run(client+" by "+what, func(t *testing.T) {
				evenly(t, pods, 90, func() (string, error) {
					return c.inPod(client, "sh", "-c", fmt.Sprintf("for i in $(seq 30); do curl -s -m 30 %s; done", url))
				})
			})
		}
	}
	port := c.jsonpath("service/web-outside", "{.spec.ports[0].nodePort}")
	for _, node := range []string{"node1", "node2"} {
		address := c.nodeAddress(node)
		t.Run("from outside by "+node, func(t *testing.T) {
			evenly(t, pods, 90, func() (string, error) { return fetch("http://" + address + ":" + port + "/hostname") })
		})
	}
	t.Run("from a pod by node port", func(t *testing.T) {
		evenly(t, pods, 90, func() (string, error) {
			return c.inPod("client1", "sh", "-c", fmt.Sprintf("for i in $(seq 30); do curl -s -m 30 http://%s:%s/hostname; done", c.nodeAddress("node2"), port))
		})
	})
	t.Run("the API by its service", func(t *testing.T) {
		out, err := c.inPod("client1", "sh", "-c", `curl -s -m 30 --cacert /var/run/secrets/kubernetes.io/serviceaccount/ca.crt `+
			`-H "Authorization: Bearer $(cat /var/run/secrets/kubernetes.io/serviceaccount/token)" https://kubernetes.default.svc/version`)
		if err != nil || !strings.Contains(out, `"gitVersion"`) {
			t.Errorf("got %q (%v)", out, err)
		}
	})
	t.Run("pods reach pods on the other node", func(t *testing.T) {
		for _, address := range strings.Fields(c.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}")) {
			if out, err := c.inPod("client1", "curl", "-s", "-m", "30", "http://"+address+"/version"); err != nil || out != "1.7.9\n" {
				t.Errorf("%s answered %q (%v)", address, out, err)
			}
		}
	})
	t.Run("a service without endpoints refuses at once", func(t *testing.T) {
		c.apply(`{apiVersion: v1, kind: Service, metadata: {name: empty}, spec: {selector: {app: nobody}, ports: [{port: 80}]}}`)
		empty := c.jsonpath("service/empty", "{.spec.clusterIP}")
		c.await(2*time.Minute, "a refusal", func() bool {
			out, err := c.inPod("client1", "curl", "-s", "-m", "30", "http://"+empty)
			return err != nil && out == "" && strings.Contains(err.Error(), "exit code 7") // could not connect; 28 would be a time-out
		})
	})
}

// evenly asks until at least n answers are there, and checks that every pod
// gave its share and that nobody else answered.
func evenly(t *testing.T, pods []string, n int, ask func() (string, error)) {
	t.Helper()
	counts, total := map[string]int{}, 0
	for total < n {
		out, err := ask()
		if err != nil {
			t.Fatalf("after %d answers: %v", total, err)
		}
		for _, name := range strings.Fields(out) {
			counts[name]++
			total++
		}
		if out == "" {
			t.Fatalf("no answer after %d", total)
		}
	}
	fair := total / len(pods)
	for _, pod := range pods {
		if counts[pod] < fair/3 {
			t.Errorf("%s gave %d of %d answers: %v", pod, counts[pod], total, counts)
		}
		total -= counts[pod]
	}
	if total != 0 {
		t.Errorf("%d answers came from others: %v", total, counts)
	}
}

// nodeAddress is the node's main address.
func (c *cluster) nodeAddress(node string) string {
	c.t.Helper()
	all := strings.Fields(c.cluster("get", "node", node, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`))
	if len(all) == 0 {
		c.t.Fatalf("%s has no address", node)
	}
	return all[0]
}

// outside is a client without connections kept alive, so that each request
// is balanced anew.
var outside = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func fetch(url string) (string, error) {
	response, err := outside.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", response.Status)
	}
	return string(body), err
}

// TestRollingUpdateServesOn asks without pause, from outside and from a pod,
// while pods are deleted and the image is changed: no request may fail.
func TestRollingUpdateServesOn(t *testing.T) {
	c := setup(t)
	web(c)
	port := c.jsonpath("service/web-outside", "{.spec.ports[0].nodePort}")
	url := "http://" + c.nodeAddress("node1") + ":" + port + "/version"

	stop := make(chan struct{})
	var asked, failed atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := fetch(url); err != nil {
					failed.Add(1)
					t.Logf("%s: %v", time.Now().Format("15:04:05.000"), err)
				}
				asked.Add(1)
			}
		})
	}
	inside := make(chan string, 1)
	wg.Go(func() {
		out, err := c.inPod("client2", "sh", "-c", "f=0; n=0; while [ ! -e /tmp/stop ]; do curl -sf -m 30 -o /dev/null http://web/version || f=$((f+1)); n=$((n+1)); done; echo $n asked, $f failed")
		inside <- strings.TrimSpace(out) + fmt.Sprint(" ", err)
	})
	c.kubectl("set", "image", "deploy/web", "nginx=nginx:1.9.1")
	c.kubectl("rollout", "status", "deploy/web", "--timeout=180s")
	c.kubectl("delete", "pod", c.firstPod("app=web"))
	c.kubectl("rollout", "status", "deploy/web", "--timeout=180s")
	close(stop)
	c.kubectl("exec", "client2", "--", "touch", "/tmp/stop")
	wg.Wait()
	if failed.Load() != 0 || asked.Load() < 50 {
		t.Errorf("from outside %d of %d requests failed", failed.Load(), asked.Load())
	}
	if got := <-inside; !strings.Contains(got, ", 0 failed <nil>") {
		t.Errorf("from a pod: %s", got)
	}
	if out, err := fetch(url); err != nil || out != "1.9.1\n" {
		t.Errorf("after the update the version is %q (%v)", out, err)
	}
}

// TestDeletedPodLeavesAtOnce scales to one pod and checks that nobody is
// sent to the others any more.
func TestDeletedPodLeavesAtOnce(t *testing.T) {
	c := setup(t)
	web(c)
	port := c.jsonpath("service/web-outside", "{.spec.ports[0].nodePort}")
	url := "http://" + c.nodeAddress("node2") + ":" + port + "/hostname"
	gone := c.firstPod("app=web")
	c.kubectl("delete", "pod", gone, "--wait=false")
	c.await(2*time.Minute, "the endpoint to go", func() bool {
		return !strings.Contains(c.kubectl("get", "endpoints", "web", "-o", "jsonpath={.subsets[*].addresses[*].targetRef.name}"), gone)
	})
	ask := func() string {
		name, err := fetch(url)
		if err != nil {
			t.Errorf("a request failed: %v", err)
		}
		return strings.TrimSpace(name)
	}
	c.await(2*time.Minute, "the node to hear of it", func() bool {
		for range 20 {
			if ask() == gone {
				return false
			}
		}
		return true
	})
	for range 100 {
		if ask() == gone {
			t.Error("the deleted pod came back into the rotation")
		}
	}
}
