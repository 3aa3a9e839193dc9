package bootstrap

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/pki"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// objects is an API that keeps objects by resource, and tells of each write of Endpoints.
type objects struct {
	API // which answers nothing else

	mu     sync.Mutex
	stored map[string][]byte
	wrote  chan []string
}

func (o *objects) Get(_ context.Context, r *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	body, ok := o.stored[r.GetResource()]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: r.GetResource()}, r.GetName())
	}
	return &apiv1.GetResponse{Object: body}, nil
}

func (o *objects) Create(_ context.Context, r *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	return &apiv1.CreateResponse{}, o.write(r.GetResource(), r.GetObject())
}

func (o *objects) Update(_ context.Context, r *apiv1.UpdateRequest) (*apiv1.UpdateResponse, error) {
	return &apiv1.UpdateResponse{}, o.write(r.GetResource(), r.GetObject())
}

func (o *objects) write(resource string, body []byte) error {
	o.mu.Lock()
	o.stored[resource] = body
	o.mu.Unlock()
	if resource != "endpoints" {
		return nil
	}
	var e corev1.Endpoints
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	var to []string
	for _, a := range e.Subsets[0].Addresses {
		to = append(to, a.IP)
	}
	o.wrote <- to
	return nil
}

// lead writes Endpoints and an EndpointSlice without telling of it.
func (o *objects) lead(t *testing.T, to ...netip.AddrPort) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for resource, obj := range map[string]any{"endpoints": endpoints(to), "endpointslices": slice(to)} {
		body, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		o.stored[resource] = body
	}
}

// leads awaits the next write of Endpoints, which is to be of these addresses.
func (o *objects) leads(t *testing.T, when string, want []string) {
	t.Helper()
	select {
	case got := <-o.wrote:
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: the Service leads to %v, want %v", when, got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: nothing was written", when)
	}
}

func TestServiceLeadsToGatewaysThatAnswer(t *testing.T) {
	t.Parallel()
	one, two := netip.MustParseAddrPort("192.0.2.1:6443"), netip.MustParseAddrPort("192.0.2.2:6443")
	api := &objects{stored: map[string][]byte{}, wrote: make(chan []string, 10)}
	api.lead(t, one, two)
	var mu sync.Mutex
	down := map[netip.AddrPort]bool{}
	three := netip.MustParseAddrPort("192.0.2.3:6443")
	var registered []netip.AddrPort
	ask := func(_ context.Context, g netip.AddrPort) error {
		mu.Lock()
		defer mu.Unlock()
		if down[g] {
			return errors.New("silent")
		}
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	ticks, changed := make(chan time.Time), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- FollowGateways(ctx, Config{API: api, Gateways: []netip.AddrPort{one, two}, Registered: func() []netip.AddrPort {
			mu.Lock()
			defer mu.Unlock()
			return registered
		}}, ask, ticks, changed)
	}()
	for _, step := range []struct {
		name       string
		one, two   bool // silent
		ticks      int
		want       []string // nil: nothing is written
		registered []netip.AddrPort
	}{
		{"both answer", false, false, 5, nil, nil},
		{"once silent", true, false, patience - 1, nil, nil},
		{"and back", false, false, 1, nil, nil},
		{"silent for long", true, false, patience, []string{"192.0.2.2"}, nil},
		{"both are: better all than none", true, true, patience, []string{"192.0.2.1", "192.0.2.2"}, nil},
		{"one is back", true, false, 1, []string{"192.0.2.2"}, nil},
		{"both are", false, false, 1, []string{"192.0.2.1", "192.0.2.2"}, nil},
		{"another API server tells of its own, and of one that is known", false, false, 1, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}, []netip.AddrPort{three, one}},
		{"one of another port is none of these", false, false, 1, nil, []netip.AddrPort{three, netip.MustParseAddrPort("192.0.2.4:7443")}},
		{"it is gone", false, false, 1, []string{"192.0.2.1", "192.0.2.2"}, nil},
	} {
		mu.Lock()
		down[one], down[two] = step.one, step.two
		registered = step.registered
		mu.Unlock()
		for range step.ticks {
			ticks <- time.Time{}
		}
		changed <- struct{}{} // is taken only when the last tick is dealt with
		if step.want != nil {
			api.leads(t, step.name, step.want)
		}
		if len(api.wrote) > 0 {
			t.Fatalf("%s: the Service was made to lead to %v", step.name, <-api.wrote)
		}
	}
	api.lead(t, netip.MustParseAddrPort("192.0.2.9:6443"))
	for range patience {
		ticks <- time.Time{}
	}
	api.leads(t, "somebody led it elsewhere", []string{"192.0.2.1", "192.0.2.2"})
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if len(api.wrote) > 0 {
		t.Errorf("something was written twice: %v", <-api.wrote)
	}
}

// TestHandshake holds that a gateway answers, and that none does which has another certificate, or no time.
func TestHandshake(t *testing.T) {
	t.Parallel()
	memory, err := pki.NewMemory(pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := memory.Client("apiserver")
	if err != nil {
		t.Fatal(err)
	}
	client.ServerName = "gateway"
	for role, want := range map[string]bool{"gateway": true, "scheduler": false, "": false} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if role != "" {
			config, err := memory.Public(role)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					_ = tls.Server(conn, config).Handshake()
					conn.Close()
				}
			}()
		}
		ctx := t.Context()
		if role == "" { // takes connections, and says nothing
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
		}
		if err := Handshake(client)(ctx, netip.MustParseAddrPort(listener.Addr().String())); (err == nil) != want {
			t.Errorf("%q: %v", role, err)
		}
	}
}
