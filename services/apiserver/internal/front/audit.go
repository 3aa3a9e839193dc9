package front

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// most is how much of a list's answer is kept for the audit, in bytes; of a longer one nothing is.
const most = 8 << 20

// list is the answer to a list, as far as it was sent.
type list struct {
	body        []byte
	contentType string
	tooLong     bool
}

// add keeps a part where the entry wants it.
func (l *list) add(e *audit.Entry, part *apiv1.ListResponse) *list {
	if !e.Wants() {
		return nil
	}
	if l == nil {
		l = &list{contentType: part.GetContentType()}
	}
	if l.tooLong = l.tooLong || len(l.body)+len(part.GetObject()) > most; l.tooLong {
		l.body = nil
		return l
	}
	l.body = append(l.body, part.GetObject()...)
	return l
}

// GetObject, GetContentType and GetCode are those of answers.
func (l *list) GetObject() []byte {
	if l == nil {
		return nil
	}
	return l.body
}

func (l *list) GetContentType() string {
	if l == nil {
		return ""
	}
	return l.contentType
}

// record begins the audit of a call; of a batch, of each of its writes.
func (c *call) record(ctx context.Context, req any, r *request) {
	log := c.front.cfg.Audit
	if log == nil {
		return
	}
	origin := audit.OriginOf(ctx)
	b, ok := req.(*apiv1.BatchRequest)
	if !ok {
		a := c.audited(req, r, origin)
		if a.Path == "" { // the service tells, once it has read it
			a.Body = nil
		}
		if e := log.Begin(a); e != nil {
			c.slot.Put(e)
			c.notes.Tell(e.Annotate)
		}
		return
	}
	for _, item := range b.GetItems() {
		var message any
		switch w := item.GetWrite().(type) {
		case *apiv1.BatchItem_Create:
			message = w.Create
		case *apiv1.BatchItem_Update:
			message = w.Update
		case *apiv1.BatchItem_Patch:
			message = w.Patch
		case *apiv1.BatchItem_Delete:
			message = w.Delete
		default: // it is refused
			c.items = append(c.items, nil)
			continue
		}
		one := read(message, func(string, string, string) (int, int) { return 0, 0 })
		e := log.Begin(c.audited(message, &one, origin))
		c.notes.Tell(e.Annotate)
		c.items = append(c.items, e)
	}
	c.slot.PutItems(c.items)
}

// unrecorded is why the call must not go on: it, or one of its writes, could not be recorded.
func (c *call) unrecorded() error {
	if err := c.slot.Load().Rejected(); err != nil {
		return err
	}
	for _, e := range c.items {
		if err := e.Rejected(); err != nil {
			return err
		}
	}
	return nil
}

// report records what a gateway has answered by itself.
func (f *Front) report(ctx context.Context, m *apiv1.ReportRequest) error {
	if peer, ok := rpc.Peer(ctx); !ok || !peer.In(authn.GatewayGroup) {
		return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("only gateways report requests"))
	}
	if f.cfg.Audit == nil {
		return nil
	}
	a := m.GetAccess()
	access := authn.Access{
		Verb: a.GetVerb(), Path: a.GetPath(), Group: a.GetGroup(), Version: a.GetVersion(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
		Namespace: authz.NamespaceOf(a.GetGroup(), a.GetResource(), a.GetNamespace(), a.GetName()), Name: a.GetName(),
	}
	ctx, notes := authn.WithNotes(ctx)
	user, err := f.cfg.Authenticator.Authenticate(authn.WithAsked(ctx, func() authn.Access { return access }))
	if err != nil && m.GetCode() == http.StatusUnauthorized {
		user = nil
	}
	entry := f.cfg.Audit.Begin(&audit.Request{
		User: user, Verb: access.Verb, Path: access.Path, Group: access.Group, Version: access.Version, Resource: access.Resource,
		Subresource: access.Subresource, Namespace: access.Namespace, Name: access.Name, Origin: audit.OriginOf(ctx),
	})
	notes.Tell(entry.Annotate)
	if user != nil && f.cfg.Authorizer != nil && (access.Path != "" || m.GetCode() != http.StatusBadRequest) { // what cannot be read is not decided on
		entry.Judge(ctx, f.cfg.Authorizer, authz.For(user, access))
	}
	var status metav1.Status
	if json.Unmarshal(m.GetStatus(), &status) == nil && status.Code >= http.StatusBadRequest {
		entry.End(0, nil, "", &apierrors.StatusError{ErrStatus: status})
		return nil
	}
	entry.End(int(m.GetCode()), nil, "", nil)
	return nil
}

func (c *call) audited(req any, r *request, origin audit.Origin) *audit.Request {
	a := &audit.Request{
		User: c.caller, Verb: r.Verb, Path: r.Path, Group: r.Group, Version: r.Version, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		Origin: origin,
	}
	a.Resource = r.plain
	if m, ok := req.(interface {
		GetObject() []byte
		GetContentType() string
	}); ok {
		a.Body, a.ContentType = m.GetObject(), m.GetContentType()
	}
	return a
}

// recordEnd ends the audit of a call.
func (c *call) recordEnd(resp any, err error) {
	if b, ok := resp.(*apiv1.BatchResponse); ok && err == nil {
		for i, e := range c.items {
			if i < len(b.GetResults()) {
				r := b.GetResults()[i]
				e.End(int(r.GetCode()), r.GetObject(), r.GetContentType(), nil)
			}
		}
		return
	}
	for _, e := range c.items {
		e.End(0, nil, "", err)
	}
	e := c.slot.Load()
	if e == nil {
		return
	}
	var body []byte
	var contentType string
	code := c.code
	if err == nil {
		if m, ok := resp.(interface {
			GetObject() []byte
			GetContentType() string
		}); ok {
			body, contentType = m.GetObject(), m.GetContentType()
		}
		code = answered(resp, code)
	}
	e.End(code, body, contentType, err)
}

// answered is the code of an answer, where it tells one: of a document that the client has there is nothing but the code.
func answered(resp any, code int) int {
	if m, ok := resp.(interface{ GetCode() int32 }); ok {
		return int(m.GetCode())
	}
	if m, ok := resp.(interface{ GetNotModified() bool }); ok && m.GetNotModified() {
		return http.StatusNotModified
	}
	return code
}
