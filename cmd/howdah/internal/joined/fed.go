package joined

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"howdah.dev/services/federation/api"
)

// Fed is the API of a federation.
type Fed struct {
	objects dynamic.Interface
	typed   kubernetes.Interface
}

// Federation returns a client of a federation.
func Federation(config func() (*rest.Config, error)) (*Fed, error) {
	cfg, err := config()
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfig(cfg)
	return &Fed{objects, typed}, err
}

func (f *Fed) resource(name string) dynamic.NamespaceableResourceInterface {
	return f.objects.Resource(schema.GroupVersionResource{Group: api.Group, Version: api.Version, Resource: name})
}

func convert(from, into any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Cluster returns a Cluster.
func (f *Fed) Cluster(ctx context.Context, name string) (*api.Cluster, error) {
	o, err := f.resource(api.Clusters.Resource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	c := &api.Cluster{}
	return c, convert(o.Object, c)
}

// Clusters returns all.
func (f *Fed) Clusters(ctx context.Context) ([]api.Cluster, error) {
	return list[api.Cluster](ctx, f.resource(api.Clusters.Resource))
}

// Placements returns all, of namespaces and of the cluster.
func (f *Fed) Placements(ctx context.Context) ([]api.Placement, error) {
	namespaced, err := list[api.Placement](ctx, f.resource(api.Placements.Resource))
	if err != nil {
		return nil, err
	}
	clusterWide, err := list[api.Placement](ctx, f.resource(api.ClusterPlacements.Resource))
	return append(namespaced, clusterWide...), err
}

func list[T any](ctx context.Context, resource dynamic.ResourceInterface) ([]T, error) {
	items, err := resource.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]T, len(items.Items))
	for i := range items.Items {
		if err := convert(items.Items[i].Object, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// store keeps credentials; those that are there are replaced.
func (f *Fed) store(ctx context.Context, ref api.SecretReference, data map[string][]byte) error {
	if err := create(ctx, "the namespace "+ref.Namespace, namespace(), f.typed.CoreV1().Namespaces().Create); err != nil {
		return err
	}
	secrets := f.typed.CoreV1().Secrets(ref.Namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Type: api.CredentialsType, Data: data}
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("store the credentials: %w", err)
	}
	return nil
}

func (f *Fed) create(ctx context.Context, c *api.Cluster) error {
	c.SetGroupVersionKind(api.Clusters.GVK)
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return err
	}
	delete(o, "status")
	if _, err := f.resource(api.Clusters.Resource).Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the Cluster: %w", err)
	}
	return nil
}

// AwaitReady waits until a cluster is ready.
func (f *Fed) AwaitReady(ctx context.Context, name string, timeout time.Duration) (*api.Cluster, error) {
	var c *api.Cluster
	err := await(ctx, "the cluster "+name, timeout, func(ctx context.Context) (bool, error) {
		var err error
		if c, err = f.Cluster(ctx, name); err != nil {
			return false, err
		}
		ready, _ := c.ReadySince()
		return ready, nil
	})
	if err != nil && c != nil {
		if ready := meta.FindStatusCondition(c.Status.Conditions, api.Ready); ready != nil {
			return nil, fmt.Errorf("%w: it joined, but is not ready: %s: %s", err, ready.Reason, ready.Message)
		}
	}
	return c, err
}

// Remove takes a cluster out, and waits until nothing is left in it. Then its credentials go.
func (f *Fed) Remove(ctx context.Context, name string, timeout time.Duration) error {
	c, err := f.Cluster(ctx, name)
	if err != nil {
		return err
	}
	clusters := f.resource(api.Clusters.Resource)
	if err := clusters.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err = await(ctx, "the end of the cluster "+name, timeout, func(ctx context.Context) (bool, error) {
		_, err := clusters.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return err
	}
	ref := c.Spec.SecretRef
	if ref.Namespace != api.Namespace {
		return nil // somebody else's
	}
	if err := f.typed.CoreV1().Secrets(ref.Namespace).Delete(ctx, ref.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the credentials: %w", err)
	}
	return nil
}
