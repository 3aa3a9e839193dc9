// Package imagepolicy has the plugin ImagePolicyWebhook: a webhook that is configured by a file, and not through the API, says
// which images pods may run.
package imagepolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/webhook"
)

const (
	failedOpenKey    = "alpha.image-policy.k8s.io/failed-open"
	auditPrefix      = "imagepolicywebhook.image-policy.k8s.io/"
	annotationMarker = ".image-policy.k8s.io/"
	maxCached        = 1024
	tries            = 5
)

// Poster calls a webhook.
type Poster interface {
	Post(ctx context.Context, call webhook.Call) ([]byte, error)
}

// Plugin is ImagePolicyWebhook.
type Plugin struct {
	settings Settings
	target   webhook.Target
	post     Poster
	answers  *cache.LRUExpireCache
}

// New returns the plugin. config is its part of the admission configuration.
func New(config []byte, post Poster, clock clock.Clock) (*Plugin, error) {
	if config == nil {
		return nil, errors.New("no config specified: it needs a configuration with imagePolicy.kubeConfigFile (--admission-control-config-file)")
	}
	settings, err := Read(config)
	if err != nil {
		return nil, err
	}
	target, err := webhook.FromKubeconfig(settings.KubeConfigFile)
	if err != nil {
		return nil, err
	}
	return &Plugin{settings: settings, target: target, post: post, answers: cache.NewLRUExpireCacheWithClock(maxCached, clock)}, nil
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return "ImagePolicyWebhook" }

// Handles implements admission.Plugin.
func (*Plugin) Handles(a *admission.Attributes) bool {
	return a.Is("", "pods") && (a.Subresource == "" || a.Subresource == "ephemeralcontainers") &&
		(a.Operation == admission.Create || a.Operation == admission.Update)
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	if old, ok := a.Old.(*corev1.Pod); ok && same(images(pod), images(old)) {
		return nil
	}
	review := &imagepolicyv1alpha1.ImageReview{
		TypeMeta: metav1.TypeMeta{APIVersion: imagepolicyv1alpha1.SchemeGroupVersion.String(), Kind: "ImageReview"},
		Spec:     imagepolicyv1alpha1.ImageReviewSpec{Containers: images(pod), Annotations: told(pod.Annotations), Namespace: a.Namespace},
	}
	status, err := p.ask(ctx, review)
	if err != nil {
		return p.failed(ctx, a, err)
	}
	for key, value := range status.AuditAnnotations {
		a.Annotate(auditPrefix+key, value)
	}
	if status.Allowed {
		return nil
	}
	if status.Reason != "" {
		return admission.Final(a.Forbidden(fmt.Errorf("image policy webhook backend denied one or more images: %s", status.Reason)))
	}
	return admission.Final(a.Forbidden(errors.New("one or more images rejected by webhook backend")))
}

// failed decides by the configured default where the webhook cannot be asked.
func (p *Plugin) failed(ctx context.Context, a *admission.Attributes, err error) error {
	if !p.settings.DefaultAllow {
		return admission.Final(a.Forbidden(err))
	}
	slog.WarnContext(ctx, "the image policy webhook cannot be asked, failing open", "err", err)
	a.Annotate(auditPrefix+"failed-open", "true")
	if a.Object.GetAnnotations() == nil {
		a.Object.SetAnnotations(map[string]string{})
	}
	a.Object.GetAnnotations()[failedOpenKey] = "true"
	return nil
}

func images(pod *corev1.Pod) []imagepolicyv1alpha1.ImageReviewContainerSpec {
	var list []imagepolicyv1alpha1.ImageReviewContainerSpec
	for _, c := range pod.Spec.Containers {
		list = append(list, imagepolicyv1alpha1.ImageReviewContainerSpec{Image: c.Image})
	}
	for _, c := range pod.Spec.InitContainers {
		list = append(list, imagepolicyv1alpha1.ImageReviewContainerSpec{Image: c.Image})
	}
	for _, c := range pod.Spec.EphemeralContainers {
		list = append(list, imagepolicyv1alpha1.ImageReviewContainerSpec{Image: c.Image})
	}
	return list
}

func same(a, b []imagepolicyv1alpha1.ImageReviewContainerSpec) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// told are the annotations that are meant for the webhook.
func told(annotations map[string]string) map[string]string {
	var out map[string]string
	for key, value := range annotations {
		if strings.Contains(key, annotationMarker) {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// ask returns the webhook's verdict, from memory where it was asked the same lately.
func (p *Plugin) ask(ctx context.Context, review *imagepolicyv1alpha1.ImageReview) (*imagepolicyv1alpha1.ImageReviewStatus, error) {
	key, err := json.Marshal(review.Spec)
	if err != nil {
		return nil, err
	}
	if known, ok := p.answers.Get(string(key)); ok {
		return known.(*imagepolicyv1alpha1.ImageReviewStatus), nil
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	answer, err := p.send(ctx, body)
	if err != nil {
		return nil, err
	}
	got := &imagepolicyv1alpha1.ImageReview{}
	if err := json.Unmarshal(answer, got); err != nil {
		return nil, fmt.Errorf("answer of the image policy webhook: %w", err)
	}
	ttl := p.settings.DenyTTL
	if got.Status.Allowed {
		ttl = p.settings.AllowTTL
	}
	if ttl > 0 {
		p.answers.Add(string(key), &got.Status, ttl)
	}
	return &got.Status, nil
}

// send tries a few times, with pauses that grow: whoever creates a pod waits.
func (p *Plugin) send(ctx context.Context, body []byte) (answer []byte, err error) {
	pause := p.settings.RetryBackoff
	for try := 1; ; try++ {
		answer, err = p.post.Post(ctx, webhook.Call{Purpose: "imagepolicy", Target: p.target, Body: body})
		if err == nil || try == tries || !worthRetrying(err) {
			return answer, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
		pause += pause / 2
	}
}

// worthRetrying reports whether the webhook may answer another time: it is overloaded, or the connection broke.
func worthRetrying(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err)
}
