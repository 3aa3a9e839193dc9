package apiserver

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
	"howdah.dev/services/apiserver/internal/memstore"
)

// tunnels is a node agent that connects every tunnel to one address.
type tunnels struct {
	nodev1.UnimplementedNodeServiceServer
	address string
	asked   chan string
}

func (a tunnels) Connect(stream grpc.BidiStreamingServer[nodev1.ConnectRequest, nodev1.ConnectResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	a.asked <- first.GetOpen().GetResource() + "/" + first.GetOpen().GetSubresource() + " " + first.GetOpen().GetQuery()
	conn, err := net.Dial("tcp", a.address)
	if err != nil {
		return err
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
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil
		}
		if err := stream.Send(&nodev1.ConnectResponse{Message: &nodev1.ConnectResponse_Frame{Frame: &apiv1.ConnectFrame{Data: append([]byte(nil), buffer[:n]...)}}}); err != nil {
			return err
		}
	}
}

// A webhook in a pod is reached through the agent of the pod's node.
func TestWebhookBehindService(t *testing.T) {
	t.Parallel()
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{CommonName: "hook", Hosts: []string{"hook.default.svc"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	h := &hooks{t: t, hang: make(chan struct{})}
	h.server = httptest.NewUnstartedServer(h)
	h.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	h.server.StartTLS()
	t.Cleanup(func() { close(h.hang); h.server.CloseClientConnections(); h.server.Close() })

	asked := make(chan string, 100)
	nodes := rpc.ListenInMemory()
	agent := rpc.NewServer(nil, nil)
	nodev1.RegisterNodeServiceServer(agent, tunnels{address: h.server.Listener.Addr().String(), asked: asked})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- agent.ServeUntil(ctx, nodes) }()
	t.Cleanup(func() { cancel(); <-served })

	f := startMemory(t, func(c *Config) {
		c.NodeDialer = func(context.Context, string) (*grpc.ClientConn, error) {
			return nodes.Dial(rpc.User{Name: "howdah:apiserver", Groups: []string{"howdah:apiservers"}})
		}
	})
	node := f.must(f.create("v1/nodes", "", `{"metadata":{"name":"n1"}}`))
	node["status"] = map[string]any{
		"addresses":       []any{map[string]any{"type": "InternalIP", "address": "10.0.0.9"}},
		"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": 10250}},
	}
	body, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "nodes", Name: "n1", Subresource: "status", Object: body}); err != nil {
		t.Fatal(err)
	}
	hook := `{"name":"a.example.com","clientConfig":{"service":{"namespace":"default","name":"hook","path":"/deny","port":8443},"caBundle":"` + base64.StdEncoding.EncodeToString(authority.PEM()) +
		`"},"timeoutSeconds":30,"sideEffects":"None","admissionReviewVersions":["v1"],"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}`
	defer f.configure("validatingwebhookconfigurations", "c", hook)()
	refused := func(want string) {
		t.Helper()
		if _, err := f.create(configMaps, "default", guardedMap("x")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	const failed = `failed calling webhook "a.example.com": failed to call webhook: Post "https://hook.default.svc:8443/deny?timeout=30s": `
	refused(failed + `service "hook" not found`)
	f.must(f.create("v1/services", "default", `{"metadata":{"name":"hook"},"spec":{"ports":[{"port":8443,"targetPort":9443}]}}`))
	f.fresh()
	refused(failed + `no endpoints available for service "hook"`)
	f.must(f.create("discovery.k8s.io/v1/endpointslices", "default", `{"metadata":{"name":"hook-1","labels":{"kubernetes.io/service-name":"hook"}},"addressType":"IPv4",
		"endpoints":[{"addresses":["10.1.2.3"],"nodeName":"n1","conditions":{"ready":true}}],"ports":[{"name":"","port":9443,"protocol":"TCP"}]}`))
	f.fresh()
	refused(`admission webhook "a.example.com" denied the request: this is not wanted`)
	if got := <-asked; got != "nodes/tunnel address=10.1.2.3%3A9443" {
		t.Errorf("the agent was asked for %s", got)
	}
}

// A CONNECT is shown as its options, as agnhost's webhook wants them: it denies to attach to one container with its input.
func TestWebhookDeniesAttach(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"container1","image":"i"}]}}`))
	const rules = `,"rules":[{"operations":["CONNECT"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods/attach"]}]`
	remove := f.configure("validatingwebhookconfigurations", "c", h.hook("a", "/deny", rules))
	attach := func() (metadata.MD, error) {
		t.Helper()
		stream, err := f.api.Connect(f.ctx)
		if err == nil {
			err = stream.Send(&apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{
				Version: "v1", Resource: "pods", Namespace: "default", Name: "p", Subresource: "attach", Method: "POST", Query: "container=container1&stdin=true&stdout=true&tty=false"}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		header, _ := stream.Header()
		return header, apistatus.FromGRPC(err)
	}
	if _, err := attach(); err == nil || !strings.Contains(err.Error(), "denied the request: this is not wanted") {
		t.Errorf("attached: %v", err)
	}
	seen := h.requests()
	if len(seen) != 1 {
		t.Fatalf("%d reviews", len(seen))
	}
	options := &corev1.PodAttachOptions{}
	r := seen[0]
	if err := json.Unmarshal(r.Object.Raw, options); err != nil || r.Kind.Kind != "PodAttachOptions" || r.Name != "p" || r.SubResource != "attach" || r.Operation != admissionv1.Connect ||
		!options.Stdin || !options.Stdout || options.TTY || options.Container != "container1" {
		t.Errorf("shown as %+v, %s", r, r.Object.Raw)
	}
	remove()
	defer f.configure("validatingwebhookconfigurations", "c", h.hook("a", "/warn", rules))()
	if header, err := attach(); err == nil || len(header.Get("warning")) != 1 || header.Get("warning")[0] != "think twice" {
		t.Errorf("a warning of what fails then: %v, %v", header, err)
	}
}

// doodads has two versions, of which v2 is stored.
const doodads = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: doodads.example.com, labels: {crd: mine}}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: doodads, kind: Doodad}
  versions:
  - &version
    name: v1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        properties:
          data: {type: object, additionalProperties: {type: string}}
  - <<: *version
    name: v2
    storage: true
`

func TestAdmissionOfCustomResources(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	// A definition itself can be denied.
	remove := f.configure("validatingwebhookconfigurations", "d", h.hook("d", "/deny", `,"rules":[{"operations":["CREATE"],"apiGroups":["apiextensions.k8s.io"],"apiVersions":["*"],"resources":["customresourcedefinitions"]}],"objectSelector":{"matchLabels":{"crd":"mine"}}`))
	if _, err := f.create(crds, "", asJSON(t, doodads)); !apierrors.IsForbidden(err) {
		t.Errorf("a definition that is denied: %v", err)
	}
	remove()
	h.requests()
	f.define(doodads)
	body := func(name string) string { return fmt.Sprintf(`{"metadata":{"name":%q},"data":{"a":"b"}}`, name) }

	// A rule for v1 sees and patches what is written as v2.
	rules := `,"rules":[{"operations":["CREATE","UPDATE"],"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["doodads"]}]`
	remove = f.configure("mutatingwebhookconfigurations", "m", h.hook("m", "/patch-first", rules))
	made, err := f.create("example.com/v2/doodads", "default", body("x"))
	if err != nil || !strings.Contains(string(made), `"first":"1"`) || !strings.Contains(string(made), `"apiVersion":"example.com/v2"`) {
		t.Errorf("%s, %v", made, err)
	}
	if seen := h.requests(); len(seen) != 1 || seen[0].Kind.Version != "v1" || seen[0].RequestKind.Version != "v2" || !strings.Contains(string(seen[0].Object.Raw), `"apiVersion":"example.com/v1"`) {
		t.Errorf("shown %d times, or in another version", len(seen))
	}
	remove()

	// Policies see custom resources and take parameters from them.
	remove = f.bind("validating", `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["example.com"],"apiVersions":["v2"],"resources":["doodads"]}]},"paramKind":{"apiVersion":"example.com/v1","kind":"Doodad"},"validations":[{"expression":"object.data.a == params.data.first","messageExpression":"params.apiVersion + ' ' + params.data.first"}]`,
		`,"validationActions":["Deny"],"paramRef":{"name":"x","parameterNotFoundAction":"Deny"}`)
	if _, err := f.create("example.com/v1/doodads", "default", body("y")); err == nil || !strings.HasSuffix(err.Error(), "denied request: example.com/v1 1") {
		t.Errorf("a policy with a custom parameter: %v", err)
	}
	remove()
	remove = f.bind("mutating", `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["doodads"]}]},"reinvocationPolicy":"Never","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{data: Object.data{c: 'd'}}"}},{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/unknown', value: 'e'}]"}}]`, "")
	made, err = f.create("example.com/v2/doodads", "default", body("z"))
	if err != nil || !strings.Contains(string(made), `"c":"d"`) || strings.Contains(string(made), "unknown") {
		t.Errorf("%s, %v", made, err)
	}
	remove()
}

// What a webhook adds to a custom resource is validated as it is, and what the schema does not know goes only when it is read.
func TestWhatWebhooksAddToCustomResources(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	f.define(doodads)
	const rules = `,"rules":[{"operations":["CREATE"],"apiGroups":["example.com"],"apiVersions":["v2"],"resources":["doodads"]}]`
	defer f.configure("validatingwebhookconfigurations", "v", h.hook("v", "/allow", rules))()
	for _, tt := range []struct{ path, shown, refused string }{
		{"/patch-unknown", `"unknown":"x"`, ""},
		{"/patch-null", "", `data: Invalid value: "null": data in body must be of type object: "null"`},
	} {
		remove := f.configure("mutatingwebhookconfigurations", "m", h.hook("m", tt.path, rules))
		h.requests()
		made, err := f.create("example.com/v2/doodads", "default", `{"metadata":{"name":"x"},"data":{"a":"b"}}`)
		remove()
		if tt.refused != "" {
			if !apierrors.IsInvalid(err) || !strings.HasSuffix(err.Error(), tt.refused) {
				t.Errorf("%s: %v", tt.path, err)
			}
			continue
		}
		if seen := h.requests(); len(seen) != 2 || !strings.Contains(string(seen[1].Object.Raw), tt.shown) {
			t.Errorf("%s: who validates was asked as the last of %d, or is not shown %s", tt.path, len(seen), tt.shown)
		}
		got, getErr := f.get("example.com/v2/doodads", "default", "x")
		if err != nil || getErr != nil || strings.Contains(string(made)+string(got), "unknown") {
			t.Errorf("%s: %s, %v; read %s, %v", tt.path, made, err, got, getErr)
		}
	}
}

// What a webhook refuses leaves nothing behind, and one that is quick with Fail stands for all apiservers.
func TestWebhooksOfTwoServers(t *testing.T) {
	t.Parallel()
	h := startHooks(t)
	store := memory{memstore.New()}
	one, two := start(t, store), start(t, store)
	defer one.configure("validatingwebhookconfigurations", "c", h.hook("a", "/deny", ""))()
	two.fresh()
	if _, err := two.create(configMaps, "default", guardedMap("x")); !apierrors.IsForbidden(err) {
		t.Errorf("another apiserver does not know the webhook: %v", err)
	}
	if _, err := one.get(configMaps, "default", "x"); !apierrors.IsNotFound(err) {
		t.Errorf("what was refused is there: %v", err)
	}
}
