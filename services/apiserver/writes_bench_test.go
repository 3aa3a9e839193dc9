package apiserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// BenchmarkSmallWrites measures the writes that a cluster makes most of: renewals of leases, events and their counts; and changes of scales and of a template. They
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
	deployment := func(b *testing.B, name string) {
		labels := map[string]string{"app": name}
		pod := benchPod(name)
		for i := range 20 {
			pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i), Value: "as it was set"})
		}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, b.N), Namespace: "default", Labels: labels}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec}}}
		_, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Group: "apps", Version: "v1", Resource: "deployments", Namespace: "default",
			Object: sealed(b, "apps/v1", "Deployment", d), ContentType: protobuf, Accept: protobuf, FieldManager: "bench"})
		if err != nil {
			b.Fatal(err)
		}
	}
	patch := func(b *testing.B, name, kind string, body []byte) {
		_, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Group: "apps", Version: "v1", Resource: "deployments", Namespace: "default", Name: fmt.Sprint(name, b.N), ContentType: kind,
			Object: body, Accept: protobuf, FieldManager: "bench"})
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
		{"setting", func(b *testing.B) { deployment(b, "s") }, func(b *testing.B, n int) {
			patch(b, "s", "application/strategic-merge-patch+json", fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"SETTING_03","value":"%d"}]}]}}}}`, n))
		}},
		{"image", func(b *testing.B) { deployment(b, "i") }, func(b *testing.B, n int) {
			patch(b, "i", "application/json-patch+json", fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"registry.example.com/app:%d"}]`, n))
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
