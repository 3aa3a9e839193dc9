package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// listed is how many pods the list scenario has.
const listed = 10_000

// list measures the full list of 10,000 pods in both encodings, and of one
// percent of them by a label.
func list(ctx context.Context, b *bench) error {
	if err := b.namespace(ctx, "bench-list"); err != nil {
		return err
	}
	pods := b.client.CoreV1().Pods("bench-list")
	const clients = 32
	_, err := b.measure(clients, func(int) int { return listed / clients }, func(worker, i int) error {
		pod := benchPod(fmt.Sprintf("l-%d-%d", worker, i))
		pod.Labels["share"] = fmt.Sprint((worker*listed/clients + i) % 100)
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	json := rest.CopyConfig(b.config)
	json.ContentType, json.AcceptContentTypes = "application/json", "application/json"
	jsonClient, err := kubernetes.NewForConfig(json)
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name    string
		client  kubernetes.Interface
		options metav1.ListOptions
		raw     bool
	}{
		{"list of 10,000 pods, protobuf, until read", b.client, metav1.ListOptions{}, true},
		{"list of 10,000 pods, JSON, until read", jsonClient, metav1.ListOptions{}, true},
		{"list of 10,000 pods, protobuf, until decoded", b.client, metav1.ListOptions{}, false},
		{"list of 1 % of 10,000 pods by label", b.client, metav1.ListOptions{LabelSelector: "share=7"}, false},
	} {
		var took []time.Duration
		b.cpu.take(ctx, way.name, 2*time.Second)
		before := b.cost()
		for range 10 {
			start := time.Now()
			if way.raw {
				_, err = way.client.CoreV1().RESTClient().Get().Namespace("bench-list").Resource("pods").Do(ctx).Raw()
			} else {
				_, err = way.client.CoreV1().Pods("bench-list").List(ctx, way.options)
			}
			if err != nil {
				return err
			}
			took = append(took, time.Since(start))
		}
		f := latencies(took)
		f.Scenario = way.name
		f.per(len(took), before, b.cost())
		b.report(f)
	}
	return b.remove(ctx, "bench-list")
}
