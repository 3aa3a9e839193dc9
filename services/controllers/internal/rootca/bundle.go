package rootca

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// servingSigner stands for who signs the certificates that API servers show.
const servingSigner = "kubernetes.io/kube-apiserver-serving"

type trustBundle = certificatesv1beta1.ClusterTrustBundle

// bundler keeps one bundle of the signer, of the authority that there is now.
type bundler struct {
	client  *object.Client
	ca      controller.Authorities
	bundles *object.Informer[*trustBundle]
	metrics *Metrics
}

// NewBundle returns the controller that publishes ca as a ClusterTrustBundle. metrics may be nil.
func NewBundle(env *controller.Env, ca controller.Authorities, metrics *Metrics) controller.Unit {
	c := &bundler{
		client: env.Client, ca: ca, metrics: metrics,
		bundles: object.InformerFor(env.Informers, object.ClusterTrustBundle, object.Option{FieldSelector: "spec.signerName=" + servingSigner}),
	}
	queue := reconcile.New(reconcile.Config{Name: "trustbundle", Kind: "ClusterTrustBundle", Reconcile: c.reconcile, Metrics: env.Metrics})
	controller.Handle(env, c.bundles, func(old, new *trustBundle) {
		b := new
		if b == nil {
			b = old
		}
		queue.Enqueue(servingSigner, c.bundles.Trace(b))
	})
	replaced := func(ctx context.Context) error {
		look := func() { queue.Enqueue(servingSigner, trace.SpanContext{}) }
		look() // there may be no bundle that would tell of itself
		return ca.Follow(ctx, look)
	}
	return controller.Unit{Queues: []*reconcile.Controller{queue}, Loops: []func(context.Context) error{replaced}}
}

// bundleName is that of the authority's bundle: another authority has another bundle, so that none changes under those who read it.
func bundleName(ca string) string {
	hash := sha256.Sum256([]byte(ca))
	return fmt.Sprintf("%s:%x", strings.ReplaceAll(servingSigner, "/", ":"), hash[:12])
}

// planBundles returns the bundle to write, nil where it is right, whether it is there already, and the names of those that have to go.
func planBundles(ca string, all []*trustBundle) (write *trustBundle, exists bool, remove []string) {
	name := bundleName(ca)
	write = &trustBundle{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: servingSigner, TrustBundle: ca}}
	for _, b := range all {
		switch {
		case b.Name != name:
			remove = append(remove, b.Name)
		case b.Spec.TrustBundle == ca:
			write = nil
		default:
			write, exists = b.DeepCopy(), true
			write.Spec.TrustBundle = ca
		}
	}
	return write, exists, remove
}

func (c *bundler) reconcile(ctx context.Context, _ string) (time.Duration, error) {
	start := time.Now()
	err := c.publish(ctx)
	c.metrics.synced(time.Since(start), err)
	return 0, err
}

// publish writes the bundle, and removes others only once it is there.
func (c *bundler) publish(ctx context.Context) error {
	write, exists, remove := planBundles(string(c.ca.Now().PEM), c.bundles.List(""))
	bundles := object.For(c.client, object.ClusterTrustBundle)
	var err error
	switch {
	case write == nil:
	case exists:
		_, err = bundles.Update(ctx, write)
	default:
		_, err = bundles.Create(ctx, write)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("write trust bundle: %w", err)
	}
	var problems []error
	for _, name := range remove {
		if err := bundles.Delete(ctx, "", name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("remove trust bundle %s: %w", name, err))
		}
	}
	return errors.Join(problems...)
}
