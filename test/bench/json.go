package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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
	part     string // of the object, what a second manager applies
	old, new string // what an apply changes in object
	merge    string // a JSON merge patch
	status   string // a phase to write to the subresource; "": the kind has none
}

// jsonKinds are a built-in kind and a custom one, of 1.5 kB and 2 kB.
var jsonKinds = []jsonKind{
	{
		name: "config map", resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, object: configMapOfBench(),
		part: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"of-another":"manager"}}`,
		old:  `"setting-00":"0`, new: `"setting-00":"1`, merge: `{"data":{"setting-01":"patched"}}`,
	},
	{
		name: "custom resource", resource: widgets, object: widgetOfBench(),
		part: `{"apiVersion":"bench.howdah.dev/v1","kind":"Widget","metadata":{"name":"%s"},"spec":{"mode":"fast","paused":true}}`,
		old:  `"replicas":3`, new: `"replicas":4`, merge: `{"spec":{"replicas":5}}`, status: "Ready",
	},
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
	if err := b.fanOut(ctx, client.Resource(widgets).Namespace("bench-json")); err != nil {
		return err
	}
	return b.remove(ctx, "bench-json")
}

// statusPatch is what an operator reports of an object.
func statusPatch(n int) []byte {
	return fmt.Appendf(nil, `{"status":{"phase":"Working","observed":%d}}`, n)
}

// fanOut measures the events of status patches of a custom resource, to watchers that decode nothing.
func (b *bench) fanOut(ctx context.Context, objects dynamic.ResourceInterface) error {
	for _, load := range []struct{ watchers, writes int }{{1, 400}, {100, 400}, {1000, 100}} {
		name := fmt.Sprintf("watched-%d", load.watchers)
		obj, err := objectOf(fmt.Sprintf(widgetOfBench(), name))
		if err != nil {
			return err
		}
		obj.SetLabels(map[string]string{"run": name})
		if obj, err = objects.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			return err
		}
		path := "/apis/bench.howdah.dev/v1/namespaces/bench-json/widgets?watch=true&labelSelector=run%3D" + name + "&resourceVersion=" + obj.GetResourceVersion()
		f, err := b.watched(ctx, b.config, path, jsonMedia, load.watchers, 1, load.writes, func() {}, func(_, i int, _ int64) error {
			_, err := objects.Patch(ctx, name, types.MergePatchType, statusPatch(i), metav1.PatchOptions{}, "status")
			return err
		})
		if err != nil {
			return err
		}
		f.Scenario = "status patch of a custom resource to watcher that decodes nothing"
		b.report(f)
	}
	return nil
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
		{"create", func(int) int { return unlimited }, func(w, i int) error {
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
		{"merge patch", created, func(w, i int) error {
			var err error
			made[w][i], err = objects.Patch(ctx, name(w, i), types.MergePatchType, []byte(kind.merge), metav1.PatchOptions{})
			return err
		}},
		{"status update", created, func(w, i int) error {
			made[w][i].Object["status"] = map[string]any{"phase": kind.status, "observed": int64(i)}
			_, err := objects.UpdateStatus(ctx, made[w][i], metav1.UpdateOptions{})
			return err
		}},
		{"status patch", created, func(w, i int) error {
			var err error
			made[w][i], err = objects.Patch(ctx, name(w, i), types.MergePatchType, statusPatch(i), metav1.PatchOptions{}, "status")
			return err
		}},
		{"apply", created, func(w, i int) error {
			return apply(ctx, objects, name(w, i), "applier", fmt.Sprintf(kind.object, name(w, i)))
		}},
		{"apply of the same", created, func(w, i int) error {
			return apply(ctx, objects, name(w, i), "applier", fmt.Sprintf(kind.object, name(w, i)))
		}},
		{"apply of a change", created, func(w, i int) error {
			return apply(ctx, objects, name(w, i), "applier", strings.Replace(fmt.Sprintf(kind.object, name(w, i)), kind.old, kind.new, 1))
		}},
		{"apply of another manager", created, func(w, i int) error {
			return apply(ctx, objects, name(w, i), "other", fmt.Sprintf(kind.part, name(w, i)))
		}},
		{"apply beside another manager", created, func(w, i int) error {
			return apply(ctx, objects, name(w, i), "applier", fmt.Sprintf(kind.object, name(w, i)))
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
		if strings.HasPrefix(step.name, "status") && kind.status == "" {
			continue
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

func apply(ctx context.Context, objects dynamic.ResourceInterface, name, manager, text string) error {
	_, err := objects.Patch(ctx, name, types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: manager, Force: new(true)})
	return err
}

// lists measures lists of as many objects as any system has made by then, by one client.
func (b *bench) lists(ctx context.Context, kind string, objects dynamic.ResourceInterface, clients int) error {
	const times, most = 10, 1000
	var took []time.Duration
	n := 0
	before := b.cost()
	for range times {
		began := time.Now()
		list, err := objects.List(ctx, metav1.ListOptions{Limit: most})
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
