package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1 "k8s.io/api/autoscaling/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/fieldmanager"
	"howdah.dev/services/apiserver/internal/registry"
)

// customPatchMedia lists the patch types of custom objects, as the error of another one says it.
const customPatchMedia = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"

// Patch implements apiv1.ObjectServiceServer.
func (s *Server) Patch(ctx context.Context, req *apiv1.PatchRequest) (resp *apiv1.PatchResponse, err error) {
	ctx, r, err := s.begin(ctx, "patch", req, req.GetName(), req.GetSubresource(), "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	op, dryRun, err := s.patchOperation(ctx, r, req)
	if err != nil {
		return nil, err
	}
	a, err := s.execute(ctx, op, dryRun)
	if err != nil {
		return nil, err
	}
	r.header(ctx)
	r.code = a.code
	return &apiv1.PatchResponse{Object: a.object, ContentType: a.contentType, Code: a.code}, nil
}

func (s *Server) patchOperation(ctx context.Context, r *request, req *apiv1.PatchRequest) (operation, bool, error) {
	if !(r.subresource == "scale" && r.res.Kind.Scale != nil) {
		if _, err := r.strategy(); err != nil {
			return nil, false, err
		}
		if !r.readable() { // as finalize of a Namespace, what cannot be read cannot be patched
			return nil, false, r.unserved()
		}
	}
	media, _, _ := mime.ParseMediaType(req.GetContentType()) // empty where it does not parse
	patchType := types.PatchType(media)
	switch patchType {
	case types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType:
	case types.StrategicMergePatchType:
		if r.res.Kind.Custom != nil {
			return nil, false, r.unsupportedPatch()
		}
	case types.ApplyCBORPatchType:
		if !r.offer.CBOR {
			return nil, false, r.unsupportedPatch()
		}
	default:
		return nil, false, r.unsupportedPatch()
	}
	if r.name == "" {
		return nil, false, errNameless
	}
	form, err := r.form(req.GetAccept(), req.GetPretty(), "")
	if err != nil {
		return nil, false, err
	}
	if err := r.whole(req.GetObject()); err != nil {
		return nil, false, err
	}
	opts, err := patchOptions(req, patchType)
	if err != nil {
		return nil, false, err
	}
	s.Metrics.received(r, len(req.GetObject()))
	audit.From(ctx).Sent(req.GetObject(), req.GetContentType())
	r.managerName, r.applies = opts.manager, applies(patchType)
	u := &update{s: s, r: r, form: form, opts: opts, patches: true}
	p := &patch{s: s, r: r, u: u, kind: patchType, body: req.GetObject(), opts: opts, force: req.GetForce() == "true" || req.GetForce() == "1", told: len(r.warnings)}
	if r.subresource == "scale" && r.res.Kind.Scale != nil {
		u.scale, u.managed = true, true
		if applies(patchType) {
			return p.applyScale()
		}
		u.change = p.scale
		return u, opts.dryRun, nil
	}
	if applies(patchType) {
		return p.applyOperation()
	}
	u.change = p.change
	return u, opts.dryRun, nil
}

// unsupportedPatch is the 415 of an unknown patch type.
func (r *request) unsupportedPatch() error {
	if r.res.Kind.Custom == nil {
		return codec.UnroutedMedia()
	}
	offered := customPatchMedia
	if r.offer.CBOR {
		offered += ", " + string(types.ApplyCBORPatchType)
	}
	return codec.UnsupportedMedia(offered)
}

// applies reports whether a patch is a server-side apply.
func applies(kind types.PatchType) bool {
	return kind == types.ApplyYAMLPatchType || kind == types.ApplyCBORPatchType
}

// configuration decodes what a server-side apply brings; problems are its duplicate fields.
func (p *patch) configuration(gvk schema.GroupVersionKind) (applied *unstructured.Unstructured, problems []error, err error) {
	if p.kind == types.ApplyCBORPatchType {
		applied, err = codec.ConfigurationCBOR(p.body, gvk)
		return applied, nil, err
	}
	return codec.Configuration(p.body, gvk, p.opts.validation)
}

func patchOptions(req *apiv1.PatchRequest, patchType types.PatchType) (options, error) {
	o := &metav1.PatchOptions{DryRun: req.GetDryRun(), FieldManager: req.GetFieldManager(), FieldValidation: req.GetFieldValidation()}
	if text := req.GetForce(); text != "" {
		force := text == "true" || text == "1"
		o.Force = &force
	}
	if errs := metav1validation.ValidatePatchOptions(o, patchType); len(errs) > 0 {
		return options{}, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", errs)
	}
	level := codec.Validation(o.FieldValidation)
	if level == "" {
		level = codec.Warn
	}
	return options{dryRun: len(o.DryRun) > 0, manager: o.FieldManager, validation: level, level: o.FieldValidation}, nil
}

// patch is what a PATCH does to the state that it finds.
type patch struct {
	s     *Server
	r     *request
	u     *update
	kind  types.PatchType
	body  []byte
	opts  options
	force bool
	// told are how many warnings the request had before it was first planned.
	told int
}

// change applies the patch in the version of the request.
func (p *patch) change(_ context.Context, old registry.Object) (registry.Object, error) {
	r := p.r
	served, err := r.res.FromStored(old)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if r.res.Version != nil {
		served.GetObjectKind().SetGroupVersionKind(r.res.GVK)
	}
	obj, err := p.result(served)
	if err != nil {
		return nil, err
	}
	if err := checkNamespace(r, obj); err != nil { // before the name, as Kubernetes does of patches
		return nil, err
	}
	if err := checkName(r, obj); err != nil {
		return nil, err
	}
	return stored(r, obj)
}

// result is what the patch makes of the object in the version of the request.
func (p *patch) result(whole registry.Object) (registry.Object, error) {
	r := p.r
	if r.subresource != "status" || r.res.Kind.Status.Carry == nil || r.res.Version != nil || bytes.Contains(p.body, []byte("spec")) {
		return p.patched(whole)
	}
	// The patch does not touch the spec, and need not pass through it.
	obj, err := p.patched(fieldmanager.Without(whole, "Spec"))
	if refused := (*codec.RefusedError)(nil); errors.As(err, &refused) { // which shows the whole object
		return p.patched(whole)
	}
	if err == nil {
		r.res.Kind.Status.Carry(obj, whole)
	}
	return obj, err
}

// patched applies the patch to the object in the version of the request.
func (p *patch) patched(served registry.Object) (registry.Object, error) {
	if u, ok := served.(*unstructured.Unstructured); ok && !p.touchesEntries() {
		return p.patchedTree(u)
	}
	obj, tracked := p.r.res.New(), p.tracked(served)
	if tracked == nil {
		return obj, p.apply(served, obj, p.r.res.GVK, p.r.res.Kind)
	}
	err := p.apply(fieldmanager.Untracked(served), obj, p.r.res.GVK, p.r.res.Kind)
	if refused := (*codec.RefusedError)(nil); errors.As(err, &refused) { // which shows the whole object
		return nil, p.apply(served, p.r.res.New(), p.r.res.GVK, p.r.res.Kind)
	}
	if err != nil {
		return nil, err
	}
	obj.SetManagedFields(tracked)
	return obj, nil
}

// patchedTree is patched for a custom object, whose managed fields stay the trees that they are.
func (p *patch) patchedTree(served *unstructured.Unstructured) (registry.Object, error) {
	metadata, _ := served.Object["metadata"].(map[string]any)
	obj, tracked := p.r.res.New(), metadata["managedFields"]
	err := p.apply(fieldmanager.Untracked(served), obj, p.r.res.GVK, p.r.res.Kind)
	if refused := (*codec.RefusedError)(nil); errors.As(err, &refused) {
		return nil, p.apply(served, p.r.res.New(), p.r.res.GVK, p.r.res.Kind)
	}
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && tracked != nil {
		if metadata, ok = u.Object["metadata"].(map[string]any); ok {
			metadata["managedFields"] = tracked
		}
	}
	return obj, nil
}

// touchesEntries reports whether the patch might change managed fields.
func (p *patch) touchesEntries() bool {
	return p.kind == types.JSONPatchType || bytes.Contains(p.body, []byte("managedFields")) || bytes.Contains(p.body, []byte("$patch")) || bytes.Contains(p.body, []byte(`\u`))
}

// tracked returns the managed fields of the object where the patch cannot touch them, so that they need not pass through it: they
// are about as large as all the rest.
func (p *patch) tracked(obj registry.Object) []metav1.ManagedFieldsEntry {
	if p.touchesEntries() {
		return nil
	}
	return slices.Clone(obj.GetManagedFields())
}

// scale applies the patch to the Scale of the object.
func (p *patch) scale(_ context.Context, old registry.Object) (registry.Object, error) {
	scaled, err := p.s.Fields.ForScale(p.r.res, old.GetManagedFields())
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	before, err := scaleBefore(p.r.res.Kind, old)
	if err != nil {
		return nil, err
	}
	seen := before.DeepCopy()
	seen.ManagedFields = scaled.Entries()
	after := &autoscalingv1.Scale{}
	if err := p.apply(seen, after, scaleGVK, nil); err != nil {
		return nil, err
	}
	if err := checkNamespace(p.r, after); err != nil {
		return nil, err
	}
	if err := checkName(p.r, after); err != nil {
		return nil, err
	}
	entries, err := scaled.Update(before, after, p.r.manager(p.opts.manager))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	p.u.tracked = admission.Tracked{Object: after.ManagedFields, Old: scaled.Entries()}
	return applyScale(p.r, old, after, entries, true)
}

// applyScale is server-side apply to the Scale of an object, which must be there.
func (p *patch) applyScale() (operation, bool, error) {
	var applied *unstructured.Unstructured
	p.u.change = func(_ context.Context, old registry.Object) (registry.Object, error) {
		if applied == nil {
			var err error
			if applied, err = p.read(scaleGVK); err != nil {
				return nil, err
			}
		}
		scaled, err := p.s.Fields.ForScale(p.r.res, old.GetManagedFields())
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		before, err := scaleBefore(p.r.res.Kind, old)
		if err != nil {
			return nil, err
		}
		after, entries, err := scaled.Apply(before, applied.DeepCopy(), p.opts.manager, p.force)
		if err != nil {
			return nil, plain(err)
		}
		if err := checkNamespace(p.r, after); err != nil {
			return nil, err
		}
		if err := checkName(p.r, after); err != nil {
			return nil, err
		}
		dedupeOwners(p.r, after, true)
		p.u.tracked = admission.Tracked{Object: after.ManagedFields, Old: scaled.Entries()}
		return applyScale(p.r, old, after, entries, true)
	}
	return p.u, p.opts.dryRun, nil
}

// read decodes the configuration of a server-side apply, and warns of its duplicate fields.
func (p *patch) read(gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	applied, problems, err := p.configuration(gvk)
	if err != nil {
		return nil, err
	}
	for _, w := range codec.Warnings(problems) {
		p.r.warn(w)
	}
	return applied, nil
}

// apply makes out of in, which it leaves as it is. kind is that of an object that may be custom.
func (p *patch) apply(in, out runtime.Object, gvk schema.GroupVersionKind, kind *registry.Kind) error {
	// Problems that were told by an earlier plan are not told twice.
	p.r.warnings = p.r.warnings[:min(p.told, len(p.r.warnings))]
	strict := p.opts.validation != codec.Ignore
	patched, err := codec.PatchParts(p.kind, p.body, in, out, gvk, p.versions(gvk), strict)
	if err != nil {
		return err
	}
	out.GetObjectKind().SetGroupVersionKind(gvk)
	unshare(kind, out)
	// What says that it is of another kind is not held against the schema of this one.
	unknown, err := codec.Fit(kind, out, strict && (patched.Mistaken == nil || patched.Mistaken.Kind == gvk.GroupKind()))
	if err != nil {
		return p.misfit(in, gvk, err)
	}
	problems := append(patched.Problems, unknown...)
	switch {
	case len(unknown) > 0 && p.opts.validation == codec.Strict:
		return p.misfit(in, gvk, runtime.NewStrictDecodingError(problems))
	case len(problems) > 0 && p.opts.validation == codec.Strict:
		return patched.Refuse(runtime.NewStrictDecodingError(problems))
	case strict:
		for _, w := range codec.Warnings(problems) {
			p.r.warn(w)
		}
	}
	if p.r.subresource == "" {
		p.u.mistyped = patched.Mistaken
	}
	return nil
}

// misfit is the error, with err in it, of a patch that makes a custom object out of in which does not fit its schema. It shows what the
// patch makes, which was not written down while nothing was wrong with it.
func (p *patch) misfit(in runtime.Object, gvk schema.GroupVersionKind, err error) error {
	patched, problem := codec.Patch(p.kind, p.body, in, p.r.res.New(), gvk, p.versions(gvk), false)
	if problem != nil {
		return problem
	}
	return patched.Refuse(err)
}

// versions is the resource whose further versions the patched object may be of; nil: it has none, as a Scale.
func (p *patch) versions(gvk schema.GroupVersionKind) *registry.Resource {
	if p.r.res.GVK != gvk {
		return nil
	}
	return p.r.res
}

// nullsAreEmpty makes labels and annotations that are null empty, as they are in the metadata of objects of Go types.
func nullsAreEmpty(u *unstructured.Unstructured) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		texts, _ := metadata[name].(map[string]any)
		for key, value := range texts {
			if value == nil {
				texts[key] = ""
			}
		}
	}
}

// unshare copies a patched custom object whose maps may be changed when it is fitted to its schema: they may be those of the object before.
func unshare(kind *registry.Kind, out runtime.Object) {
	if u, ok := out.(*unstructured.Unstructured); ok && kind != nil && kind.Custom != nil && !kind.Custom.Sound(u) {
		u.Object = runtime.DeepCopyJSON(u.Object)
	}
}

// applyOperation is server-side apply, which creates the object where there is none.
func (p *patch) applyOperation() (operation, bool, error) {
	var applied *unstructured.Unstructured
	manager, err := p.s.Fields.For(p.r.res, p.r.subresource)
	if err != nil {
		return nil, false, apierrors.NewInternalError(err)
	}
	merge := func(live registry.Object) (registry.Object, error) {
		if applied == nil { // what is not there is told before what is wrong with the configuration
			var err error
			if applied, err = p.read(p.r.res.GVK); err != nil {
				return nil, err
			}
			if p.r.res.Kind.Custom != nil {
				nullsAreEmpty(applied)
			}
		}
		merged, err := manager.Apply(live, applied, p.opts.manager, p.force)
		if err != nil {
			return nil, plain(err)
		}
		obj, ok := merged.(registry.Object)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("an apply made a %T", merged))
		}
		if custom := p.r.res.Kind.Custom; custom != nil {
			if obj, err = custom.Settle(obj); err != nil {
				return nil, plain(err)
			}
		}
		obj.GetObjectKind().SetGroupVersionKind(p.r.res.Kind.GVK)
		if err := checkNamespace(p.r, obj); err != nil {
			return nil, err
		}
		return obj, checkName(p.r, obj)
	}
	p.u.managed = true
	p.u.change = func(_ context.Context, old registry.Object) (registry.Object, error) {
		return merge(old)
	}
	if p.r.creates() {
		p.u.createBy = merge
	}
	return p.u, p.opts.dryRun, nil
}
