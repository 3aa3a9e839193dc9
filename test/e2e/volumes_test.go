package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestVolumeIsKept runs a set whose pods ask for volumes: each has one on its node, finds its data again as another pod, also after a move of the set to
// nothing and back; and volume and folder go with the claim.
func TestVolumeIsKept(t *testing.T) {
	c := setup(t)
	c.apply(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      terminationGracePeriodSeconds: 0
      securityContext: {runAsUser: 1000, fsGroup: 2000}
      containers:
      - {name: c, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: [sleep, "100000"], volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
`)
	c.kubectl("rollout", "status", "statefulset/store", "--timeout=180s")
	for _, pod := range []string{"store-0", "store-1"} {
		if out, err := c.inPod(pod, "sh", "-c", "echo "+pod+" > /data/name; stat -c %g /data"); err != nil || strings.TrimSpace(out) != "2000" {
			t.Fatalf("%q, %v", out, err)
		}
	}
	volume, node, uid := c.jsonpath("pvc/data-store-0", "{.spec.volumeName}"), c.jsonpath("pod/store-0", "{.spec.nodeName}"), c.jsonpath("pod/store-0", "{.metadata.uid}")
	if class := c.jsonpath("pvc/data-store-0", "{.spec.storageClassName}/{.status.phase}/{.status.capacity.storage}"); class != "local-path/Bound/16Mi" {
		t.Errorf("the claim is %s", class)
	}
	c.kubectl("delete", "pod", "store-0", "--wait=false")
	c.await(2*time.Minute, "another pod of the name", func() bool {
		now, err := c.try("get", "pod", "store-0", "-o", "jsonpath={.metadata.uid}")
		return err == nil && now != uid
	})
	c.kubectl("wait", "--for=condition=Ready", "pod/store-0", "--timeout=180s")
	c.kubectl("scale", "statefulset/store", "--replicas=0")
	c.kubectl("wait", "--for=delete", "pod/store-0", "pod/store-1", "--timeout=180s")
	c.kubectl("scale", "statefulset/store", "--replicas=2")
	c.kubectl("rollout", "status", "statefulset/store", "--timeout=180s")
	for _, pod := range []string{"store-0", "store-1"} {
		if out, err := c.inPod(pod, "cat", "/data/name"); err != nil || strings.TrimSpace(out) != pod {
			t.Errorf("%s finds %q, %v", pod, out, err)
		}
	}
	if now := c.jsonpath("pod/store-0", "{.spec.nodeName}"); now != node {
		t.Errorf("the pod is on %s, its volume on %s", now, node)
	}

	// A look into the folder of all such volumes of that node.
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: look}
spec:
  nodeName: ` + node + `
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "busybox:latest", imagePullPolicy: IfNotPresent, command: [sleep, "100000"], volumeMounts: [{name: all, mountPath: /all}]}
  volumes:
  - {name: all, hostPath: {path: /var/lib/howdah/local-path}}
`)
	c.kubectl("wait", "--for=condition=Ready", "pod/look", "--timeout=180s")
	if out, err := c.inPod("look", "cat", "/all/"+volume+"/name"); err != nil || strings.TrimSpace(out) != "store-0" {
		t.Fatalf("the folder has %q, %v", out, err)
	}
	c.kubectl("delete", "statefulset", "store")
	c.kubectl("delete", "pvc", "--all", "--timeout=180s")
	c.await(2*time.Minute, "the volume to go", func() bool {
		_, err := run(time.Minute, "", "kubectl", "get", "pv", volume)
		return err != nil && strings.Contains(err.Error(), "NotFound")
	})
	if out, err := c.inPod("look", "ls", "/all"); err != nil || strings.Contains(out, volume) {
		t.Errorf("the folder is still there: %s, %v", out, err)
	}
}
