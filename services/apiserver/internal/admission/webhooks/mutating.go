package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/view"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/splice"
)

// Mutating is the plugin MutatingAdmissionWebhook: it asks the webhooks that a write concerns one after the other, each about
// what those before it have made of the object.
type Mutating struct {
	*caller
	hooks *view.Followed[*index]
}

// Name implements admission.Plugin.
func (*Mutating) Name() string { return "MutatingAdmissionWebhook" }

// Handles implements admission.Plugin.
func (p *Mutating) Handles(a *admission.Attributes) bool { return handles(a, p.hooks) }

// rounds is what the second run must know of the first.
type rounds struct {
	// invoked are the webhooks that want to be asked again where the object changes after them, by uid; again those for which
	// that has happened.
	invoked, again map[string]bool
	// left is the object as the first run left it.
	left registry.Object
}

// require asks all webhooks again that have been asked and want it.
func (s *rounds) require() {
	for uid := range s.invoked {
		s.again[uid] = true
	}
	clear(s.invoked)
}

// Admit implements admission.Mutator.
func (p *Mutating) Admit(ctx context.Context, a *admission.Attributes) error {
	if err := p.hooks.Await(ctx); err != nil || view.Exempt(a) {
		return err
	}
	defer audit.From(ctx).Timing(audit.MutatingWebhook)()
	return admission.Final(p.admit(ctx, a))
}

func (p *Mutating) admit(ctx context.Context, a *admission.Attributes) error {
	state, _ := a.Memory[p.Name()].(*rounds)
	if state == nil {
		state = &rounds{invoked: map[string]bool{}, again: map[string]bool{}}
		a.Remember(p.Name(), state)
	}
	if a.Round > 0 && !same(state.left, a.Object) { // plugins between have changed it
		state.require()
	}
	r := view.New(a, p.table)
	for i, h := range p.hooks.Get().hooks {
		if a.Round > 0 && !state.again[h.uid] {
			continue
		}
		v, err := p.concerns(ctx, h, "admit", r)
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		changed, err := p.call(ctx, r, i, h, v)
		if err != nil {
			return err
		}
		if changed {
			state.require()
			a.Again = true
		}
		if h.reinvocable {
			state.invoked[h.uid] = true
		}
	}
	if a.Round == 0 && (a.Again || len(state.invoked) > 0) && a.Object != nil {
		state.left = a.Object.DeepCopyObject().(registry.Object)
	}
	return nil
}

func same(a, b registry.Object) bool { return a != nil && b != nil && reflect.DeepEqual(a, b) }

// call asks one webhook and applies its patch. It reports whether that changed the object.
func (p *Mutating) call(ctx context.Context, r *view.Request, i int, h *hook, v *view.Version) (bool, error) {
	asked, err := r.As(ctx, r.Resource)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	q, err := ask(r, h, v, asked, true)
	if err != nil {
		return false, err
	}
	got, err := p.send(ctx, q)
	var operations jsonpatch.Patch
	if err == nil && got.response.Allowed && len(got.response.Patch) > 0 {
		if operations, err = jsonpatch.DecodePatch(got.response.Patch); err != nil {
			err = &failure{h.name, fmt.Errorf("received undecodable patch in webhook response: %w", err)}
		}
	}
	var failed *failure
	if errors.As(err, &failed) {
		if h.ignoresFailure {
			slog.WarnContext(ctx, "failed calling webhook, failing open", "webhook", h.name, "err", failed.cause)
			r.Annotate(fmt.Sprintf("failed-open.mutation.webhook.admission.k8s.io/round_%d_index_%d", r.Round, i), h.name)
			p.metrics.openFailure(h, "admit", r.Attributes, got)
			return false, nil
		}
		p.metrics.failed(h, "admit", r.Attributes, got, failed)
		p.annotate(r, i, h, false)
		return false, apierrors.NewInternalError(failed)
	}
	heed(r.Attributes, h, got.response)
	if !got.response.Allowed {
		refusal := denied(h.name, got.response.Result)
		p.metrics.denied(h, "admit", r.Attributes, got, refusal)
		p.annotate(r, i, h, false)
		return false, refusal
	}
	changed, err := p.patch(ctx, r, h, v, got.response.PatchType, operations)
	if err != nil {
		p.metrics.failed(h, "admit", r.Attributes, got, err)
		return false, err
	}
	p.metrics.allowed(h, "admit", r.Attributes, got)
	p.annotate(r, i, h, changed)
	if changed {
		p.annotatePatch(ctx, r, i, h, got.response.Patch)
	}
	return changed, nil
}

// patch applies a webhook's patch, which may only be made of what it was sent.
func (p *Mutating) patch(ctx context.Context, r *view.Request, h *hook, v *view.Version, form *admissionv1.PatchType, operations jsonpatch.Patch) (bool, error) {
	if len(operations) == 0 {
		return false, nil
	}
	if !v.Mutable() {
		return false, apierrors.NewInternalError(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.name))
	}
	if form != nil && *form != admissionv1.PatchTypeJSONPatch {
		return false, apierrors.NewInternalError(&failure{h.name, fmt.Errorf("unsupported patch type %q", *form)})
	}
	before, err := v.JSON(false)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	if after, ok := splice.Apply(before, operations); ok {
		if changed, err := v.Replace(ctx, after); err == nil {
			return changed, nil
		}
	}
	after, err := apply(before, operations) // and in the library's words what is wrong
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	changed, err := v.Replace(ctx, after)
	var status *apierrors.StatusError
	if err != nil && !errors.As(err, &status) {
		err = apierrors.NewInternalError(err)
	}
	return changed, err
}

// Bounds of a patch: its operations, and the bytes that copying within the object may make of it.
const (
	maxOperations = 10000
	maxPatched    = 8 << 20
)

func apply(before []byte, operations jsonpatch.Patch) ([]byte, error) {
	if len(operations) > maxOperations {
		return nil, fmt.Errorf("the patch has %d operations, %d are allowed", len(operations), maxOperations)
	}
	copies := false
	for _, o := range operations {
		copies = copies || o.Kind() == "copy"
	}
	if !copies { // the outcome is no larger than the object and the patch
		return operations.Apply(before)
	}
	after := before
	for _, o := range operations {
		var err error
		if after, err = (jsonpatch.Patch{o}).Apply(after); err != nil {
			return nil, err
		}
		if len(after) > maxPatched {
			return nil, fmt.Errorf("the patch makes an object of more than %d bytes", maxPatched)
		}
	}
	return after, nil
}

// annotate tells the audit log that a webhook was asked.
func (p *Mutating) annotate(r *view.Request, i int, h *hook, mutated bool) {
	if r.Notes == nil {
		return
	}
	value, err := json.Marshal(struct {
		Configuration string `json:"configuration"`
		Webhook       string `json:"webhook"`
		Mutated       bool   `json:"mutated"`
	}{h.configuration, h.name, mutated})
	if err == nil {
		r.Annotate(fmt.Sprintf("mutation.webhook.admission.k8s.io/round_%d_index_%d", r.Round, i), string(value))
	}
}

// annotatePatch tells the audit log the patch itself where it takes what requests hold: a patch may hold what a Secret does.
func (p *Mutating) annotatePatch(ctx context.Context, r *view.Request, i int, h *hook, patch []byte) {
	if r.Notes == nil || !audit.From(ctx).Takes() {
		return
	}
	value, err := json.Marshal(struct {
		Configuration string          `json:"configuration"`
		Webhook       string          `json:"webhook"`
		Patch         json.RawMessage `json:"patch,omitempty"`
		PatchType     string          `json:"patchType,omitempty"`
	}{h.configuration, h.name, patch, "JSONPatch"})
	if err == nil {
		r.Annotate(fmt.Sprintf("patch.webhook.admission.k8s.io/round_%d_index_%d", r.Round, i), string(value))
	}
}
