package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"howdah.dev/kit/apistatus"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// Request is what an entry is about.
type Request struct {
	// User is who asks; nil where that could not be found out.
	User *authn.User
	Verb string
	// Path is set where no resource is asked for.
	Path                                                   string
	Group, Version, Resource, Subresource, Namespace, Name string
	// Body is what was sent, in its content type, where nobody tells later what was received.
	Body        []byte
	ContentType string
	Origin      Origin
}

// longRunning reports whether the answer is a stream, by Kubernetes' rule.
func (r *Request) longRunning() bool {
	if r.Path != "" {
		return strings.HasPrefix(r.Path, "/debug/pprof/")
	}
	switch r.Subresource {
	case "attach", "exec", "proxy", "log", "portforward":
		return true
	}
	return r.Verb == "watch"
}

// Entry is the audit of one request. The nil Entry records nothing.
type Entry struct {
	log    *Log
	config auditConfig

	mu       sync.Mutex
	event    auditv1.Event
	panicked bool
	ended    bool
	// rejected says that the request must not go on. It is set before anybody else has the entry.
	rejected bool
	stranger bool // nobody knows who asks
	// long says that the answer is a stream; started, that its beginning was recorded.
	long, started bool
	layers        map[string]time.Duration
}

// Slot is where a request's entry is found by those who have something to tell it. It is there before the entry is: of a stream,
// nothing is known before its first message.
type Slot struct {
	entry atomic.Pointer[Entry]
	items []*Entry // of a batch, one a write
}

type slotKey struct{}

// WithSlot returns a context that carries the slot.
func WithSlot(ctx context.Context, s *Slot) context.Context {
	return context.WithValue(ctx, slotKey{}, s)
}

// Put keeps an entry.
func (s *Slot) Put(e *Entry) { s.entry.Store(e) }

// PutItems keeps the entries of a batch's writes, nil for those that have none. It is called before the batch begins.
func (s *Slot) PutItems(items []*Entry) { s.items = items }

// ForItem returns the context of a batch's write, which carries the entry of that.
func ForItem(ctx context.Context, n int) context.Context {
	s, ok := ctx.Value(slotKey{}).(*Slot)
	if !ok || n >= len(s.items) {
		return ctx
	}
	one := &Slot{}
	one.Put(s.items[n])
	return WithSlot(ctx, one)
}

// Load returns the entry, or nil.
func (s *Slot) Load() *Entry { return s.entry.Load() }

// From returns the entry of a context, or nil.
func From(ctx context.Context) *Entry {
	if s, ok := ctx.Value(slotKey{}).(*Slot); ok {
		return s.entry.Load()
	}
	return nil
}

// Note tells the entry of a context the object's name, where the request did not, and annotations.
func Note(ctx context.Context, name string, annotations map[string]string) {
	e := From(ctx)
	if e == nil {
		return
	}
	e.Name(name)
	for key, value := range annotations {
		e.Annotate(key, value)
	}
}

// Begin returns the entry of a request and records that it was received; nil where the policy says None.
func (l *Log) Begin(r *Request) *Entry {
	config := l.evaluate(r)
	if config.Level == auditinternal.LevelNone {
		l.metrics.level(string(config.Level))
		return nil
	}
	now := metav1.NewMicroTime(l.clock.Now())
	l.underway.begin()
	e := &Entry{log: l, config: config, long: r.longRunning(), event: auditv1.Event{
		TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: auditv1.SchemeGroupVersion.String()},
		Level:    auditv1.Level(config.Level), AuditID: types.UID(r.Origin.AuditID), RequestURI: cmp.Or(r.Origin.URI, r.path()), Verb: r.Verb,
		SourceIPs: r.Origin.SourceIPs, UserAgent: r.Origin.UserAgent, RequestReceivedTimestamp: now,
	}}
	var as *authenticationv1.UserInfo
	var how *auditv1.AuthenticationMetadata
	if u := r.User; u != nil {
		if u.Constraint != "" {
			how = &auditv1.AuthenticationMetadata{ImpersonationConstraint: u.Constraint}
		}
		if u.Impersonator != nil {
			info := userInfo(u)
			as, u = &info, u.Impersonator
		}
		e.event.User = userInfo(u)
	}
	if r.Path == "" {
		e.event.ObjectRef = &auditv1.ObjectReference{
			Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name, APIGroup: r.Group, APIVersion: r.Version,
		}
	}
	if e.stranger = r.User == nil; e.stranger {
		return e // Kubernetes tells of such a request when it is refused, and only then
	}
	e.stage(auditv1.StageRequestReceived, now)
	e.event.ImpersonatedUser, e.event.AuthenticationMetadata = as, how // whether he may be is found out after a request was received
	if e.Takes() {
		e.event.RequestObject = e.object(r.Body, r.ContentType)
	}
	return e
}

// Takes reports whether what was sent is recorded.
func (e *Entry) Takes() bool {
	return e != nil && e.config.Level.GreaterOrEqual(auditinternal.LevelRequest)
}

// Sent tells what was sent, as a patch, that is no object.
func (e *Entry) Sent(body []byte, contentType string) {
	if !e.Takes() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.event.RequestObject = e.object(body, contentType)
}

// Received tells which object was sent, as it was understood. understood is called only if it is recorded.
func (e *Entry) Received(gvk schema.GroupVersionKind, understood func() any) {
	if !e.Takes() {
		return
	}
	value, err := json.Marshal(understood())
	var object map[string]any
	if err == nil {
		err = json.Unmarshal(value, &object)
	}
	if err != nil || object == nil {
		return // what was read from a request can be written again
	}
	object["apiVersion"], object["kind"] = gvk.GroupVersion().String(), gvk.Kind
	if body, err := json.Marshal(object); err == nil {
		e.Sent(body, runtime.ContentTypeJSON)
	}
}

func userInfo(u *authn.User) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	if len(u.Extra) > 0 {
		info.Extra = map[string]authenticationv1.ExtraValue{}
		for key, values := range u.Extra {
			info.Extra[key] = values
		}
	}
	return info
}

// Annotate adds an annotation. The first value of a key stays.
func (e *Entry) Annotate(key, value string) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, there := e.event.Annotations[key]; there {
		return
	}
	// Events that were recorded share the map.
	annotations := map[string]string{key: value}
	maps.Copy(annotations, e.event.Annotations)
	e.event.Annotations = annotations
}

// Name tells the name of the object, where the request did not.
func (e *Entry) Name(name string) {
	if e == nil || name == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if ref := e.event.ObjectRef; ref != nil && ref.Name == "" {
		named := *ref
		named.Name = name
		e.event.ObjectRef = &named
	}
}

// Refer tells which object was sent, where the request did not: its name and namespace, and the identity and version that its sender means.
func (e *Entry) Refer(sent metav1.Object) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.event.ObjectRef == nil {
		return
	}
	ref := *e.event.ObjectRef // events that were recorded share it
	ref.Namespace, ref.Name = cmp.Or(ref.Namespace, sent.GetNamespace()), cmp.Or(ref.Name, sent.GetName())
	ref.UID, ref.ResourceVersion = cmp.Or(ref.UID, sent.GetUID()), cmp.Or(ref.ResourceVersion, sent.GetResourceVersion())
	e.event.ObjectRef = &ref
}

// Started records that a stream has begun, by an answer of that code. One that is no stream by Kubernetes' rule has but an end.
func (e *Entry) Started(code int) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended || !e.long || e.event.ResponseStatus != nil {
		return
	}
	e.started = true
	e.event.ResponseStatus = &metav1.Status{Code: int32(code)}
	e.stage(auditv1.StageResponseStarted, metav1.NewMicroTime(e.log.clock.Now()))
}

// Wants reports whether what is answered will be recorded.
func (e *Entry) Wants() bool {
	return e != nil && e.config.Level.GreaterOrEqual(auditinternal.LevelRequestResponse)
}

// Panicked says that the handler did.
func (e *Entry) Panicked() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.panicked = true
}

// End records the outcome: code and body of the answer, or the error.
func (e *Entry) End(code int, body []byte, contentType string, err error) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	e.ended = true
	defer e.log.underway.end()
	now := metav1.NewMicroTime(e.log.clock.Now())
	e.answered(code, body, contentType, err)
	if told := e.latency(now); told != nil {
		maps.Copy(told, e.event.Annotations) // events that were recorded share that map
		e.event.Annotations = told
	}
	switch {
	case e.panicked:
		e.stage(auditv1.StagePanic, now)
	case e.stranger:
		e.stage(auditv1.StageResponseStarted, now)
	default:
		if e.long && !e.started { // a refusal is the beginning of a stream, too
			e.stage(auditv1.StageResponseStarted, now)
		}
		e.stage(auditv1.StageResponseComplete, now)
	}
}

// answered fills in what was answered.
func (e *Entry) answered(code int, body []byte, contentType string, err error) {
	status := &metav1.Status{Code: int32(cmp.Or(code, http.StatusOK))}
	if err != nil {
		s := apistatus.Of(err)
		status = &metav1.Status{Status: s.Status, Message: s.Message, Reason: s.Reason, Details: s.Details, Code: s.Code}
		if e.plain(s) {
			e.event.ResponseStatus = &metav1.Status{Code: s.Code}
			return
		}
		if e.Wants() {
			s.Kind, s.APIVersion = "Status", "v1"
			body, _ = json.Marshal(s) // a Status holds nothing that JSON cannot
			contentType = runtime.ContentTypeJSON
		}
	}
	if told := told(body, contentType); told != nil && err == nil {
		status = told
		status.Code = max(status.Code, int32(code))
	}
	e.event.ResponseStatus = status
	if e.Wants() && (e.event.ObjectRef != nil || err != nil || discovered(body)) {
		e.event.ResponseObject = e.object(body, contentType)
	}
}

// plain reports whether Kubernetes answers so by text, of which its log has the code only: a path that nothing serves, or an answer
// in no form that the client takes.
func (e *Entry) plain(s metav1.Status) bool {
	return s.Reason == metav1.StatusReasonNotAcceptable || s.Code == http.StatusNotFound && s.Message == apistatus.PageNotFound
}

// discovered reports whether an answer for a path is a discovery document; those are objects, and nothing else is.
func discovered(body []byte) bool {
	var object struct {
		Kind string `json:"kind"`
	}
	return json.Unmarshal(body, &object) == nil && strings.HasPrefix(object.Kind, "API")
}

// statusInProtobuf is how a Status in protobuf begins: with its kind and version.
var statusInProtobuf = []byte("k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Status")

// told is the Status that was answered, if it was one.
func told(body []byte, contentType string) *metav1.Status {
	var s metav1.Status
	switch {
	case contentType == runtime.ContentTypeJSON && bytes.HasPrefix(body, []byte(`{"kind":"Status"`)):
		if json.Unmarshal(body, &s) != nil {
			return nil
		}
	case contentType == runtime.ContentTypeProtobuf && bytes.HasPrefix(body, statusInProtobuf):
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &s); err != nil {
			return nil
		}
	default:
		return nil
	}
	return &metav1.Status{Status: s.Status, Message: s.Message, Reason: s.Reason, Details: s.Details, Code: max(s.Code, http.StatusOK)}
}

// stage records the event as it stands, unless the policy leaves the stage out.
func (e *Entry) stage(stage auditv1.Stage, now metav1.MicroTime) {
	if slices.Contains(e.config.OmitStages, auditinternal.Stage(stage)) {
		return
	}
	e.event.Stage, e.event.StageTimestamp = stage, now
	if err := e.log.record(e.event); err != nil && stage == auditv1.StageRequestReceived {
		e.rejected, e.ended = true, true
		e.log.underway.end()
		e.log.metrics.rejected.Inc()
	}
}

var errNotStored = errors.New("failed to store audit event")

// Rejected is the 500 that a request is to be answered where it could not be recorded that it was received, and must be; or nil.
func (e *Entry) Rejected() error {
	if e == nil || !e.rejected {
		return nil
	}
	return authz.Refused(nil, e.event.RequestURI, "", errNotStored)
}

// object returns a body as JSON. What is no object is told by its content type alone.
func (e *Entry) object(body []byte, contentType string) *runtime.Unknown {
	if len(body) == 0 {
		return nil
	}
	var value any
	if strings.Contains(contentType, "cbor") {
		if direct.Unmarshal(body, &value) == nil {
			body, _ = json.Marshal(value) // what comes out of CBOR here goes into JSON; if not, it is told by its type
		}
	}
	err := json.Unmarshal(body, &value)
	if err != nil {
		obj, _, e := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if e != nil {
			told, _ := json.Marshal(map[string]string{"kind": "Unknown", "apiVersion": "runtime.k8s.io/v1", "contentType": contentType})
			return &runtime.Unknown{Raw: told, ContentType: runtime.ContentTypeJSON}
		}
		if body, err = json.Marshal(obj); err == nil {
			err = json.Unmarshal(body, &value)
		}
		if err != nil {
			return nil
		}
	}
	if e.config.OmitManagedFields && withoutManagedFields(value) {
		if body, err = json.Marshal(value); err != nil {
			return nil
		}
	}
	return &runtime.Unknown{Raw: bytes.Clone(body), ContentType: runtime.ContentTypeJSON}
}

// withoutManagedFields takes them out of an object, or of a list's items, and tells whether there were any.
func withoutManagedFields(value any) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	changed := false
	if meta, ok := object["metadata"].(map[string]any); ok {
		if _, changed = meta["managedFields"]; changed {
			delete(meta, "managedFields")
		}
	}
	if items, ok := object["items"].([]any); ok {
		for _, item := range items {
			changed = withoutManagedFields(item) || changed
		}
	}
	return changed
}
