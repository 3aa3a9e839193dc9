package aggregate

import (
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Documents answers paths of OpenAPI, as discovery.Documents does.
type Documents interface {
	Document(path, query, accept string) (body []byte, contentType string, err error)
	// Hash names the document of a path; that of a chapter is what the index names it by. It is empty where there is none.
	Hash(path, accept string) string
}

// OpenAPI adds the documents of remote group versions to those that are made here.
type OpenAPI struct {
	Documents
	remote *Aggregator

	mu   sync.Mutex
	last index

	merging sync.Mutex          // which takes long, and what is above need not wait for it
	wholes  map[string]mergedV2 // by what tells their encodings apart
}

// index lists the chapters of here and of remote group versions.
type index struct {
	of, hash string // what it was made of, and of what it says
	body     []byte
}

// NewOpenAPI returns the documents of both.
func NewOpenAPI(local Documents, remote *Aggregator) *OpenAPI {
	return &OpenAPI{Documents: local, remote: remote}
}

const openapiV3 = "/openapi/v3"

// Document implements discovery.Documents.
func (o *OpenAPI) Document(path, query, accept string) ([]byte, string, error) {
	if path == openapiV2 {
		m, media, err := o.whole(accept)
		return m.body, media, err
	}
	if !strings.HasPrefix(path, openapiV3) {
		return o.Documents.Document(path, query, accept)
	}
	remote := o.remote.documents()
	if d, ok := remote[strings.TrimPrefix(path, openapiV3+"/")]; ok && path != openapiV3 {
		return d.body, "application/json", nil
	}
	body, contentType, err := o.Documents.Document(path, query, accept)
	if err != nil || path != openapiV3 || len(remote) == 0 {
		return body, contentType, err
	}
	all, err := o.index(body, o.Documents.Hash(path, accept), remote)
	return all.body, contentType, err
}

// index adds the remote documents to the index of the local ones, which has the hash.
func (o *OpenAPI) index(local []byte, hash string, remote map[string]document) (index, error) {
	of := hash
	for _, name := range slices.Sorted(maps.Keys(remote)) {
		of += " " + name + "=" + remote[name].hash
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last.of == of {
		return o.last, nil
	}
	var list struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(local, &list); err != nil {
		return index{}, fmt.Errorf("openapi index: %w", err)
	}
	for name, d := range remote {
		list.Paths[name] = map[string]string{"serverRelativeURL": openapiV3 + "/" + name + "?hash=" + d.hash}
	}
	body := encode(list)
	o.last = index{of: of, hash: fmt.Sprintf("%X", sha512.Sum512(body)), body: body}
	return o.last, nil
}

// Hash implements Documents.
func (o *OpenAPI) Hash(path, accept string) string {
	if path == openapiV2 {
		m, _, err := o.whole(accept)
		if err != nil { // the document itself tells
			return ""
		}
		return m.hash
	}
	local := o.Documents.Hash(path, accept)
	if !strings.HasPrefix(path, openapiV3) {
		return local
	}
	remote := o.remote.documents()
	if d, ok := remote[strings.TrimPrefix(path, openapiV3+"/")]; ok && path != openapiV3 {
		return d.hash
	}
	if path != openapiV3 || len(remote) == 0 {
		return local
	}
	body, _, err := o.Documents.Document(path, "", accept)
	if err != nil { // the document itself tells
		return ""
	}
	all, err := o.index(body, local, remote)
	if err != nil {
		return ""
	}
	return all.hash
}

// valid takes JSON as it is.
func valid(text []byte) ([]byte, error) {
	if !json.Valid(text) {
		return nil, errors.New("not JSON")
	}
	return text, nil
}

// documents are those of version 3 of the remote group versions, and of their groups, that have one, by the names that the index gives them.
func (a *Aggregator) documents() map[string]document {
	remotes := a.remotes()
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]document{}
	byName := func(x, y schema.GroupVersion) int { return strings.Compare(x.String(), y.String()) }
	for _, gv := range slices.SortedFunc(maps.Keys(remotes), byName) { // the same server of a group's each time
		k := a.known[remotes[gv].Name]
		if k == nil {
			continue
		}
		for name, d := range map[string]document{"apis/" + gv.String(): k.v3, "apis/" + gv.Group: k.group} {
			if d.body != nil {
				out[name] = d
			}
		}
	}
	return out
}
