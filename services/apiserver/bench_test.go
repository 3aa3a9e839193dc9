package apiserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// sealed is an object in Kubernetes' protobuf form.
func sealed(tb testing.TB, apiVersion, kind string, obj interface{ Marshal() ([]byte, error) }) []byte {
	raw, err := obj.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	b, err := u.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return append([]byte("k8s\x00"), b...)
}

func benchPod(name string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", Labels: map[string]string{"app": "bench", "pod-template-hash": "abcdef"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "bench", UID: "u", Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}},
	}
}

// lifecycle creates, binds, reports and lists n pods in batches, and returns what each step took.
func lifecycle(tb testing.TB, f *fixture, n int) map[string]time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	took := map[string]time.Duration{}
	step := func(name string, item func(i int) *apiv1.BatchItem) {
		start := time.Now()
		for from := 0; from < n; from += 500 {
			req := &apiv1.BatchRequest{}
			for i := from; i < min(from+500, n); i++ {
				req.Items = append(req.Items, item(i))
			}
			resp, err := f.api.Batch(ctx, req)
			if err != nil {
				tb.Fatal(err)
			}
			for _, r := range resp.GetResults() {
				if r.GetCode() >= 300 {
					tb.Fatalf("%s: %s", name, r.GetObject())
				}
			}
		}
		took[name] = time.Since(start)
	}
	body := make([][]byte, n)
	for i := range body {
		body[i] = sealed(tb, "v1", "Pod", benchPod(fmt.Sprintf("p%05d", i)))
	}
	step("create", func(i int) *apiv1.BatchItem {
		return &apiv1.BatchItem{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{
			Version: "v1", Resource: "pods", Namespace: "default", Object: body[i], ContentType: protobuf, Accept: protobuf, FieldManager: "controllers"}}}
	})
	step("bind", func(i int) *apiv1.BatchItem {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%05d", i)}, Target: corev1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("n%d", i%100)}}
		return &apiv1.BatchItem{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{
			Version: "v1", Resource: "pods", Namespace: "default", Name: fmt.Sprintf("p%05d", i), Subresource: "binding",
			Object: sealed(tb, "v1", "Binding", b), ContentType: protobuf, Accept: protobuf}}}
	})
	step("status", func(i int) *apiv1.BatchItem {
		patch := fmt.Sprintf(`{"status":{"phase":"Running","podIP":"10.1.%d.%d","hostIP":"10.0.0.1","startTime":"2026-01-01T00:00:00Z",`+
			`"conditions":[{"type":"Initialized","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}],`+
			`"containerStatuses":[{"name":"c","image":"nginx:1","imageID":"x","ready":true,"restartCount":0,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]}}`, i/250, i%250)
		return &apiv1.BatchItem{Write: &apiv1.BatchItem_Patch{Patch: &apiv1.PatchRequest{
			Version: "v1", Resource: "pods", Namespace: "default", Name: fmt.Sprintf("p%05d", i), Subresource: "status",
			ContentType: "application/strategic-merge-patch+json", Object: []byte(patch), Accept: protobuf, FieldManager: "nodeagent"}}}
	})
	for _, accept := range []string{"application/json", protobuf} {
		for _, round := range []string{"first", "again"} {
			start := time.Now()
			if _, err := f.list(&apiv1.ListRequest{Version: "v1", Resource: "pods", Accept: accept}); err != nil {
				tb.Fatal(err)
			}
			took["list-"+accept[12:]+"-"+round] = time.Since(start)
		}
	}
	return took
}

func BenchmarkPodLifecycle(b *testing.B) {
	for _, backend := range []string{"memory", "postgres"} {
		b.Run(backend, func(b *testing.B) {
			for b.Loop() {
				f := startMemory
				if backend == "postgres" {
					f = startPostgres
				}
				server := f(b)
				server.ctx = context.Background()
				if _, err := server.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`); err != nil {
					b.Fatal(err)
				}
				const n = 5000
				for name, d := range lifecycle(b, server, n) {
					b.ReportMetric(float64(d.Microseconds())/1000, "ms-"+name)
				}
			}
		})
	}
}
