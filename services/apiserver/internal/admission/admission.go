// Package admission changes and checks writes between authorization and the registry. Its plugins stand in one ordered
// table; adding one is adding a file and its row.
package admission

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/kit/obs"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/registry"
)

// Operation is what a write does.
type Operation string

// The operations.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Attributes describe one write.
type Attributes struct {
	Operation       Operation
	Resource        *registry.Resource
	Subresource     string
	Namespace, Name string
	// Object is the new state in the storage version; nil for Delete and Connect. Mutators may change it.
	Object registry.Object
	// Old is the state before, read-only; nil for Create.
	Old registry.Object
	// Body is what was posted to a subresource that takes another kind, as a Binding, an Eviction or a TokenRequest.
	Body runtime.Object
	// Options are the delete options, for Delete.
	Options *metav1.DeleteOptions
	User    *authn.User
	DryRun  bool
}

// Is reports whether the write is to the named resource's storage kind.
func (a *Attributes) Is(group, resource string) bool {
	return a.Resource.Kind.GVK.Group == group && a.Resource.Kind.Resource == resource
}

// Forbidden is a plugin's refusal, with Kubernetes' form of text.
func (a *Attributes) Forbidden(err error) error {
	name := a.Name
	if name == "" && a.Object != nil {
		if name = a.Object.GetName(); name == "" {
			name = a.Object.GetGenerateName()
		}
	}
	return apierrors.NewForbidden(a.Resource.GroupResource(), name, err)
}

// Plugin is an admission plugin; it is a Mutator, a Validator or both.
type Plugin interface {
	// Name is the plugin's as Kubernetes writes it.
	Name() string
	// Handles reports whether the plugin wants to see the write; it is asked before anything else and must be cheap.
	Handles(a *Attributes) bool
}

// Mutator changes writes.
type Mutator interface {
	Admit(ctx context.Context, a *Attributes) error
}

// Validator refuses writes. It sees the object after all mutators and after validation.
type Validator interface {
	Validate(ctx context.Context, a *Attributes) error
}

// Objects reads the objects that plugins decide by.
type Objects interface {
	// Get returns an object, read-only. One that seems absent is looked for in the newest state before it fails with 404.
	Get(ctx context.Context, group, resource, namespace, name string) (registry.Object, error)
	// List returns the objects of a namespace, or of all of them, that are known, read-only.
	List(group, resource, namespace string) []registry.Object
}

// Chain runs plugins in order.
type Chain []Plugin

var tracer = otel.Tracer("howdah.dev/services/apiserver/admission")

// Admit runs the mutators.
func (c Chain) Admit(ctx context.Context, a *Attributes) error {
	for _, p := range c {
		if m, ok := p.(Mutator); ok && p.Handles(a) {
			if err := run(ctx, p.Name(), "mutate", a, m.Admit); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate runs the validators.
func (c Chain) Validate(ctx context.Context, a *Attributes) error {
	for _, p := range c {
		if v, ok := p.(Validator); ok && p.Handles(a) {
			if err := run(ctx, p.Name(), "validate", a, v.Validate); err != nil {
				return err
			}
		}
	}
	return nil
}

func run(ctx context.Context, name, step string, a *Attributes, f func(context.Context, *Attributes) error) error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return f(ctx, a)
	}
	ctx, span := tracer.Start(ctx, "admission."+name, trace.WithAttributes(attribute.String("admission.step", step)))
	err := f(ctx, a)
	obs.End(span, err)
	return err
}

// Table returns the plugins in the order in which they run, without those that are switched off by name. It fails on a name
// that no plugin bears.
func Table(plugins []Plugin, disabled []string) (Chain, error) {
	off := map[string]bool{}
	for _, name := range disabled {
		off[name] = true
	}
	var chain Chain
	for _, p := range plugins {
		if off[p.Name()] {
			delete(off, p.Name())
			continue
		}
		chain = append(chain, p)
	}
	for name := range off {
		return nil, fmt.Errorf("admission plugin %q is unknown", name)
	}
	return chain, nil
}
