package apiserver

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/authn"
)

// A client comes through a gateway, and finds what is switched on. The cluster's own parts find all.
func TestRuntimeConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings []string
		there    []string
		absent   []string
	}{
		"default":  {nil, []string{"apps/v1/deployments", "autoscaling/v1/horizontalpodautoscalers"}, []string{"extensions/v1beta1/deployments", "networking.k8s.io/v1beta1/servicecidrs"}},
		"legacy":   {[]string{"api/legacy=true"}, []string{"apps/v1/deployments", "extensions/v1beta1/deployments", "networking.k8s.io/v1beta1/ingresses"}, nil},
		"switched": {[]string{"autoscaling/v1=false", "api/beta=true"}, []string{"networking.k8s.io/v1beta1/servicecidrs"}, []string{"autoscaling/v1/horizontalpodautoscalers"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startMemory(t, func(cfg *Config) { cfg.RuntimeConfig = c.settings })
			ctx := metadata.AppendToOutgoingContext(f.ctx, "howdah-user", "root", "howdah-group", "system:masters")
			gateway := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "howdah:gateway", Groups: []string{authn.GatewayGroup}}))
			list := func(api apiv1.ObjectServiceClient, resource string) error {
				group, version, name := split(resource)
				stream, err := api.List(ctx, &apiv1.ListRequest{Group: group, Version: version, Resource: name})
				if err == nil {
					_, err = stream.Recv()
				}
				return apistatus.FromGRPC(err)
			}
			told, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/openapi/v3"})
			if err != nil {
				t.Fatal(err)
			}
			for _, resource := range c.there {
				if err := list(gateway, resource); err != nil {
					t.Errorf("%s: %v", resource, err)
				}
				if version := resource[:strings.LastIndex(resource, "/")]; !strings.Contains(string(told.GetObject()), `"apis/`+version+`"`) {
					t.Errorf("%s is not in OpenAPI", version)
				}
			}
			for _, resource := range c.absent {
				if err := list(gateway, resource); apistatus.Of(err).Code != 404 {
					t.Errorf("%s: %v", resource, err)
				}
				if err := list(f.api, resource); err != nil {
					t.Errorf("%s, to the cluster's own parts: %v", resource, err)
				}
				if version := resource[:strings.LastIndex(resource, "/")]; strings.Contains(string(told.GetObject()), `"apis/`+version+`"`) {
					t.Errorf("%s is in OpenAPI", version)
				}
			}
		})
	}
}

func TestRuntimeConfigIsChecked(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{RuntimeConfig: []string{"nope/v1=true"}}); err == nil || err.Error() != "runtime-config: unknown api groups nope/v1" {
		t.Error(err)
	}
}

func TestComponentStatuses(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	body, err := f.list(&apiv1.ListRequest{Version: "v1", Resource: "componentstatuses"})
	if err != nil {
		t.Fatal(err)
	}
	var list corev1.ComponentStatusList
	if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != 3 || list.Kind != "ComponentStatusList" {
		t.Fatalf("%v %s", err, body)
	}
	database := list.Items[2]
	if database.Name != "etcd-0" || database.Conditions[0].Status != corev1.ConditionTrue || database.Conditions[0].Message != "ok" {
		t.Errorf("%+v", database)
	}
	if scheduler := list.Items[0]; scheduler.Name != "scheduler" || scheduler.Conditions[0].Status != corev1.ConditionFalse {
		t.Errorf("%+v", scheduler)
	}
	body, err = f.list(&apiv1.ListRequest{Version: "v1", Resource: "componentstatuses", FieldSelector: "metadata.name=etcd-0", Accept: "application/json;as=Table;v=v1;g=meta.k8s.io"})
	if err != nil || !strings.Contains(string(body), `"cells":["etcd-0","Healthy","ok",""]`) {
		t.Errorf("%v %s", err, body)
	}
	if _, err := f.get("v1/componentstatuses", "", "none"); apistatus.Of(err).Message != `componentstatus "none" not found` {
		t.Error(err)
	}
	for resource, want := range map[string]int32{"componentstatuses": 405, "bindings": 404} { // no binding is there by name
		_, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: resource, Name: "a"})
		if apistatus.Of(apistatus.FromGRPC(err)).Code != want {
			t.Errorf("delete %s: %v", resource, err)
		}
	}
}

// A Binding that is posted to the namespace binds the pod that it names.
func TestBindings(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	const binding = `{"metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}`
	if _, err := f.create("v1/bindings", "default", `{"target":{"kind":"Node","name":"n"}}`); apistatus.Of(err).Message != "Name parameter required." {
		t.Error(err)
	}
	f.must(f.create("v1/bindings", "default", binding))
	if spec := f.must(f.get("v1/pods", "default", "a"))["spec"].(map[string]any); spec["nodeName"] != "n" {
		t.Errorf("%v", spec)
	}
	if _, err := f.create("v1/bindings", "default", binding); apistatus.Of(err).Code != 409 {
		t.Error(err)
	}
}

// Namespaces go one by one.
func TestNamespacesAreNoCollection(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create("v1/namespaces", "", `{"metadata":{"name":"a"}}`))
	_, err := f.api.DeleteCollection(f.ctx, &apiv1.DeleteCollectionRequest{Version: "v1", Resource: "namespaces"})
	if apistatus.Of(apistatus.FromGRPC(err)).Code != 405 {
		t.Error(err)
	}
	if deleted := f.must(f.get("v1/namespaces", "", "a"))["metadata"].(map[string]any)["deletionTimestamp"]; deleted != nil {
		t.Errorf("it is deleted at %v", deleted)
	}
}

// A gateway learns which extension API servers there are, whoever authorizes.
func TestGatewaysNeedNoRole(t *testing.T) {
	t.Parallel()
	f := startMemory(t, func(c *Config) { c.AuthorizationModes = []string{"AlwaysDeny"} })
	gateway := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "howdah:gateway", Groups: []string{authn.GatewayGroup}}))
	for group, allowed := range map[string]bool{authn.GatewayGroup: true, "others": false} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "howdah-user", "somebody", "howdah-group", group)
		stream, err := gateway.List(ctx, &apiv1.ListRequest{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
		if err == nil {
			_, err = stream.Recv()
		}
		if err := apistatus.FromGRPC(err); allowed != (err == nil) || !allowed && apistatus.Of(err).Code != 403 {
			t.Errorf("of %s: %v", group, err)
		}
	}
}
