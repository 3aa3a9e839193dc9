// Package signing reaches the signing requests of the cluster over the object API.
package signing

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/object"
)

// Requests are those of a cluster, for kit/nodecert.
type Requests struct {
	all object.Resource[*nodecert.Request]
}

// New returns the requests of a client.
func New(client *object.Client) Requests {
	return Requests{object.For(client, object.CertificateSigningRequest)}
}

// Create makes a request.
func (r Requests) Create(ctx context.Context, asked *nodecert.Request) (*nodecert.Request, error) {
	return r.all.Create(ctx, asked)
}

// Get reads a request.
func (r Requests) Get(ctx context.Context, name string) (*nodecert.Request, error) {
	return r.all.Get(ctx, "", name)
}

// Watch follows requests.
func (r Requests) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return r.all.Watch(ctx, "", options)
}
