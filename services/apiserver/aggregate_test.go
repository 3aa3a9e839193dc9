package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// extension is a small extension API server, which believes the front proxy's headers and nobody else's.
func extension(broken, aggregates *atomic.Bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName != "howdah:apiserver" {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		if broken.Load() {
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/metrics.example.com/v1":
			if aggregates.Load() { // it tells its resources in the document of all groups alone
				return
			}
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.example.com/v1",
				APIResources: []metav1.APIResource{
					{Name: "loads", SingularName: "load", Namespaced: true, Kind: "Load", Verbs: metav1.Verbs{"get", "list"}, ShortNames: []string{"ld"}},
					{Name: "loads/status", Namespaced: true, Kind: "Load", Verbs: metav1.Verbs{"get"}},
				},
			})
		case "/apis":
			if !aggregates.Load() || !strings.HasPrefix(r.Header.Get("Accept"), "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList") {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"metrics.example.com"},"versions":[{"version":"v1",
				"resources":[{"resource":"peaks","scope":"Namespaced","verbs":["get"],"responseKind":{"group":"","version":"","kind":"Peak"}}]}]}]}`)
		case "/openapi/v2":
			w.Header().Set("Etag", `"loads"`)
			if r.Header.Get("If-None-Match") == `"loads"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, `{"swagger":"2.0","info":{"title":"Metrics","version":"v0"},"paths":{"/apis/other.example.com/v1/others":{},"/apis/metrics.example.com/v1/loads":{"get":{
				"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/com.example.metrics.v1.Load"}}}}}},"definitions":{"com.example.metrics.v1.Load":{"type":"object"}}}`)
		case "/openapi/v3/apis/metrics.example.com/v1":
			fmt.Fprint(w, `{"openapi":"3.0.0","paths":{}}`)
		case "/openapi/v3/apis/metrics.example.com":
			fmt.Fprint(w, `{"openapi":"3.0.0","info":{"title":"the group"}}`)
		case "/apis/metrics.example.com/v1/namespaces/default/loads/cut/status":
			w.Header().Set("Seen", r.Header.Get("Audit-ID"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s by %s %v %s: %s", r.Method, r.URL.RequestURI(), r.Header.Get("X-Remote-User"), r.Header.Values("X-Remote-Group"), r.Header.Get("X-Remote-Extra-Scopes"), body)
		}
	}
}

// startExtension runs it with a certificate for a Service, and returns its port.
func startExtension(t *testing.T, authority *pki.Authority, h http.Handler) string {
	t.Helper()
	pair, err := authority.Issue(pki.Subject{CommonName: "metrics", Hosts: []string{"metrics.default.svc"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority.PEM())
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients}
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return portOf(t, server)
}

// condition waits until an APIService's Available condition has a status and a reason, and returns its message.
func (f *fixture) condition(name string, status apiregistrationv1.ConditionStatus, reason string) string {
	f.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		raw, err := f.get("apiregistration.k8s.io/v1/apiservices", "", name)
		var service apiregistrationv1.APIService
		if err == nil {
			err = json.Unmarshal(raw, &service)
		}
		for _, c := range service.Status.Conditions {
			if c.Type == apiregistrationv1.Available && c.Status == status && c.Reason == reason {
				return c.Message
			}
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s is not %s %s: %v %+v", name, status, reason, err, service.Status)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestAggregation(t *testing.T) {
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{CommonName: "howdah:apiserver", Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	front, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	var broken, aggregates atomic.Bool
	port := startExtension(t, authority, extension(&broken, &aggregates))
	f, events := audited(t, func(c *Config) {
		c.FrontProxy = func() *tls.Certificate { return &front }
		c.FrontProxyCA, c.ClientCA, c.FrontProxyNames = authority.PEM, authority.PEM, []string{"howdah:apiserver"}
		c.PodDialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, strings.Replace(address, "10.1.2.3", "127.0.0.1", 1))
		}
	})

	// What is served here has its APIServices, and extension API servers find whom to believe.
	f.condition("v1.", apiregistrationv1.ConditionTrue, "Local")
	f.condition("v1.apps", apiregistrationv1.ConditionTrue, "Local")
	raw, err := f.get("v1/configmaps", "kube-system", "extension-apiserver-authentication")
	if err != nil || !strings.Contains(string(raw), `"requestheader-allowed-names":"[\"howdah:apiserver\"]"`) || !strings.Contains(string(raw), "client-ca-file") {
		t.Errorf("%v %s", err, raw)
	}

	f.must(f.create("apiregistration.k8s.io/v1/apiservices", "", `{"metadata":{"name":"v1.metrics.example.com"},"spec":{"group":"metrics.example.com","version":"v1",
		"groupPriorityMinimum":100,"versionPriority":10,"service":{"namespace":"default","name":"metrics"},"caBundle":"`+base64.StdEncoding.EncodeToString(authority.PEM())+`"}}`))
	f.condition("v1.metrics.example.com", apiregistrationv1.ConditionFalse, "ServiceNotFound")
	ask := &apiv1.ConnectOpen{Group: "metrics.example.com", Version: "v1", Resource: "loads", Namespace: "default", Name: "one", Subresource: "status",
		Path: "/apis/metrics.example.com/v1/namespaces/default/loads/one/status", Query: "a=b",
		Headers: []*apiv1.Header{{Name: "X-Remote-User", Value: "mallory"}}}
	got, err := f.proxied(ask)
	if err != nil || got.code != 503 || got.body != "service unavailable\n" || got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("while it is not available: %v %+v", err, got)
	}
	var list discoveryv2.APIGroupDiscoveryList
	discover := func() discoveryv2.APIGroupDiscovery {
		t.Helper()
		resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/apis", Accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"})
		if err != nil {
			t.Fatal(err)
		}
		list = discoveryv2.APIGroupDiscoveryList{}
		if err := json.Unmarshal(resp.GetObject(), &list); err != nil {
			t.Fatal(err)
		}
		for _, g := range list.Items {
			if g.Name == "metrics.example.com" {
				return g
			}
		}
		t.Fatal("the group is not told of")
		return discoveryv2.APIGroupDiscovery{}
	}
	if g := discover(); g.Versions[0].Freshness != discoveryv2.DiscoveryFreshnessStale || len(g.Versions[0].Resources) != 0 {
		t.Errorf("while it is not available: %+v", g)
	}

	var backing corev1.Service
	made, err := f.create("v1/services", "default", `{"metadata":{"name":"metrics"},"spec":{"ports":[{"port":443}]}}`)
	if err == nil {
		err = json.Unmarshal(made, &backing)
	}
	if err != nil || backing.Spec.ClusterIP == "" {
		t.Fatalf("%v %s", err, made)
	}
	f.condition("v1.metrics.example.com", apiregistrationv1.ConditionFalse, "EndpointsNotFound")
	f.must(f.create("discovery.k8s.io/v1/endpointslices", "default", `{"metadata":{"name":"metrics-0","labels":{"kubernetes.io/service-name":"metrics"}},"addressType":"IPv4",
		"endpoints":[],"ports":[{"name":"","port":1}]}`))
	f.condition("v1.metrics.example.com", apiregistrationv1.ConditionFalse, "MissingEndpoints")
	f.must(f.create("discovery.k8s.io/v1/endpointslices", "default", `{"metadata":{"name":"metrics-1","labels":{"kubernetes.io/service-name":"metrics"}},"addressType":"IPv4",
		"endpoints":[{"addresses":["10.1.2.3"]}],"ports":[{"name":"","port":`+port+`}]}`))
	f.condition("v1.metrics.example.com", apiregistrationv1.ConditionTrue, "Passed")

	// Requests pass with the name of whoever made them.
	got, err = f.proxied(ask)
	if err != nil || got.code != 200 || got.body != "GET "+ask.Path+"?a=b by admin [system:masters system:authenticated] : " {
		t.Errorf("%v %+v", err, got)
	}
	post := &apiv1.ConnectOpen{Group: "metrics.example.com", Version: "v1", Resource: "loads", Namespace: "default", Method: "POST", Path: "/apis/metrics.example.com/v1/namespaces/default/loads"}
	if got, err = f.proxied(post, "body"); err != nil || !strings.HasSuffix(got.body, ": body") {
		t.Errorf("%v %+v", err, got)
	}
	ask.Name = "cut"
	ask.Path = "/apis/metrics.example.com/v1/namespaces/default/loads/cut/status"
	tagged := *f
	tagged.api = apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}}))
	tagged.ctx = metadata.AppendToOutgoingContext(f.ctx, "howdah-user", "root", "howdah-group", "system:masters", "howdah-origin-bin", "the-id\n\n\n"+ask.Path)
	if got, err = tagged.proxied(ask); err == nil || got.code != 200 || got.header.Get("Seen") != "the-id" {
		t.Errorf("an answer that breaks off: %v %+v", err, got)
	}
	f.await("the event of an answer that broke off", func() bool {
		told := about(events(), "get", "cut")
		last := len(told) - 1
		return last >= 0 && told[last].AuditID == "the-id" && told[last].Stage == auditv1.StagePanic && told[last].ResponseStatus.Code == 500 &&
			told[last].ResponseStatus.Message == "APIServer panic'd: net/http: abort Handler"
	})
	ask.Name, ask.Path = "one", "/apis/metrics.example.com/v1/namespaces/default/loads/one/status"
	stranger := *f
	stranger.api = apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "jane"}))
	if _, err = stranger.proxied(ask); status(err).Code != 403 || status(err).Message != `loads.metrics.example.com "one" is forbidden: User "jane" cannot get resource "loads/status" in API group "metrics.example.com" in the namespace "default"` {
		t.Errorf("whoever may not: %v", status(err).Message)
	}

	// Discovery and OpenAPI tell of it.
	g := discover()
	if v := g.Versions[0]; v.Freshness != discoveryv2.DiscoveryFreshnessCurrent || len(v.Resources) != 1 || v.Resources[0].Resource != "loads" ||
		v.Resources[0].Scope != discoveryv2.ScopeNamespace || len(v.Resources[0].Subresources) != 1 || v.Resources[0].ShortNames[0] != "ld" {
		t.Errorf("%+v", v)
	}
	for _, tt := range []struct{ path, want string }{
		{"/apis", `"groupVersion":"metrics.example.com/v1"`},
		{"/apis/metrics.example.com", `"preferredVersion":{"groupVersion":"metrics.example.com/v1","version":"v1"}`},
		{"/openapi/v3", `"apis/metrics.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/metrics.example.com/v1?hash=`},
		{"/openapi/v3", `"apis/metrics.example.com":{"serverRelativeURL":"/openapi/v3/apis/metrics.example.com?hash=`},
		{"/openapi/v3/apis/metrics.example.com/v1", `{"openapi":"3.0.0","paths":{}}`},
		{"/openapi/v3/apis/metrics.example.com", `{"openapi":"3.0.0","info":{"title":"the group"}}`},
	} {
		if resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: tt.path}); err != nil || !strings.Contains(string(resp.GetObject()), tt.want) {
			t.Errorf("%s: %v, without %s", tt.path, err, tt.want)
		}
	}

	if told, media := f.wholeV2(""); media != "application/json" || !told {
		t.Errorf("OpenAPI v2 as %s does not tell of it: %t", media, told)
	}
	const binary = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	if told, media := f.wholeV2(binary); media != binary || !told {
		t.Errorf("OpenAPI v2 as %s does not tell of it: %t", media, told)
	}

	// One that breaks is said to be so, and what it served before stays known, as stale.
	broken.Store(true)
	url := "https://" + backing.Spec.ClusterIP + ":443/apis/metrics.example.com/v1"
	if got, want := f.condition("v1.metrics.example.com", apiregistrationv1.ConditionFalse, "FailedDiscoveryCheck"),
		"failing or missing response from "+url+": bad status from "+url+": 500"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if g := discover(); g.Versions[0].Freshness != discoveryv2.DiscoveryFreshnessStale || len(g.Versions[0].Resources) != 1 {
		t.Errorf("when it has broken: %+v", g)
	}
	aggregates.Store(true)
	broken.Store(false)
	f.condition("v1.metrics.example.com", apiregistrationv1.ConditionTrue, "Passed")
	if v := discover().Versions[0]; v.Freshness != discoveryv2.DiscoveryFreshnessCurrent || len(v.Resources) != 1 || v.Resources[0].Resource != "peaks" {
		t.Errorf("what it tells in the aggregated document: %+v", v)
	}

	if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices", Name: "v1.metrics.example.com"}); err != nil {
		t.Fatal(err)
	}
	f.await("404 after it was removed", func() bool {
		_, err := f.proxied(ask)
		return err != nil && status(err).Code == 404
	})
	f.await("the documents without what was removed", func() bool {
		told, _ := f.wholeV2("")
		return !told
	})
}

// wholeV2 reports whether the document of OpenAPI v2, which must have what is served here and nothing that nobody serves, tells of the extension API server.
func (f *fixture) wholeV2(accept string) (told bool, media string) {
	f.t.Helper()
	resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/openapi/v2", Accept: accept})
	text := string(resp.GetObject())
	if err != nil || !strings.Contains(text, "/api/v1/namespaces/{namespace}/pods") || strings.Contains(text, "other.example.com") {
		f.t.Fatalf("%v: %d bytes", err, len(text))
	}
	return strings.Contains(text, "/apis/metrics.example.com/v1/loads") && strings.Contains(text, "com.example.metrics.v1.Load"), resp.GetContentType()
}

// What is served here keeps its APIServices: those of custom kinds always, those of built-in kinds until somebody changes them.
func TestAPIServicesOfWhatIsServedHere(t *testing.T) {
	f := startMemory(t)
	const services = "apiregistration.k8s.io/v1/apiservices"
	service := func(name string) (out apiregistrationv1.APIService, found bool) {
		raw, err := f.get(services, "", name)
		if err != nil {
			return out, false
		}
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out, true
	}
	f.must(f.create(services, "", `{"metadata":{"name":"v2.example.com"},"spec":{"group":"example.com","version":"v2","groupPriorityMinimum":7,"versionPriority":8}}`))
	f.condition("v1.batch", apiregistrationv1.ConditionTrue, "Local")
	if _, err := f.drop(services, "", "v1.batch"); err != nil {
		t.Fatal(err)
	}
	f.must(f.change(services, "", "v1.apps", "merge-patch+json", `{"spec":{"groupPriorityMinimum":3}}`))
	f.define(strings.Replace(widgets, "  versions:\n", "  versions:\n  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}\n", 1))
	f.condition("v1.example.com", apiregistrationv1.ConditionTrue, "Local")
	first, _ := service("v1.example.com")
	for _, changed := range []string{
		`{"spec":{"versionPriority":5,"groupPriorityMinimum":6}}`,
		`{"spec":{"service":{"namespace":"default","name":"metrics"},"insecureSkipTLSVerify":true}}`,
	} {
		f.must(f.change(services, "", "v1.example.com", "merge-patch+json", changed))
		f.await("what was changed is as it was", func() bool {
			s, _ := service("v1.example.com")
			return reflect.DeepEqual(s.Spec, first.Spec)
		})
	}
	if _, err := f.drop(services, "", "v1.example.com"); err != nil {
		t.Fatal(err)
	}
	f.await("what was removed is back", func() bool {
		s, found := service("v1.example.com")
		return found && s.UID != first.UID && reflect.DeepEqual(s.Spec, first.Spec)
	})
	if s, _ := service("v2.example.com"); s.Spec.VersionPriority != 8 {
		t.Errorf("somebody's own: %+v", s.Spec)
	}
	if s, _ := service("v1.apps"); s.Spec.GroupPriorityMinimum != 3 {
		t.Errorf("that of a built-in kind was changed back: %+v", s.Spec)
	}
	if _, found := service("v1.batch"); found {
		t.Error("that of a built-in kind was made again")
	}
	if _, err := f.drop(crds, "", "widgets.example.com"); err != nil {
		t.Fatal(err)
	}
	f.await("that of a kind that is gone goes", func() bool { _, found := service("v1.example.com"); return !found })
}

// A definition adds no kind to a group version of built-in ones.
func TestDefinitionsInGroupVersionsOfBuiltInKinds(t *testing.T) {
	f := startMemory(t)
	f.define(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.networking.k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, test-only"}}
spec:
  group: networking.k8s.io
  scope: Cluster
  names: {plural: foos, kind: Foo}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v7, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`)
	if _, err := f.create("networking.k8s.io/v1/foos", "", `{"apiVersion":"networking.k8s.io/v1","kind":"Foo","metadata":{"name":"a"}}`); status(err).Code != 404 || status(err).Message != "the server could not find the requested resource" {
		t.Errorf("in a version of built-in kinds: %v", err)
	}
	f.must(f.create("networking.k8s.io/v7/foos", "", `{"apiVersion":"networking.k8s.io/v7","kind":"Foo","metadata":{"name":"a"}}`))
	for path, want := range map[string]bool{"/apis/networking.k8s.io/v1": false, "/apis/networking.k8s.io/v7": true} {
		resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: path})
		if err != nil || strings.Contains(string(resp.GetObject()), `"foos"`) != want {
			t.Errorf("%s tells of it: %v, want %v (%v)", path, !want, want, err)
		}
	}
}
