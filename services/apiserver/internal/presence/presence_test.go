package presence

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// leases is an API that has the leases of one namespace.
type leases map[string]*coordinationv1.Lease

func (l leases) Get(_ context.Context, req *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	if l[req.GetName()] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, req.GetName())
	}
	b, err := json.Marshal(l[req.GetName()])
	return &apiv1.GetResponse{Object: b}, err
}

func (l leases) put(body []byte) error {
	var lease coordinationv1.Lease
	if err := json.Unmarshal(body, &lease); err != nil {
		return err
	}
	l[lease.Name] = &lease
	return nil
}

func (l leases) Create(_ context.Context, req *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	return nil, l.put(req.GetObject())
}

func (l leases) Update(_ context.Context, req *apiv1.UpdateRequest) (*apiv1.UpdateResponse, error) {
	return nil, l.put(req.GetObject())
}

func (l leases) Delete(_ context.Context, req *apiv1.DeleteRequest) (*apiv1.DeleteResponse, error) {
	delete(l, req.GetName())
	return nil, nil
}

func TestLease(t *testing.T) {
	t.Parallel()
	clock, api := clocktesting.NewFakeClock(time.Unix(10_000, 0)), leases{}
	list := func() []*coordinationv1.Lease {
		var all []*coordinationv1.Lease
		for _, l := range api {
			all = append(all, l)
		}
		return all
	}
	one, two := netip.MustParseAddrPort("192.0.2.1:6443"), netip.MustParseAddrPort("[2001:db8::2]:6443")
	first := New(Config{API: api, Leases: list, Hostname: "a", Gateways: []netip.AddrPort{one, two}, Version: "v1.2.3", Clock: clock})
	if err := first.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := api[Name("a")]
	if got == nil || got.Labels["apiserver.kubernetes.io/identity"] != "kube-apiserver" || got.Labels["kubernetes.io/hostname"] != "a" ||
		*got.Spec.LeaseDurationSeconds != 3600 || !got.Spec.RenewTime.Time.Equal(clock.Now()) || *got.Spec.HolderIdentity != first.holder {
		t.Fatalf("%+v", got)
	}
	if got.Annotations[GatewaysAnnotation] != "192.0.2.1:6443,[2001:db8::2]:6443" || got.Annotations[VersionAnnotation] != "v1.2.3" {
		t.Errorf("%v", got.Annotations)
	}
	api["nobody"] = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "nobody", Annotations: map[string]string{GatewaysAnnotation: "192.0.2.9:6443"}}}
	odd := got.DeepCopy()
	odd.Annotations[GatewaysAnnotation] = "x,192.0.2.1:6443,192.0.2.3:6443"
	if all := Gateways(append(list(), odd), clock.Now()); !slices.Equal(all, []netip.AddrPort{one, netip.MustParseAddrPort("192.0.2.3:6443"), two}) {
		t.Errorf("gateways: %v", all)
	}
	if all := Gateways(list(), clock.Now().Add(duration+time.Second)); len(all) > 0 {
		t.Errorf("gateways of who is gone: %v", all)
	}
	other := New(Config{API: api, Leases: list, Hostname: "b", Clock: clock})
	other.fill(&coordinationv1.Lease{})
	clock.Step(duration + time.Second)
	api["mine"] = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	if err := other.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if api[Name("a")] != nil || api[Name("b")] == nil || api["mine"] == nil {
		t.Errorf("left: %v", api)
	}
	again := New(Config{API: api, Leases: list, Hostname: "b", Clock: clock}) // the same host, started anew
	if err := again.Renew(t.Context()); err != nil || *api[Name("b")].Spec.HolderIdentity != again.holder || again.holder == other.holder {
		t.Errorf("%v %v", api[Name("b")], err)
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	if a, b := Name("a"), Name("b"); a == b || len(a) != len("apiserver-")+26 {
		t.Errorf("%s %s", a, b)
	}
}
