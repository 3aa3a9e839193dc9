package nodeagent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/nodeagent"
)

func TestSimulatedNodesTakePods(t *testing.T) {
	t.Parallel()
	const nodes, count = 100, 500
	api, client := objecttest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- nodeagent.Simulate(ctx, nodeagent.Config{NodeName: "hollow", Objects: client}, nodes) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
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
	if watches := api.Calls("watch pods"); watches != 1 {
		t.Errorf("%d watches for %d nodes, want one", watches, nodes)
	}

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
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- nodeagent.Simulate(ctx, nodeagent.Config{NodeName: "hollow", Objects: client}, 2) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
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
