package nodeagent_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/pki"
	"howdah.dev/nodeagent"
)

const endpointURL = "https://192.0.2.1:10250"

// trust is the authority of the node's certificate and of its callers'.
type trust struct {
	authority *pki.Authority
	caller    pki.Pair
}

func newTrust(t *testing.T) (*trust, *nodeagent.Endpoint) {
	t.Helper()
	a, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server, err := a.Issue(pki.Subject{CommonName: "system:node:" + nodeName, Organizations: []string{"system:nodes"}, Hosts: []string{"192.0.2.1"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(server.Certificate, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	caller, err := a.Issue(pki.Subject{CommonName: "howdah:apiserver", Organizations: []string{"howdah:apiservers"}, Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	authorities, err := pki.NewAuthorities(a.PEM())
	if err != nil {
		t.Fatal(err)
	}
	return &trust{a, caller}, &nodeagent.Endpoint{RotateServerCertificates: true, TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, Authorities: authorities}
}

func (n *node) restConfig() *rest.Config {
	return &rest.Config{Host: endpointURL, TLSClientConfig: rest.TLSClientConfig{CAData: n.trust.authority.PEM(), CertData: n.trust.caller.Certificate, KeyData: n.trust.caller.Key}}
}

// ask asks the node's endpoint as an API server does.
func (n *node) ask(path string) string {
	n.t.Helper()
	transport, err := rest.TransportFor(n.restConfig())
	if err != nil {
		n.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, endpointURL+path, http.NoBody)
	if err != nil {
		n.t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		n.t.Fatalf("%s: %d %s, %v", path, response.StatusCode, body, err)
	}
	return string(body)
}

// metric is the value of the first sample whose line begins so, -1 where there is none.
func metric(body, begin string) float64 {
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, begin); ok {
			if at := strings.LastIndex(rest, "}"); at >= 0 {
				rest = rest[at+1:]
			}
			if fields := strings.Fields(rest); len(fields) > 0 {
				if v, err := strconv.ParseFloat(fields[0], 64); err == nil {
					return v
				}
			}
		}
	}
	return -1
}

func (n *node) testEndpoint(t *testing.T) {
	n = n.in(t)
	stored, err := object.For(n.client, object.Node).Get(t.Context(), "", nodeName)
	if err != nil {
		t.Fatal(err)
	}
	if stored.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 || object.AgentPort(stored) != 7443 {
		t.Errorf("the node's ports: %v, %v", stored.Status.DaemonEndpoints, stored.Annotations)
	}
	// It keeps 32 MiB, uses time, writes a file and answers its probe.
	c := shell("dd if=/dev/zero of=/dev/shm/held bs=1M count=32 2>/dev/null; dd if=/dev/zero of=/root.bin bs=1M count=4 2>/dev/null; echo begun; echo x >/tmp/index.html; httpd -p 8080 -h /tmp; while :; do :; done")
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/index.html", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "busy"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
	pod := n.await("busy", "ready", time.Minute, ready)

	const cpu, memory = `container_cpu_usage_seconds_total{container="main",namespace="default",pod="busy"}`, `container_memory_working_set_bytes{container="main",namespace="default",pod="busy"}`
	var first float64
	eventually(t, time.Minute, func() string {
		body := n.ask("/metrics/resource")
		held, used := metric(body, memory), metric(body, cpu)
		if held < 32<<20 || held > 64<<20 || used <= 0 || metric(body, "resource_scrape_error") != 0 || metric(body, "node_memory_working_set_bytes") < held {
			return "32 MiB and some time are to be told:\n" + body
		}
		first = used
		return ""
	})
	began := time.Now()
	eventually(t, time.Minute, func() string {
		body := n.ask("/metrics/resource")
		used := metric(body, cpu)
		if used < first+0.5 {
			return fmt.Sprintf("more time than %v is to be used, not %v", first, used)
		}
		if span := time.Since(began) + 4*time.Second; used-first > span.Seconds()*1.5 {
			return fmt.Sprintf("a loop used %v s of %v", used-first, span)
		}
		if node, whole := metric(body, "node_cpu_usage_seconds_total"), metric(body, `pod_cpu_usage_seconds_total{namespace="default",pod="busy"}`); node < whole || whole < used {
			return fmt.Sprintf("node %v s, pod %v s, container %v s", node, whole, used)
		}
		return ""
	})
	body := n.ask("/metrics/cadvisor")
	if v := metric(body, `container_network_receive_bytes_total{container="",id="/howdah-test`); v <= 0 {
		t.Errorf("the pod has received %v bytes:\n%s", v, body)
	}
	var summary stats.Summary
	if err := json.Unmarshal([]byte(n.ask("/stats/summary")), &summary); err != nil {
		t.Fatal(err)
	}
	at := -1
	for i := range summary.Pods {
		if summary.Pods[i].PodRef.Name == "busy" {
			at = i
		}
	}
	if at < 0 || summary.Node.CPU.UsageNanoCores == nil || *summary.Node.Fs.CapacityBytes == 0 || summary.Node.Runtime == nil {
		t.Fatalf("summary: %+v", summary)
	}
	p := summary.Pods[at]
	if p.PodRef.UID != string(pod.UID) || p.Network == nil || p.Network.Name != "eth0" || len(p.Containers) != 1 || *p.Containers[0].CPU.UsageNanoCores < 50_000_000 || *p.Containers[0].Logs.UsedBytes == 0 {
		t.Errorf("the pod's summary: %+v", p)
	}
	eventually(t, time.Minute, func() string { // containerd looks at files every ten seconds
		var s stats.Summary
		if err := json.Unmarshal([]byte(n.ask("/stats/summary")), &s); err != nil {
			return err.Error()
		}
		for _, p := range s.Pods {
			if p.PodRef.Name == "busy" && p.Containers[0].Rootfs != nil && *p.Containers[0].Rootfs.UsedBytes >= 4<<20 {
				return ""
			}
		}
		return "the file of 4 MiB is not told"
	})
	if body := n.ask("/metrics/probes"); metric(body, `prober_probe_total{container="main",namespace="default",pod="busy"`) < 1 {
		t.Errorf("probes:\n%s", body)
	}
	for path, want := range map[string]string{
		"/healthz": "ok", "/pods": `"name":"busy"`, "/runningpods/": `"name":"busy"`, "/configz": `"maxPods":110`, "/metrics": "kubelet_running_pods",
		"/containerLogs/default/busy/main?tailLines=1": "begun\n",
	} {
		if body := n.ask(path); !strings.Contains(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
	u, err := url.Parse(endpointURL + "/exec/default/busy/main?command=sh&command=-c&command=echo+told%3B+exit+3&output=1&error=1")
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(n.restConfig(), http.MethodPost, u)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}); err == nil || !strings.Contains(err.Error(), "exit code 3") || out.String() != "told\n" {
		t.Errorf("exec: %q, %q, %v", out.String(), errs.String(), err)
	}
	n.remove("busy")
	eventually(t, time.Minute, func() string {
		if body := n.ask("/metrics/resource") + n.ask("/metrics/probes"); strings.Contains(body, `pod="busy"`) {
			return "the pod is still told of:\n" + body
		}
		return ""
	})
}
