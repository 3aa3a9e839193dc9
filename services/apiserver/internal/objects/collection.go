package objects

import (
	"bytes"
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/codec"
)

// collectionWorkers is how many objects of a collection are deleted at once: enough to fill a commit of the store.
const collectionWorkers = 64

// DeleteCollection implements apiv1.ObjectServiceServer.
func (s *Server) DeleteCollection(ctx context.Context, req *apiv1.DeleteCollectionRequest) (resp *apiv1.DeleteCollectionResponse, err error) {
	ctx, r, err := s.begin(ctx, "deletecollection", req, "", "", req.GetFieldSelector())
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	if r.res.Kind.OneByOne {
		return nil, notAllowed()
	}
	form, err := r.formOfStatus(req.GetAccept(), req.GetPretty())
	if err != nil {
		return nil, err
	}
	selected := listOptions{
		namespace: req.GetNamespace(), label: req.GetLabelSelector(), field: req.GetFieldSelector(),
		resourceVersion: req.GetResourceVersion(), match: req.GetResourceVersionMatch(), limit: req.GetLimit(), token: req.GetContinue(),
	}
	if err := selected.check(r.res); err != nil { // before the body is read
		return nil, err
	}
	if selected.match == "" && selected.token == "" && selected.resourceVersion != "" && selected.resourceVersion != "0" {
		selected.match = string(metav1.ResourceVersionMatchExact) // Kubernetes reads in pages, which are of one version
	}
	if err := r.whole(req.GetOptions()); err != nil {
		return nil, err
	}
	o, err := deleteOptions(r.offer, req.GetOptions(), req.GetContentType(), req.GetDryRun(), req.GetGracePeriodSeconds(),
		req.GetPropagationPolicy(), req.GetOrphanDependents())
	if err != nil {
		return nil, err
	}
	s.Metrics.received(r, len(req.GetOptions()))
	receivedOptions(ctx, req.GetOptions(), o)
	r.warnOfOrphans(o)
	page, err := s.list(ctx, r.res, selected)
	if err != nil {
		return nil, err
	}
	if r.spaceless && len(page.items) > 0 { // one of all namespaces is deleted in none
		return nil, locate(r.res.Kind, "", "")
	}
	quick := codec.Form{Media: codec.Protobuf} // of answers that nobody reads
	if r.res.Kind.Custom != nil {
		quick.Media = codec.JSON
	}
	var mu sync.Mutex
	each(len(page.items), collectionWorkers, func(i int) {
		item := page.items[i]
		one := *r
		one.namespace, one.name, one.warnings, one.annotations = item.Namespace, item.Name, nil, nil
		options := *o
		d := &deletion{s: s, r: &one, form: quick, options: &options, dryRun: len(o.DryRun) > 0, collective: true}
		_, e := s.execute(ctx, d, d.dryRun)
		mu.Lock()
		defer mu.Unlock()
		r.noted(&one)
		if e != nil && !errors.IsNotFound(e) && err == nil {
			err = e
		}
	})
	if err != nil {
		return nil, err
	}
	if err := r.offer.Fits(form, r.res, true); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	err = codec.List(r.res, page.items, page.meta, form.ForList(), func(piece []byte) error { _, err := body.Write(piece); return err })
	if err != nil {
		return nil, err
	}
	r.header(ctx)
	return &apiv1.DeleteCollectionResponse{Object: body.Bytes(), ContentType: form.ContentType(), Code: 200}, nil
}

// each calls f for 0 to n-1 on at most workers goroutines and waits for all.
func each(n, workers int, f func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, workers) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
