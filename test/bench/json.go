package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets     = schema.GroupVersionResource{Group: "bench.howdah.dev", Version: "v1", Resource: "widgets"}
)

// jsonKind is a kind that is measured in JSON, which is what operators and kubectl speak.
type jsonKind struct {
	name     string
	resource schema.GroupVersionResource
	object   string // with a place for the name
}

// jsonKinds are a built-in kind and a custom one, of 1.5 kB and 2 kB.
var jsonKinds = []jsonKind{
	{"config map", schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, configMapOfBench()},
	{"custom resource", widgets, widgetOfBench()},
}

func configMapOfBench() string {
	data := map[string]string{}
	for i := range 12 {
		data[fmt.Sprintf("setting-%02d", i)] = fmt.Sprintf("%0100d", i)
	}
	text, _ := json.Marshal(data) // strings can be encoded
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","labels":{"app":"bench"}},"data":` + string(text) + `}`
}

func widgetOfBench() string {
	parts := make([]map[string]any, 0, 12)
	for i := range 12 {
		parts = append(parts, map[string]any{"name": fmt.Sprintf("part-%02d", i), "size": i, "notes": fmt.Sprintf("%0100d", i)})
	}
	text, _ := json.Marshal(parts) // so can these
	return `{"apiVersion":"bench.howdah.dev/v1","kind":"Widget","metadata":{"name":"%s","labels":{"app":"bench"}},` +
		`"spec":{"replicas":3,"mode":"fast","parts":` + string(text) + `}}`
}

// widgetDefinition has what operators' definitions have: defaults, bounds, a list by key, a rule and a status.
const widgetDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.bench.howdah.dev"},"spec":{
	"group":"bench.howdah.dev","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
	"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","required":["mode"],"x-kubernetes-validations":[{"rule":"self.replicas <= 10 || self.mode == 'slow'"}],"properties":{
			"replicas":{"type":"integer","minimum":0,"default":1},"mode":{"type":"string","enum":["fast","slow"]},"paused":{"type":"boolean","default":false},
			"parts":{"type":"array","maxItems":100,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{
				"name":{"type":"string","maxLength":63},"size":{"type":"integer"},"notes":{"type":"string"}}}}}},
		"status":{"type":"object","properties":{"phase":{"type":"string"},"observed":{"type":"integer"}}}}}}}]}}`

// inJSON measures the requests that operators and kubectl make of config maps and custom resources.
func inJSON(ctx context.Context, b *bench) error {
	config := rest.CopyConfig(b.config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	definition, err := objectOf(widgetDefinition)
	if err != nil {
		return err
	}
	if _, err := client.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer func() { _ = client.Resource(definitions).Delete(ctx, definition.GetName(), metav1.DeleteOptions{}) }()
	served := func() (bool, error) {
		_, err := client.Resource(widgets).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
	if err := until(ctx, served); err != nil {
		return err
	}
	if err := b.namespace(ctx, "bench-json"); err != nil {
		return err
	}
	for _, kind := range jsonKinds {
		for _, clients := range b.clients {
			if err := b.requestsOf(ctx, kind, client.Resource(kind.resource).Namespace("bench-json"), clients); err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
		}
	}
	return b.remove(ctx, "bench-json")
}

func objectOf(text string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON([]byte(text))
}

// requestsOf measures each kind of request from so many clients.
func (b *bench) requestsOf(ctx context.Context, kind jsonKind, objects dynamic.ResourceInterface, clients int) error {
	name := func(worker, i int) string { return fmt.Sprintf("o-%d-%d-%d", clients, worker, i) }
	made := make([][]*unstructured.Unstructured, clients)
	created := func(worker int) int { return len(made[worker]) }
	for _, step := range []struct {
		name  string
		limit func(worker int) int
		call  func(worker, i int) error
	}{
		{"create", func(int) int { return 1 << 30 }, func(w, i int) error {
			obj, err := objectOf(fmt.Sprintf(kind.object, name(w, i)))
			if err != nil {
				return err
			}
			obj, err = objects.Create(ctx, obj, metav1.CreateOptions{})
			made[w] = append(made[w], obj)
			return err
		}},
		{"get", created, func(w, i int) error {
			_, err := objects.Get(ctx, name(w, i), metav1.GetOptions{})
			return err
		}},
		{"update", created, func(w, i int) error {
			made[w][i].SetAnnotations(map[string]string{"updated": "by the benchmark"})
			_, err := objects.Update(ctx, made[w][i], metav1.UpdateOptions{})
			return err
		}},
		{"apply", created, func(w, i int) error {
			_, err := objects.Patch(ctx, name(w, i), types.ApplyPatchType, fmt.Appendf(nil, kind.object, name(w, i)),
				metav1.PatchOptions{FieldManager: "applier", Force: new(true)})
			return err
		}},
		{"delete", created, func(w, i int) error {
			return objects.Delete(ctx, name(w, i), metav1.DeleteOptions{})
		}},
	} {
		if step.name == "delete" {
			if err := b.lists(ctx, kind.name, objects, clients); err != nil {
				return err
			}
		}
		b.cpu.take(ctx, fmt.Sprintf("%s %s %d", kind.name, step.name, clients), b.period*2/3)
		f, err := b.measure(clients, step.limit, step.call)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		f.Scenario = kind.name + " " + step.name
		b.report(f)
	}
	return nil
}

// lists measures whole lists of what is there, by one client.
func (b *bench) lists(ctx context.Context, kind string, objects dynamic.ResourceInterface, clients int) error {
	const times = 5
	var took []time.Duration
	n := 0
	before := b.cost()
	for range times {
		began := time.Now()
		list, err := objects.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		n = len(list.Items)
		took = append(took, time.Since(began))
	}
	f := latencies(took)
	f.per(times, before, b.cost())
	f.Scenario, f.Clients, f.Note = kind+" list", clients, fmt.Sprintf("%d objects", n)
	b.report(f)
	return nil
}
