package request

import (
	"net/url"
	"strings"
)

// Route returns the path under which the generated handlers know the
// request: escaped, and the same for ?watch=true as for the watch paths.
//
// The mux compares literals with the escaped path and unescapes what it
// captures. A value that happens to be spelled like a literal is therefore
// written with its first letter escaped: "/api/v1/%6eamespaces/x/status" is
// the status of namespace x, and never the collection "status" in it.
func (i Info) Route() string {
	var b strings.Builder
	if i.Group == "" {
		b.WriteString("/api")
	} else {
		b.WriteString("/apis")
		segment(&b, i.Group)
	}
	segment(&b, i.Version)
	if i.Verb == Watch {
		b.WriteString("/watch")
	}
	if i.Namespace != "" {
		b.WriteString("/namespaces")
		segment(&b, i.Namespace)
	}
	segment(&b, i.Resource)
	if i.Name != "" {
		segment(&b, i.Name)
	}
	if i.Subresource != "" {
		segment(&b, i.Subresource)
	}
	return b.String()
}

func segment(b *strings.Builder, value string) {
	b.WriteByte('/')
	switch value {
	case "namespaces":
		b.WriteString("%6eamespaces")
	case "watch":
		b.WriteString("%77atch")
	default:
		b.WriteString(url.PathEscape(value))
	}
}

// Pattern returns the path with names replaced by what they stand for, as in
// "/apis/apps/v1/namespaces/{namespace}/deployments/{name}".
func (i Info) Pattern() string {
	var b strings.Builder
	if i.Group == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/" + i.Group + "/")
	}
	b.WriteString(i.Version)
	if i.Namespace != "" {
		b.WriteString("/namespaces/{namespace}")
	}
	b.WriteString("/" + i.Resource)
	if i.Name != "" {
		b.WriteString("/{name}")
	}
	if i.Subresource != "" {
		b.WriteString("/" + i.Subresource)
	}
	return b.String()
}
