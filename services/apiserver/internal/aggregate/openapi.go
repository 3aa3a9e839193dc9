package aggregate

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Documents answers paths of OpenAPI, as discovery.Documents does.
type Documents interface {
	Document(path, query, accept string) (body []byte, contentType string, err error)
	// Hash is what the index names a document by; empty where it does not.
	Hash(path string) string
}

// OpenAPI adds the documents of remote group versions to those that are made here.
type OpenAPI struct {
	Documents
	Remote *Aggregator
}

const openapiV3 = "/openapi/v3"

// Document implements discovery.Documents.
func (o OpenAPI) Document(path, query, accept string) ([]byte, string, error) {
	if !strings.HasPrefix(path, openapiV3) {
		return o.Documents.Document(path, query, accept)
	}
	remote := o.Remote.documents()
	if d, ok := remote[strings.TrimPrefix(path, openapiV3+"/")]; ok && path != openapiV3 {
		return d.openapi, "application/json", nil
	}
	body, contentType, err := o.Documents.Document(path, query, accept)
	if err != nil || path != openapiV3 || len(remote) == 0 {
		return body, contentType, err
	}
	var index struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(body, &index); err != nil {
		return nil, "", fmt.Errorf("openapi index: %w", err)
	}
	for name, d := range remote {
		index.Paths[name] = map[string]string{"serverRelativeURL": openapiV3 + "/" + name + "?hash=" + d.etag}
	}
	return encode(index), contentType, nil
}

// Hash implements Documents.
func (o OpenAPI) Hash(path string) string {
	if d, ok := o.Remote.documents()[strings.TrimPrefix(path, openapiV3+"/")]; ok {
		return d.etag
	}
	return o.Documents.Hash(path)
}

// documents are those of the remote group versions that have one, by the names that the index gives them.
func (a *Aggregator) documents() map[string]*knowledge {
	remotes := a.remotes()
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]*knowledge{}
	for gv, s := range remotes {
		if k := a.known[s.Name]; k != nil && k.openapi != nil {
			out["apis/"+gv.String()] = k
		}
	}
	return out
}
