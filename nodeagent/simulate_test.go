package nodeagent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/nodeagent"
)

// simulate runs a fleet of so many nodes, hollow-0000 and on, until the test ends.
func simulate(t *testing.T, client *object.Client, nodes int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- nodeagent.Simulate(ctx, nodeagent.Config{NodeName: "hollow", Objects: client}, nodes) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSimulatedNodesTakePods(t *testing.T) {
	t.Parallel()
	const nodes, count = 100, 500
	api, client := objecttest.Start(t)
	simulate(t, client, nodes)
	eventually(t, time.Minute, func() string {
		list, _, err := object.For(client, object.Node).List(t.Context(), "", metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		leases, _, err := object.For(client, object.Lease).List(t.Context(), "", metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, n := range list {
			if len(n.Status.Conditions) != 4 {
				return n.Name + " says nothing of its state"
			}
		}
		if len(list) != nodes || len(leases) != nodes {
			return fmt.Sprintf("%d nodes and %d leases", len(list), len(leases))
		}
		return ""
	})

	pods := object.For(client, object.Pod)
	began := time.Now()
	for i := range count {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i)}, Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("hollow-%04d", i%nodes), Containers: []corev1.Container{{Name: "c", Image: "x"}},
		}}
		if _, err := pods.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	addresses := map[string]bool{}
	eventually(t, time.Minute, func() string {
		list, _, err := pods.List(t.Context(), "", metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		clear(addresses)
		for _, p := range list {
			if !ready(p) || p.Status.Phase != corev1.PodRunning || p.Status.HostIP == "" {
				return p.Name + " does not run: " + string(p.Status.Phase)
			}
			addresses[p.Status.PodIP] = true
		}
		return ""
	})
	if len(addresses) != count {
		t.Errorf("%d addresses for %d pods", len(addresses), count)
	}
	if watches := api.Calls("watch pods"); watches != 1 {
		t.Errorf("%d watches for %d nodes, want one", watches, nodes)
	}
	t.Logf("%d pods ready after %v, %d batches", count, time.Since(began), api.Calls("batch"))
	for i := range count {
		if err := pods.Delete(t.Context(), "default", fmt.Sprintf("p%d", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, time.Minute, func() string {
		list, _, err := pods.List(t.Context(), "", metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if len(list) > 0 {
			return fmt.Sprintf("%d pods are left", len(list))
		}
		return ""
	})
}

// What a controller says of simulated nodes that were cut off is taken back by them, and what others say of them stays.
func TestSimulatedNodesComeBack(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	simulate(t, client, 2)
	nodes := object.For(client, object.Node)
	conditions := func() map[corev1.NodeConditionType]corev1.ConditionStatus {
		out := map[corev1.NodeConditionType]corev1.ConditionStatus{}
		if node, err := nodes.Get(t.Context(), "", "hollow-0001"); err == nil {
			for _, c := range node.Status.Conditions {
				out[c.Type] = c.Status
			}
		}
		return out
	}
	eventually(t, time.Minute, func() string {
		if conditions()[corev1.NodeReady] != corev1.ConditionTrue {
			return "the node is not ready"
		}
		return ""
	})
	node, err := nodes.Get(t.Context(), "", "hollow-0001")
	if err != nil {
		t.Fatal(err)
	}
	node = node.DeepCopy()
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].Status = corev1.ConditionUnknown
	}
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "example.com/Odd", Status: corev1.ConditionTrue})
	if _, err := nodes.UpdateStatus(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		if all := conditions(); all[corev1.NodeReady] != corev1.ConditionTrue || all[corev1.NodeDiskPressure] != corev1.ConditionFalse || all["example.com/Odd"] != corev1.ConditionTrue {
			return fmt.Sprintf("the node says %v", all)
		}
		return ""
	})
}

// TestSimulatedNodesStartAgain has a fleet find its nodes as an earlier one left them, with what others have said of them meanwhile.
func TestSimulatedNodesStartAgain(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	nodes := object.For(client, object.Node)
	left, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "hollow-0000"}, Status: corev1.NodeStatus{
		Capacity:        corev1.ResourceList{"example.com/dongle": resource.MustParse("4"), corev1.ResourceCPU: resource.MustParse("1m")},
		Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}, {Type: "example.com/Odd", Status: corev1.ConditionTrue}},
		VolumesAttached: []corev1.AttachedVolume{{Name: "disk", DevicePath: "/dev/disk"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	simulate(t, client, 1)
	eventually(t, time.Minute, func() string {
		node, err := nodes.Get(t.Context(), "", left.Name)
		if err != nil {
			return err.Error()
		}
		all := map[corev1.NodeConditionType]corev1.ConditionStatus{}
		for _, c := range node.Status.Conditions {
			all[c.Type] = c.Status
		}
		if all[corev1.NodeReady] != corev1.ConditionTrue {
			return fmt.Sprintf("the node says %v", all)
		}
		s := node.Status
		if dongles := s.Capacity["example.com/dongle"]; all["example.com/Odd"] != corev1.ConditionTrue || len(s.VolumesAttached) != 1 || dongles.Value() != 4 {
			t.Errorf("what others said is gone: %s", s.String())
		}
		if s.Capacity.Cpu().MilliValue() < 1000 || len(s.Addresses) != 2 {
			t.Errorf("what the fleet says is not there: %s", s.String())
		}
		return ""
	})
}

// A simulated node gives a pod what it asks for, also when it asks for something else later, and leaves alone what others have written of its containers.
func TestSimulatedNodesResize(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	simulate(t, client, 1)
	pods := object.For(client, object.Pod)
	asked := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}, Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
	if _, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Generation: 1}, Spec: corev1.PodSpec{
		NodeName: "hollow-0000", Containers: []corev1.Container{{Name: "c", Image: "x", Resources: asked}},
	}}); err != nil {
		t.Fatal(err)
	}
	given := func(generation int64, cpu string) *corev1.Pod {
		t.Helper()
		var p *corev1.Pod
		eventually(t, time.Minute, func() string {
			var err error
			if p, err = pods.Get(t.Context(), "default", "p"); err != nil {
				return err.Error()
			}
			if s := p.Status; !ready(p) || s.ObservedGeneration != generation {
				return fmt.Sprintf("the status is of generation %d", s.ObservedGeneration)
			}
			return ""
		})
		c := p.Status.ContainerStatuses[0]
		if c.Resources == nil || c.Resources.Requests.Cpu().String() != cpu || c.Resources.Limits.Cpu().String() != "100m" || c.AllocatedResources.Cpu().String() != cpu {
			t.Errorf("the container has %v of %v, want %s", c.Resources, c.AllocatedResources, cpu)
		}
		if s := p.Status; s.Resources == nil || s.Resources.Requests.Cpu().String() != cpu || s.Resources.Limits.Cpu().String() != "100m" || s.AllocatedResources.Cpu().String() != cpu {
			t.Errorf("the pod has %v of %v, want %s", s.Resources, s.AllocatedResources, cpu)
		}
		for _, c := range p.Status.Conditions {
			if c.ObservedGeneration != generation {
				t.Errorf("%s is of generation %d, want %d", c.Type, c.ObservedGeneration, generation)
			}
		}
		return p
	}
	p := given(1, "50m").DeepCopy()
	p.Status.ContainerStatuses[0].RestartCount = 3
	p, err := pods.UpdateStatus(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	p = p.DeepCopy()
	p.Generation = 2
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("70m")
	if _, err := pods.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if now := given(2, "70m"); now.Status.ContainerStatuses[0].RestartCount != 3 {
		t.Errorf("the container was started again %d times, want 3 as was written", now.Status.ContainerStatuses[0].RestartCount)
	}
}
