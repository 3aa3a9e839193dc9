package apiserver

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	metricsv1 "howdah.dev/proto/gen/howdah/metrics/v1"
)

// usageService tells of pods a and b, one of which there is, and of the node n.
type usageService struct {
	metricsv1.UnimplementedUsageServiceServer
	away bool
}

func (u *usageService) ListPodUsage(_ context.Context, req *metricsv1.ListPodUsageRequest) (*metricsv1.ListPodUsageResponse, error) {
	if u.away {
		return nil, apierrors.NewServiceUnavailable("the nodes have not been asked yet")
	}
	resp := &metricsv1.ListPodUsageResponse{}
	for _, name := range []string{"a", "gone"} {
		if req.GetName() != "" && req.GetName() != name {
			continue
		}
		resp.Pods = append(resp.Pods, &metricsv1.PodUsage{
			Namespace: "default", Name: name, Time: timestamppb.New(time.Unix(1700000000, 0)), Window: durationpb.New(15 * time.Second),
			Containers: []*metricsv1.ContainerUsage{
				{Name: "c", Usage: &metricsv1.Usage{CpuNanocores: 250_000_000, MemoryBytes: 64 << 20}},
				{Name: "side", Usage: &metricsv1.Usage{CpuNanocores: 1_000_001, MemoryBytes: 4096}},
			},
		})
	}
	return resp, nil
}

func (u *usageService) ListNodeUsage(_ context.Context, req *metricsv1.ListNodeUsageRequest) (*metricsv1.ListNodeUsageResponse, error) {
	resp := &metricsv1.ListNodeUsageResponse{}
	if req.GetName() == "" || req.GetName() == "n" {
		resp.Nodes = append(resp.Nodes, &metricsv1.NodeUsage{
			Name: "n", Time: timestamppb.New(time.Unix(1700000000, 0)), Window: durationpb.New(15 * time.Second),
			Usage: &metricsv1.Usage{CpuNanocores: 1_500_000_000, MemoryBytes: 1 << 30},
		})
	}
	return resp, nil
}

// serveUsage returns a connection to the service.
func serveUsage(t *testing.T, u *usageService) grpc.ClientConnInterface {
	t.Helper()
	wire, server := rpc.NewLocal(), rpc.NewServer(nil, nil)
	metricsv1.RegisterUsageServiceServer(server, u)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.ServeLocal(ctx, wire) }()
	t.Cleanup(func() { cancel(); <-served })
	return wire.Dial(rpc.User{Name: "howdah:apiserver", Groups: []string{"howdah:apiservers"}})
}

// TestUsage reads metrics.k8s.io as kubectl top, kubectl get and the autoscaler do.
func TestUsage(t *testing.T) {
	t.Parallel()
	service := &usageService{}
	f := startMemory(t, func(c *Config) { c.Usage = serveUsage(t, service) })
	f.must(f.create("v1/nodes", "", `{"metadata":{"name":"n","labels":{"zone":"z"}}}`))
	f.must(f.create("v1/nodes", "", `{"metadata":{"name":"quiet"}}`))
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	for _, name := range []string{"a", "quiet"} {
		f.must(f.create("v1/pods", "default", `{"metadata":{"name":"`+name+`","labels":{"app":"`+name+`"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	}
	f.fresh() // what is used is told of pods that are known
	list := func(resource, namespace, label, accept string) string {
		t.Helper()
		body, err := f.list(&apiv1.ListRequest{Group: "metrics.k8s.io", Version: "v1beta1", Resource: resource, Namespace: namespace, LabelSelector: label, Accept: accept})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}

	var pods metricsv1beta1.PodMetricsList
	if err := json.Unmarshal([]byte(list("pods", "", "", "application/json")), &pods); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Kind != "PodMetricsList" || pods.APIVersion != "metrics.k8s.io/v1beta1" {
		t.Fatalf("%+v", pods)
	}
	pod := pods.Items[0]
	if pod.Name != "a" || pod.Namespace != "default" || pod.Labels["app"] != "a" || pod.Window.Duration != 15*time.Second || pod.Timestamp.Unix() != 1700000000 || pod.CreationTimestamp.IsZero() {
		t.Errorf("%+v", pod)
	}
	if c := pod.Containers; len(c) != 2 || c[0].Usage.Cpu().String() != "250m" || c[0].Usage.Memory().String() != "64Mi" || c[1].Usage.Cpu().String() != "1000001n" {
		t.Errorf("%+v", pod.Containers)
	}
	for label, want := range map[string]int{"app=a": 1, "app!=a": 0} {
		if got := strings.Count(list("pods", "default", label, "application/json"), `"window"`); got != want {
			t.Errorf("%s: %d", label, got)
		}
	}
	if table := list("pods", "default", "", "application/json;as=Table;v=v1;g=meta.k8s.io"); !strings.Contains(table, `"cells":["a","251000001n","65540Ki","15s"]`) {
		t.Error(table)
	}
	if table := list("nodes", "", "zone=z", "application/json;as=Table;v=v1;g=meta.k8s.io"); !strings.Contains(table, `"cells":["n","1500m","1Gi","15s"]`) {
		t.Error(table)
	}
	if body := list("nodes", "", "", "application/vnd.kubernetes.protobuf"); !strings.HasPrefix(body, "k8s\x00") || !strings.Contains(body, "NodeMetricsList") {
		t.Errorf("%q", body)
	}

	for key, want := range map[[3]string]string{
		{"pods", "default", "quiet"}: `podmetrics.metrics.k8s.io "default/quiet" not found`,
		{"pods", "default", "none"}:  `pods "default/none" not found`,
		{"pods", "default", "gone"}:  `pods "default/gone" not found`,
		{"nodes", "", "quiet"}:       `nodemetrics.metrics.k8s.io "quiet" not found`,
		{"nodes", "", "none"}:        `nodes "none" not found`,
	} {
		if _, err := f.get("metrics.k8s.io/v1beta1/"+key[0], key[1], key[2]); apistatus.Of(err).Code != 404 || apistatus.Of(err).Message != want {
			t.Errorf("%v: %v", key, err)
		}
	}
	if got := f.must(f.get("metrics.k8s.io/v1beta1/nodes", "", "n")); got["kind"] != "NodeMetrics" {
		t.Errorf("%v", got)
	}
	if _, err := f.create("metrics.k8s.io/v1beta1/nodes", "", `{"metadata":{"name":"n"}}`); apistatus.Of(err).Code != 405 {
		t.Errorf("create: %v", err)
	}
	service.away = true
	if _, err := f.get("metrics.k8s.io/v1beta1/pods", "default", "a"); apistatus.Of(err).Code != 503 {
		t.Errorf("while the service is away: %v", err)
	}
}

// TestUsageGivesWay: an APIService of the group version takes the place of what is made here, in discovery and for requests, and gives it back.
func TestUsageGivesWay(t *testing.T) {
	t.Parallel()
	// With no version switched on that is not stable: this one comes with the service.
	f := startMemory(t, func(c *Config) { c.Usage, c.RuntimeConfig = serveUsage(t, &usageService{}), nil })
	f.must(f.create("v1/nodes", "", `{"metadata":{"name":"n"}}`))
	document := func(path string) string {
		t.Helper()
		resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: path})
		if err != nil {
			return err.Error()
		}
		return string(resp.GetObject())
	}
	for path, want := range map[string]string{
		"/apis":                        `"groupVersion":"metrics.k8s.io/v1beta1"`,
		"/apis/metrics.k8s.io/v1beta1": `"kind":"PodMetrics","verbs":["get","list"]`,
		"/openapi/v3/apis/metrics.k8s.io/v1beta1": "io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetrics",
	} {
		if got := document(path); !strings.Contains(got, want) {
			t.Errorf("%s: %q is not in %.2000s", path, want, got)
		}
	}
	if _, err := f.get("apiregistration.k8s.io/v1/apiservices", "", "v1beta1.metrics.k8s.io"); apistatus.Of(err).Code != 404 {
		t.Errorf("an APIService is in the way of whoever brings one: %v", err)
	}
	read := func() int32 {
		_, err := f.get("metrics.k8s.io/v1beta1/nodes", "", "n")
		return apistatus.Of(err).Code
	}
	if code := read(); code != 200 {
		t.Errorf("made here: %d", code)
	}
	f.must(f.create("apiregistration.k8s.io/v1/apiservices", "", `{"metadata":{"name":"v1beta1.metrics.k8s.io"},"spec":{"group":"metrics.k8s.io","version":"v1beta1",
		"groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"namespace":"kube-system","name":"metrics-server"}}}`))
	f.condition("v1beta1.metrics.k8s.io", apiregistrationv1.ConditionFalse, "ServiceNotFound")
	if code := read(); code != 405 && code != 404 {
		t.Errorf("while another serves it: %d", code)
	}
	if got := document("/apis/metrics.k8s.io/v1beta1"); strings.Contains(got, "PodMetrics") {
		t.Errorf("what is made here is told, while another serves it: %s", got)
	}
	if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices", Name: "v1beta1.metrics.k8s.io"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); read() != 200; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not made here again")
		}
	}
}

// TestUsageIsNotServed where there is no service, or where it is switched off: the group is not there at all.
func TestUsageIsNotServed(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*Config){
		"no service": func(*Config) {},
		"switched off": func(c *Config) {
			c.Usage, c.RuntimeConfig = serveUsage(t, &usageService{}), []string{"metrics.k8s.io/v1beta1=false"}
		},
	} {
		f := startMemory(t, configure)
		if _, err := f.get("metrics.k8s.io/v1beta1/nodes", "", "n"); apistatus.Of(err).Code != 404 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
