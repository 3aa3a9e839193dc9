package bootstrap

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/itself"
)

// Object names one of the cluster's own objects.
type Object struct {
	schema.GroupVersionResource
	Namespace, Name string // of a kind without namespaces, the name alone
}

// Kept are the objects that Keep makes again.
func Kept() []Object {
	kept := []Object{
		{networkingv1.SchemeGroupVersion.WithResource("servicecidrs"), "", name},
		{corev1.SchemeGroupVersion.WithResource("services"), metav1.NamespaceDefault, name},
		{corev1.SchemeGroupVersion.WithResource("configmaps"), metav1.NamespaceSystem, trackingName},
	}
	for _, ns := range namespaces {
		kept = append(kept, Object{corev1.SchemeGroupVersion.WithResource("namespaces"), "", ns})
	}
	return kept
}

// Leading are the objects by which the Service kubernetes leads to gateways, which FollowGateways makes again.
func Leading() []Object {
	return []Object{
		{corev1.SchemeGroupVersion.WithResource("endpoints"), metav1.NamespaceDefault, name},
		{discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), metav1.NamespaceDefault, name},
	}
}

// Keep makes again what somebody removes of Kept, until ctx ends. Each time that changed fires, it looks.
func Keep(ctx context.Context, cfg Config, changed <-chan struct{}) error {
	ctx = itself.Context(ctx)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		if err := untilDone(ctx, func() error { return kept(ctx, cfg) }); err != nil {
			return err
		}
	}
}

func kept(ctx context.Context, cfg Config) error {
	for _, ns := range namespaces {
		obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		if err := ensure(ctx, cfg.API, resource{version: "v1", resource: "namespaces"}, obj, nil); err != nil {
			return err
		}
	}
	if err := tracking(ctx, cfg); err != nil {
		return err
	}
	if err := serviceCIDR(ctx, cfg); err != nil {
		return err
	}
	return ensure(ctx, cfg.API, resource{version: "v1", resource: "services"}, service(cfg), nil)
}

// untilDone tries again and again, until what makes objects succeeds or ctx ends.
func untilDone(ctx context.Context, try func() error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := try()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		slog.WarnContext(ctx, "make the cluster's own objects", "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}
