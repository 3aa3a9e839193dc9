package podnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
	"howdah.dev/services/apiserver/internal/registry"
)

type fakeObjects map[string][]registry.Object // by resource

func (f fakeObjects) Get(_ context.Context, group, resource, namespace, name string) (registry.Object, error) {
	for _, o := range f[resource] {
		if o.GetNamespace() == namespace && o.GetName() == name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: resource}, name)
}

func (f fakeObjects) List(_ context.Context, _, resource, namespace string) (found []registry.Object) {
	for _, o := range f[resource] {
		if o.GetNamespace() == namespace {
			found = append(found, o)
		}
	}
	return found
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func slice(service, port string, number int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	meta := named(service + "-" + port)
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number, Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
}

func service(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: named(name), Spec: corev1.ServiceSpec{Ports: ports}}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	web := corev1.ServicePort{Name: "web", Port: 443, Protocol: corev1.ProtocolTCP}
	external := service("external")
	external.Spec.Type, external.Spec.ExternalName = corev1.ServiceTypeExternalName, "hook.example.com"
	d := &Dialer{Objects: fakeObjects{
		"services": {service("a", corev1.ServicePort{Name: "web", Port: 443, Protocol: corev1.ProtocolUDP}, web), service("empty", web), external},
		"endpointslices": {
			slice("a", "web", 8443,
				discoveryv1.Endpoint{Addresses: []string{"10.1.0.1"}, NodeName: ptr.To("n1")},
				discoveryv1.Endpoint{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
				discoveryv1.Endpoint{Addresses: []string{"10.1.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}),
			slice("a", "other", 9, discoveryv1.Endpoint{Addresses: []string{"10.1.0.4"}}),
			slice("b", "web", 8443, discoveryv1.Endpoint{Addresses: []string{"10.1.0.5"}}),
		},
	}}
	for _, test := range []struct {
		name string
		port int32
		want []Backend
		err  string
	}{
		{"a", 443, []Backend{{"10.1.0.1:8443", "n1"}, {"10.1.0.3:8443", ""}}, ""},
		{"a", 80, nil, `no service port 80 found for service "a"`},
		{"empty", 443, nil, `no endpoints available for service "empty"`},
		{"none", 443, nil, `service "none" not found`},
		{"external", 8443, []Backend{{"hook.example.com:8443", ""}}, ""},
	} {
		got, err := d.Backends(t.Context(), "ns", test.name, test.port)
		slices.SortFunc(got, func(a, b Backend) int { return strings.Compare(a.Address, b.Address) })
		if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s:%d: %v, %v; want %v, %s", test.name, test.port, got, err, test.want, test.err)
		}
	}
}

// agent is a node agent that knows tunnels only.
type agent struct {
	nodev1.UnimplementedNodeServiceServer
}

func (agent) Connect(stream grpc.BidiStreamingServer[nodev1.ConnectRequest, nodev1.ConnectResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	query, err := url.ParseQuery(open.GetQuery())
	if err != nil || open.GetResource() != "nodes" || open.GetSubresource() != "tunnel" {
		return apierrors.NewBadRequest("not a tunnel")
	}
	conn, err := (&net.Dialer{}).DialContext(stream.Context(), "tcp", query.Get("address"))
	if err != nil {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	defer conn.Close()
	if err := stream.Send(&nodev1.ConnectResponse{Message: &nodev1.ConnectResponse_Accepted{Accepted: &apiv1.ConnectAccepted{}}}); err != nil {
		return err
	}
	go func() {
		defer conn.Close()
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if _, err := conn.Write(m.GetFrame().GetData()); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1000)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			if err := stream.Send(&nodev1.ConnectResponse{Message: &nodev1.ConnectResponse_Frame{Frame: &apiv1.ConnectFrame{Data: buffer[:n]}}}); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// echo listens, and sends back what it is sent until the other side closes.
func echo(t *testing.T) (address string, ended <-chan struct{}) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	done := make(chan struct{}, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
				done <- struct{}{}
			}()
		}
	}()
	return listener.Addr().String(), done
}

func tunnels(t *testing.T) *Dialer {
	listener := rpc.ListenInMemory()
	server := rpc.NewServer(nil, nil)
	nodev1.RegisterNodeServiceServer(server, agent{})
	go func() { _ = server.Server.Serve(listener) }()
	t.Cleanup(server.Stop)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 7443}},
	}}
	return &Dialer{
		Objects: fakeObjects{"nodes": {node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}}},
		Nodes: func(_ context.Context, address string) (*grpc.ClientConn, error) {
			if address != "10.0.0.1:7443" {
				return nil, errors.New("no such agent")
			}
			return listener.Dial(rpc.User{Name: "apiserver", Groups: []string{"howdah:apiservers"}})
		},
	}
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	d := tunnels(t)
	address, ended := echo(t)
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := d.Dial(ctx, Backend{Address: address, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	cancel() // it bounds the dialling, not the connection
	if conn.RemoteAddr().String() != address || conn.RemoteAddr().Network() != "tcp" {
		t.Errorf("the peer is %v", conn.RemoteAddr())
	}
	sent := strings.Repeat("0123456789", 20000)
	go func() { _, _ = io.WriteString(conn, sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != sent {
		t.Fatalf("%d bytes came back changed: %v", len(got), err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	<-ended // the backend sees it

	for name, b := range map[string]Backend{
		"no such node": {address, "none"}, "a node without an address": {address, "silent"},
		"a port where nobody listens": {"127.0.0.1:1", "n1"},
	} {
		if conn, err := d.Dial(t.Context(), b); err == nil {
			_ = conn.Close()
			t.Errorf("%s was reached", name)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := d.Dial(stopped, Backend{address, "n1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("dialled for nobody: %v", err)
	}
}

// The backend's end is the connection's.
func TestTunnelEnds(t *testing.T) {
	t.Parallel()
	d := tunnels(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Write([]byte("bye"))
			_ = conn.Close()
		}
	}()
	conn, err := d.Dial(t.Context(), Backend{Address: listener.Addr().String(), Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); err != nil || string(b) != "bye" {
		t.Errorf("%q, %v", b, err)
	}
}

// An endpoint that cannot be reached is passed over.
func TestServiceTriesOthers(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	d := &Dialer{
		Objects: fakeObjects{
			"services": {service("a", corev1.ServicePort{Port: 443})},
			"endpointslices": {slice("a", "", 8443, discoveryv1.Endpoint{Addresses: []string{"10.1.0.1"}}, discoveryv1.Endpoint{Addresses: []string{"10.1.0.2"}},
				discoveryv1.Endpoint{Addresses: []string{"10.1.0.3"}}, discoveryv1.Endpoint{Addresses: []string{"10.1.0.4"}})},
		},
		Direct: func(_ context.Context, _, address string) (net.Conn, error) {
			if tried[address] = true; len(tried) < maxTries {
				return nil, errors.New("refused")
			}
			near, _ := net.Pipe()
			return near, nil
		},
	}
	conn, err := d.Service(t.Context(), "ns", "a", 443)
	if err != nil || len(tried) != maxTries {
		t.Fatalf("%v after %v", err, tried)
	}
	_ = conn.Close()
}
