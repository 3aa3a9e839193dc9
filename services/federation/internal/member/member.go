// Package member is the federation's way to one member: calls with a deadline each, and caches of what was carried there.
package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"howdah.dev/services/federation/api"
)

const (
	// callTimeout bounds a call to a member.
	callTimeout = 15 * time.Second
	// rate and burst bound how many calls a second a member gets.
	rate, burst = 100, 200
)

// Member is a connection to one. It is safe for concurrent use.
type Member struct {
	name    string
	objects dynamic.Interface
	typed   kubernetes.Interface
	finder  discovery.DiscoveryInterface
	changed func(id api.ID)

	mu         sync.Mutex
	resources  map[schema.GroupVersionKind]metav1.APIResource
	follows    map[schema.GroupVersionKind]*follow
	namespaces map[string]bool // that are known to be there
	closed     bool
}

// Credentials are how a member is reached, and as whom.
type Credentials struct {
	Server           string
	CA               []byte // nil: those of the machine
	Token            string
	Certificate, Key []byte
}

// Errors of credentials.
var (
	errNothing = errors.New("the Secret has neither token, nor tls.crt and tls.key")
)

// CredentialsOf reads what a cluster and its Secret say.
func CredentialsOf(c *api.Cluster, data map[string][]byte) (Credentials, error) {
	out := Credentials{Server: c.Spec.Server, CA: c.Spec.CABundle, Token: string(data["token"]), Certificate: data["tls.crt"], Key: data["tls.key"]}
	if len(out.CA) == 0 {
		out.CA = data["ca.crt"]
	}
	if out.Token == "" && (len(out.Certificate) == 0 || len(out.Key) == 0) {
		return out, errNothing
	}
	return out, nil
}

// Dial returns a connection; nothing is called yet. changed is called when something that was carried changes in the member.
func Dial(name string, c Credentials, changed func(id api.ID)) (*Member, error) {
	config := &rest.Config{
		Host: c.Server, BearerToken: c.Token, UserAgent: api.Manager, QPS: rate, Burst: burst,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CA, CertData: c.Certificate, KeyData: c.Key},
		WrapTransport:   func(next http.RoundTripper) http.RoundTripper { return traced{next} },
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster %s: %w", name, err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster %s: %w", name, err)
	}
	return &Member{
		name: name, objects: objects, typed: typed, finder: typed.Discovery(), changed: changed,
		resources: map[schema.GroupVersionKind]metav1.APIResource{}, follows: map[schema.GroupVersionKind]*follow{}, namespaces: map[string]bool{},
	}, nil
}

// traced hands the trace of a call on.
type traced struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	otel.GetTextMapPropagator().Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	return t.next.RoundTrip(r)
}

// Close ends the caches.
func (m *Member) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.Unfollow()
}

// resource finds the resource of a kind. What was found is remembered.
func (m *Member) resource(ctx context.Context, gvk schema.GroupVersionKind) (metav1.APIResource, error) {
	m.mu.Lock()
	known, ok := m.resources[gvk]
	m.mu.Unlock()
	if ok {
		return known, nil
	}
	path := "/apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		path = "/api/" + gvk.Version
	}
	data, err := m.finder.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return metav1.APIResource{}, fmt.Errorf("look for %s: %w", gvk, err)
	}
	list := &metav1.APIResourceList{}
	if err := json.Unmarshal(data, list); err != nil {
		return metav1.APIResource{}, fmt.Errorf("look for %s: %w", gvk, err)
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !isSubresource(r.Name) && r.Group == "" {
			m.mu.Lock()
			m.resources[gvk] = r
			m.mu.Unlock()
			return r, nil
		}
	}
	return metav1.APIResource{}, apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, gvk.Version)
}

func isSubresource(name string) bool {
	for i := range name {
		if name[i] == '/' {
			return true
		}
	}
	return false
}

// of returns the resource of an object.
func (m *Member) of(ctx context.Context, id api.ID) (dynamic.ResourceInterface, error) {
	r, err := m.resource(ctx, id.GVK)
	if err != nil {
		return nil, err
	}
	all := m.objects.Resource(id.GVK.GroupVersion().WithResource(r.Name))
	if r.Namespaced {
		return all.Namespace(id.Namespace), nil
	}
	return all, nil
}

// Get returns an object as it is there now; nil where there is none.
func (m *Member) Get(ctx context.Context, id api.ID) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	objects, err := m.of(ctx, id)
	if err != nil {
		return nil, err
	}
	live, err := objects.Get(ctx, id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}

// Apply makes an object what is wanted of it, and takes over what others own of that.
func (m *Member) Apply(ctx context.Context, id api.ID, wanted *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	objects, err := m.of(ctx, id)
	if err != nil {
		return err
	}
	data, err := wanted.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, id.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: api.Manager, Force: ptr.To(true)})
	return err
}

// Delete deletes an object, unless it is another one by now. One that is gone is no error.
func (m *Member) Delete(ctx context.Context, live *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id := idOf(live)
	objects, err := m.of(ctx, id)
	if err != nil {
		return err
	}
	err = objects.Delete(ctx, id.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(live.GetUID())}, PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// release takes the marks away.
var release = []byte(`{"metadata":{"labels":{"` + api.ManagedLabel + `":null},"annotations":{"` + api.FederationAnnotation + `":null,"` + api.HashAnnotation + `":null,"` +
	api.GenerationAnnotation + `":null,"` + api.PreserveAnnotation + `":null,"` + api.MadeAnnotation + `":null}}}`)

// Release leaves an object to the member: it is as others are there from then on.
func (m *Member) Release(ctx context.Context, live *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id := idOf(live)
	objects, err := m.of(ctx, id)
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, id.Name, types.MergePatchType, release, metav1.PatchOptions{FieldManager: api.Manager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// EnsureNamespace makes a namespace where it is not there. made is what it is made as.
func (m *Member) EnsureNamespace(ctx context.Context, made *unstructured.Unstructured) error {
	m.mu.Lock()
	known := m.namespaces[made.GetName()]
	m.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	namespaces, err := m.of(ctx, idOf(made))
	if err != nil {
		return err
	}
	there, err := namespaces.Get(ctx, made.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		there, err = namespaces.Create(ctx, made, metav1.CreateOptions{FieldManager: api.Manager})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s: %w", made.GetName(), err)
	}
	if err == nil && there.GetDeletionTimestamp() == nil {
		m.mu.Lock()
		m.namespaces[made.GetName()] = true
		m.mu.Unlock()
	}
	return nil
}

// ForgetNamespace has a namespace looked for again.
func (m *Member) ForgetNamespace(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.namespaces, name)
}

func idOf(o *unstructured.Unstructured) api.ID {
	return api.ID{GVK: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}
