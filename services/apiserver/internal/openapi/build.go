package openapi

import (
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	tokenScheme  = "BearerToken"
	tokenText    = "Bearer Token authentication"
	unauthorized = "Unauthorized"
)

// named has every model by name and without content, which is all that the builders need to make paths: the models are put in afterwards.
func (m *models) named(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	out := make(map[string]common.OpenAPIDefinition, len(m.v3)+len(m.custom))
	for name := range m.v3 {
		out[name] = common.OpenAPIDefinition{}
	}
	for _, name := range m.custom {
		out[name] = common.OpenAPIDefinition{}
	}
	return out
}

func asIs(name string) (string, spec.Extensions) { return name, nil }

func operation(r common.Route) (string, []string, error) {
	return r.OperationName(), []string{r.(route).tag}, nil
}

// swagger makes a document of version 2 of the routes, with the models that they need but those of custom kinds.
func (m *models) swagger(info *spec.Info, all routes) (*spec.Swagger, error) {
	token := &spec.SecurityScheme{SecuritySchemeProps: spec.SecuritySchemeProps{Type: "apiKey", Description: tokenText, Name: "authorization", In: "header"}}
	document, err := builder.BuildOpenAPISpecFromRoutes([]common.RouteContainer{all}, &common.Config{
		ProtocolList: []string{"https"}, Info: info, GetDefinitions: m.named, GetDefinitionName: asIs, GetOperationIDAndTagsFromRoute: operation,
		CommonResponses:     map[int]spec.Response{401: {ResponseProps: spec.ResponseProps{Description: unauthorized}}},
		SecurityDefinitions: &spec.SecurityDefinitions{tokenScheme: token}, DefaultSecurity: []map[string][]string{{tokenScheme: {}}},
	})
	if err != nil {
		return nil, err
	}
	document.Definitions = m.reachable(keys(document.Definitions), 2)
	return document, nil
}

// modern makes a document of version 3 likewise.
func (m *models) modern(info *spec.Info, all routes) (*spec3.OpenAPI, error) {
	config := &common.OpenAPIV3Config{
		Info: info, GetDefinitions: m.named, GetDefinitionName: asIs, GetOperationIDAndTagsFromRoute: operation,
		CommonResponses: map[int]*spec3.Response{401: {ResponseProps: spec3.ResponseProps{Description: unauthorized}}},
	}
	if len(m.custom) == 0 {
		config.SecuritySchemes = spec3.SecuritySchemes{tokenScheme: {SecuritySchemeProps: spec3.SecuritySchemeProps{
			Type: "apiKey", Description: tokenText, Name: "authorization", In: "header",
		}}}
	}
	document, err := builder3.BuildOpenAPISpecFromRoutes([]common.RouteContainer{all}, config)
	if err != nil {
		return nil, err
	}
	document.Components.Schemas = pointers(m.reachable(keys(document.Components.Schemas), 3))
	return document, nil
}

func keys[V any](in map[string]V) map[string]bool {
	out := make(map[string]bool, len(in))
	for name := range in {
		out[name] = true
	}
	return out
}
