package apiserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// BenchmarkSmallWrites measures the writes that a cluster makes most of: renewals of leases, events and their counts; and changes of scales. They
// are in protobuf, as those of client-go, and nothing waits for a database.
func BenchmarkSmallWrites(b *testing.B) {
	f := startMemory(b)
	f.ctx = context.Background()
	put := func(b *testing.B, req *apiv1.UpdateRequest) []byte {
		req.Namespace, req.ContentType, req.Accept, req.FieldManager = "default", protobuf, protobuf, "bench"
		resp, err := f.api.Update(f.ctx, req)
		if err != nil {
			b.Fatal(err)
		}
		return resp.GetObject()
	}
	event := func(b *testing.B, name string) {
		now := metav1.Now()
		obj := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: name, APIVersion: "v1", FieldPath: "spec.containers{c}"},
			Reason:         "Pulled", Message: "Successfully pulled an image in 1.2s", Source: corev1.EventSource{Component: "kubelet", Host: "node-1"},
			Type: "Normal", Count: 1, FirstTimestamp: now, LastTimestamp: now,
		}
		_, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "events", Namespace: "default",
			Object: sealed(b, "v1", "Event", obj), ContentType: protobuf, Accept: protobuf, FieldManager: "bench"})
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		ready func(b *testing.B)
		write func(b *testing.B, n int)
	}{
		{"lease", func(b *testing.B) {
			f.must(f.create("coordination.k8s.io/v1/leases", "default", `{"metadata":{"name":"lease"},"spec":{"holderIdentity":"bench","leaseDurationSeconds":40,"renewTime":"2026-01-01T00:00:00.000000Z"}}`))
		}, func(b *testing.B, n int) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lease", Namespace: "default"}, Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("bench"), LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: time.Now()}}}
			lease.ResourceVersion = f.object(f.get("coordination.k8s.io/v1/leases", "default", "lease")).GetResourceVersion()
			put(b, &apiv1.UpdateRequest{Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Name: "lease", Object: sealed(b, "coordination.k8s.io/v1", "Lease", lease)})
		}},
		{"event", func(*testing.B) {}, func(b *testing.B, n int) { event(b, fmt.Sprintf("event-%d-%d", b.N, n)) }},
		{"count", func(b *testing.B) { event(b, fmt.Sprint("counted-", b.N)) }, func(b *testing.B, n int) {
			_, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "events", Namespace: "default", Name: fmt.Sprint("counted-", b.N), ContentType: "application/strategic-merge-patch+json",
				Object: fmt.Appendf(nil, `{"count":%d,"lastTimestamp":%q}`, n+2, time.Now().UTC().Format(time.RFC3339)), Accept: protobuf, FieldManager: "bench"})
			if err != nil {
				b.Fatal(err)
			}
		}},
		{"scale", func(b *testing.B) {
			f.must(f.create("apps/v1/deployments", "default", fmt.Sprintf(`{"metadata":{"name":"d-%d"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"x"}},
				"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"ports":[{"containerPort":80}]}]}}}}`, b.N)))
		}, func(b *testing.B, n int) {
			name := fmt.Sprint("d-", b.N)
			scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: int32(n % 2)}}
			put(b, &apiv1.UpdateRequest{Group: "apps", Version: "v1", Resource: "deployments", Name: name, Subresource: "scale", Object: sealed(b, "autoscaling/v1", "Scale", scale)})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			if b.N == 1 || c.name != "lease" {
				c.ready(b)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				c.write(b, n)
			}
		})
	}
}
