package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"

	"howdah.dev/services/apiserver/internal/registry"
)

// whole is the document of version 2: all of the API. What does not change of it is made once; custom kinds are added to that piece
// by piece, so that the pieces alone are ever taken apart.
func (d *Documents) whole(binary bool) ([]byte, string, error) {
	const path = "/openapi/v2"
	var custom []*registry.Resource
	var about strings.Builder
	for _, r := range d.table.Resources() {
		if r.Kind.Custom != nil {
			custom = append(custom, r)
			fmt.Fprintf(&about, "%s %s\n", r.GVR, r.Kind.Custom.Fingerprint())
		}
	}
	if !binary {
		b, err := d.kept.once(path, about.String(), func() ([]byte, error) { return d.wholeJSON(custom) })
		return b, "application/json", err
	}
	b, err := d.kept.once(path+" protobuf", about.String(), func() ([]byte, error) { return d.wholeProtobuf(custom) })
	return b, protobufV2, err
}

// fixed are the paths and definitions of the kinds that are always served.
func (d *Documents) fixed() ([]byte, error) {
	return d.once("/openapi/v2", func() ([]byte, error) {
		m, paths, roots := d.models(), map[string]any{}, map[string]bool{metaModel: true, listMetaModel: true}
		for _, r := range d.table.Resources() {
			if r.Kind.Custom != nil {
				continue
			}
			for _, p := range pathsOf(r) {
				paths[p.path] = p.v2(m, roots)
			}
		}
		return json.Marshal(swagger{Swagger: "2.0", Info: d.info(), Paths: paths, Definitions: m.reachable(roots, 2)})
	})
}

// swagger is a document of version 2. Its paths come before its definitions.
type swagger struct {
	Swagger     string `json:"swagger"`
	Info        any    `json:"info"`
	Paths       any    `json:"paths"`
	Definitions any    `json:"definitions"`
}

// piece is what one custom kind adds.
func (d *Documents) piece(r *registry.Resource) (paths map[string]any, definitions any) {
	m, schemas := d.models().with([]*registry.Resource{r}, 2)
	paths = map[string]any{}
	for _, p := range pathsOf(r) {
		paths[p.path] = p.v2(m, map[string]bool{})
	}
	return paths, schemas
}

func (d *Documents) wholeJSON(custom []*registry.Resource) ([]byte, error) {
	fixed, err := d.fixed()
	if err != nil || len(custom) == 0 {
		return fixed, err
	}
	var paths, definitions bytes.Buffer
	for _, r := range custom {
		p, s := d.piece(r)
		for into, what := range map[*bytes.Buffer]any{&paths: p, &definitions: s} {
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
	var out bytes.Buffer
	for _, b := range [][]byte{head, []byte(`"paths":{`), paths.Bytes(), middle, []byte(`},"definitions":{`), definitions.Bytes(), tail} {
		out.Write(b)
	}
	return out.Bytes(), nil
}

// wholeProtobuf relies on what protobuf promises of messages that follow one another: they are one message.
func (d *Documents) wholeProtobuf(custom []*registry.Resource) ([]byte, error) {
	fixed, err := d.once("/openapi/v2 protobuf", func() ([]byte, error) {
		text, err := d.fixed()
		if err != nil {
			return nil, err
		}
		return protobufOf(text)
	})
	if err != nil || len(custom) == 0 {
		return fixed, err
	}
	out := bytes.Clone(fixed)
	for _, r := range custom {
		p, s := d.piece(r)
		text, err := json.Marshal(swagger{Swagger: "2.0", Info: d.info(), Paths: p, Definitions: s})
		if err != nil {
			return nil, err
		}
		b, err := protobufOf(text)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

func protobufOf(text []byte) ([]byte, error) {
	doc, err := openapi_v2.ParseDocument(text)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(doc)
}
