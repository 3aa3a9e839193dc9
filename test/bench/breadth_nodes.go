package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeRequests are what the components of a cluster write all day: heartbeats, leases of leaders, events, endpoints, and the
// namespaces and volumes that come and go.
func nodeRequests(ctx context.Context, w *wide) ([]request, error) {
	var (
		core   = w.client.CoreV1()
		leases = w.client.CoordinationV1().Leases(w.namespace)
		slices = w.client.DiscoveryV1().EndpointSlices(w.namespace)
		held   [breadthClients]*coordinationv1.Lease
		ends   [breadthClients]*discoveryv1.EndpointSlice
	)
	node := func(worker int) string { return fmt.Sprintf("bench-node-%d", worker) }
	return []request{
		{name: "lease update", ready: func(ctx context.Context) error {
			return w.each(ctx, breadthClients, func(ctx context.Context, i int) (err error) {
				held[i], err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: ofName("lease-%d", i), Spec: leaseSpec()}, metav1.CreateOptions{})
				return err
			})
		}, call: func(ctx context.Context, worker, _ int) (err error) {
			held[worker].Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			held[worker], err = leases.Update(ctx, held[worker], metav1.UpdateOptions{})
			return err
		}},
		{name: "node status patch of 15 kB", ready: func(ctx context.Context) error {
			return w.each(ctx, breadthClients, func(ctx context.Context, i int) error {
				_, err := core.Nodes().Create(ctx, benchNode(node(i)), metav1.CreateOptions{})
				return err
			})
		}, call: func(ctx context.Context, worker, _ int) error {
			_, err := core.Nodes().Patch(ctx, node(worker), types.StrategicMergePatchType, heartbeat(), metav1.PatchOptions{}, "status")
			return err
		}, done: func(ctx context.Context) error {
			return core.Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ofBench})
		}},
		{name: "endpoint slice update, 100 endpoints", ready: func(ctx context.Context) error {
			return w.each(ctx, breadthClients, func(ctx context.Context, i int) (err error) {
				ends[i], err = slices.Create(ctx, benchSlice(i), metav1.CreateOptions{})
				return err
			})
		}, call: func(ctx context.Context, worker, i int) (err error) {
			ready := ends[worker].Endpoints[i%100].Conditions.Ready
			*ready = !*ready
			ends[worker], err = slices.Update(ctx, ends[worker], metav1.UpdateOptions{})
			return err
		}},
		{name: "event create", call: func(ctx context.Context, worker, i int) error {
			_, err := core.Events(w.namespace).Create(ctx, benchEvent(w.namespace, fmt.Sprintf("event-%d-%d", worker, i), worker), metav1.CreateOptions{})
			return err
		}},
		{name: "event patch", call: func(ctx context.Context, worker, i int) error {
			patch := fmt.Appendf(nil, `{"count":%d,"lastTimestamp":%q}`, i+2, time.Now().UTC().Format(time.RFC3339))
			_, err := core.Events(w.namespace).Patch(ctx, fmt.Sprintf("event-%d-0", worker), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		}},
		{name: "event create, events.k8s.io", call: func(ctx context.Context, worker, i int) error {
			_, err := w.client.EventsV1().Events(w.namespace).Create(ctx, newEvent(w.namespace, worker, i), metav1.CreateOptions{})
			return err
		}},
		{name: "persistent volume claim create", most: 100, call: func(ctx context.Context, worker, i int) error {
			_, err := core.PersistentVolumeClaims(w.namespace).Create(ctx, benchClaim(worker, i), metav1.CreateOptions{})
			return err
		}},
		{name: "persistent volume create", most: 100, call: func(ctx context.Context, worker, i int) error {
			_, err := core.PersistentVolumes().Create(ctx, benchVolume(worker, i), metav1.CreateOptions{})
			return err
		}},
		{name: "persistent volume delete", most: 100, call: func(ctx context.Context, worker, i int) error {
			return core.PersistentVolumes().Delete(ctx, benchVolume(worker, i).Name, metav1.DeleteOptions{})
		}},
		{name: "service create", most: 60, call: func(ctx context.Context, worker, i int) error {
			service := &corev1.Service{ObjectMeta: ofName("service-%d-%d", worker, i), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
			_, err := core.Services(w.namespace).Create(ctx, service, metav1.CreateOptions{})
			return err
		}},
		{name: "service delete", most: 60, call: func(ctx context.Context, worker, i int) error {
			return core.Services(w.namespace).Delete(ctx, fmt.Sprintf("service-%d-%d", worker, i), metav1.DeleteOptions{})
		}},
		{name: "namespace create", clients: 4, most: 30, call: func(ctx context.Context, worker, i int) error {
			_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: ofName("bench-made-%d-%d", worker, i)}, metav1.CreateOptions{})
			return err
		}},
		{name: "namespace delete", clients: 4, most: 30, call: func(ctx context.Context, worker, i int) error {
			return core.Namespaces().Delete(ctx, fmt.Sprintf("bench-made-%d-%d", worker, i), metav1.DeleteOptions{})
		}},
	}, nil
}

func leaseSpec() coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{HolderIdentity: new("bench"), LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: time.Now()}}
}

// ofBench is a label of what the benchmark has made outside of its namespaces.
const ofBench = "bench.howdah.dev/made"

// benchNode is a node of about 15 kB, most of them images, as nodes in use have.
func benchNode(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, ofBench: ""}}}
	node.Spec.Unschedulable = true
	for i := range 50 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{SizeBytes: int64(i) << 20, Names: []string{
			fmt.Sprintf("registry.example.com/team-%02d/application@sha256:%064d", i, i), fmt.Sprintf("registry.example.com/team-%02d/application:1.%d.0", i, i)}})
	}
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Conditions = conditions()
	return node
}

func conditions() (list []corev1.NodeCondition) {
	now := metav1.Now()
	for _, kind := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		status := corev1.ConditionFalse
		if kind == "Ready" {
			status = corev1.ConditionTrue
		}
		list = append(list, corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: now, LastTransitionTime: now, Reason: "Kubelet", Message: "kubelet says so"})
	}
	return list
}

// heartbeat is what a kubelet patches of its node's status when nothing has changed for a while.
func heartbeat() []byte {
	text, _ := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions()}}) // text and times
	return text
}

func benchSlice(i int) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("slice-%d", i), Labels: map[string]string{"endpointslice.kubernetes.io/managed-by": "bench"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for n := range 100 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.1.%d.%d", i, n)}, NodeName: new(fmt.Sprintf("node-%d", n)),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "bench", Name: fmt.Sprintf("pod-%d-%d", i, n), UID: "6f1d9c1e-0000-4000-8000-000000000000"},
		})
	}
	return slice
}

// benchEvent is one of a pod that has the number.
func benchEvent(namespace, name string, pod int) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: fmt.Sprintf("pod-%d", pod), APIVersion: "v1", FieldPath: "spec.containers{c}"},
		Reason:         "Pulled", Message: `Successfully pulled image "registry.example.com/team/application:1.2.3" in 1.2s`,
		Source: corev1.EventSource{Component: "kubelet", Host: "node-1"}, Type: "Normal", Count: 1, FirstTimestamp: now, LastTimestamp: now,
	}
}

func newEvent(namespace string, worker, i int) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("new-event-%d-%d", worker, i), Namespace: namespace},
		EventTime:  metav1.NowMicro(), ReportingController: "bench.howdah.dev/one", ReportingInstance: "bench-1", Action: "Binding", Reason: "Scheduled", Type: "Normal",
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "pod"}, Note: "Successfully assigned a pod to a node",
	}
}

func benchClaim(worker, i int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: ofName("claim-%d-%d", worker, i), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("nobody"),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}}
}

func benchVolume(worker, i int) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: ofName("bench-volume-%d-%d", worker, i), Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "other", Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.9.9.9", Path: "/exports"}},
	}}
}
