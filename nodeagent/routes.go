package nodeagent

import (
	"context"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/route"
)

// Routes keeps, on a machine of the nodes' network that is no node itself, the routes to the nodes' pods, and the fences around them: an address that nobody
// has is unreachable at once, and no packet for the cluster leaves for elsewhere. It takes CAP_NET_ADMIN.
type Routes struct {
	informers *object.Informers
	nodes     *object.Informer[*corev1.Node]
	keeper    *route.Keeper
	stand     chan struct{} // closed when the routes stand for the first time
}

// NewRoutes starts nothing. pods and services are the cluster's ranges.
func NewRoutes(client *object.Client, pods, services []netip.Prefix) *Routes {
	r := &Routes{informers: object.NewInformers(client), stand: make(chan struct{})}
	r.keeper = route.NewKeeper(route.Config{
		Ranges: route.Ranges{Pods: pods, Services: services}, Applied: sync.OnceFunc(func() { close(r.stand) }),
	})
	r.nodes = object.InformerFor(r.informers, object.Node, object.Option{Slim: slim})
	r.nodes.AddHandler(func(old, now *corev1.Node) {
		if now == nil {
			r.keeper.Delete(old.Name)
			return
		}
		r.keeper.Update(now)
	})
	return r
}

// Ready waits until the routes stand.
func (r *Routes) Ready(ctx context.Context) bool {
	select {
	case <-r.stand:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run keeps the routes until ctx ends; they stay in place then.
func (r *Routes) Run(ctx context.Context) error {
	return task.Run(ctx, r.informers.Run, r.keeper.Run, func(ctx context.Context) error {
		if r.informers.Wait(ctx) {
			for _, node := range r.nodes.List("") { // the handler may not have come to all of them yet
				r.keeper.Update(node)
			}
			r.keeper.Synced()
		}
		<-ctx.Done()
		return ctx.Err()
	})
}
