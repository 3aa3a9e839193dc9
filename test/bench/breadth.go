package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// breadthAreas are what clients ask for beside pods that are made, read, patched and deleted one by one. Each is a scenario, "breadth-NAME", and
// has a namespace of its own while its requests are measured.
var breadthAreas = []struct {
	name     string
	requests func(ctx context.Context, w *wide) ([]request, error)
}{
	{"nodes", nodeRequests}, {"access", accessRequests}, {"workloads", workloadRequests}, {"refusals", refusedRequests}, {"large", largeRequests},
	{"discovery", discoveryRequests}, {"webhooks", webhookRequests}, {"secrets", secretRequests}, {"lists", listRequests}, {"watches", watchRequests},
}

// breadthScenarios are the areas as scenarios.
func breadthScenarios() (list []scenario) {
	for _, area := range breadthAreas {
		list = append(list, scenario{"breadth-" + area.name, func(ctx context.Context, b *bench) error {
			return breadth(ctx, b, "bench-"+area.name, area.requests)
		}})
	}
	return list
}

// request is one kind of request, measured by itself.
type request struct {
	name    string
	clients int // 0: 16
	most    int // calls of each client; 0: as many as fit into the period
	// ready makes what the calls need; it is not measured, and may be nil.
	ready func(ctx context.Context) error
	call  func(ctx context.Context, worker, i int) error
	// done removes what would be in the way of what comes next; it is not measured, and may be nil. It is called of a kind that is left out,
	// too, where there may be nothing to remove.
	done func(ctx context.Context) error
	// figure measures a kind that is more than calls which do not depend on each other; clients, most and call are not used then.
	figure func(ctx context.Context) (figure, error)
}

// wide is what the requests of an area are made with.
type wide struct {
	*bench
	namespace string
	wire      *wire
}

// breadthClients make requests at a time where a kind does not say otherwise.
const breadthClients = 16

// breadthPeriod is how long a kind of request is measured.
const breadthPeriod = 1500 * time.Millisecond

// breadth measures the requests of an area one after the other.
func breadth(ctx context.Context, b *bench, namespace string, requests func(context.Context, *wide) ([]request, error)) error {
	if err := b.namespace(ctx, namespace); err != nil {
		return err
	}
	wire, err := newWire(b.config)
	if err != nil {
		return err
	}
	list, err := requests(ctx, &wide{b, namespace, wire})
	if err != nil {
		return err
	}
	for _, r := range list {
		if !b.kinds.MatchString(r.name) {
			if r.done != nil { // it also removes what the area has made before any of its kinds
				err = r.done(ctx)
			}
			if err != nil {
				return fmt.Errorf("after %s: %w", r.name, err)
			}
			continue
		}
		if err := b.single(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return b.remove(ctx, namespace)
}

// single measures and reports one kind of request.
func (b *bench) single(ctx context.Context, r request) error {
	if r.ready != nil {
		if err := r.ready(ctx); err != nil {
			return err
		}
	}
	b.cpu.take(ctx, r.name, breadthPeriod*2/3)
	f, err := b.figureOf(ctx, r)
	if err != nil {
		return err
	}
	f.Scenario = r.name
	b.report(f)
	if r.done != nil {
		return r.done(ctx)
	}
	return nil
}

func (b *bench) figureOf(ctx context.Context, r request) (figure, error) {
	if r.figure != nil {
		return r.figure(ctx)
	}
	clients, limit := r.clients, r.most
	if clients == 0 {
		clients = breadthClients
	}
	if limit == 0 {
		limit = unlimited
	}
	return b.measureFor(breadthPeriod, clients, func(int) int { return limit }, func(worker, i int) error { return r.call(ctx, worker, i) })
}

// wire makes requests whose answers nobody decodes: what they cost beside the client's part is the server's.
type wire struct {
	client *http.Client
	host   string
	header http.Header // of every request
}

func newWire(config *rest.Config) (*wire, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &wire{client, config.Host, http.Header{"Accept": {protobufMedia}}}, nil
}

// with returns a wire whose requests have another header, given as names and values by turns.
func (w *wire) with(pairs ...string) *wire {
	changed := *w
	changed.header = w.header.Clone()
	for i := 0; i < len(pairs); i += 2 {
		changed.header.Set(pairs[i], pairs[i+1])
	}
	return &changed
}

// get reads what a path leads to, and returns its length in bytes and the header.
func (w *wire) get(ctx context.Context, path string) (int64, http.Header, error) {
	response, err := w.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	return n, response.Header, err
}

// send makes a request with a body, and reads the answer.
func (w *wire) send(ctx context.Context, method, path string, body []byte) error {
	response, err := w.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// do returns an answer whose body the caller closes. One that is not a success, nor says that nothing has changed, is an error.
func (w *wire) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, w.host+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = w.header.Clone()
	response, err := w.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode != http.StatusNotModified {
		defer response.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // for the message
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, said)
	}
	return response, nil
}

// got is a call that gets one path over and over.
func (w *wire) got(path string) func(context.Context, int, int) error {
	return func(ctx context.Context, _, _ int) error {
		_, _, err := w.get(ctx, path)
		return err
	}
}

// each makes n things from several clients at a time.
func (b *bench) each(ctx context.Context, n int, make func(ctx context.Context, i int) error) error {
	_, err := b.measure(breadthClients, func(worker int) int { return (n - worker + breadthClients - 1) / breadthClients }, func(worker, i int) error {
		return make(ctx, i*breadthClients+worker)
	})
	return err
}

// ofName is metadata with a name alone.
func ofName(format string, args ...any) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: fmt.Sprintf(format, args...)}
}
