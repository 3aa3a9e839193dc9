package transaction

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Result is the document that answers a transaction.
type Result struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	DryRun     bool   `json:"dryRun,omitempty"`
	// FirstRevision and LastRevision are those of the changes; empty where nothing was changed.
	FirstRevision string       `json:"firstRevision,omitempty"`
	LastRevision  string       `json:"lastRevision,omitempty"`
	TraceID       string       `json:"traceID,omitempty"`
	Items         []ResultItem `json:"items"`
}

// ResultItem is the outcome of one item.
type ResultItem struct {
	Index     int    `json:"index"`
	Operation string `json:"operation"`
	// Result is created, configured, unchanged or deleted.
	Result     string `json:"result"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	// Revision of the change: the resourceVersion of the object, or that of its deletion.
	Revision string   `json:"revision,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Object as stored; of a deletion that is done, a Status.
	Object json.RawMessage `json:"object"`
}

func newResult(writes []write, results []*apiv1.BatchResult, dryRun bool) (*Result, error) {
	r := &Result{Kind: "TransactionResult", APIVersion: apiVersion, DryRun: dryRun}
	first, last := int64(0), int64(0)
	for n, one := range results {
		item, err := newItem(writes[n], one)
		if err != nil {
			return nil, err
		}
		item.Index = n
		r.Items = append(r.Items, item)
		if begin := one.GetFirstRevision(); begin > 0 && (first == 0 || begin < first) {
			first = begin
		}
		last = max(last, one.GetRevision())
	}
	if last > 0 {
		r.FirstRevision, r.LastRevision = strconv.FormatInt(first, 10), strconv.FormatInt(last, 10)
	}
	return r, nil
}

func newItem(w write, result *apiv1.BatchResult) (ResultItem, error) {
	item := ResultItem{
		Operation: w.operation, APIVersion: w.resource.GVK.GroupVersion().String(), Kind: w.resource.GVK.Kind, Resource: w.resource.GroupResource().String(),
		Namespace: w.namespace, Name: w.name, Warnings: result.GetWarnings(), Object: result.GetObject(),
	}
	var object struct {
		metav1.PartialObjectMetadata
		Details *metav1.StatusDetails `json:"details"`
	}
	if err := json.Unmarshal(result.GetObject(), &object); err != nil {
		return item, fmt.Errorf("read the answer of %s: %w", w, err)
	}
	item.UID = string(object.UID)
	switch {
	case object.Details != nil && object.Kind == "Status":
		item.UID = string(object.Details.UID)
	case object.Name != "":
		item.Name = object.Name // which may have been generated
	}
	switch {
	case w.operation == "delete":
		item.Result = "deleted"
	case result.GetCode() == http.StatusCreated:
		item.Result = "created"
	case result.GetChanged():
		item.Result = "configured"
	default:
		item.Result = "unchanged"
	}
	if result.GetRevision() > 0 {
		item.Revision = strconv.FormatInt(result.GetRevision(), 10)
	}
	return item, nil
}

func (r *Result) encode(pretty bool) (*apiv1.TransactResponse, error) {
	var body []byte
	var err error
	if pretty {
		body, err = json.MarshalIndent(r, "", "  ")
	} else {
		body, err = json.Marshal(r)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	return &apiv1.TransactResponse{Object: append(body, '\n'), ContentType: jsonMedia}, nil
}
