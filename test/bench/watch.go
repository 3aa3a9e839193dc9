package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// watch measures the time from a write's start to its event at each watcher.
func watch(ctx context.Context, b *bench) error {
	if err := b.namespace(ctx, "bench-watch"); err != nil {
		return err
	}
	for _, load := range []struct{ watchers, writers, writes int }{{1, 1, 400}, {100, 1, 400}, {1000, 1, 50}, {1000, 16, 40}} {
		if err := b.propagation(ctx, load.watchers, load.writers, load.writes); err != nil {
			return err
		}
		if err := b.propagationRaw(ctx, b.config, load.watchers, load.writers, load.writes); err != nil {
			return err
		}
	}
	return b.remove(ctx, "bench-watch")
}

// propagation lets each of the writers write one after the other while all watch.
func (b *bench) propagation(ctx context.Context, watchers, writers, each int) error {
	maps := b.client.CoreV1().ConfigMaps("bench-watch")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		took []time.Duration
	)
	writes, run := writers*each, fmt.Sprintf("%d-%d", watchers, writers)
	for range watchers {
		w, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "run=" + run})
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
	b.cpu.take(ctx, "watch "+run, time.Second)
	before := b.cost()
	start := time.Now()
	_, err := b.measure(writers, func(int) int { return each }, func(writer, i int) error {
		_, err := maps.Create(ctx, marked(run, writer, i, time.Now().UnixNano()), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	written := time.Since(start)
	wg.Wait()
	elapsed := time.Since(start)
	if len(took) != watchers*writes {
		// Kubernetes ends watches that fall behind; howdah is to keep them.
		early := fmt.Sprintf("%d of %d events arrived: watches ended early", len(took), watchers*writes)
		if !b.target.kubernetes() {
			return errors.New(early)
		}
		b.report(figure{Scenario: "write to watcher", Clients: watchers, Note: early})
		return nil
	}
	f := latencies(took)
	f.per(writes, before, b.cost())
	f.Scenario, f.Clients, f.PerSec = "write to watcher", watchers, float64(writes)/elapsed.Seconds()
	f.Note = "per_second is writes of one writer, one after the other, while all watch"
	if writers > 1 {
		f.Scenario = fmt.Sprintf("write to watcher, %d writers", writers)
		f.Note = fmt.Sprintf("per_second is writes of all writers until all watchers have their events; they were acknowledged at %.0f a second", float64(writes)/written.Seconds())
	}
	b.report(f)
	return nil
}

// propagationRaw is propagation to watchers that decode nothing: what the server alone costs.
func (b *bench) propagationRaw(ctx context.Context, config *rest.Config, watchers, writers, each int) error {
	run := fmt.Sprintf("raw-%d-%d", watchers, writers)
	f, err := b.raw(ctx, config, "bench-watch", run, watchers, writers, each, func() {})
	if errors.Is(err, errWatchEnded) && b.target.kubernetes() { // those that fall behind, as above
		f, err = figure{Clients: watchers, Note: err.Error()}, nil
	}
	if err != nil {
		return err
	}
	f.Scenario = "write to watcher that decodes nothing"
	b.report(f)
	return nil
}

// profiled is about how long the writes take.
const profiled = 3 * time.Second

// raw lets each of the writers write one after the other while watchers that decode nothing watch. It calls stand when they do.
func (b *bench) raw(ctx context.Context, config *rest.Config, namespace, run string, watchers, writers, each int, stand func()) (figure, error) {
	path := "/api/v1/namespaces/" + namespace + "/configmaps?watch=true&labelSelector=run%3D" + run
	maps := b.client.CoreV1().ConfigMaps(namespace)
	return b.watched(ctx, config, path, protobufMedia, watchers, writers, each, stand, func(writer, i int, now int64) error {
		_, err := maps.Create(ctx, marked(run, writer, i, now), metav1.CreateOptions{})
		return err
	})
}

// watched is raw for any path and write, each of which makes one event. write is told when it began, in nanoseconds since 1970.
func (b *bench) watched(ctx context.Context, config *rest.Config, path, media string, watchers, writers, each int, stand func(),
	write func(writer, i int, now int64) error) (figure, error) {
	writes := writers * each
	all, err := openRaw(ctx, config, path, media, watchers, writes)
	if err != nil {
		return figure{}, err
	}
	defer all.close()
	if err := pause(ctx, settle); err != nil {
		return figure{}, err
	}
	stand()
	b.cpu.take(ctx, fmt.Sprintf("watch %s %d %d", media[len("application/"):], watchers, writers), profiled)
	before := b.cost()
	start := time.Now()
	written, err := b.measure(writers, func(int) int { return each }, func(writer, i int) error {
		now := time.Now().UnixNano()
		if writers == 1 { // else nobody knows which write is which event
			all.sent[i].Store(now)
		}
		return write(writer, i, now)
	})
	if err != nil {
		return figure{}, err
	}
	took, err := all.wait(ctx)
	if err != nil {
		return figure{}, err
	}
	f := latencies(took)
	f.per(writes, before, b.cost())
	f.Clients, f.Count, f.PerSec = watchers, watchers*writes, float64(writes)/time.Since(start).Seconds()
	f.Note = fmt.Sprintf("%d writers; they were acknowledged at %.0f a second", writers, written.PerSec)
	return f, nil
}

// marked is an object of a run, which says when its write began.
func marked(run string, writer, i int, now int64) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w-%s-%d-%d", run, writer, i), Labels: map[string]string{"run": run}},
		Data:       map[string]string{"sent": strconv.FormatInt(now, 10)},
	}
}
