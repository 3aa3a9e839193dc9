package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/pgtest"
)

// shardVariable names the kubeconfig of a Kubernetes that is to be recorded instead of checking howdah: its controller manager looks at
// autoscalers every second and stabilizes for five, and its API server reaches ExternalName services of extension API servers.
const shardVariable = "HOWDAH_RECORD_AUTOSCALERS"

const shardsGolden = "testdata/autoscalers.golden.yaml"

// gauges are the three APIs of metrics. Every pod of a shard uses what loads say, by the shard's name.
type gauges struct {
	client *kubernetes.Clientset
	// loads are a shard's pods' CPU in thousandths and memory in MiB; other metrics are named in paths.
	loads map[string]string
	// backlog is the value of an external metric.
	backlog atomic.Int64
}

func (g *gauges) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	w.Header().Set("Content-Type", "application/json")
	if len(parts) == 3 {
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: parts[1] + "/" + parts[2]})
		return
	}
	if len(parts) < 6 {
		http.NotFound(w, r)
		return
	}
	at := time.Now().UTC().Format(time.RFC3339)
	switch what := strings.Join(parts[5:], "/"); {
	case parts[1] == "metrics.k8s.io":
		g.pods(w, r, parts[4], func(p *corev1.Pod, load string) string {
			if load == "" {
				return ""
			}
			cores, memory, _ := strings.Cut(load, " ")
			return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q},"timestamp":%q,"window":"10s","containers":[{"name":"main","usage":{"cpu":"%sm","memory":"%sMi"}},{"name":"side","usage":{"cpu":"10m","memory":"1Mi"}}]}`,
				p.Name, p.Namespace, at, cores, memory)
		}, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[%s]}`)
	case what == "pods/*/packets":
		g.pods(w, r, parts[4], func(p *corev1.Pod, _ string) string {
			return fmt.Sprintf(`{"describedObject":{"kind":"Pod","namespace":%q,"name":%q,"apiVersion":"v1"},"metric":{"name":"packets"},"timestamp":%q,"value":"1500m"}`, p.Namespace, p.Name, at)
		}, `{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[%s]}`)
	case what == "services/front/requests" || what == "metrics/quota" || strings.HasPrefix(what, "queues") || strings.HasPrefix(what, "empty"):
		kind, group, item := "MetricValueList", "custom.metrics.k8s.io/v1beta2", fmt.Sprintf(`{"describedObject":{"kind":"Service","name":"front"},"metric":{"name":"requests"},"timestamp":%q,"value":"40"}`, at)
		if parts[1] == "external.metrics.k8s.io" {
			one := fmt.Sprintf(`{"metricName":"queues","metricLabels":{},"timestamp":%q,"value":"15"}`, at)
			kind, group, item = "ExternalMetricValueList", "external.metrics.k8s.io/v1beta1", one+","+one
			if strings.HasPrefix(what, "empty") {
				item = ""
			}
		}
		fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{},"items":[%s]}`, kind, group, item)
	case what == "backlog":
		fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[{"metricName":"backlog","metricLabels":{},"timestamp":%q,"value":"%d"}]}`, at, g.backlog.Load())
	default:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 404,
			Reason: metav1.StatusReasonNotFound, Message: "there is no " + what})
	}
}

// pods answers with an item for each pod that the request selects.
func (g *gauges) pods(w http.ResponseWriter, r *http.Request, namespace string, item func(*corev1.Pod, string) string, list string) {
	pods, err := g.client.CoreV1().Pods(namespace).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var items []string
	for _, p := range pods.Items {
		if text := item(&p, g.loads[p.Labels["shard"]]); text != "" {
			items = append(items, text)
		}
	}
	fmt.Fprintf(w, list, strings.Join(items, ","))
}

const shardNamespace = "shards"

// serve makes the cluster find the APIs, and shards.
func (g *gauges) serve(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	if g.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(g)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	made := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + shardNamespace + "}\n---\n" + shardDefinition + "---\n" + gaugeAPIs(portOf(t, server.Listener.Addr().String()))
	if out, err := command(ctx, made, []string{"KUBECONFIG=" + kubeconfig, "HOME=" + t.TempDir()}, kubectl.bin(t), "apply", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "the default account", func() bool {
		_, err := g.client.CoreV1().ServiceAccounts(shardNamespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	for _, path := range []string{"/apis/metrics.k8s.io/v1beta1", "/apis/custom.metrics.k8s.io/v1beta2", "/apis/external.metrics.k8s.io/v1beta1", "/apis/example.com/v1/shards"} {
		eventually(t, path, func() bool { return g.client.RESTClient().Get().AbsPath(path).Do(t.Context()).Error() == nil })
	}
	return config
}

// eventually waits until something is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s", what, patience)
		}
	}
}

// gaugeAPIs makes the cluster find the three APIs at a port.
func gaugeAPIs(port string) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: gauges, namespace: kube-system}\nspec: {type: ExternalName, externalName: localhost, ports: [{port: %s}]}\n", port)
	for group, version := range map[string]string{"metrics.k8s.io": "v1beta1", "custom.metrics.k8s.io": "v1beta2", "external.metrics.k8s.io": "v1beta1"} {
		text += fmt.Sprintf(`---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %[2]s.%[1]s}
spec: {group: %[1]s, version: %[2]s, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: gauges, namespace: kube-system, port: %[3]s}}
`, group, version, port)
	}
	return text
}

// shardCase is an autoscaler of testdata/autoscalers.yaml and what it scales: a custom object, whose pods do not follow its replicas.
type shardCase struct {
	Name string `json:"name"`
	// Replicas are those that the shard wants. It has two pods, of which Missing have no sample and Unready are not ready.
	Replicas int64  `json:"replicas"`
	Load     string `json:"load"`
	// Requests says what each container requests; "" is 100m and 64Mi, "none" nothing.
	Requests string `json:"requests"`
	Pods     *int   `json:"pods"`
	Unready  int    `json:"unready"`
	// Selector is the shard's; "" is its pods', "none" none.
	Selector string                                    `json:"selector"`
	Spec     autoscalingv2.HorizontalPodAutoscalerSpec `json:"spec"`
}

var shardResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shards"}

const shardDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shards.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shards, kind: Shard}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {replicas: {type: integer}}},
      status: {type: object, properties: {replicas: {type: integer}, selector: {type: string}}}}}}
`

// make makes a case's shard, its pods and its autoscaler.
func (s *shardCase) make(t *testing.T, config *rest.Config, namespace string) {
	t.Helper()
	ctx := t.Context()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	custom, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	selector := s.Selector
	switch selector {
	case "":
		selector = "shard=" + s.Name
	case "none":
		selector = ""
	}
	shard := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Shard", "metadata": map[string]any{"name": s.Name}, "spec": map[string]any{"replicas": s.Replicas},
	}}
	if shard, err = custom.Resource(shardResource).Namespace(namespace).Create(ctx, shard, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shard.Object["status"] = map[string]any{"replicas": int64(2), "selector": selector}
	if _, err = custom.Resource(shardResource).Namespace(namespace).UpdateStatus(ctx, shard, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	n := 2
	if s.Pods != nil {
		n = *s.Pods
	}
	for i := range n {
		s.pod(t, client, namespace, i)
	}
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Spec: s.Spec}
	if h.Spec.ScaleTargetRef.Kind == "" {
		h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Shard", Name: s.Name}
	}
	if _, err := client.AutoscalingV2().HorizontalPodAutoscalers(namespace).Create(ctx, h, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// pod makes a shard's pod, which nobody schedules, and has it run for an hour.
func (s *shardCase) pod(t *testing.T, client *kubernetes.Clientset, namespace string, i int) {
	t.Helper()
	requests := "requests: {cpu: 100m, memory: 64Mi}"
	if s.Requests == "none" {
		requests = ""
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(fmt.Appendf(nil, `
metadata: {name: "%[1]s-%[2]d", labels: {shard: "%[1]s"}}
spec:
  schedulerName: nobody
  containers:
  - {name: main, image: example.com/main, resources: {%[3]s}}
  - {name: side, image: example.com/side, resources: {%[3]s}}
`, s.Name, i, requests), &pod); err != nil {
		t.Fatal(err)
	}
	made, err := client.CoreV1().Pods(namespace).Create(t.Context(), &pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	start := metav1.NewTime(time.Now().Add(-time.Hour))
	ready := corev1.ConditionTrue
	if i < s.Unready {
		ready = corev1.ConditionFalse
	}
	made.Status.Phase, made.Status.StartTime = corev1.PodRunning, &start
	made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: start}}
	if _, err := client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// scaled is what became of an autoscaler, without times.
type scaled struct {
	Replicas   int64    `json:"replicas"` // of the shard
	Current    int32    `json:"current"`
	Desired    int32    `json:"desired"`
	Conditions []string `json:"conditions"`
	Metrics    []string `json:"metrics"`
	Events     []string `json:"events"`
}

func scaledOf(t *testing.T, h *autoscalingv2.HorizontalPodAutoscaler) *scaled {
	t.Helper()
	s := &scaled{Current: h.Status.CurrentReplicas, Desired: h.Status.DesiredReplicas}
	rival := strings.HasPrefix(h.Name, "rival")
	for _, c := range h.Status.Conditions {
		if !rival || c.Type != autoscalingv2.ScalingLimited {
			s.Conditions = append(s.Conditions, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, ordered(c.Message)))
		}
	}
	if rival { // whoever is first scales until there is the second
		s.Desired = 0
	}
	for _, m := range h.Status.CurrentMetrics {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		s.Metrics = append(s.Metrics, string(text))
	}
	return s
}

// ordered is a text with the two rivals in order: Kubernetes names them in any.
func ordered(text string) string {
	return strings.ReplaceAll(text, "[shards/rival-b shards/rival-a]", "[shards/rival-a shards/rival-b]")
}

// outcome reads what has become of the autoscalers so far.
func outcome(ctx context.Context, t *testing.T, config *rest.Config, namespace string) (map[string]*scaled, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	custom, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	found := map[string]*scaled{}
	all, err := client.AutoscalingV2().HorizontalPodAutoscalers(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, h := range all.Items {
		found[h.Name] = scaledOf(t, &h)
	}
	shards, err := custom.Resource(shardResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, o := range shards.Items {
		if s := found[o.GetName()]; s != nil {
			s.Replicas, _, _ = unstructured.NestedInt64(o.Object, "spec", "replicas")
		}
	}
	events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, e := range events.Items {
		s := found[e.InvolvedObject.Name]
		if s == nil || e.InvolvedObject.Kind != "HorizontalPodAutoscaler" {
			continue
		}
		if text := e.Type + " " + e.Reason + " " + e.Source.Component + ": " + ordered(e.Message); !slices.Contains(s.Events, text) {
			s.Events = append(s.Events, text)
			slices.Sort(s.Events)
		}
	}
	return found, nil
}

// TestAutoscalers has autoscalers of every kind of metric scale custom objects, and compares what they tell with what Kubernetes told.
func TestAutoscalers(t *testing.T) {
	t.Parallel()
	var c *cluster
	kubeconfig, record := os.LookupEnv(shardVariable)
	if !record {
		var err error
		c, err = newCluster(t.Context(), howdah.bin(t), t.TempDir(), pgtest.Start(t, pgtest.Config{}).URL(),
			"--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-downscale-stabilization=5s")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Stop)
		kubeconfig = c.Kubeconfig()
	}
	var cases []*shardCase
	text, err := os.ReadFile("testdata/autoscalers.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	g := &gauges{loads: map[string]string{}}
	for _, s := range cases {
		g.loads[s.Name] = s.Load
	}
	config := g.serve(t, kubeconfig)
	for _, s := range cases {
		s.make(t, config, shardNamespace)
	}

	golden := map[string]*scaled{}
	if !record {
		text, err := os.ReadFile(shardsGolden)
		if err == nil {
			err = yaml.UnmarshalStrict(text, &golden)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Kubernetes is recorded when nothing has changed for longer than the window; howdah is to come to the same.
	got, steady := map[string]*scaled{}, time.Now()
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		next, err := outcome(t.Context(), t, config, shardNamespace)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(printed(t, got), printed(t, next)) {
			got, steady = next, time.Now()
		}
		if record && time.Since(steady) > 15*time.Second {
			if err := os.WriteFile(shardsGolden, printed(t, got), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if !record && bytes.Equal(printed(t, got), printed(t, golden)) {
			describeShards(t, c, shardNamespace)
			return
		}
		if time.Now().After(deadline) {
			if record {
				t.Fatalf("it goes on and on:\n%s", printed(t, got))
			}
			for _, name := range slices.Sorted(maps.Keys(golden)) {
				if a, b := printed(t, got[name]), printed(t, golden[name]); !bytes.Equal(a, b) {
					t.Errorf("%s has become\n%s\nand in Kubernetes\n%s", name, a, b)
				}
			}
			return
		}
	}
}

// TestAutoscaleToZero: with the gate HPAScaleToZero a target is left without replicas while nothing waits for them, and gets them back.
func TestAutoscaleToZero(t *testing.T) {
	t.Parallel()
	c, err := newCluster(t.Context(), howdah.bin(t), t.TempDir(), pgtest.Start(t, pgtest.Config{}).URL(), "--feature-gates=HPAScaleToZero=true",
		"--horizontal-pod-autoscaler-sync-period=200ms", "--horizontal-pod-autoscaler-downscale-stabilization=1s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	g := &gauges{loads: map[string]string{}}
	config := g.serve(t, c.Kubeconfig())
	waiting := shardCase{Name: "waiting", Replicas: 2}
	if err := yaml.UnmarshalStrict([]byte(`{minReplicas: 0, maxReplicas: 5, metrics: [{type: External, external: {metric: {name: backlog}, target: {type: Value, value: "10"}}}]}`), &waiting.Spec); err != nil {
		t.Fatal(err)
	}
	waiting.make(t, config, shardNamespace)
	become := func(replicas int64, condition string) {
		t.Helper()
		eventually(t, condition, func() bool {
			all, err := outcome(t.Context(), t, config, shardNamespace)
			return err == nil && all["waiting"].Replicas == replicas && slices.Contains(all["waiting"].Conditions, condition)
		})
	}
	become(0, "ScaledToZero=True ScaledToZero: the HPA controller scaled the workload to zero")
	g.backlog.Store(25)
	become(3, "ScaledToZero=False NotScaledToZero: the HPA controller did not scale the workload to zero")
}

// describeShards looks at autoscalers with kubectl.
func describeShards(t *testing.T, c *cluster, namespace string) {
	t.Helper()
	u := &user{t: t, c: c, namespace: namespace, home: t.TempDir()}
	u.walk(
		step{args: "get hpa up", want: []string{`NAME\s+REFERENCE\s+TARGETS\s+MINPODS\s+MAXPODS\s+REPLICAS\s+AGE`, `up\s+Shard/up\s+cpu: 100%/50%\s+1\s+10\s+4`}},
		step{args: "get hpa several", want: []string{`cpu: 100%/50%, 15/5 \(avg\) \+ 1 more\.\.\.`}},
		step{args: "describe hpa up", want: []string{
			`Reference:\s+Shard/up`, `resource cpu on pods  \(as a percentage of request\):\s+100% \(200m\) / 50%`, `Shard pods:\s+4 current / 4 desired`,
			`AbleToScale\s+True\s+ReadyForNewScale\s+recommended size matches current size`, `ScalingActive\s+True\s+ValidMetricFound`, `ScalingLimited\s+False\s+DesiredWithinRange`,
			`Normal\s+SuccessfulRescale\s+\S+\s+horizontal-pod-autoscaler\s+New size: 4; reason: cpu resource utilization \(percentage of request\) above target`,
		}},
		step{args: "describe hpa fast", want: []string{`Type: Pods\s+Value: 3\s+Period: 1800 seconds`, `ScalingLimited\s+True\s+ScaleUpLimit`}},
	)
}

// TestKubectlAutoscale: without any API of metrics an autoscaler that kubectl made says what is missing.
func TestKubectlAutoscale(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.feed(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}},
  spec: {containers: [{name: c, image: example.com/web, resources: {requests: {cpu: 100m}}}]}}}}`, "create", "-f", "-")
	u.must("rollout", "status", "deployment/web", "--timeout=60s")
	u.walk(step{args: "autoscale deployment web --cpu=70% --min=1 --max=5", want: []string{`horizontalpodautoscaler.autoscaling/web autoscaled`}})
	u.await("what is missing to be told", func() bool {
		out, err := u.try("", "get", "hpa", "web", "-o", `jsonpath={.status.conditions[?(@.type=="ScalingActive")].message}`)
		return err == nil && out == "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: "+
			"unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
	})
	u.walk(
		step{args: "get hpa web", want: []string{`web\s+Deployment/web\s+cpu: <unknown>/70%\s+1\s+5\s+2`}},
		step{args: "describe hpa web", want: []string{`ScalingActive\s+False\s+FailedGetResourceMetric`, `Warning\s+FailedGetResourceMetric`, `Warning\s+FailedComputeMetricsReplicas`}},
		step{args: "scale deployment web --replicas=7"},
		step{args: "apply -f ../../examples/autoscaler.yaml", want: []string{`deployment.apps/burner created`, `horizontalpodautoscaler.autoscaling/burner created`}},
	)
	u.await("the bound to hold", func() bool {
		out, err := u.try("", "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}")
		return err == nil && out == "5"
	})
}

func printed(t *testing.T, v any) []byte {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
