package transaction

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// item is one write of a transaction, as the client sent it.
type item struct {
	// Operation is create, update, apply, patch or delete; empty is the transaction's own.
	Operation string `json:"operation,omitempty"`
	// Object is the manifest. A delete or patch reads only which object it names.
	Object json.RawMessage `json:"object"`
	// Patch is what a patch does, and PatchType how: merge (the default), strategic or json.
	Patch     json.RawMessage `json:"patch,omitempty"`
	PatchType string          `json:"patchType,omitempty"`
	// Subresource, as in "status", for update, apply and patch.
	Subresource string `json:"subresource,omitempty"`
	// FieldManager, FieldValidation and Force are as the query's.
	FieldManager    string `json:"fieldManager,omitempty"`
	FieldValidation string `json:"fieldValidation,omitempty"`
	Force           *bool  `json:"force,omitempty"`
	// Options are the DeleteOptions of a delete.
	Options json.RawMessage `json:"options,omitempty"`
}

// head is what tells the forms of a document apart.
type head struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// apiVersion of the documents of transactions.
const apiVersion = "howdah.dev/v1"

// parse reads the body of a transaction: manifests in YAML documents, in a JSON object, an array or a List, or items with their operations.
func parse(body []byte, contentType string) ([]item, error) {
	media := "application/json"
	if contentType != "" {
		var err error
		if media, _, err = mime.ParseMediaType(contentType); err != nil {
			return nil, unsupported(contentType)
		}
	}
	var items []item
	switch media {
	case "application/json":
		documents := json.NewDecoder(bytes.NewReader(body))
		for {
			var document json.RawMessage
			err := documents.Decode(&document)
			if errors.Is(err, io.EOF) {
				return items, nil
			}
			if err != nil {
				return nil, apierrors.NewBadRequest("the body is not JSON: " + err.Error())
			}
			if items, err = appendDocument(items, document); err != nil {
				return nil, err
			}
		}
	case "application/yaml", "application/x-yaml", "text/yaml", "application/vnd.yaml":
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(body)))
		for n := 1; ; n++ {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				return items, nil
			}
			if err == nil {
				document, err = yaml.YAMLToJSONStrict(document)
			}
			if err != nil {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("document %d is not YAML: %v", n, err))
			}
			if string(document) == "null" {
				continue // nothing but comments
			}
			if items, err = appendDocument(items, document); err != nil {
				return nil, err
			}
		}
	}
	return nil, unsupported(contentType)
}

// unsupported is the 415 of another encoding.
func unsupported(contentType string) error {
	err := apierrors.NewGenericServerResponse(415, "post", noResource, "", "", 0, false)
	err.ErrStatus.Reason = "UnsupportedMediaType"
	err.ErrStatus.Message = fmt.Sprintf("the body of the request was in an unknown format (%s) - accepted media types include: application/json, application/yaml", contentType)
	return err
}

// appendDocument appends the items of one document.
func appendDocument(items []item, document json.RawMessage) ([]item, error) {
	if trimmed := bytes.TrimLeft(document, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		var manifests []json.RawMessage
		if err := json.Unmarshal(document, &manifests); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return appendManifests(items, manifests), nil
	}
	var h head
	if err := json.Unmarshal(document, &h); err != nil {
		return nil, apierrors.NewBadRequest("a document is no manifest: " + err.Error())
	}
	switch {
	case h.Kind == "Transaction" && h.APIVersion == apiVersion, h.Kind == "" && h.APIVersion == "" && h.Items != nil:
		return appendItems(items, h.Items)
	case strings.HasSuffix(h.Kind, "List") && h.Items != nil:
		return appendManifests(items, h.Items), nil
	}
	return append(items, item{Object: document}), nil
}

func appendManifests(items []item, manifests []json.RawMessage) []item {
	for _, m := range manifests {
		items = append(items, item{Object: m})
	}
	return items
}

// appendItems reads items with their operations. A field that none has is refused.
func appendItems(items []item, raw []json.RawMessage) ([]item, error) {
	for n, one := range raw {
		decoder := json.NewDecoder(bytes.NewReader(one))
		decoder.DisallowUnknownFields()
		var i item
		if err := decoder.Decode(&i); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("items[%d]: %v", n, err))
		}
		items = append(items, i)
	}
	return items, nil
}
