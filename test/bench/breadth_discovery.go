package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// aggregated is how clients ask for discovery in one piece.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// discoveryRequests are what clients ask for before they ask for anything else, and the probes of load balancers.
func discoveryRequests(_ context.Context, w *wide) ([]request, error) {
	inJSON := w.wire.with("Accept", jsonMedia)
	inProtobuf := w.wire.with("Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
	list := []request{
		{name: "/readyz", call: w.wire.got("/readyz")},
		{name: "/version", call: inJSON.got("/version")},
		{name: "/apis aggregated", call: inJSON.with("Accept", aggregated).got("/apis")},
		{name: "/apis/apps/v1", call: inJSON.got("/apis/apps/v1")},
		{name: "/openapi/v2", clients: 4, ready: func(ctx context.Context) error { return inProtobuf.got("/openapi/v2")(ctx, 0, 0) }, call: inProtobuf.got("/openapi/v2")},
		{name: "/openapi/v3", call: inJSON.got("/openapi/v3")},
		{name: "/openapi/v3/apis/apps/v1", clients: 4, call: inJSON.got("/openapi/v3/apis/apps/v1")},
	}
	for _, again := range []struct{ name, accept, path string }{
		{"/apis aggregated, unchanged", aggregated, "/apis"}, {"/openapi/v2, unchanged", jsonMedia, "/openapi/v2"}, {"/openapi/v3/apis/apps/v1, unchanged", jsonMedia, "/openapi/v3/apis/apps/v1"},
	} {
		known := inJSON.with("Accept", again.accept)
		list = append(list, request{name: again.name, ready: func(ctx context.Context) error {
			_, header, err := known.get(ctx, again.path)
			known = known.with("If-None-Match", header.Get("Etag"))
			return err
		}, call: func(ctx context.Context, _, _ int) error {
			response, err := known.do(ctx, http.MethodGet, again.path, nil)
			if err != nil {
				return err
			}
			if response.StatusCode != http.StatusNotModified {
				err = fmt.Errorf("%s is said to have changed: %s", again.path, response.Status)
			}
			_ = response.Body.Close() // it has none
			return err
		}})
	}
	return append(list, request{name: "definition of a kind until it is served", figure: w.definitions, done: func(ctx context.Context) error {
		client, err := dynamic.NewForConfig(w.config)
		if err != nil {
			return err
		}
		return client.Resource(definitions).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ofBench})
	}}), nil
}

// definitions measures the time from the creation of a definition to the first list of what it defines, one after the other.
func (w *wide) definitions(ctx context.Context) (figure, error) {
	client, err := dynamic.NewForConfig(w.config)
	if err != nil {
		return figure{}, err
	}
	const count = 12
	var took []time.Duration
	before := w.cost()
	for i := range count {
		plural := fmt.Sprint("widgets", i)
		definition, err := objectOf(strings.NewReplacer(`"widgets`, `"`+plural, `"widget"`, fmt.Sprintf(`"widget%d"`, i), `"Widget`, fmt.Sprintf(`"Widget%d`, i)).Replace(widgetDefinition))
		if err != nil {
			return figure{}, err
		}
		definition.SetLabels(map[string]string{ofBench: ""})
		start := time.Now()
		if _, err := client.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{}); err != nil {
			return figure{}, err
		}
		err = until(ctx, func() (bool, error) {
			_, err := client.Resource(schema.GroupVersionResource{Group: widgets.Group, Version: widgets.Version, Resource: plural}).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			return figure{}, err
		}
		took = append(took, time.Since(start))
	}
	f := latencies(took)
	f.Clients = 1
	f.per(count, before, w.cost())
	return f, nil
}
