package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watch measures the time from a write's start to its event at each watcher.
func watch(ctx context.Context, b *bench) error {
	if err := b.namespace(ctx, "bench-watch"); err != nil {
		return err
	}
	for _, watchers := range []int{1, 100, 1000} {
		if err := b.propagation(ctx, watchers); err != nil {
			return err
		}
	}
	return b.remove(ctx, "bench-watch")
}

func (b *bench) propagation(ctx context.Context, watchers int) error {
	maps := b.client.CoreV1().ConfigMaps("bench-watch")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		took []time.Duration
	)
	writes := 400
	if watchers == 1000 {
		writes = 50
	}
	for range watchers {
		w, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: fmt.Sprintf("run=%d", watchers)})
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer w.Stop()
			var mine []time.Duration
			for len(mine) < writes {
				event, ok := <-w.ResultChan()
				if !ok {
					return
				}
				if object, ok := event.Object.(*corev1.ConfigMap); ok && event.Type == "ADDED" {
					sent, err := strconv.ParseInt(object.Data["sent"], 10, 64)
					if err == nil {
						mine = append(mine, time.Duration(time.Now().UnixNano()-sent))
					}
				}
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	b.cpu.take(ctx, fmt.Sprintf("watch %d", watchers), time.Second)
	before := b.cost()
	start := time.Now()
	for i := range writes {
		_, err := maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w-%d-%d", watchers, i), Labels: map[string]string{"run": fmt.Sprint(watchers)}},
			Data:       map[string]string{"sent": strconv.FormatInt(time.Now().UnixNano(), 10)},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	wg.Wait()
	elapsed := time.Since(start)
	if len(took) != watchers*writes {
		return fmt.Errorf("%d of %d events arrived: watches ended early", len(took), watchers*writes)
	}
	f := latencies(took)
	f.per(writes, before, b.cost())
	f.Scenario, f.Clients, f.PerSec = "write to watcher", watchers, float64(writes)/elapsed.Seconds()
	f.Note = "per_second is writes of one writer, one after the other, while all watch"
	b.report(f)
	return nil
}
