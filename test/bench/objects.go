package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// objects measures create, get, status patch and delete of pods of about 3 kB.
func objects(ctx context.Context, b *bench) error {
	if err := b.namespace(ctx, "bench-objects"); err != nil {
		return err
	}
	pods := b.client.CoreV1().Pods("bench-objects")
	for _, clients := range b.clients {
		name := func(worker, i int) string { return fmt.Sprintf("p-%d-%d-%d", clients, worker, i) }
		counts := make([]int, clients)
		patch := []byte(`{"status":{"message":"patched by the benchmark"}}`)
		steps := []struct {
			name string
			call func(worker, i int) error
			all  bool // go over what was created instead of over time
		}{
			{"create", func(w, i int) error {
				_, err := pods.Create(ctx, benchPod(name(w, i)), metav1.CreateOptions{})
				counts[w] = i + 1
				return err
			}, false},
			{"get", func(w, i int) error {
				_, err := pods.Get(ctx, name(w, i%counts[w]), metav1.GetOptions{})
				return err
			}, false},
			{"status patch", func(w, i int) error {
				_, err := pods.Patch(ctx, name(w, i), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
				return err
			}, true},
			{"delete", func(w, i int) error {
				return pods.Delete(ctx, name(w, i), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			}, true},
		}
		for _, s := range steps {
			limit := func(int) int { return unlimited }
			if s.all {
				limit = func(worker int) int { return counts[worker] }
			}
			b.cpu.take(ctx, fmt.Sprintf("%s %d", s.name, clients), b.period*2/3)
			f, err := b.measure(clients, limit, s.call)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			f.Scenario = "pod " + s.name
			b.report(f)
			b.cpu.heap(ctx, fmt.Sprintf("%s %d", s.name, clients))
		}
	}
	return b.remove(ctx, "bench-objects")
}

// unlimited is more calls than fit into any period.
const unlimited = 1 << 30

// measure calls from many clients for the bench's period, or until each has made
// limit calls.
func (b *bench) measure(clients int, limit func(worker int) int, call func(worker, i int) error) (figure, error) {
	return b.measureFor(b.period, clients, limit, call)
}

// measureFor is measure for another period.
func (b *bench) measureFor(period time.Duration, clients int, limit func(worker int) int, call func(worker, i int) error) (figure, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		took  []time.Duration
		fault atomic.Pointer[error]
	)
	before := b.cost()
	start := time.Now()
	for worker := range clients {
		wg.Go(func() {
			var mine []time.Duration
			for i := 0; i < limit(worker) && fault.Load() == nil && (time.Since(start) < period || limit(worker) < unlimited); i++ {
				began := time.Now()
				if err := call(worker, i); err != nil {
					fault.CompareAndSwap(nil, &err)
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	after := b.cost()
	if err := fault.Load(); err != nil {
		return figure{}, *err
	}
	f := latencies(took)
	f.Clients, f.PerSec = clients, float64(len(took))/elapsed.Seconds()
	f.per(len(took), before, after)
	return f, nil
}

func latencies(took []time.Duration) figure {
	if len(took) == 0 {
		return figure{}
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return figure{Count: len(took), P50: ms(took[len(took)/2]), P99: ms(took[len(took)*99/100])}
}

// benchPod is a pod of about 3 kB that no node takes.
func benchPod(name string) *corev1.Pod {
	env := make([]corev1.EnvVar, 0, 20)
	for i := range 20 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i), Value: strings.Repeat("v", 80)})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench", "share": fmt.Sprint(len(name) * 7 % 100)}},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody",
			Containers: []corev1.Container{{
				Name: "c", Image: "registry.example.com/team/application:1.2.3", Env: env,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}},
			}},
		},
	}
}

// namespace makes a namespace, whose default service account pods need.
func (b *bench) namespace(ctx context.Context, name string) error {
	_, err := b.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		_, err := b.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

// remove removes a namespace and waits until it has gone with all that was in it: what it still costs
// would be counted against the next scenario.
func (b *bench) remove(ctx context.Context, name string) error {
	start := time.Now()
	if err := b.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := until(ctx, func() (bool, error) {
		_, err := b.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	b.report(figure{Scenario: "removal of the namespace " + name, Seconds: time.Since(start).Seconds()})
	return err
}

// until polls every 5 ms.
func until(ctx context.Context, done func() (bool, error)) error {
	return asking(ctx, 5*time.Millisecond, done)
}

// asking polls until done, or an error.
func asking(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
