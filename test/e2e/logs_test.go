package e2e

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLogsOfADeletedPod has what a pod wrote found after its end, by who may read its logs, and by nobody else.
func TestLogsOfADeletedPod(t *testing.T) {
	c := setup(t)
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: speaker, labels: {app: speaker}}, spec: {restartPolicy: Never, containers: [
  {name: main, image: busybox, imagePullPolicy: IfNotPresent, command: [sh, -c, "echo hello; echo these are my last words >&2"]}]}}`)
	c.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/speaker", "--timeout=180s")
	uid := strings.TrimSpace(c.jsonpath("pod/speaker", "{.metadata.uid}"))
	c.kubectl("delete", "pod", "speaker", "--timeout=120s")
	path := "/howdah/v1/logs?" + url.Values{"namespace": {c.namespace}, "query": {`"last words"`}, "labelSelector": {"app=speaker"}}.Encode()
	var found struct {
		Lines []struct{ Pod, PodUID, Container, Node, Stream, Text string }
	}
	c.await(2*time.Minute, "the pod's last words", func() bool {
		out := c.cluster("get", "--raw", path)
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return len(found.Lines) > 0
	})
	l := found.Lines[0]
	if len(found.Lines) != 1 || l.Pod != "speaker" || l.PodUID != uid || l.Container != "main" || !strings.HasPrefix(l.Node, "node") || l.Stream != "stderr" || l.Text != "these are my last words" {
		t.Errorf("found %+v", found.Lines)
	}
	out, err := run(time.Minute, "", filepath.Join("..", "..", ".build", "bin", "howdah"), "search-logs", "-n", c.namespace, "-o", "raw")
	// The outputs are read apart, so either may be the first.
	if err != nil || strings.Count(out, "\n") != 2 || !strings.Contains(out, "hello\n") || !strings.Contains(out, "these are my last words\n") {
		t.Errorf("howdah search-logs: %q, %v", out, err)
	}
	_, err = run(time.Minute, "", "kubectl", "get", "--raw", path, "--as", "jane")
	if want := `pods is forbidden: User "jane" cannot get resource "pods/log" in API group "" in the namespace "` + c.namespace + `"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("jane: %v, want %s", err, want)
	}
}
