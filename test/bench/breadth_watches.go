package main

import (
	"bufio"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What there is while watches are measured.
const (
	ownWatchers  = breadthNodes // watches that each have their own objects
	ownEvents    = 4            // that each of them is told of
	ownSpaces    = 20           // namespaces, for watches of one alone
	watchedPods  = 1000         // two for each watcher
	informerMaps = 1000
	passed       = 80 // events since a watch was interrupted, as many as Kubernetes always remembers
)

// watchRequests are watches of many clients that watch each something else, and their beginnings.
func watchRequests(ctx context.Context, w *wide) ([]request, error) {
	var (
		core   = w.client.CoreV1()
		within = "/api/v1/namespaces/" + w.namespace
		space  = func(n int) string { return fmt.Sprintf("%s-%d", w.namespace, n%ownSpaces) }
	)
	if err := w.toWatch(ctx, space); err != nil {
		return nil, err
	}
	patchPod := func(ctx context.Context, n int) error {
		_, err := core.Pods(w.namespace).Patch(ctx, fmt.Sprint("watched-", n%watchedPods), types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"message":"%d"}}`, time.Now().UnixNano()), metav1.PatchOptions{}, "status")
		return err
	}
	patchMap := func(namespace func(n int) string) func(context.Context, int) error {
		return func(ctx context.Context, n int) error {
			_, err := core.ConfigMaps(namespace(n)).Patch(ctx, fmt.Sprint("watched-", n%ownWatchers), types.MergePatchType,
				fmt.Appendf(nil, `{"data":{"at":"%d"}}`, time.Now().UnixNano()), metav1.PatchOptions{})
			return err
		}
	}
	here := func(int) string { return w.namespace }
	return []request{
		{name: "write to one of 500 watchers, each of a node's pods", figure: w.own("/api/v1/pods", func(n int) string {
			return "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3D" + onNode(n)
		}, patchPod)},
		{name: "write to one of 500 watchers, each of a name", figure: w.own(within+"/configmaps", func(n int) string {
			return fmt.Sprintf("%s/configmaps?watch=true&fieldSelector=metadata.name%%3Dwatched-%d", within, n)
		}, patchMap(here))},
		{name: "write to one of 500 watchers, each of a label", figure: w.own(within+"/configmaps", func(n int) string {
			return fmt.Sprintf("%s/configmaps?watch=true&labelSelector=own%%3D%d", within, n)
		}, patchMap(here))},
		{name: "write to one of 500 watchers, each of a label in one of 20 namespaces", figure: w.own("/api/v1/configmaps", func(n int) string {
			return fmt.Sprintf("/api/v1/namespaces/%s/configmaps?watch=true&labelSelector=own%%3D%d", space(n), n)
		}, patchMap(space))},
		{name: "list and watch of a node's pods", figure: w.started(ownWatchers, 2, func(ctx context.Context, n int) error {
			return w.wire.listWatch(ctx, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+onNode(n), "resourceVersion=0&limit=500")
		})},
		{name: "list and watch of 1,000 config maps", figure: w.started(100, 1, func(ctx context.Context, _ int) error {
			return w.wire.listWatch(ctx, within+"/configmaps?labelSelector=set", "resourceVersion=0")
		})},
		{name: "watch list of a node's 2 pods", figure: w.started(ownWatchers, 2, func(ctx context.Context, n int) error {
			return w.wire.watchList(ctx, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+onNode(n), 3)
		})},
		{name: "watch list of 1,000 config maps", figure: w.started(100, 1, func(ctx context.Context, _ int) error {
			return w.wire.watchList(ctx, within+"/configmaps?labelSelector=set", informerMaps+1)
		})},
		{name: "watch from a revision 80 events ago", figure: w.reconnects(within+"/configmaps", "", passed, func(ctx context.Context, n int) error {
			return patchMap(here)(ctx, n)
		})},
		{name: "watch of a name from a revision 80 events ago", figure: w.reconnects(within+"/configmaps", "&fieldSelector=metadata.name%3Dwatched-7", 1, func(ctx context.Context, n int) error {
			return patchMap(here)(ctx, n)
		}), done: func(ctx context.Context) error {
			for n := range ownSpaces {
				if err := core.Namespaces().Delete(ctx, space(n), metav1.DeleteOptions{}); err != nil {
					return err
				}
			}
			if err := w.forgetPods(ctx); err != nil {
				return err
			}
			return w.forgetNodes(ctx)
		}},
	}, nil
}

// toWatch makes what is watched.
func (w *wide) toWatch(ctx context.Context, space func(n int) string) error {
	core := w.client.CoreV1()
	if err := w.nodes(ctx); err != nil {
		return err
	}
	for n := range ownSpaces {
		if err := w.bench.namespace(ctx, space(n)); err != nil {
			return err
		}
	}
	configMap := func(n int, labels map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("watched-", n), Labels: labels}, Data: map[string]string{"text": largeText()[:1000]}}
	}
	return w.each(ctx, watchedPods, func(ctx context.Context, i int) error {
		pod := benchPod(fmt.Sprint("watched-", i))
		pod.Spec.NodeName = onNode(i)
		if _, err := core.Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		labels := map[string]string{"own": fmt.Sprint(i), "set": ""}
		if _, err := core.ConfigMaps(w.namespace).Create(ctx, configMap(i, labels), metav1.CreateOptions{}); err != nil {
			return err
		}
		if i >= ownWatchers {
			return nil
		}
		_, err := core.ConfigMaps(space(i)).Create(ctx, configMap(i, labels), metav1.CreateOptions{})
		return err
	})
}

// own measures writes, each of which is an event at one of so many watchers. list is where the revision is asked for from which on they watch.
func (w *wide) own(list string, path func(n int) string, write func(ctx context.Context, n int) error) func(context.Context) (figure, error) {
	return func(ctx context.Context) (figure, error) {
		revision, err := w.wire.revision(ctx, list)
		if err != nil {
			return figure{}, err
		}
		all, err := openOwn(ctx, w.config, func(n int) string { return path(n) + "&resourceVersion=" + revision }, protobufMedia, ownWatchers, ownEvents)
		if err != nil {
			return figure{}, err
		}
		defer all.close()
		if err := pause(ctx, settle); err != nil {
			return figure{}, err
		}
		const writes = ownWatchers * ownEvents
		before, start := w.cost(), time.Now()
		// The writes that one watcher is told of are as many apart as there are watchers, so they hardly overtake each other.
		err = w.each(ctx, writes, func(ctx context.Context, i int) error {
			all.sent[i].Store(time.Now().UnixNano())
			return write(ctx, i)
		})
		if err != nil {
			return figure{}, err
		}
		took, err := all.wait(ctx)
		if err != nil {
			return figure{}, err
		}
		f := latencies(took)
		f.per(writes, before, w.cost())
		f.Clients, f.PerSec = ownWatchers, writes/time.Since(start).Seconds()
		return f, nil
	}
}

// started measures beginnings of informers, n in all.
func (w *wide) started(n, rounds int, begin func(ctx context.Context, n int) error) func(context.Context) (figure, error) {
	return func(ctx context.Context) (figure, error) {
		const clients = breadthClients
		var next atomic.Int64
		share := n * rounds / clients
		return w.measure(clients, func(int) int { return share }, func(int, int) error { return begin(ctx, int(next.Add(1))) })
	}
}

// reconnects measures watches from a revision after which there were many writes, up to the last of their events.
func (w *wide) reconnects(path, selector string, events int, write func(ctx context.Context, n int) error) func(context.Context) (figure, error) {
	return func(ctx context.Context) (figure, error) {
		revision, err := w.wire.revision(ctx, path)
		if err != nil {
			return figure{}, err
		}
		if err := w.each(ctx, passed, write); err != nil {
			return figure{}, err
		}
		return w.started(100, 2, func(ctx context.Context, _ int) error {
			return w.wire.watchUntil(ctx, path+"?watch=true"+selector+"&resourceVersion="+revision, events)
		})(ctx)
	}
}

// listWatch is the beginning of an informer that lists, until its watch stands.
func (w *wire) listWatch(ctx context.Context, path, options string) error {
	meta, err := w.listMeta(ctx, path+"&"+options)
	if err != nil {
		return err
	}
	return w.watchUntil(ctx, path+"&watch=true&allowWatchBookmarks=true&resourceVersion="+meta.ResourceVersion, 0)
}

// watchList is the beginning of an informer that has the list streamed: so many events, with the bookmark that ends it.
func (w *wire) watchList(ctx context.Context, path string, events int) error {
	return w.watchUntil(ctx, path+"&watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", events)
}

// watchUntil watches in JSON until so many events have come.
func (w *wire) watchUntil(ctx context.Context, path string, events int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	response, err := w.with("Accept", jsonMedia).do(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewReaderSize(response.Body, 64<<10)
	for range events {
		for more := true; more; {
			if _, more, err = lines.ReadLine(); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return nil
}
