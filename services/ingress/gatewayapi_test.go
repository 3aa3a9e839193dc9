package ingress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/object"
	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/rpc"
	"howdah.dev/migrations"
	"howdah.dev/services/apiserver"
	"howdah.dev/services/ingress/internal/gatewayapi"
)

// real returns a fixture whose API is a real one, to which the controller is who it is in a cluster.
func real(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	url := pgtest.New(t, pgtest.Template{Name: "service", Setup: migrations.Apply})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	api, err := apiserver.New(apiserver.Config{DatabaseURL: url, ServiceAccountKey: key})
	if err != nil {
		t.Fatal(err)
	}
	background(t, api.Run)
	select {
	case <-api.Ready():
	case <-time.After(2 * time.Minute):
		t.Fatal("the apiserver does not become ready")
	}
	server, listen := rpc.NewServer(nil, nil), rpc.ListenInMemory()
	api.Register(server)
	background(t, func(ctx context.Context) error { return server.ServeUntil(ctx, listen) })
	dial := func(user rpc.User) *object.Client {
		conn, err := listen.Dial(user)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return object.NewClient(conn, Manager)
	}
	admin, own := dial(rpc.User{Name: "admin", Groups: []string{"system:masters"}}), dial(rpc.User{Name: "howdah:ingress", Groups: []string{"howdah:ingresses"}})
	until(t, "<nil>", func() string { // the role is in force some time after the apiserver is ready
		_, _, err := object.For(own, gatewayapi.Definitions).List(t.Context(), "", metav1.ListOptions{})
		return fmt.Sprint(err)
	})
	f := setup(t, func(c *Config) {
		c.Objects = own
		if change != nil {
			change(c)
		}
	})
	f.client = admin
	create(f, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	return f
}

func background(t *testing.T, part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
}

// conditions tells of those that an object has.
func conditions(all []metav1.Condition) string {
	var out []string
	for _, c := range all {
		out = append(out, fmt.Sprintf("%s=%s", c.Type, c.Reason))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func read[T object.Object](f *fixture, kind object.Kind[T], name string, tell func(T) string) func() string {
	return func() string {
		namespace := "shop"
		if !kind.Namespaced {
			namespace = ""
		}
		o, err := object.For(f.client, kind).Get(f.t.Context(), namespace, name)
		if err != nil {
			return err.Error()
		}
		return tell(o)
	}
}

func of[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheGatewayAPIComesAndGoes runs the controller against a real API: without the definitions, with them, and without them again.
func TestTheGatewayAPIComesAndGoes(t *testing.T) {
	t.Parallel()
	opened := make(chan string, 10)
	f := real(t, func(c *Config) {
		c.Listen = func(port int32) (net.Listener, error) {
			if port != 8080 {
				return nil, fmt.Errorf("the test opens no port %d", port)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err == nil {
				opened <- l.Addr().String()
			}
			return l, err
		}
	})
	close(f.reachable)
	f.run()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if !f.server.Ready(ctx) {
		t.Fatal("not ready without the definitions")
	}
	f.service("tea", "10.0.0.1")
	f.service("coffee", "10.0.0.2")

	install := func() {
		until(t, "<nil>", func() string { return fmt.Sprint(EnsureGatewayAPI(t.Context(), f.client, true, "howdah")) })
	}
	if err := EnsureGatewayAPI(t.Context(), f.client, false, "howdah"); err != nil {
		t.Fatal(err) // without definitions there is no class
	}
	install()
	until(t, "Accepted=Accepted SupportedVersion=SupportedVersion", read(f, gatewayapi.GatewayClass, "howdah", func(c *gatewayv1.GatewayClass) string { return conditions(c.Status.Conditions) }))

	gateway := of[gatewayv1.Gateway](t, `{metadata: {name: front, namespace: shop}, spec: {gatewayClassName: howdah, listeners: [{name: http, port: 80, protocol: HTTP}, {name: more, port: 8080, protocol: HTTP}, {name: shut, port: 9090, protocol: HTTP}]}}`)
	teas := of[gatewayv1.HTTPRoute](t, `{metadata: {name: tea, namespace: shop}, spec: {parentRefs: [{name: front}], hostnames: [tea.example.com], rules: [{backendRefs: [{name: tea, port: 80}]}, {matches: [{path: {value: /old}}], filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301, path: {type: ReplaceFullPath, replaceFullPath: /}}}]}]}}`)
	coffees := of[gatewayv1.HTTPRoute](t, `{metadata: {name: coffee, namespace: shop}, spec: {parentRefs: [{name: front}], hostnames: [coffee.example.com], rules: [{backendRefs: [{name: coffee, port: 80}]}]}}`)
	again := func() {
		create(f, gatewayapi.Gateway, gateway.DeepCopy())
		create(f, gatewayapi.HTTPRoute, teas.DeepCopy())
		create(f, gatewayapi.HTTPRoute, coffees.DeepCopy())
		until(t, "200 10.0.0.1:8080", func() string { return f.get("tea.example.com") })
		until(t, "200 10.0.0.2:8080", func() string { return f.get("coffee.example.com") })
	}
	again()
	told := func(g *gatewayv1.Gateway) string {
		out := conditions(g.Status.Conditions)
		for _, a := range g.Status.Addresses {
			out += " at " + a.Value
		}
		for _, l := range g.Status.Listeners {
			out += fmt.Sprintf(", %s %d %v", l.Name, l.AttachedRoutes, meta.IsStatusConditionTrue(l.Conditions, string(gatewayv1.ListenerConditionProgrammed)))
		}
		return out
	}
	until(t, "Accepted=ListenersNotValid Programmed=Programmed ResolvedRefs=ResolvedRefs at 192.0.2.1, http 2 true, more 2 true, shut 2 false", read(f, gatewayapi.Gateway, "front", told))
	routeTold := func(r *gatewayv1.HTTPRoute) string {
		var out []string
		for _, p := range r.Status.Parents {
			out = append(out, string(p.ParentRef.Name)+" "+string(p.ControllerName)+" "+conditions(p.Conditions))
		}
		return strings.Join(out, ", ")
	}
	until(t, "front howdah.dev/gateway Accepted=Accepted ResolvedRefs=ResolvedRefs", read(f, gatewayapi.HTTPRoute, "tea", routeTold))
	at := <-opened
	f.http, at = at, f.http
	if got := f.get("tea.example.com"); got != "200 10.0.0.1:8080" {
		t.Errorf("at the other port: %s", got)
	}
	f.http = at

	// What somebody else writes stays, and what is ours goes when the route does.
	update(f, gatewayapi.HTTPRoute, "shop", "coffee", func(r *gatewayv1.HTTPRoute) { r.Spec.ParentRefs[0].Name = "other" })
	until(t, "", read(f, gatewayapi.HTTPRoute, "coffee", routeTold))
	until(t, "404 there is nothing at this host and path", func() string { return f.get("coffee.example.com") })
	update(f, gatewayapi.HTTPRoute, "shop", "tea", func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].BackendRefs[0].Name = "gone" })
	until(t, "front howdah.dev/gateway Accepted=Accepted ResolvedRefs=BackendNotFound", read(f, gatewayapi.HTTPRoute, "tea", routeTold))
	until(t, "BackendNotFound", func() string {
		events, _, err := object.For(f.client, object.Event).List(t.Context(), "shop", metav1.ListOptions{})
		for _, e := range events {
			if e.InvolvedObject.Kind == "HTTPRoute" && e.InvolvedObject.Name == "tea" && strings.Contains(e.Message, `the Service "gone" does not exist`) {
				return e.Reason
			}
		}
		return fmt.Sprint("no event ", err)
	})

	// The definitions go, and come again.
	names, err := gatewayapi.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := object.For(f.client, gatewayapi.Definitions).Delete(t.Context(), "", name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "404 there is nothing at this host and path", func() string { return f.get("tea.example.com") })
	until(t, "true", func() string {
		for _, name := range names {
			if _, err := object.For(f.client, gatewayapi.Definitions).Get(t.Context(), "", name); !apierrors.IsNotFound(err) {
				return name
			}
		}
		return "true"
	})
	install()
	again()
	until(t, "front howdah.dev/gateway Accepted=Accepted ResolvedRefs=ResolvedRefs", read(f, gatewayapi.HTTPRoute, "tea", routeTold))
}

// TestDefinitionsOfOthersStay holds that definitions of another bundle are left alone, and not added to.
func TestDefinitionsOfOthersStay(t *testing.T) {
	t.Parallel()
	f := real(t, nil)
	if err := EnsureGatewayAPI(t.Context(), f.client, true, ""); err != nil {
		t.Fatal(err)
	}
	definitions := object.For(f.client, gatewayapi.Definitions)
	name := gatewayapi.TLSRoute.GroupResource().String()
	gone := func() {
		if err := definitions.Delete(t.Context(), "", name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, "true", func() string {
			_, err := definitions.Get(t.Context(), "", name)
			return fmt.Sprint(apierrors.IsNotFound(err))
		})
	}
	gone()
	if err := EnsureGatewayAPI(t.Context(), f.client, true, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := definitions.Get(t.Context(), "", name); err != nil {
		t.Fatalf("a missing definition of the same bundle: %v", err)
	}
	gone()
	patch := []byte(`{"metadata":{"annotations":{"gateway.networking.k8s.io/bundle-version":"v1.2.0"}}}`)
	if _, err := definitions.Patch(t.Context(), "", gatewayapi.Gateway.GroupResource().String(), "application/merge-patch+json", patch, ""); err != nil {
		t.Fatal(err)
	}
	if err := EnsureGatewayAPI(t.Context(), f.client, true, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := definitions.Get(t.Context(), "", name); !apierrors.IsNotFound(err) {
		t.Errorf("definitions of two bundles: %v", err)
	}
}
