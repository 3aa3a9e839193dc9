package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestSCTP has pods on both nodes behind a Service with a port of SCTP, and asks it from pods of both nodes, one of which is behind it itself, and by
// NodePort. The machine's kernel need not have SCTP: the pods bring their own.
func TestSCTP(t *testing.T) {
	c := setup(t)
	program := filepath.Join(t.TempDir(), "sctpecho")
	build := exec.Command("go", "build", "-o", program, "howdah.dev/nodeagent/internal/sctptest/sctpecho")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build sctpecho: %v: %s", err, out)
	}
	pods := []string{"sig1", "sig2", "dialler"}
	for i, pod := range pods {
		c.client(pod, fmt.Sprint("node", 1+i%2))
		c.kubectl("cp", program, pod+":/tmp/sctpecho")
	}
	for _, pod := range pods[:2] {
		c.kubectl("label", "pod", pod, "app=sig")
		c.kubectl("exec", pod, "--", "sh", "-c", fmt.Sprintf("nohup /tmp/sctpecho listen 0.0.0.0:8132 %s >/tmp/log 2>&1 &", pod))
	}
	c.apply(`{apiVersion: v1, kind: Service, metadata: {name: sig}, spec: {type: NodePort, selector: {app: sig}, ports: [{port: 7000, targetPort: 8132, protocol: SCTP}]}}`)
	clusterIP, port := c.jsonpath("service/sig", "{.spec.clusterIP}")+":7000", c.jsonpath("service/sig", "{.spec.ports[0].nodePort}")
	for _, pod := range pods {
		c.await(2*time.Minute, "the service of SCTP at "+pod, func() bool {
			_, err := c.inPod(pod, "timeout", "5", "/tmp/sctpecho", "ask", clusterIP, "1")
			return err == nil
		})
		for what, address := range map[string]string{
			"cluster IP": clusterIP, "port of node1": c.nodeAddress("node1") + ":" + port, "port of node2": c.nodeAddress("node2") + ":" + port,
		} {
			t.Run(pod+" by "+what, func(t *testing.T) {
				evenly(t, pods[:2], 20, func() (string, error) { return c.inPod(pod, "/tmp/sctpecho", "ask", address, "20") })
			})
		}
	}
}
