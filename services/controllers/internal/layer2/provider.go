package layer2

import (
	"context"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/servicelb"
)

// Provider gives Services addresses of a pool. What is given stands in the Services' statuses; given bridges the time until the cache shows it.
type Provider struct {
	pool     Pool
	services *object.Informer[*corev1.Service]

	mu    sync.Mutex
	given map[netip.Addr]string // to the key of its service
}

var _ servicelb.Provider = (*Provider)(nil)

// NewProvider returns the provider of one life of the controllers.
func NewProvider(env *controller.Env, pool Pool) *Provider {
	return &Provider{pool: pool, services: object.InformerFor(env.Informers, object.Service), given: map[netip.Addr]string{}}
}

// Ensure implements servicelb.Provider. The nodes are chosen by the announcer.
func (p *Provider) Ensure(_ context.Context, s *corev1.Service, _ []*corev1.Node) (corev1.LoadBalancerStatus, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := object.KeyOf(s)
	others := map[netip.Addr]string{}
	for _, other := range p.services.List("") {
		if k := object.KeyOf(other); k != key && servicelb.Wants(other) {
			for _, ingress := range other.Status.LoadBalancer.Ingress {
				if a, err := netip.ParseAddr(ingress.IP); err == nil {
					others[a] = k
				}
			}
		}
	}
	for a, k := range p.given {
		if k != key {
			others[a] = k
		}
	}
	addresses, err := p.pool.pick(s, func(a netip.Addr) (string, bool) { by, ok := others[a]; return by, ok })
	if err != nil {
		return corev1.LoadBalancerStatus{}, err
	}
	p.release(key)
	var status corev1.LoadBalancerStatus
	vip := corev1.LoadBalancerIPModeVIP
	for _, a := range addresses {
		p.given[a] = key
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{IP: a.String(), IPMode: &vip})
	}
	return status, nil
}

// Update implements servicelb.Provider: the announcer follows nodes by itself.
func (p *Provider) Update(context.Context, *corev1.Service, []*corev1.Node) error { return nil }

// Delete implements servicelb.Provider.
func (p *Provider) Delete(_ context.Context, s *corev1.Service) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(object.KeyOf(s))
	return nil
}

func (p *Provider) release(key string) {
	for a, k := range p.given {
		if k == key {
			delete(p.given, a)
		}
	}
}
