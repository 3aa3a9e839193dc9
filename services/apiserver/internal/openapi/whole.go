package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"howdah.dev/services/apiserver/internal/registry"
)

// whole is the document of version 2: all of the API. What does not change of it is made once; custom kinds are added to that piece
// by piece, so that the pieces alone are ever taken apart.
func (d *Documents) whole(binary bool) (*held, string, error) {
	const path = "/openapi/v2"
	e := d.edition()
	if !binary {
		h, err := d.kept.once(path, e.about, func() ([]byte, error) { return d.wholeJSON(e.custom) })
		return h, "application/json", err
	}
	h, err := d.kept.once(path+" protobuf", e.about, func() ([]byte, error) { return d.wholeProtobuf(e.custom) })
	return h, protobufV2, err
}

// fixed are the paths, definitions and parameters of the kinds that are always served. Those of custom kinds, which are pruned of the
// models that all kinds have, need no more parameters than these.
func (d *Documents) fixed() ([]byte, error) {
	return d.body("/openapi/v2 of no custom kind", func() ([]byte, error) {
		m := d.models()
		var all routes
		for name := range general {
			all = append(all, generalRoute(name))
		}
		groups := map[string]bool{"": true}
		for _, gv := range d.groupVersions() {
			stored, made := d.in(gv)
			if d.about(gv) != "" {
				continue
			}
			for _, r := range stored {
				all = append(all, describe(r, m).routes()...)
			}
			for _, r := range made {
				all = append(all, created(r, m)...)
			}
			all = append(all, versionRoute(gv))
			if !groups[gv.Group] {
				groups[gv.Group] = true
				all = append(all, groupRoute(gv.Group))
			}
		}
		document, err := m.swagger(d.info(), all)
		if err != nil {
			return nil, err
		}
		maps.Copy(document.Definitions, m.reachable(map[string]bool{metaModel: true, listMetaModel: true}, 2))
		return json.Marshal(written{
			document.Swagger, document.Info, document.Paths, document.Definitions, document.Parameters, document.SecurityDefinitions, document.Security,
		})
	})
}

// body returns what never changes, which is made once.
func (d *Documents) body(key string, build func() ([]byte, error)) ([]byte, error) {
	h, err := d.kept.once(key, "", build)
	if err != nil {
		return nil, err
	}
	return h.body, nil
}

// written is a document of version 2 with its parts in an order that is known.
type written struct {
	Swagger     string                    `json:"swagger"`
	Info        any                       `json:"info"`
	Paths       any                       `json:"paths"`
	Definitions any                       `json:"definitions"`
	Parameters  map[string]spec.Parameter `json:"parameters,omitempty"`
	Schemes     spec.SecurityDefinitions  `json:"securityDefinitions,omitempty"`
	Security    []map[string][]string     `json:"security,omitempty"`
}

// piece is what one custom kind adds.
func (d *Documents) piece(r *registry.Resource) (*spec.Swagger, error) {
	m, schemas := d.models().with([]*registry.Resource{r}, 2)
	document, err := m.swagger(customInfo, describe(r, m).routes())
	if err != nil {
		return nil, err
	}
	document.Definitions = schemas
	return document, nil
}

func (d *Documents) wholeJSON(custom []*registry.Resource) ([]byte, error) {
	fixed, err := d.fixed()
	if err != nil || len(custom) == 0 {
		return fixed, err
	}
	var paths, definitions bytes.Buffer
	for _, r := range custom {
		piece, err := d.piece(r)
		if err != nil {
			return nil, err
		}
		for into, what := range map[*bytes.Buffer]any{&paths: piece.Paths, &definitions: piece.Definitions} {
			b, err := json.Marshal(what)
			if err != nil {
				return nil, err
			}
			into.Write(b[1 : len(b)-1])
			into.WriteByte(',')
		}
	}
	// The pieces go in front of what is in the two objects already.
	head, rest, ok := bytes.Cut(fixed, []byte(`"paths":{`))
	middle, tail, ok2 := bytes.Cut(rest, []byte(`},"definitions":{`))
	if !ok || !ok2 {
		return nil, fmt.Errorf("the document is not of the form that it was made in")
	}
	return slices.Concat(head, []byte(`"paths":{`), paths.Bytes(), middle, []byte(`},"definitions":{`), definitions.Bytes(), tail), nil
}

// wholeProtobuf relies on what protobuf promises of messages that follow one another: they are one message.
func (d *Documents) wholeProtobuf(custom []*registry.Resource) ([]byte, error) {
	fixed, err := d.body("/openapi/v2 protobuf of no custom kind", func() ([]byte, error) {
		text, err := d.fixed()
		if err != nil {
			return nil, err
		}
		return ProtobufV2(text)
	})
	if err != nil || len(custom) == 0 {
		return fixed, err
	}
	out := bytes.Clone(fixed)
	for _, r := range custom {
		piece, err := d.piece(r)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(written{Swagger: piece.Swagger, Info: d.info(), Paths: piece.Paths, Definitions: piece.Definitions})
		if err != nil {
			return nil, err
		}
		b, err := ProtobufV2(text)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

// ProtobufV2 encodes a document of version 2, which is JSON.
func ProtobufV2(text []byte) ([]byte, error) {
	doc, err := openapi_v2.ParseDocument(text)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(doc)
}
