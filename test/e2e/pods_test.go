package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPodConfiguration gives a pod its configuration in every way there is,
// and changes a volume under it.
func TestPodConfiguration(t *testing.T) {
	c := setup(t)
	c.kubectl("create", "configmap", "settings", "--from-literal=color=blue", "--from-literal=size=xl")
	c.kubectl("create", "secret", "generic", "login", "--from-literal=password=s3cret")
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: full, labels: {app: full}, annotations: {note: kept}}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: first, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: [sh, -c, "echo one >> /work/order"], volumeMounts: [{name: work, mountPath: /work}]}
  - {name: second, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: [sh, -c, "echo two >> /work/order"], volumeMounts: [{name: work, mountPath: /work}]}
  containers:
  - name: c
    image: busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
    env:
    - {name: GREETING, value: "hello $(NAME)"}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: password}}}
    - {name: MISSING, valueFrom: {configMapKeyRef: {name: none, key: none, optional: true}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
    envFrom: [{configMapRef: {name: settings}, prefix: S_}]
    resources: {requests: {cpu: 50m, memory: 16Mi}, limits: {cpu: 200m, memory: 64Mi}}
    lifecycle: {postStart: {exec: {command: [sh, -c, "echo started > /work/hook"]}}}
    startupProbe: {exec: {command: [test, -e, /work/hook]}, periodSeconds: 1}
    readinessProbe: {exec: {command: [cat, /work/order]}, periodSeconds: 1}
    volumeMounts:
    - {name: work, mountPath: /work}
    - {name: settings, mountPath: /etc/settings}
    - {name: all, mountPath: /etc/all}
    - {name: memory, mountPath: /memory}
    - {name: host, mountPath: /host, readOnly: true}
  volumes:
  - {name: work, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 8Mi}}
  - {name: host, hostPath: {path: /etc, type: Directory}}
  - {name: settings, configMap: {name: settings}}
  - name: all
    projected:
      sources:
      - {secret: {name: login, items: [{key: password, path: deep/password, mode: 0400}]}}
      - {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
      - {serviceAccountToken: {path: token, audience: somebody, expirationSeconds: 3600}}
`)
	c.kubectl("wait", "--for=condition=Ready", "pod/full", "--timeout=180s")
	for command, want := range map[string]string{
		`echo $GREETING`:                          "hello $(NAME)", // NAME comes after it
		`echo $COLOR $PASSWORD [$MISSING] $CPU`:   "blue s3cret [] 200",
		`echo $S_color $S_size`:                   "blue xl",
		`cat /work/order | tr '\n' ' '`:           "one two",
		`cat /etc/settings/color`:                 "blue",
		`cat /etc/all/deep/password`:              "s3cret",
		`stat -Lc %a /etc/all/deep/password`:      "400",
		`cat /etc/all/labels`:                     `app="full"`,
		`cut -d. -f1 /etc/all/token | head -c 2`:  "ey",
		`mount | grep -c 'on /memory type tmpfs'`: "1",
		`cat /host/hostname`:                      c.jsonpath("pod/full", "{.spec.nodeName}"),
		`touch /host/x 2>&1 | grep -c Read-only`:  "1",
		`hostname`:                                "full",
		`grep -c cluster.local /etc/resolv.conf`:  "1",
	} {
		if got, err := c.inPod("full", "sh", "-c", command); err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s: %q (%v), want %q", command, got, err, want)
		}
	}
	if got := c.jsonpath("pod/full", "{.status.qosClass}"); got != "Burstable" {
		t.Errorf("QoS class %s", got)
	}
	c.kubectl("patch", "configmap/settings", "-p", `{"data":{"color":"red"}}`)
	c.await(3*time.Minute, "the volume to follow the config map", func() bool {
		got, _ := c.inPod("full", "cat", "/etc/settings/color")
		return got == "red"
	})
	c.kubectl("delete", "pod/full", "--timeout=180s")
}

// TestRestarts sees containers end, fail, be killed, and be restarted.
func TestRestarts(t *testing.T) {
	c := setup(t)
	c.apply(`{apiVersion: v1, kind: Pod, metadata: {name: done}, spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: [sh, -c, "echo last words > /dev/termination-log"]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: failed}, spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: [sh, -c, "exit 7"]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: looping}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: ["false"]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: unhealthy}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: [sleep, "1000"], livenessProbe: {exec: {command: [test, -e, /tmp/alive]}, periodSeconds: 1, failureThreshold: 2}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: hungry}, spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: [sh, -c, "tail /dev/zero"], resources: {limits: {memory: 16Mi}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: imageless}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "nowhere.invalid/none:1"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: misconfigured}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "busybox:latest", imagePullPolicy: IfNotPresent, env: [{name: A, valueFrom: {secretKeyRef: {name: none, key: none}}}]}]}}
`)
	for _, want := range []struct{ pod, path, value string }{
		{"done", "{.status.phase}", "^Succeeded$"},
		{"done", "{.status.containerStatuses[0].state.terminated.message}", "^last words"},
		{"failed", "{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}", "^Failed 7$"},
		{"looping", "{.status.containerStatuses[0].state.waiting.reason}: {.status.containerStatuses[0].state.waiting.message}", "^CrashLoopBackOff: back-off \\S+ restarting failed container=c pod=looping"},
		{"unhealthy", "{.status.containerStatuses[0].restartCount}", "^[1-9]"},
		{"hungry", "{.status.containerStatuses[0].state.terminated.reason}", "^OOMKilled$"},
		{"imageless", "{.status.containerStatuses[0].state.waiting.reason}", "^(ErrImagePull|ImagePullBackOff)$"},
		{"misconfigured", "{.status.containerStatuses[0].state.waiting.reason}", "^CreateContainerConfigError$"},
	} {
		pattern := regexp.MustCompile(want.value)
		var got string
		c.await(2*time.Minute, want.pod+" to have "+want.path+" = "+want.value, func() bool {
			got = c.jsonpath("pod/"+want.pod, want.path)
			return pattern.MatchString(got)
		})
	}
	told := regexp.MustCompile(`Unhealthy +pod/unhealthy +Liveness probe failed`)
	c.await(time.Minute, "the event of the failed probe", func() bool { return told.MatchString(c.kubectl("get", "events")) })
	mustMatch(t, c.kubectl("get", "pod", "looping"), `looping +0/1 +(CrashLoopBackOff|Error|Running) +[1-9]`)
}

// TestStreams are attach, cp and port-forward.
func TestStreams(t *testing.T) {
	c := setup(t)
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: echo}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "busybox:latest", imagePullPolicy: IfNotPresent, stdin: true, stdinOnce: true, command: [sh, -c, "while read line; do echo got $line; done"]}
  - {name: web, image: "nginx:1.9.1", readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}}
`)
	c.kubectl("wait", "--for=condition=Ready", "pod/echo", "--timeout=180s")
	t.Run("cp", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte("carried over\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.kubectl("cp", file, "echo:/tmp/there", "-c", "web")
		back := file + ".back"
		c.kubectl("cp", "echo:/tmp/there", back, "-c", "web")
		if got, err := os.ReadFile(back); err != nil || string(got) != "carried over\n" {
			t.Errorf("came back as %q (%v)", got, err)
		}
	})
	t.Run("port-forward", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		forward := exec.CommandContext(ctx, "kubectl", "-n", c.namespace, "port-forward", "pod/echo", ":80")
		out, err := forward.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var complaints bytes.Buffer
		forward.Stderr = &complaints
		if err := forward.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			cancel()
			if _ = forward.Wait(); t.Failed() {
				t.Logf("kubectl said: %s", complaints.String())
			}
		}()
		buffer := make([]byte, 256)
		n, err := out.Read(buffer)
		match := regexp.MustCompile(`127\.0\.0\.1:(\d+)`).FindStringSubmatch(string(buffer[:n]))
		if err != nil || match == nil {
			t.Fatalf("printed %q (%v)", buffer[:n], err)
		}
		for range 3 {
			if got, err := fetch("http://127.0.0.1:" + match[1] + "/version"); err != nil || got != "1.9.1\n" {
				t.Errorf("the forwarded port answered %q (%v)", got, err)
			}
		}
	})
	t.Run("attach", func(t *testing.T) {
		out, err := run(time.Minute, "a line\n", "kubectl", "-n", c.namespace, "attach", "-i", "echo", "-c", "c")
		if err != nil || !strings.Contains(out, "got a line") {
			t.Errorf("attach printed %q (%v)", out, err)
		}
	})
}
