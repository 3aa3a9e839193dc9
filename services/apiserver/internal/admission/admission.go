// Package admission changes and checks writes between authorization and the registry. Its plugins stand in one ordered
// table; adding one is adding a file and its row.
package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	// Complete, which may be nil, adds to Body what only those see who are shown it, as its managed fields.
	Complete func() error
	// Tracked are the managed fields that a Scale is shown with, where the write is one of it.
	Tracked Tracked
	// Options are the delete options, for Delete.
	Options *metav1.DeleteOptions
	// Query is that of a Connect's URL, Path what its path has behind the subresource proxy.
	Query, Path string
	User        *authn.User
	DryRun      bool
	// Patch says that an Update is made by a patch.
	Patch bool
	// FieldManager is the one that the request names; empty where it names none.
	FieldManager string
	// FieldValidation is the level that the request names; empty where it names none.
	FieldValidation string
	// Again is set by a mutator that changed the object for others to see: the mutators run a second time. Round counts their runs
	// from 0. Memory is what a plugin keeps from one to the next, by its name.
	Again  bool
	Round  int
	Memory map[string]any
	// Notes takes what the client and the audit log are to be told; nil drops it.
	Notes Notes
	// Usage is what ResourceQuota found the write to consume; it is committed with the write.
	Usage *Usage
}

// Tracked are managed fields of what is shown in an object's place, and of what was there before.
type Tracked struct{ Object, Old []metav1.ManagedFieldsEntry }

// Usage is what a write consumes of its namespace's quotas.
type Usage struct {
	Namespace string
	// Charge returns what the write adds to, or with a negative quantity takes from, a quota's status.used; an empty list where the
	// quota does not count it. It fails with the refusal of the write. The commit asks it again, of the newest quotas.
	Charge func(quota *corev1.ResourceQuota) (corev1.ResourceList, error)
}

// RefusedError says which of the usages that were to be committed together a quota refuses, and why.
type RefusedError struct {
	Usage *Usage
	Err   error
}

// Error is the refusal's text.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the refusal, which is an API status.
func (e *RefusedError) Unwrap() error { return e.Err }

// Notes takes what plugins tell besides their verdict. The same text may come more than once, as a write is planned again.
type Notes interface {
	// Warn adds a Warning header to the answer.
	Warn(text string)
	// Annotate adds an annotation to the audit event.
	Annotate(key, value string)
}

// Warn tells the client something.
func (a *Attributes) Warn(text string) {
	if a.Notes != nil {
		a.Notes.Warn(text)
	}
}

// Annotate tells the audit log something.
func (a *Attributes) Annotate(key, value string) {
	if a.Notes != nil {
		a.Notes.Annotate(key, value)
	}
}

// Remember keeps something for the mutators' second run.
func (a *Attributes) Remember(plugin string, what any) {
	if a.Memory == nil {
		a.Memory = map[string]any{}
	}
	a.Memory[plugin] = what
}

// Verdict is a refusal that depends on the request alone: making the write anew, from a newer state, does not change it.
type Verdict struct{ error }

// Final makes a verdict of a refusal; nil stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return Verdict{err}
}

// Unwrap returns the refusal.
func (v Verdict) Unwrap() error { return v.error }

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
		if name == "" {
			name = "Unknown"
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

// Permitter refuses writes that their kind does not let everybody make. It sees the object after all mutators, and before validation: who may
// not write it is not told what else is wrong with it.
type Permitter interface {
	Permit(ctx context.Context, a *Attributes) error
}

// Validator refuses writes. It sees the object after all mutators and after validation.
type Validator interface {
	Validate(ctx context.Context, a *Attributes) error
}

// Objects reads the objects that plugins decide by.
type Objects interface {
	// Get returns an object, read-only. One that seems absent is looked for in the newest state before it fails with 404.
	Get(ctx context.Context, group, resource, namespace, name string) (registry.Object, error)
	// List returns the objects of a namespace, or of all of them, that are known, read-only. All that this server has
	// acknowledged is among them.
	List(ctx context.Context, group, resource, namespace string) []registry.Object
}
