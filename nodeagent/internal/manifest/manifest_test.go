package manifest

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/pod"
)

const web = `# the web
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}, uid: given, finalizers: [x/y], annotations: {kubernetes.io/config.mirror: x}}
spec:
  nodeName: elsewhere
  containers:
  - {name: web, image: "nginx:1", ports: [{containerPort: 80}]}
`

func origin(source string) Origin {
	return Origin{Source: source, Place: "/m/web.yaml", Node: "node-1", Seen: time.Unix(1, 0)}
}

func one(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pods, err := Read([]byte(text), origin(File))
	if err != nil || len(pods) != 1 {
		t.Fatalf("%v, %v", pods, err)
	}
	return pods[0]
}

func TestManifestIsMadeAPod(t *testing.T) {
	t.Parallel()
	p := one(t, web)
	if p.Name != "web-node-1" || p.Namespace != "default" || p.Spec.NodeName != "node-1" || len(p.UID) != 32 || p.UID == "given" || len(p.Finalizers) != 0 {
		t.Errorf("metadata: %+v, node %s", p.ObjectMeta, p.Spec.NodeName)
	}
	if _, mirror := p.Annotations[pod.MirrorAnnotation]; mirror || !pod.Static(p) || p.Annotations[pod.SourceAnnotation] != "file" ||
		p.Annotations[pod.HashAnnotation] != string(p.UID) || p.Annotations[pod.SeenAnnotation] != "1970-01-01T00:00:01Z" {
		t.Errorf("annotations: %v", p.Annotations)
	}
	c := p.Spec.Containers[0]
	if p.Spec.RestartPolicy != corev1.RestartPolicyAlways || c.ImagePullPolicy != corev1.PullIfNotPresent || c.Ports[0].Protocol != corev1.ProtocolTCP ||
		*p.Spec.TerminationGracePeriodSeconds != 30 || p.Status.Phase != corev1.PodPending {
		t.Errorf("defaults: %+v", p.Spec)
	}
	if all := p.Spec.Tolerations; len(all) != 1 || all[0].Operator != corev1.TolerationOpExists || all[0].Effect != corev1.TaintEffectNoExecute {
		t.Errorf("tolerations: %v", all)
	}
}

func TestIdentityIsWhatIsSaidAndWhere(t *testing.T) {
	t.Parallel()
	p := one(t, web)
	same := `{"kind": "Pod", "spec": {"containers": [{"image": "nginx:1", "name": "web", "ports": [{"containerPort": 80}]}], "nodeName": "elsewhere"}, "apiVersion": "v1",
		"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}, "finalizers": ["x/y"], "uid": "given", "labels": {"app": "web"}, "name": "web"}}`
	if other := one(t, same); other.UID != p.UID {
		t.Error("JSON and YAML of the same are two pods")
	}
	if other := one(t, strings.ReplaceAll(web, "nginx:1", "nginx:2")); other.UID == p.UID {
		t.Error("another image is the same pod")
	}
	elsewhere := origin(File)
	elsewhere.Place = "/m/other.yaml"
	if other, err := Read([]byte(web), elsewhere); err != nil || other[0].UID == p.UID {
		t.Errorf("another place is the same pod, %v", err)
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	t.Parallel()
	with := func(spec string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {" + spec + "}}"
	}
	const container = "containers: [{name: c, image: i}]"
	for name, test := range map[string]struct{ text, want string }{
		"nothing":        {"# nothing\n", "it is empty"},
		"no YAML":        {"a: b: c", "mapping values are not allowed"},
		"two documents":  {web + "---\n" + web, "more than one document"},
		"another kind":   {"{apiVersion: apps/v1, kind: Deployment}", `it holds "Deployment" of "apps/v1", not a Pod of v1`},
		"a list":         {"{apiVersion: v1, kind: PodList, items: []}", `it holds "PodList"`},
		"a wrong type":   {with("containers: 3"), "cannot unmarshal number"},
		"no containers":  {with(""), "spec.containers: Required value"},
		"no name":        {"{apiVersion: v1, kind: Pod, metadata: {}, spec: {" + container + "}}", "metadata.name: Required value"},
		"a bad name":     {"{apiVersion: v1, kind: Pod, metadata: {name: A_b}, spec: {" + container + "}}", "metadata.name: Invalid value"},
		"a bad policy":   {with("restartPolicy: Sometimes, " + container), "spec.restartPolicy: Unsupported value"},
		"a secret":       {with("volumes: [{name: v, secret: {secretName: s}}], " + container), "static pods may not reference secrets"},
		"a pull secret":  {with("imagePullSecrets: [{name: s}], " + container), "static pods may not reference secrets"},
		"a config map":   {with("containers: [{name: c, image: i, envFrom: [{configMapRef: {name: m}}]}]"), "static pods may not reference configmaps"},
		"an account":     {with("serviceAccountName: a, " + container), "static pods may not reference a service account"},
		"a claim":        {with("volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], " + container), "static pods may not reference persistentvolumeclaims"},
		"a device":       {with("resourceClaims: [{name: d, resourceClaimName: d}], " + container), "static pods may not reference resourceclaims"},
		"a token":        {with("volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}], " + container), "must not be specified when serviceAccountName is not set"},
		"a debugger":     {with("ephemeralContainers: [{name: d, image: i}], " + container), "spec.ephemeralContainers: Forbidden"},
		"a mount of air": {with("containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]"), "volumeMounts[0].name: Not found"},
	} {
		if _, err := Read([]byte(test.text), origin(File)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	item := func(name string) string {
		return "{metadata: {name: " + name + ", namespace: ns}, spec: {containers: [{name: c, image: i}]}}"
	}
	pods, err := Read([]byte("{apiVersion: v1, kind: PodList, items: ["+item("a")+", "+item("b")+"]}"), origin(HTTP))
	if err != nil || len(pods) != 2 || pods[0].Name != "a-node-1" || pods[1].Name != "b-node-1" || pods[0].UID == pods[1].UID || pods[0].Annotations[pod.SourceAnnotation] != "http" {
		t.Errorf("%v, %v", pods, err)
	}
	if _, err := Read([]byte("{apiVersion: v1, kind: PodList, items: ["+item("a")+", "+item("a")+"]}"), origin(HTTP)); err == nil {
		t.Error("a list with a pod twice is taken")
	}
	if pods, err := Read([]byte(web), origin(HTTP)); err != nil || len(pods) != 1 {
		t.Errorf("one pod: %v, %v", pods, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(web))
	f.Add([]byte("{apiVersion: v1, kind: PodList, items: [{}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := Read(data, origin(HTTP))
		for _, p := range pods {
			if err == nil && (p.Name == "" || p.UID == "" || len(p.Spec.Containers) == 0) {
				t.Errorf("taken: %+v", p)
			}
		}
	})
}
