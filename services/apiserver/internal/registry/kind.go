// Package registry says what the API serves: one Kind a kind, in a table.
// Adding a kind is adding one small file to package kind and its row.
package registry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Object is a decoded object of any kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind is all that the generic machinery must know about one kind. Functions
// that are nil are steps that the kind does not need. All of them are pure:
// they change only the object they are handed and do no I/O.
type Kind struct {
	// GVK is the storage version and the one that New returns.
	GVK schema.GroupVersionKind
	// Resource is the lower-case plural; Singular the lower-case singular.
	Resource, Singular     string
	ShortNames, Categories []string
	Namespaced             bool
	// ListKind is the kind of a list; empty is that of GVK and "List".
	ListKind string
	// Bulky says that decoded objects are so large that they are not to stay in memory after they were read.
	Bulky bool
	// Custom stands in for the Go type that a custom kind has not; nil for all others.
	Custom Custom
	// Extension says that in Kubernetes an extension API server serves the kind: its version counts as stable whatever it is called, since
	// --runtime-config's stages are of Kubernetes' own versions.
	Extension bool

	// Feature names the feature gate without which no version of the kind is served; empty is none.
	Feature string

	New     func() Object
	NewList func() runtime.Object

	// Deprecated is the text of the Warning header of requests for the storage
	// version; empty means none.
	Deprecated string
	// Served lists further versions of the same stored objects, as in
	// extensions/v1beta1 for Deployment.
	Served []Version

	// Blank returns an object with nothing in it that anybody wrote, as bookmarks of watches carry it; nil: it is what New returns.
	Blank func() Object
	// Hidden is an annotation that stands for a field of the storage version: whoever is shown the metadata alone does not see it. Empty: none.
	Hidden string

	// Default fills unset fields as Kubernetes documents.
	Default func(Object)
	// Restore fills in what the stored form of an object does not keep, as the kind of what is part of it.
	Restore func(Object)
	// Share makes parts of an object those of others that are equal, before it is kept in memory; encoded is its stored message. Nobody
	// may change what it consists of afterwards. nil: there is nothing worth sharing.
	Share func(obj Object, encoded []byte)
	// Recall decodes a stored message with the parts of objects that were shared before, where it has such, instead of decoding those again;
	// ok is false where it has none. Nobody may change what the object consists of. nil: there is nothing worth remembering.
	Recall func(encoded []byte) (obj Object, ok bool)
	// PrepareCreate resets what a client may not set on create (status, for
	// most kinds) and sets generation 1 where the kind has generations.
	PrepareCreate func(Object)
	// Complete fills what depends on the name, which PrepareCreate may not know
	// yet, and on who creates the object. It may be called more than once.
	Complete func(obj Object, by Caller)
	// Settle fills a new object with what it is stored with and admission does not see yet; nil fills nothing.
	Settle func(Object)
	// PrepareUpdate carries over what a client may not change through the
	// main resource (status) and bumps generation when the spec changed.
	PrepareUpdate func(obj, old Object)
	// Validate returns every problem, with Kubernetes' texts and paths.
	// ObjectMeta is validated by the machinery, with NameIsValid.
	Validate func(Object) field.ErrorList
	// ValidateCreate returns the problems that only a new object has, as
	// ephemeral containers of a Pod. The machinery calls Validate as well.
	ValidateCreate func(Object) field.ErrorList
	// ValidateUpdate returns the problems of a change, immutable fields first
	// among them. The machinery calls Validate as well.
	ValidateUpdate func(obj, old Object) field.ErrorList
	// Ratchet, where it is set, is Validate for an update: of what is wrong with old, too, some may stay, as the kind says.
	Ratchet func(obj, old Object) field.ErrorList
	// Tolerates, where it is set, does what ValidateUpdate does, and tells warnings, too: what is wrong and was so before.
	Tolerates func(obj, old Object) (errs field.ErrorList, warnings []string)
	// ValidateIn returns the problems that depend on the labels of the namespace, before all others. old is nil for a new object.
	ValidateIn func(obj, old Object, namespace map[string]string) field.ErrorList
	// NameIsValid returns what is wrong with a name (prefix: it is a
	// generateName prefix). nil means DNS subdomain.
	NameIsValid func(name string, prefix bool) []string
	// MetaIsFree says that problems of metadata are told only of an object with no others.
	MetaIsFree bool
	// PrefixIsFree leaves the prefix of generated names unchecked: what counts is the name that comes of it.
	PrefixIsFree bool
	// Foretell returns what to tell the client of a new object before PrepareCreate, also where it is refused then.
	Foretell func(Object) []string
	// Warnings returns what to tell the client in Warning headers.
	Warnings func(obj, old Object) []string

	// Status says that the kind has a status subresource; the two functions
	// are as PrepareUpdate and ValidateUpdate, for writes to it.
	Status *Status
	// Writes are further subresources that take the whole object, by name, as
	// "finalize" of a Namespace and "ephemeralcontainers" and "resize" of a Pod.
	// Validate of the kind is not called for them: their ValidateUpdate says all.
	Writes map[string]*Status
	// Actions are subresources that take a POST of another kind, by name, as
	// "binding" of a Pod.
	Actions map[string]*Action
	// Scale makes the scale subresource work.
	Scale *Scale

	// Untracked are further fields than the status that nobody owns by a write to the object itself; a dot leads into a field.
	Untracked []string
	// TracksStatus says that who writes the object itself comes to own the status sent along, although it is left alone.
	TracksStatus bool

	// CreateOnUpdate lets a PUT of an absent name create it, as for a Lease.
	CreateOnUpdate bool
	// StatusCreates lets a server-side apply to the status of an absent name create it, and a PUT where CreateOnUpdate is set.
	StatusCreates bool
	// Newest says that gets and lists are answered from the newest state, whatever older one would do.
	Newest bool
	// NeedsRevision refuses an update that carries no resourceVersion, with
	// "must be specified for an update".
	NeedsRevision bool

	// SelectableFields returns the fields beyond metadata.name and
	// metadata.namespace that field selectors may name.
	SelectableFields func(Object) fields.Set
	// Selectable names those of SelectableFields that the storage version has; nil: all.
	Selectable []string
	// StoredAt tells of those of SelectableFields that are strings of the stored object where they lie in it: the numbers of the
	// protobuf fields that lead there. Who selects by these alone has no object decoded for it.
	StoredAt map[string][]int
	// Indexed names those of StoredAt by whose values lists find objects without looking at the others.
	Indexed []string

	// Columns and Cells make the Table that kubectl prints; Cells returns
	// one value a column. nil is Name and Created At.
	Columns []metav1.TableColumnDefinition
	Cells   func(Object) []any
	// RowConditions, which may be nil, returns what a table tells of a row beside its cells.
	RowConditions func(Object) []metav1.TableRowCondition

	// OneByOne says that objects are deleted by name only, and never a collection at once.
	OneByOne bool
	// GracePeriod returns the seconds that a deletion must wait for someone
	// (a node agent) to finish it; 0 deletes at once. nil is 0.
	GracePeriod func(obj Object, options *metav1.DeleteOptions) int64
	// Kept, which may be nil, says why the object of a name is never deleted by itself; empty: it may be.
	Kept func(name string) string
	// ReturnDeleted answers a deletion that is done at once with the object
	// rather than with a Status, as for a Pod.
	ReturnDeleted bool
	// Orphans, which may be nil, reports whether a deletion through a version that says nothing of dependents leaves them alone,
	// and OrphansWarning is what whoever asks for it is told; empty is nothing.
	Orphans        func(schema.GroupVersion) bool
	OrphansWarning string
	// Ownerless says that nobody collects what objects own: how a deletion is to treat dependents does not count.
	Ownerless bool
	// BeginDelete marks an object whose deletion has to wait, when its
	// deletionTimestamp is set: a Namespace's phase becomes Terminating. Such
	// a deletion has no period of grace and is no new generation.
	BeginDelete func(Object)
	// Holds reports that more than metadata.finalizers and the grace period
	// holds an object in deletion, as a Namespace's spec.finalizers. When it
	// turns false in an update of an object in deletion, the object goes.
	Holds func(Object) bool

	// Allocate runs before a create or update is validated and may reserve
	// cluster-unique values (cluster IPs, node ports) through the Allocator;
	// reservations become durable in the same transaction as the write.
	Allocate func(ctx context.Context, a Allocator, obj, old Object) error
	// Release names the values to free when the object is deleted.
	Release func(obj Object) []Reservation
}

// Caller is who makes a request.
type Caller struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Version is a further served version of a kind.
type Version struct {
	GVK schema.GroupVersionKind
	New func() Object
	// NewList returns an empty list of that version.
	NewList func() runtime.Object
	// Default fills unset fields as that version documents.
	Default func(Object)
	// Defaulted says that Default fills all that is to be filled: what it leaves open, the kind's own defaults leave open, too.
	Defaulted bool
	// ToStored and FromStored convert; nil fields of either are kept.
	ToStored   func(in Object) (Object, error)
	FromStored func(in Object) (Object, error)
	// Validate checks in place of the kind what is written through this version, in the stored form; names are DNS subdomains. old is nil
	// for a new object; meta is what is wrong with its metadata, for its place among the problems. Nil: as the kind does.
	Validate func(obj, old Object, meta field.ErrorList) field.ErrorList
	// Selectable is as Kind.Selectable.
	Selectable []string
	// Deprecated is the text of the Warning header; empty means none.
	Deprecated string
}

// Status describes the status subresource.
type Status struct {
	// PrepareUpdate carries over everything but the status (and what else
	// may be written there) from old.
	PrepareUpdate func(obj, old Object)
	// Untabled says that there are no tables of what the subresource answers.
	Untabled       bool
	ValidateUpdate func(obj, old Object) field.ErrorList
	// Tolerates is as that of a Kind.
	Tolerates func(obj, old Object) (errs field.ErrorList, warnings []string)
	// Warnings is as that of a Kind.
	Warnings func(obj, old Object) []string
	// Untracked are metadata that such a write leaves alone, and whose fields it does not come to own: "metadata" or "metadata.labels".
	Untracked []string
	// Carry gives obj a copy of the spec of the whole object, so that a patch of the status need not pass through it; nil: Default looks at the
	// spec to default the status.
	Carry func(obj, whole Object)
}

// Action describes a subresource that is POSTed an object of another kind and
// changes the object it belongs to; the answer is a Status "Success".
type Action struct {
	// GVK is the kind of the body, and New an empty one.
	GVK schema.GroupVersionKind
	New func() Object
	// Apply changes obj as body says. Its error is a *apierrors.StatusError
	// that names the object, as a 409 for a Pod that is assigned already.
	// Validate and ValidateUpdate of the kind are not called afterwards.
	Apply func(obj, body Object) error
}

// Scale describes the scale subresource.
type Scale struct {
	// Get returns desired replicas, observed replicas and the selector.
	Get func(Object) (spec, status int32, selector string)
	// Path leads to the desired replicas; nil is spec.replicas.
	Path []string
	// Field is where the desired replicas are, as errors name it.
	Field string
	// Set changes the desired replicas. It fails where there is no place for them.
	Set func(obj Object, replicas int32) error
	// Check reports whether the object says how many replicas it wants. It fails where something that a Scale shows is of another type.
	// It may be nil: then the object always does.
	Check func(Object) (wants bool, err error)
}

// Reservation is a cluster-unique value that belongs to one object.
type Reservation struct {
	// Pool is "clusterips" or "nodeports".
	Pool string
	// Value is what is reserved, as in "10.96.0.7" or "30080": a node port is one
	// number for all protocols, which ports of one Service may share.
	Value string
}

// Allocator reserves cluster-unique values for one write.
type Allocator interface {
	// Reserve takes a given value, or fails if it is taken or outside the pool.
	Reserve(ctx context.Context, r Reservation) error
	// Next takes a free value of the pool.
	Next(ctx context.Context, pool string) (string, error)
	// Free gives a value back.
	Free(r Reservation)
}
