package aggregate

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"howdah.dev/services/apiserver/internal/openapi"
)

// OpenAPI v2 is one document of all group versions: what an extension API server tells of its own is merged into what is told of those that are served here, as
// Kubernetes does it. Paths that both have stay as they are here; models of the same name that differ get another one.

const openapiV2 = "/openapi/v2"

// own keeps what a document of version 2 tells of a group version, as JSON.
func own(group, version string) func([]byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		var all spec.Swagger
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, err
		}
		return json.Marshal(aggregator.FilterSpecByPathsWithoutSideEffects(&all, []string{"/apis/" + group + "/" + version + "/"}))
	}
}

// converted is version 3 of a document of version 2, for servers that have no other, as far as it can say the same.
func converted(v2 document) document {
	var all spec.Swagger
	if v2.body == nil || json.Unmarshal(v2.body, &all) != nil {
		return document{}
	}
	body, err := json.Marshal(openapiconv.ConvertV2ToV3(&all))
	if err != nil {
		return document{}
	}
	return newDocument(body, "")
}

// mergedV2 is the document with the remote ones merged into it, in one encoding.
type mergedV2 struct {
	of, hash string // what it was made of, and of what it says
	body     []byte
}

// whole is the document of version 2 in the form that the Accept header asks for. What is merged is made when it is asked for, and kept until a part of it is another.
func (o *OpenAPI) whole(accept string) (mergedV2, string, error) {
	remote, names := o.remote.wholes()
	if len(remote) == 0 {
		local, media, err := o.Documents.Document(openapiV2, "", accept)
		return mergedV2{hash: o.Documents.Hash(openapiV2, accept), body: local}, media, err
	}
	media, err := openapi.MediaV2(accept)
	if err != nil {
		return mergedV2{}, "", err
	}
	of := o.Documents.Hash(openapiV2, "") + names
	o.merging.Lock()
	defer o.merging.Unlock()
	text, err := o.merged("", of, func() ([]byte, error) {
		local, _, err := o.Documents.Document(openapiV2, "", "")
		if err != nil {
			return nil, err
		}
		return merge(local, remote)
	})
	if err != nil || media == "application/json" {
		return text, media, err
	}
	binary, err := o.merged(media, of, func() ([]byte, error) { return openapi.ProtobufV2(text.body) })
	return binary, media, err
}

// merged returns what is kept under a key, or makes it. The lock of merging is held.
func (o *OpenAPI) merged(key, of string, build func() ([]byte, error)) (mergedV2, error) {
	if m := o.wholes[key]; m.of == of {
		return m, nil
	}
	body, err := build()
	if err != nil {
		return mergedV2{}, fmt.Errorf("openapi v2: %w", err)
	}
	m := mergedV2{of: of, hash: newDocument(body, "").hash, body: body}
	if o.wholes == nil {
		o.wholes = map[string]mergedV2{}
	}
	o.wholes[key] = m
	return m, nil
}

// merge adds documents to one, each of a group version. The paths of one that cannot be added are left out.
func merge(local []byte, remote [][]byte) ([]byte, error) {
	var all spec.Swagger
	if err := json.Unmarshal(local, &all); err != nil {
		return nil, err
	}
	for _, text := range remote {
		var one spec.Swagger
		err := json.Unmarshal(text, &one)
		if err == nil {
			err = aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(&all, &one)
		}
		if err != nil {
			slog.Warn("merge the OpenAPI v2 of an extension API server", "err", err)
		}
	}
	return json.Marshal(&all)
}

// wholes are the documents of version 2 of the remote group versions that have one, in the order of their priority, and what tells them from others.
func (a *Aggregator) wholes() (documents [][]byte, names string) {
	versions, _ := a.Versions()
	remotes := a.remotes()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range versions {
		s := remotes[v.GroupVersion]
		if s == nil { // removed since
			continue
		}
		if k := a.known[s.Name]; k != nil && k.v2.body != nil {
			documents, names = append(documents, k.v2.body), names+" "+s.Name+"="+k.v2.hash
		}
	}
	return documents, names
}
