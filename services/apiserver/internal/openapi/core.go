package openapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	evictionGVK = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
	tokenGVK    = schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}

	streamMethods = []string{"GET", "POST"}
	proxyMethods  = []string{"GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH"}
)

// core are the subresources of core kinds that are not about the object's own fields.
func (d describer) core(add func(route)) {
	switch d.r.Kind.Resource {
	case "pods":
		d.action(add, "eviction", evictionGVK)
		add(route{method: "GET", path: d.scoped + "/{name}/log", id: d.id("read", "Log"), description: "read " + d.of("log"), action: "get",
			produces: append([]string{"text/plain"}, objectMedia...), parameters: slices.Concat(d.named("Pod"), logOptions), answer: text})
		d.connect(add, "attach", "", "PodAttachOptions", streamMethods, attachOptions)
		d.connect(add, "exec", "", "PodExecOptions", streamMethods, execOptions)
		d.connect(add, "portforward", "", "PodPortForwardOptions", streamMethods, forwardOptions)
		d.proxy(add, "PodProxyOptions", podProxy)
	case "services":
		d.proxy(add, "ServiceProxyOptions", serviceProxy)
	case "nodes":
		d.proxy(add, "NodeProxyOptions", nodeProxy)
	case "serviceaccounts":
		d.action(add, "token", tokenGVK)
	}
}

func (d describer) proxy(add func(route), kind string, query []parameter) {
	d.connect(add, "proxy", "", kind, proxyMethods, query)
	d.connect(add, "proxy", "WithPath", kind, proxyMethods, append(slices.Clone(query), pathParameter))
}

// connect are the operations that hand a connection on.
func (d describer) connect(add func(route), name, end, kind string, methods []string, query []parameter) {
	path := d.scoped + "/{name}/" + name
	if end != "" {
		path += "/{path}"
	}
	parameters := slices.Concat(d.space, []parameter{inPath("name", "name of the "+kind)}, query)
	for _, method := range methods {
		verb := method[:1] + strings.ToLower(method[1:])
		add(route{
			method: method, path: path, action: "connect", about: d.r.GVK.GroupVersion().WithKind(kind), produces: anyMedia, parameters: parameters, answer: text,
			id:          operationID("connect", d.r.GVK.GroupVersion(), verb+d.scope+d.r.GVK.Kind+title(name)+end),
			description: "connect " + method + " requests to " + name + " of " + d.r.GVK.Kind,
		})
	}
}
