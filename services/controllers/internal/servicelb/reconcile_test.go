package servicelb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// cloud is a provider that has one address for everybody, and remembers what it was asked for.
type cloud struct {
	mu    sync.Mutex
	fails bool
	there map[string]string // nodes by service
}

func (c *cloud) set(s *corev1.Service, nodes []*corev1.Node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails {
		return errors.New("quota exceeded")
	}
	c.there[s.Name] = hosts(nodes)
	return nil
}

func (c *cloud) Ensure(_ context.Context, s *corev1.Service, nodes []*corev1.Node) (corev1.LoadBalancerStatus, error) {
	return corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.7"}}}, c.set(s, nodes)
}

func (c *cloud) Update(_ context.Context, s *corev1.Service, nodes []*corev1.Node) error {
	return c.set(s, nodes)
}

func (c *cloud) Delete(_ context.Context, s *corev1.Service) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.there, s.Name)
	return nil
}

func (c *cloud) balancers() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.there)
}

func (c *cloud) fail(fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = fails
}

// awaitEvents returns when these events have come, in this order; others may come between.
func awaitEvents(c *controllertest.Cluster, reasons ...string) {
	c.Helper()
	late := time.After(time.Minute)
	for _, reason := range reasons {
		for {
			select {
			case e := <-c.Events.Events:
				if strings.Contains(e, reason) {
					break
				}
				continue
			case <-late:
				c.Fatalf("no event %s", reason)
			}
			break
		}
	}
}

// TestLifeOfABalancer makes one, follows nodes, survives a provider that fails, and takes it away with the type and with the Service.
func TestLifeOfABalancer(t *testing.T) {
	t.Parallel()
	p := &cloud{there: map[string]string{}}
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) {
		return New(env, p, func(string) bool { return false }, nil), nil
	})
	controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	foreign := balanced("foreign")
	foreign.Spec.LoadBalancerClass = ptr.To("example.com/other")
	controllertest.Create(c, object.Service, foreign)
	p.fail(true)
	controllertest.Create(c, object.Service, balanced("s"))
	awaitEvents(c, "Normal EnsuringLoadBalancer Ensuring load balancer", "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: quota exceeded")
	p.fail(false)
	awaitEvents(c, "Normal EnsuredLoadBalancer Ensured load balancer")
	has := func(address string, finalizers int) func([]*corev1.Service) bool {
		return func(list []*corev1.Service) bool {
			for _, s := range list {
				got := ""
				for _, in := range s.Status.LoadBalancer.Ingress {
					got += in.IP
				}
				if s.Name == "foreign" && (got != "" || len(s.Finalizers) > 0) || s.Name == "s" && (got != address || len(s.Finalizers) != finalizers) {
					return false
				}
			}
			return true
		}
	}
	controllertest.Await(c, object.Service, "the address", has("192.0.2.7", 1))
	if got := p.balancers(); got != "map[s:n1 ]" {
		t.Errorf("balancers %s", got)
	}

	controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	awaitEvents(c, "Normal UpdatedLoadBalancer Updated load balancer with new hosts")
	if got := p.balancers(); got != "map[s:n1 ,n2 ]" {
		t.Errorf("balancers %s", got)
	}

	services := object.For(c.Client, object.Service)
	s, err := services.Get(t.Context(), "n", "s")
	if err != nil {
		t.Fatal(err)
	}
	s.Spec.Type = corev1.ServiceTypeClusterIP
	if _, err = services.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	awaitEvents(c, "DeletingLoadBalancer", "DeletedLoadBalancer")
	controllertest.Await(c, object.Service, "no address", has("", 0))
	if s, err = services.Get(t.Context(), "n", "s"); err != nil {
		t.Fatal(err)
	}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	if _, err = services.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	controllertest.Await(c, object.Service, "the address again", has("192.0.2.7", 1))
	controllertest.Delete(c, object.Service, "n", "s", metav1.DeleteOptions{})
	controllertest.Await(c, object.Service, "the Service's end", func(list []*corev1.Service) bool { return len(list) == 1 })
	if got := p.balancers(); got != "map[]" {
		t.Errorf("left %s", got)
	}
}
