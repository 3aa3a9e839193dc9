package aggregate

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/pki"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/registry"
)

// removing is an API from which somebody removes all objects as soon as they are written.
type removing struct{ patched chan string }

func (removing) Create(context.Context, *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	return &apiv1.CreateResponse{}, nil
}

func (r removing) Patch(_ context.Context, req *apiv1.PatchRequest) (*apiv1.PatchResponse, error) {
	r.patched <- req.GetName()
	return &apiv1.PatchResponse{}, nil
}

func (removing) Delete(context.Context, *apiv1.DeleteRequest) (*apiv1.DeleteResponse, error) {
	return &apiv1.DeleteResponse{}, nil
}

// TestRunBeginsWithALook: what somebody removes after Register and before Run, of which no signal tells, is made again.
func TestRunBeginsWithALook(t *testing.T) {
	t.Parallel()
	services := &registry.Kind{
		GVK: apiregistrationv1.SchemeGroupVersion.WithKind("APIService"), Resource: "apiservices",
		New: func() registry.Object { return &apiregistrationv1.APIService{} }, NewList: func() runtime.Object { return &apiregistrationv1.APIServiceList{} },
	}
	configMaps := &registry.Kind{
		GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: "configmaps", Namespaced: true,
		New: func() registry.Object { return &corev1.ConfigMap{} }, NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	table, err := registry.NewTable([]*registry.Kind{services, configMaps})
	if err != nil {
		t.Fatal(err)
	}
	known := cache.New(memstore.New(), table, clock.RealClock{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cached, ran := make(chan error, 1), make(chan struct{})
	go func() { cached <- known.Run(ctx) }()
	<-known.Ready()
	api := removing{patched: make(chan string, 2)}
	a := New(Config{Table: table, Cache: known, API: api, ClientCA: authority.PEM, Clock: clock.RealClock{}})
	a.Register(ctx)
	if name := <-api.patched; name != published {
		t.Fatalf("Register wrote %s", name)
	}
	go func() { a.Run(ctx); close(ran) }()
	select {
	case name := <-api.patched:
		if name != published {
			t.Errorf("Run wrote %s", name)
		}
	case <-time.After(30 * time.Second):
		t.Error("what was removed before Run was not made again")
	}
	cancel()
	<-ran
	<-cached
}
