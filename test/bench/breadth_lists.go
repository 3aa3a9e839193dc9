package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What there is while lists are measured: pods, evenly on nodes, some secrets, and events of the pods.
const (
	breadthPods    = 5000
	breadthNodes   = 500
	breadthSecrets = 1000
	breadthEvents  = 3000
)

// How kubectl asks for tables, and controllers for metadata alone.
const (
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	asMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

func onNode(i int) string { return fmt.Sprintf("bench-node-%03d", i%breadthNodes) }

// listRequests are lists of all sorts but the full one.
func listRequests(ctx context.Context, w *wide) ([]request, error) {
	if err := w.populate(ctx); err != nil {
		return nil, err
	}
	within := "/api/v1/namespaces/" + w.namespace
	revision, err := w.wire.revision(ctx, within+"/pods")
	if err != nil {
		return nil, err
	}
	inJSON, tables, metadata := w.wire.with("Accept", jsonMedia), w.wire.with("Accept", asTable), w.wire.with("Accept", asMetadata)
	node := func(path string) func(context.Context, int, int) error {
		return func(ctx context.Context, worker, i int) error {
			return w.wire.got(path+"?fieldSelector=spec.nodeName%3D"+onNode(i*breadthClients+worker))(ctx, worker, i)
		}
	}
	return []request{
		{name: "list of 5,000 pods, revision 0", clients: 2, call: w.wire.got(within + "/pods?resourceVersion=0")},
		{name: "list of 5,000 pods, metadata", clients: 2, call: metadata.got(within + "/pods")},
		{name: "list of 5,000 pods, metadata, JSON", clients: 2, call: inJSON.with("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").got(within + "/pods")},
		{name: "list of 5,000 pods, all namespaces", clients: 2, call: w.wire.got("/api/v1/pods")},
		{name: "list of 5,000 pods as a table", clients: 2, call: tables.got(within + "/pods")},
		{name: "list of 5,000 pods as tables of 500", clients: 1, call: tables.pages(within+"/pods", 500)},
		{name: "list of 5,000 pods in pages of 500", clients: 2, call: w.wire.pages(within+"/pods", 500)},
		{name: "list of 5,000 pods in pages of 500, JSON", clients: 2, call: inJSON.pages(within+"/pods", 500)},
		{name: "list of 500 pods, an exact revision", clients: 4, call: w.wire.got(within + "/pods?limit=500&resourceVersionMatch=Exact&resourceVersion=" + revision)},
		{name: "list of a node's 10 pods", call: node("/api/v1/pods")},
		{name: "list of a node's 10 pods, revision 0", call: func(ctx context.Context, worker, i int) error {
			return w.wire.got("/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3D"+onNode(i*breadthClients+worker))(ctx, worker, i)
		}},
		{name: "list of pods that are pending", clients: 2, call: w.wire.got(within + "/pods?fieldSelector=status.phase%21%3DPending")},
		{name: "list of 1 pod, limit 1", call: w.wire.got(within + "/pods?limit=1")},
		{name: "pod get as a table", call: tables.got(within + "/pods/listed-7")},
		{name: "pod get, metadata", call: w.wire.with("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").got(within + "/pods/listed-7")},
		{name: "list of 1,000 secrets", clients: 4, call: w.wire.got(within + "/secrets")},
		{name: "list of 1,000 secrets by name", call: w.wire.got(within + "/secrets?fieldSelector=metadata.name%3Dsecret-77")},
		{name: "list of 1,000 secrets by label, JSON", clients: 4, call: inJSON.got(within + "/secrets?labelSelector=app+in+%28bench%2Cother%29")},
		{name: "list of a pod's 3 of 3,000 events", clients: 4, call: func(ctx context.Context, worker, i int) error {
			selector := url.QueryEscape(fmt.Sprintf("involvedObject.name=pod-%d,involvedObject.namespace=%s,involvedObject.kind=Pod", i%1000, w.namespace))
			return inJSON.got(within+"/events?fieldSelector="+selector)(ctx, worker, i)
		}},
		{name: "list of 3,000 events as a table", clients: 1, call: tables.got(within + "/events")},
		{name: "list of 500 nodes, JSON", clients: 2, call: inJSON.got("/api/v1/nodes?labelSelector=" + ofBench)},
		{name: "list of namespaces", call: inJSON.got("/api/v1/namespaces")},
		{name: "delete collection of 500 nodes, each", ready: w.forgetPods, figure: w.once(breadthNodes, w.forgetNodes), done: func(ctx context.Context) error {
			if err := w.forgetPods(ctx); err != nil {
				return err
			}
			return w.forgetNodes(ctx)
		}},
	}, nil
}

// populate makes what is listed. The nodes have to be there, or else their pods would be taken for orphans.
func (w *wide) populate(ctx context.Context) error {
	core := w.client.CoreV1()
	if err := w.nodes(ctx); err != nil {
		return err
	}
	err := w.each(ctx, breadthPods, func(ctx context.Context, i int) error {
		pod := benchPod(fmt.Sprint("listed-", i))
		pod.Spec.NodeName = onNode(i)
		_, err := core.Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	err = w.each(ctx, breadthSecrets, func(ctx context.Context, i int) error {
		_, err := core.Secrets(w.namespace).Create(ctx, benchSecret(fmt.Sprint("secret-", i)), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return w.each(ctx, breadthEvents, func(ctx context.Context, i int) error {
		_, err := core.Events(w.namespace).Create(ctx, benchEvent(w.namespace, fmt.Sprint("event-", i), i%1000), metav1.CreateOptions{})
		return err
	})
}

// nodes makes the nodes that pods are on, where they are not there.
func (w *wide) nodes(ctx context.Context) error {
	nodes := w.client.CoreV1().Nodes()
	have, err := nodes.List(ctx, metav1.ListOptions{LabelSelector: ofBench})
	if err != nil || len(have.Items) > 0 {
		return err
	}
	return w.each(ctx, breadthNodes, func(ctx context.Context, i int) error {
		_, err := nodes.Create(ctx, benchNode(onNode(i)), metav1.CreateOptions{})
		return err
	})
}

// forgetPods removes the pods of the namespace at once: no kubelet would do it.
func (w *wide) forgetPods(ctx context.Context) error {
	pods := w.client.CoreV1().Pods(w.namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return w.each(ctx, len(list.Items), func(ctx context.Context, i int) error { // Kubernetes ends a request that takes longer than a minute
		return pods.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
}

// forgetNodes removes the nodes.
func (w *wide) forgetNodes(ctx context.Context) error {
	return w.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ofBench})
}

// listMeta asks for a list in JSON, and returns what it says of itself.
func (w *wire) listMeta(ctx context.Context, path string) (metav1.ListMeta, error) {
	response, err := w.with("Accept", jsonMedia).do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer response.Body.Close()
	var list struct {
		metav1.ListMeta `json:"metadata"`
	}
	err = json.NewDecoder(response.Body).Decode(&list)
	return list.ListMeta, err
}

// revision returns the newest of a list.
func (w *wire) revision(ctx context.Context, path string) (string, error) {
	meta, err := w.listMeta(ctx, path+"?limit=1")
	return meta.ResourceVersion, err
}

// pages is a call that gets a whole list in pages.
func (w *wire) pages(path string, limit int) func(context.Context, int, int) error {
	return func(ctx context.Context, _, _ int) error {
		for next := ""; ; {
			response, err := w.do(ctx, http.MethodGet, fmt.Sprintf("%s?limit=%d&continue=%s", path, limit, url.QueryEscape(next)), nil)
			if err != nil {
				return err
			}
			page, err := io.ReadAll(response.Body)
			_ = response.Body.Close() // it has been read
			if err != nil {
				return err
			}
			if next, err = continueOf(page, w.header.Get("Accept") == protobufMedia); next == "" || err != nil {
				return err
			}
		}
	}
}

// inText is where a list in JSON has the token of its next page, which is before its items.
var inText = regexp.MustCompile(`^[^\[]*?"continue":"([^"]+)"`)

// continueOf reads the token of the next page; "" is the last.
func continueOf(page []byte, protobuf bool) (string, error) {
	if !protobuf {
		if found := inText.FindSubmatch(page); found != nil {
			return string(found[1]), nil
		}
		return "", nil
	}
	// An envelope, whose second field is the list, whose first is its metadata, whose third is the token.
	const magic = 4
	body, err := field(page[magic:], 2)
	if err != nil {
		return "", err
	}
	meta, err := field(body, 1)
	if err != nil {
		return "", err
	}
	token, err := field(meta, 3)
	return string(token), err
}

// field returns the first field of a message that has the number; nil if none has.
func field(message []byte, number protowire.Number) ([]byte, error) {
	for len(message) > 0 {
		found, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		if found == number && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			return value, protowire.ParseError(min(n, 0))
		}
		if n = protowire.ConsumeFieldValue(found, kind, message); n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
	}
	return nil, nil
}
