package authn

import "context"

// Access is what somebody wants to do: a verb on a resource, or on a path.
type Access struct {
	Verb                         string
	Group, Version               string
	Resource, Subresource        string
	Namespace, Name              string
	FieldSelector, LabelSelector string
	// Path is set where no resource is meant.
	Path string
}

type askedKey struct{}

// WithAsked returns a context that tells what the request asks for: it may be a reason to let its caller act as somebody else.
func WithAsked(ctx context.Context, asked func() Access) context.Context {
	return context.WithValue(ctx, askedKey{}, asked)
}

// asked returns what the request asks for; false where that is not known.
func asked(ctx context.Context) (Access, bool) {
	f, ok := ctx.Value(askedKey{}).(func() Access)
	if !ok {
		return Access{}, false
	}
	return f(), true
}

// AskedPath returns the path that the request asks for where it is for no resource, or "".
func AskedPath(ctx context.Context) string {
	a, _ := asked(ctx)
	return a.Path
}
