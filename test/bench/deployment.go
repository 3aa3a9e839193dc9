package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// replicas measures a Deployment from apply to available, its rolling
// update, and its removal until the last pod is gone.
func replicas(n int) func(ctx context.Context, b *bench) error {
	return func(ctx context.Context, b *bench) error {
		if b.target == nil || b.target.nodes == 0 {
			return nil // so many pods need simulated nodes
		}
		namespace := fmt.Sprintf("bench-deploy-%d", n)
		if err := b.namespace(ctx, namespace); err != nil {
			return err
		}
		if err := b.nodesReady(ctx); err != nil {
			return err
		}
		deployments := b.client.AppsV1().Deployments(namespace)
		timed := func(what string, step func() error, done func() (bool, error)) error {
			b.cpu.take(ctx, fmt.Sprintf("%s %d", what, n), 3*time.Second)
			before := b.cost()
			start := time.Now()
			if err := step(); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			if err := until(ctx, done); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			took := time.Since(start)
			f := figure{Scenario: fmt.Sprintf("deployment of %d replicas: %s", n, what), Count: n, Seconds: took.Seconds(), PerSec: float64(n) / took.Seconds()}
			f.per(n, before, b.cost())
			f.MiB, _ = residentMiB(b.target.server)
			b.report(f)
			return nil
		}
		complete := func() (bool, error) {
			d, err := deployments.Get(ctx, "d", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return d.Status.ObservedGeneration == d.Generation && int(d.Status.AvailableReplicas) == n &&
				int(d.Status.UpdatedReplicas) == n && int(d.Status.Replicas) == n, nil
		}
		if err := timed("apply to available", func() error {
			_, err := deployments.Create(ctx, benchDeployment(n), metav1.CreateOptions{})
			return err
		}, complete); err != nil {
			return err
		}
		if n <= 1000 {
			if err := timed("rolling update", func() error {
				_, err := deployments.Patch(ctx, "d", types.StrategicMergePatchType,
					[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"app:2"}]}}}}`), metav1.PatchOptions{})
				return err
			}, complete); err != nil {
				return err
			}
		}
		err := timed("removal", func() error {
			return deployments.Delete(ctx, "d", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		}, func() (bool, error) {
			pods, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
			return err == nil && len(pods.Items) == 0, err
		})
		if err != nil {
			return err
		}
		return b.remove(ctx, namespace)
	}
}

func benchDeployment(n int) *appsv1.Deployment {
	labels := map[string]string{"app": "bench"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(n)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To(int64(1)), Containers: []corev1.Container{{Name: "c", Image: "app:1"}}},
			},
		},
	}
}

// nodesReady waits for the simulated nodes.
func (b *bench) nodesReady(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		nodes, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		ready := 0
		for _, node := range nodes.Items {
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		return ready >= b.target.nodes, nil
	})
}

// podStart measures a pod from its creation to Running, with its image on
// the node.
func podStart(ctx context.Context, b *bench) error {
	if b.target != nil && b.target.nodes == 0 {
		return nil // nothing runs pods
	}
	if err := b.namespace(ctx, "bench-podstart"); err != nil {
		return err
	}
	pods := b.client.CoreV1().Pods("bench-podstart")
	var took []time.Duration
	for i := range 10 {
		name := fmt.Sprintf("p-%d", i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "c", Image: "busybox:latest", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "1000"}}},
		}}
		watcher, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return err
		}
		start := time.Now()
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		for event := range watcher.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok && p.Status.Phase == corev1.PodRunning {
				break
			}
		}
		watcher.Stop()
		took = append(took, time.Since(start))
	}
	f := latencies(took)
	f.Scenario = "pod start, create to Running"
	if b.target != nil {
		f.Scenario += ", simulated node"
	}
	b.report(f)
	return b.remove(ctx, "bench-podstart")
}
