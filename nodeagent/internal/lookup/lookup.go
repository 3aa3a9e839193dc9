// Package lookup reads the objects that pods refer to: ConfigMaps, Secrets
// and service-account tokens, with a cache that bounds how often the API is
// asked, and services from the informer.
package lookup

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
)

// Objects reads what pods refer to. It is safe for concurrent use.
type Objects struct {
	client     *object.Client
	services   *object.Informer[*corev1.Service]
	clock      clock.PassiveClock
	configMaps *cache[*corev1.ConfigMap]
	secrets    *cache[*corev1.Secret]
	drivers    *cache[*storagev1.CSIDriver]
	bundles    *cache[*certificatesv1beta1.ClusterTrustBundle]
	signed     *cache[[]*certificatesv1beta1.ClusterTrustBundle] // by signer and selector
}

// Fresh is how old an object may be that a container or a volume gets.
const Fresh = 2 * time.Second

// New returns the look-ups of a client.
func New(client *object.Client, services *object.Informer[*corev1.Service], clk clock.PassiveClock) *Objects {
	o := &Objects{client: client, services: services, clock: clk}
	o.configMaps = newCache(clk, func(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
		return object.For(client, object.ConfigMap).Get(ctx, namespace, name)
	})
	o.secrets = newCache(clk, func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
		return object.For(client, object.Secret).Get(ctx, namespace, name)
	})
	o.drivers = newCache(clk, func(ctx context.Context, namespace, name string) (*storagev1.CSIDriver, error) {
		return object.For(client, object.CSIDriver).Get(ctx, namespace, name)
	})
	o.bundles = newCache(clk, func(ctx context.Context, _, name string) (*certificatesv1beta1.ClusterTrustBundle, error) {
		return object.For(client, object.ClusterTrustBundle).Get(ctx, "", name)
	})
	o.signed = newCache(clk, func(ctx context.Context, signer, selector string) ([]*certificatesv1beta1.ClusterTrustBundle, error) {
		list, _, err := object.For(client, object.ClusterTrustBundle).List(ctx, "", metav1.ListOptions{FieldSelector: "spec.signerName=" + signer, LabelSelector: selector})
		return list, err
	})
	return o
}

// ConfigMap returns a ConfigMap that is at most Fresh old.
func (o *Objects) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	cm, err := o.configMaps.get(ctx, namespace, name)
	return cm, named(err, "configmap", name)
}

// Secret returns a Secret that is at most Fresh old.
func (o *Objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret, err := o.secrets.get(ctx, namespace, name)
	return secret, named(err, "secret", name)
}

// Claim returns a claim as of now.
func (o *Objects) Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return object.For(o.client, object.PersistentVolumeClaim).Get(obs.Untraced(ctx), namespace, name)
}

// Volume returns a persistent volume as of now.
func (o *Objects) Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	return object.For(o.client, object.PersistentVolume).Get(obs.Untraced(ctx), "", name)
}

// Node returns a node as of now.
func (o *Objects) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return object.For(o.client, object.Node).Get(obs.Untraced(ctx), "", name)
}

// CSIDriver returns what is said of a CSI driver, nil where nothing is. It is at most Fresh old.
func (o *Objects) CSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	driver, err := o.drivers.get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return driver, named(err, "csidriver", name)
}

// RuntimeHandler returns the runtime's handler of a RuntimeClass, as of now.
func (o *Objects) RuntimeHandler(ctx context.Context, class string) (string, error) {
	found, err := object.For(o.client, object.RuntimeClass).Get(obs.Untraced(ctx), "", class)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("RuntimeClass %q not found", class)
	}
	if err != nil {
		return "", fmt.Errorf("read RuntimeClass %q: %w", class, err)
	}
	return found.Handler, nil
}

// Attachment returns the attachment of a volume as of now.
func (o *Objects) Attachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error) {
	return object.For(o.client, object.VolumeAttachment).Get(obs.Untraced(ctx), "", name)
}

// ChangeClaim changes the status of a claim, as it is now, and returns what it has become. Another one of its name stays as it is.
func (o *Objects) ChangeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, change func(*corev1.PersistentVolumeClaim)) (changed *corev1.PersistentVolumeClaim, err error) {
	claims := object.For(o.client, object.PersistentVolumeClaim)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh, err := claims.Get(obs.Untraced(ctx), claim.Namespace, claim.Name)
		if err != nil {
			return err
		}
		if fresh.UID != claim.UID {
			changed = claim
			return nil
		}
		next := fresh.DeepCopy()
		change(next)
		changed, err = claims.UpdateStatus(obs.Untraced(ctx), next)
		return err
	})
	return changed, err
}

// named words errors as people know them from Kubernetes' events.
func named(err error, kind, name string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
	}
	return fmt.Errorf("read %s %q: %w", kind, name, err)
}

// TrustBundle reads a set of certificates of authorities.
func (o *Objects) TrustBundle(ctx context.Context, name string) (*certificatesv1beta1.ClusterTrustBundle, error) {
	b, err := o.bundles.get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(certificatesv1beta1.Resource("clustertrustbundle"), name)
	}
	return b, err
}

// TrustBundles reads those of a signer that a label selector matches.
func (o *Objects) TrustBundles(ctx context.Context, signer, selector string) ([]*certificatesv1beta1.ClusterTrustBundle, error) {
	return o.signed.get(ctx, signer, selector)
}

// Services returns the services of a namespace.
func (o *Objects) Services(namespace string) []*corev1.Service {
	if o.services == nil {
		return nil
	}
	return o.services.List(namespace)
}

// Token asks for a token of the pod's service account, bound to the pod.
func (o *Objects) Token(ctx context.Context, pod *corev1.Pod, audience string, seconds int64) (token string, expires time.Time, err error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	answer, err := requestToken(obs.Untraced(ctx), o.client, pod.Namespace, pod.Spec.ServiceAccountName, request)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("request token of service account %s: %w", pod.Spec.ServiceAccountName, err)
	}
	return answer.Status.Token, answer.Status.ExpirationTimestamp.Time, nil
}

// cache holds objects for Fresh; calls for one object at a time share a read. While the API does not answer, an object is what it last was: containers
// that end start again meanwhile.
type cache[T any] struct {
	clock clock.PassiveClock
	read  func(ctx context.Context, namespace, name string) (T, error)

	mu      sync.Mutex
	entries map[string]*entry[T]
}

type entry[T any] struct {
	mu    sync.Mutex
	value T
	known bool      // there is a value
	at    time.Time // of the last read, whether it was answered or not
	used  time.Time
}

// kept is how long what nobody asks for is remembered at least, once there is much of it: longer than it takes until a running pod's volumes are looked
// at again.
const kept = 5 * time.Minute

// patience is how long an answer may take about what is known.
const patience = 5 * time.Second

func newCache[T any](clk clock.PassiveClock, read func(ctx context.Context, namespace, name string) (T, error)) *cache[T] {
	return &cache[T]{clock: clk, read: read, entries: map[string]*entry[T]{}}
}

func (c *cache[T]) get(ctx context.Context, namespace, name string) (T, error) {
	key := namespace + "/" + name
	c.mu.Lock()
	e, ok := c.entries[key]
	if !ok {
		c.evict()
		e = &entry[T]{}
		c.entries[key] = e
	}
	c.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used = c.clock.Now()
	if e.known && c.clock.Since(e.at) < Fresh {
		return e.value, nil
	}
	value, err := c.ask(ctx, e.known, namespace, name)
	switch {
	case err == nil:
		e.value, e.known, e.at = value, true, c.clock.Now()
	case answered(err):
		var none T
		e.value, e.known = none, false
		return none, err
	case e.known && ctx.Err() == nil:
		e.at = c.clock.Now() // it is not asked for by everyone who waits
		slog.WarnContext(ctx, "the API does not answer: an object is what it last was", "namespace", namespace, "name", name, "err", err)
	default:
		var none T
		return none, err
	}
	return e.value, nil
}

// ask reads an object. What is known does not wait long for news of itself, where a server takes calls and answers none.
func (c *cache[T]) ask(ctx context.Context, known bool, namespace, name string) (T, error) {
	if known {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	return c.read(obs.Untraced(ctx), namespace, name)
}

// answered reports whether an error is the API's word about an object, and not that it cannot be asked.
func answered(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsGone(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

// evict drops what nobody has asked for of late, once there is much of it. The caller holds mu.
func (c *cache[T]) evict() {
	if len(c.entries) < 256 {
		return
	}
	for key, e := range c.entries {
		if e.mu.TryLock() {
			if c.clock.Since(e.used) >= kept {
				delete(c.entries, key)
			}
			e.mu.Unlock()
		}
	}
}
