// Command operator is an operator as people write them with controller-runtime: a custom resource, a finalizer, webhooks with TLS, and
// leader election.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const finalizer = "clients.howdah.dev/farewell"

func main() {
	name := flag.String("name", "", "name of this operator")
	port := flag.Int("webhook-port", 0, "port of the webhooks; 0 serves none")
	certs := flag.String("cert-dir", "", "folder with tls.crt and tls.key")
	namespace := flag.String("lock-namespace", "default", "namespace of the leader's lease")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), *name, *port, *certs, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, port int, certs, namespace string) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), addToScheme(scheme)); err != nil {
		return err
	}
	options := ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "shops.clients.howdah.dev", LeaderElectionNamespace: namespace,
		LeaseDuration: ptr.To(4 * time.Second), RenewDeadline: ptr.To(3 * time.Second), RetryPeriod: ptr.To(500 * time.Millisecond),
	}
	if port > 0 {
		options.WebhookServer = webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certs})
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
	if err != nil {
		return err
	}
	r := &reconciler{client: manager.GetClient(), scheme: scheme, name: name}
	if err := ctrl.NewControllerManagedBy(manager).For(&Shop{}).Owns(&corev1.ConfigMap{}).Complete(r); err != nil {
		return err
	}
	if port > 0 {
		err := ctrl.NewWebhookManagedBy(manager, &Shop{}).WithDefaulter(rules{}).WithValidator(rules{}).Complete()
		if err != nil {
			return err
		}
	}
	return manager.Start(ctx)
}

type reconciler struct {
	client client.Client
	scheme *runtime.Scheme
	name   string
}

// Reconcile makes the ConfigMap, tells so in the status, and leaves a farewell behind.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var shop Shop
	if err := r.client.Get(ctx, request.NamespacedName, &shop); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !shop.DeletionTimestamp.IsZero() {
		farewell := &corev1.ConfigMap{}
		farewell.Name, farewell.Namespace = shop.Name+"-farewell", shop.Namespace
		if err := client.IgnoreAlreadyExists(r.client.Create(ctx, farewell)); err != nil {
			return ctrl.Result{}, err
		}
		if controllerutil.RemoveFinalizer(&shop, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(r.client.Update(ctx, &shop))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&shop, finalizer) {
		if err := r.client.Update(ctx, &shop); err != nil {
			return ctrl.Result{}, err
		}
	}
	settings := &corev1.ConfigMap{}
	settings.Name, settings.Namespace = shop.Name, shop.Namespace
	_, err := controllerutil.CreateOrUpdate(ctx, r.client, settings, func() error {
		settings.Data = map[string]string{"color": shop.Spec.Color}
		return controllerutil.SetControllerReference(&shop, settings, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if shop.Status.Color != shop.Spec.Color {
		shop.Status = ShopStatus{Color: shop.Spec.Color, By: r.name}
		return ctrl.Result{}, r.client.Status().Update(ctx, &shop)
	}
	return ctrl.Result{}, nil
}

// rules default and validate shops.
type rules struct{}

func (rules) Default(_ context.Context, s *Shop) error {
	if s.Spec.Color == "" {
		s.Spec.Color = "red"
	}
	return nil
}

func (rules) ValidateCreate(_ context.Context, s *Shop) (admission.Warnings, error) { return check(s) }

func (rules) ValidateUpdate(_ context.Context, _, s *Shop) (admission.Warnings, error) {
	return check(s)
}

func (rules) ValidateDelete(context.Context, *Shop) (admission.Warnings, error) { return nil, nil }

func check(s *Shop) (admission.Warnings, error) {
	switch s.Spec.Color {
	case "purple":
		return nil, errors.New("no shop is purple")
	case "grey":
		return admission.Warnings{"grey shops sell little"}, nil
	}
	return nil, nil
}
