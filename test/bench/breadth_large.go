package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// largeRequests are about objects that hold much, and about many at once.
func largeRequests(_ context.Context, w *wide) ([]request, error) {
	var (
		maps    = w.client.CoreV1().ConfigMaps(w.namespace)
		secrets = w.client.CoreV1().Secrets(w.namespace)
		pods    = w.client.CoreV1().Pods(w.namespace)
		large   = largeText()
		path    = "/api/v1/namespaces/" + w.namespace
		inJSON  = w.wire.with("Accept", jsonMedia)
	)
	const collected = 2000
	return []request{
		{name: "secret create", call: func(ctx context.Context, worker, i int) error {
			_, err := secrets.Create(ctx, benchSecret(fmt.Sprintf("secret-%d-%d", worker, i)), metav1.CreateOptions{})
			return err
		}},
		{name: "secret get", call: func(ctx context.Context, worker, _ int) error {
			_, err := secrets.Get(ctx, fmt.Sprintf("secret-%d-0", worker), metav1.GetOptions{})
			return err
		}},
		{name: "config map of 900 kB create", clients: 4, call: func(ctx context.Context, worker, i int) error {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: ofName("large-%d-%d", worker, i), Data: map[string]string{"text": large}}, metav1.CreateOptions{})
			return err
		}},
		{name: "config map of 900 kB get", clients: 4, call: func(ctx context.Context, worker, _ int) error {
			return w.wire.got(fmt.Sprintf("%s/configmaps/large-%d-0", path, worker))(ctx, worker, 0)
		}},
		{name: "config map of 900 kB get, JSON", clients: 4, call: func(ctx context.Context, worker, _ int) error {
			return inJSON.got(fmt.Sprintf("%s/configmaps/large-%d-0", path, worker))(ctx, worker, 0)
		}},
		{name: "config map of 900 kB merge patch", clients: 4, call: func(ctx context.Context, worker, i int) error {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, i)
			return w.wire.with("Content-Type", string(types.MergePatchType)).send(ctx, "PATCH", fmt.Sprintf("%s/configmaps/large-%d-0", path, worker), patch)
		}},
		{name: "config map of 900 kB delete", clients: 4, most: 1, call: func(ctx context.Context, worker, _ int) error {
			return maps.Delete(ctx, fmt.Sprintf("large-%d-0", worker), metav1.DeleteOptions{})
		}, done: func(ctx context.Context) error {
			return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}},
		{name: "delete collection of 2,000 config maps, each", ready: func(ctx context.Context) error {
			return w.each(ctx, collected, func(ctx context.Context, i int) error {
				_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: ofName("collected-%d", i), Data: map[string]string{"a": "b"}}, metav1.CreateOptions{})
				return err
			})
		}, figure: w.once(collected, func(ctx context.Context) error {
			return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		})},
		{name: "delete collection of 2,000 pods, each", ready: func(ctx context.Context) error {
			return w.each(ctx, collected, func(ctx context.Context, i int) error {
				_, err := pods.Create(ctx, benchPod(fmt.Sprint("collected-", i)), metav1.CreateOptions{})
				return err
			})
		}, figure: w.once(collected, func(ctx context.Context) error {
			return pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{})
		})},
	}, nil
}

// once measures one call that does n things.
func (b *bench) once(n int, call func(ctx context.Context) error) func(context.Context) (figure, error) {
	return func(ctx context.Context) (figure, error) {
		before, start := b.cost(), time.Now()
		if err := call(ctx); err != nil {
			return figure{}, err
		}
		took := time.Since(start)
		f := figure{Clients: 1, Count: n, Seconds: took.Seconds(), PerSec: float64(n) / took.Seconds()}
		f.per(n, before, b.cost())
		return f, nil
	}
}

// largeText is 900 kB of lines that are alike, as those of dashboards and rules are.
func largeText() string {
	var text strings.Builder
	for i := 0; text.Len() < 900_000; i++ {
		fmt.Fprintf(&text, "{\"id\": %d, \"expr\": \"sum(rate(http_requests_total{job=\\\"application-%d\\\"}[5m])) by (code)\"},\n", i*7919, i%31)
	}
	return text.String()
}

func benchSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}}, Data: map[string][]byte{
		"tls.crt": []byte(strings.Repeat("certificate ", 80)), "tls.key": []byte(strings.Repeat("key ", 100))}}
}
