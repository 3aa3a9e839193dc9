package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/view"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/webhook"
)

// caller is what both plugins share.
type caller struct {
	table      *registry.Table
	objects    admission.Objects
	authorizer view.Authorizer
	post       Poster
	reviews    reviews
	identities *webhook.Identities
	metrics    *metrics
}

// failure is that of a call, about which the failure policy decides.
type failure struct {
	hook  string
	cause error
}

// Error names the webhook.
func (f *failure) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", f.hook, f.cause)
}

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.cause }

// concerns returns the version in which a webhook is to be asked about a write, or nil where it is not.
func (c *caller) concerns(ctx context.Context, h *hook, phase string, r *view.Request) (*view.Version, error) {
	res, err := h.match.Matches(ctx, r, c.objects)
	if res == nil || err != nil {
		return nil, err
	}
	v, err := r.As(ctx, res)
	if err != nil {
		if phase == "admit" { // Kubernetes says it twice there
			err = apierrors.NewInternalError(err)
		}
		return nil, apierrors.NewInternalError(err)
	}
	if h.conditions == nil {
		return v, nil
	}
	attributes, err := v.Attributes(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	result := h.conditions.Match(ctx, attributes, nil, c.authorizer)
	if result.Error != nil {
		return nil, r.Forbidden(result.Error)
	}
	if !result.Matches {
		c.metrics.excluded(h, phase, r)
		return nil, nil
	}
	return v, nil
}

// question is a review that is to be sent.
type question struct {
	hook    *hook
	version *view.Version
	uid     types.UID
	body    []byte
	mutates bool
}

// ask makes the review of a write for a webhook.
func ask(r *view.Request, h *hook, v *view.Version, asked *view.Version, mutates bool) (*question, error) {
	if r.DryRun && !h.dryRuns() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.name))
	}
	q := &question{hook: h, version: v, uid: uuid.NewUUID(), mutates: mutates}
	request := &admissionv1.AdmissionRequest{
		UID: q.uid, Kind: metav1.GroupVersionKind(v.Kind), Resource: metav1.GroupVersionResource(v.Resource), SubResource: r.Subresource,
		RequestKind: (*metav1.GroupVersionKind)(&asked.Kind), RequestResource: (*metav1.GroupVersionResource)(&asked.Resource),
		RequestSubResource: r.Subresource, Name: r.Name, Namespace: r.Where(), Operation: admissionv1.Operation(r.Operation),
		UserInfo: userInfo(r.Attributes), DryRun: &r.DryRun, Options: runtime.RawExtension{Object: view.Options(r.Attributes)},
	}
	object, err := v.JSON(false)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	old, err := v.JSON(true)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	q.body, err = encode(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/" + h.version, Kind: "AdmissionReview"}, Request: request,
	}, object, old)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return q, nil
}

// Where encoding/json writes the objects of a review that has none.
const (
	noObject = `"object":null`
	noOld    = `"oldObject":null`
)

// encode encodes a review that has no objects yet with these, as encoding/json has encoded them; nil is none. They are put in as they are:
// encoding/json would look at each byte of them once more.
func encode(review *admissionv1.AdmissionReview, object, old []byte) ([]byte, error) {
	around, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	at := bytes.LastIndex(around, []byte(noObject+","+noOld)) // behind whatever the user is said to be
	if at < 0 {
		return nil, errors.New("the review has objects")
	}
	b := make([]byte, 0, len(around)+len(object)+len(old))
	b = appendObject(append(b, around[:at]...), noObject, object)
	b = appendObject(append(b, ','), noOld, old)
	return append(b, around[at+len(noObject)+1+len(noOld):]...), nil
}

func appendObject(b []byte, none string, object []byte) []byte {
	if object == nil {
		return append(b, none...)
	}
	return append(append(b, strings.TrimSuffix(none, "null")...), object...)
}

func userInfo(a *admission.Attributes) authenticationv1.UserInfo {
	if a.User == nil {
		return authenticationv1.UserInfo{}
	}
	info := authenticationv1.UserInfo{Username: a.User.Name, UID: a.User.UID, Groups: a.User.Groups}
	for key, values := range a.User.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// answer is a webhook's answer, checked.
type answer struct {
	response *admissionv1.AdmissionResponse
	took     time.Duration
}

// send sends a review. Its error is a *failure.
func (c *caller) send(ctx context.Context, q *question) (*answer, error) {
	start := time.Now()
	if q.hook.err != nil {
		return &answer{}, &failure{q.hook.name, q.hook.err}
	}
	target := q.hook.target
	target.Client = c.identities.For(&target)
	body, err := c.post.Post(ctx, webhook.Call{Purpose: "admission", Target: target, Body: q.body, Timeout: q.hook.timeout})
	a := &answer{took: time.Since(start)}
	var unusable *webhook.ConfigError
	if errors.As(err, &unusable) {
		return a, &failure{q.hook.name, fmt.Errorf("could not get REST client: %w", err)}
	}
	if err != nil {
		return a, &failure{q.hook.name, fmt.Errorf("failed to call webhook: %w", err)}
	}
	review, err := c.reviews.read(body, q.hook.version)
	if err != nil {
		return a, &failure{q.hook.name, fmt.Errorf("failed to call webhook: %w", err)}
	}
	if err := q.check(review); err != nil {
		return a, &failure{q.hook.name, fmt.Errorf("received invalid webhook response: %w", err)}
	}
	a.response = review.Response
	return a, nil
}

// check returns what is wrong with an answer. Webhooks of v1beta1 may leave out more.
func (q *question) check(review *admissionv1.AdmissionReview) error {
	r := review.Response
	if r == nil {
		return errors.New("webhook response was absent")
	}
	if q.hook.version == "v1" {
		if want, got := reviewKind, review.GroupVersionKind(); got != want {
			return fmt.Errorf("expected webhook response of %s, got %s", want, got)
		}
		if r.UID != q.uid {
			return fmt.Errorf("expected response.uid=%q, got %q", q.uid, r.UID)
		}
	}
	if !q.mutates {
		if len(r.Patch) > 0 && q.hook.version == "v1" {
			return errors.New("validating webhook may not return response.patch")
		}
		if r.PatchType != nil && q.hook.version == "v1" {
			return errors.New("validating webhook may not return response.patchType")
		}
		return nil
	}
	if q.hook.version != "v1" {
		return nil
	}
	switch {
	case len(r.Patch) > 0 && r.PatchType == nil:
		return errors.New("webhook returned response.patch but not response.patchType")
	case len(r.Patch) == 0 && r.PatchType != nil:
		return errors.New("webhook returned response.patchType but not response.patch")
	}
	return nil
}

// denied is the refusal that a webhook's answer is.
func denied(hook string, result *metav1.Status) error {
	text := fmt.Sprintf("admission webhook %q denied the request", hook)
	status := metav1.Status{}
	if result != nil {
		status = *result
	}
	switch {
	case status.Message != "":
		status.Message = text + ": " + status.Message
	case status.Reason != "":
		status.Message = text + ": " + string(status.Reason)
	default:
		status.Message = text + " without explanation"
	}
	status.Status = metav1.StatusFailure
	if status.Code < 400 {
		status.Code = 400
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// heed passes on what a webhook tells besides its verdict.
func heed(a *admission.Attributes, h *hook, r *admissionv1.AdmissionResponse) {
	for key, value := range r.AuditAnnotations {
		a.Annotate(h.name+"/"+key, value)
	}
	for _, w := range r.Warnings {
		a.Warn(w)
	}
}
