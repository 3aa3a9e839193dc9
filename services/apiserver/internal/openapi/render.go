package openapi

import "k8s.io/apimachinery/pkg/runtime/schema"

var (
	objectMedia = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	patchMedia  = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
)

// media are those of bodies. Custom objects have no protobuf form, and no strategic merge patch.
func (m *models) media() []string {
	if len(m.custom) > 0 {
		return objectMedia[:2]
	}
	return objectMedia
}

func (m *models) patchMedia() []string {
	if len(m.custom) > 0 {
		return []string{patchMedia[0], patchMedia[1], patchMedia[3]}
	}
	return patchMedia
}

func (p *path) v2(m *models, roots map[string]bool) map[string]any {
	item := map[string]any{}
	var shared []any
	for _, q := range append(p.parameters[:len(p.parameters):len(p.parameters)], pretty) {
		shared = append(shared, q.v2())
	}
	item["parameters"] = shared
	for _, o := range p.operations {
		parameters := []any{}
		for _, q := range o.parameters {
			parameters = append(parameters, q.v2())
		}
		media := m.media()
		consumes := media
		if o.patch {
			consumes = m.patchMedia()
			parameters = append(parameters, map[string]any{"name": "body", "in": "body", "required": true, "schema": map[string]any{"type": "object"}})
		} else if o.request.Kind != "" {
			parameters = append(parameters, map[string]any{
				"name": "body", "in": "body", "required": o.method != "delete", "schema": m.ref(o.request, roots, "#/definitions/"),
			})
		}
		responses := map[string]any{}
		for code, text := range o.codes() {
			responses[code] = map[string]any{"description": text, "schema": m.ref(o.response, roots, "#/definitions/")}
		}
		responses["401"] = map[string]any{"description": "Unauthorized"}
		item[o.method] = map[string]any{
			"operationId": o.id, "parameters": parameters, "responses": responses, "consumes": consumes, "produces": media,
			"schemes": []string{"https"}, "x-kubernetes-action": o.action, gvkExtension: gvkMap(o.gvk), "tags": []string{tag(o.gvk)},
		}
	}
	return item
}

func (p *path) v3(m *models, roots map[string]bool) map[string]any {
	item := map[string]any{}
	var shared []any
	for _, q := range append(p.parameters[:len(p.parameters):len(p.parameters)], pretty) {
		shared = append(shared, q.v3())
	}
	item["parameters"] = shared
	for _, o := range p.operations {
		parameters := []any{}
		for _, q := range o.parameters {
			parameters = append(parameters, q.v3())
		}
		responses := map[string]any{}
		for code, text := range o.codes() {
			responses[code] = map[string]any{"description": text, "content": content(m.media(), m.ref(o.response, roots, "#/components/schemas/"))}
		}
		responses["401"] = map[string]any{"description": "Unauthorized"}
		out := map[string]any{
			"operationId": o.id, "parameters": parameters, "responses": responses, "x-kubernetes-action": o.action,
			gvkExtension: gvkMap(o.gvk), "tags": []string{tag(o.gvk)},
		}
		if o.patch {
			out["requestBody"] = map[string]any{"required": true, "content": content(m.patchMedia(), map[string]any{"type": "object"})}
		} else if o.request.Kind != "" {
			out["requestBody"] = map[string]any{
				"required": o.method != "delete", "content": content(m.media(), m.ref(o.request, roots, "#/components/schemas/")),
			}
		}
		item[o.method] = out
	}
	return item
}

// codes are the answers of success.
func (o *operation) codes() map[string]string {
	switch o.action {
	case "post":
		return map[string]string{"200": "OK", "201": "Created", "202": "Accepted"}
	case "put", "patch":
		return map[string]string{"200": "OK", "201": "Created"}
	case "delete":
		return map[string]string{"200": "OK", "202": "Accepted"}
	}
	return map[string]string{"200": "OK"}
}

func content(media []string, schema map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range media {
		out[m] = map[string]any{"schema": schema}
	}
	return out
}

func (q parameter) v2() map[string]any {
	out := map[string]any{"name": q.name, "in": q.in, "type": q.kind, "description": q.description, "uniqueItems": true}
	if q.in == "path" {
		out["required"] = true
	}
	return out
}

func (q parameter) v3() map[string]any {
	out := map[string]any{"name": q.name, "in": q.in, "description": q.description, "schema": map[string]any{"type": q.kind, "uniqueItems": true}}
	if q.in == "path" {
		out["required"] = true
	}
	return out
}

func gvkMap(gvk schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}

func tag(gvk schema.GroupVersionKind) string {
	if gvk.Group == "" {
		return "core_" + gvk.Version
	}
	return gvk.Group + "_" + gvk.Version
}
