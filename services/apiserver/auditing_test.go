package apiserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/authn"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  nonResourceURLs: ["/healthz*"]
- level: Metadata
  resources: [{group: "", resources: [secrets]}]
- level: RequestResponse
  omitManagedFields: true
  namespaces: [default]
  resources: [{group: "", resources: [configmaps]}]
- level: Request
  verbs: [patch]
- level: Metadata
`

// audited runs a server that writes its audit to a file.
func audited(t *testing.T, configure ...func(*Config)) (*fixture, func() []auditv1.Event) {
	t.Helper()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	f := startMemory(t, append(configure, func(c *Config) { c.Audit = Audit{PolicyFile: policy, LogPath: log} })...)
	return f, func() []auditv1.Event {
		t.Helper()
		file, err := os.Open(log)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var events []auditv1.Event
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e auditv1.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatalf("%s: %v", lines.Bytes(), err)
			}
			if e.Kind != "Event" || e.APIVersion != "audit.k8s.io/v1" || e.AuditID == "" || e.RequestReceivedTimestamp.IsZero() || e.StageTimestamp.IsZero() {
				t.Errorf("an event lacks something: %s", lines.Bytes())
			}
			events = append(events, e)
		}
		return events
	}
}

// about returns the events about a name.
func about(events []auditv1.Event, verb, name string) []auditv1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e auditv1.Event) bool {
		return e.Verb != verb || e.ObjectRef == nil || e.ObjectRef.Name != name
	})
}

func TestAudit(t *testing.T) {
	t.Parallel()
	f, events := audited(t)
	jane := f.dial(rpc.User{Name: authn.GatewayGroup, Groups: []string{authn.GatewayGroup}})
	client := apiv1.NewObjectServiceClient(jane)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "howdah-user", "root", "howdah-group", "system:masters",
		"howdah-as-user", "jane", "howdah-as-group", "devs",
		"howdah-origin-bin", "the-id\n192.0.2.7,10.0.0.1\nkubectl/v1.36\n/api/v1/namespaces/default/configmaps/x?pretty=1")
	_, err := client.Get(ctx, &apiv1.GetRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "x"})
	if apistatus.Of(apistatus.FromGRPC(err)).Code != 403 {
		t.Fatal(err)
	}
	if _, err := f.create("v1/configmaps", "default", `{"metadata":{"name":"c"},"data":{"a":"b"}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.create("v1/secrets", "default", `{"metadata":{"name":"s"},"stringData":{"a":"do-not-tell"}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "namespaces", Name: "default", ContentType: "application/merge-patch+json",
		Object: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.list(&apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/healthz"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/version"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.api.Batch(f.ctx, &apiv1.BatchRequest{Items: []*apiv1.BatchItem{
		{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{Version: "v1", Resource: "serviceaccounts", Namespace: "kube-system", Name: "", Object: []byte(`{"metadata":{"name":"one"}}`)}}},
		{Write: &apiv1.BatchItem_Delete{Delete: &apiv1.DeleteRequest{Version: "v1", Resource: "configmaps", Namespace: "kube-public", Name: "none"}}},
		{Write: &apiv1.BatchItem_Delete{Delete: &apiv1.DeleteRequest{Version: "v1", Resource: "configmaps", Namespace: "kube-public", Name: "neither", Accept: "application/vnd.kubernetes.protobuf"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	all := events()

	refused := about(all, "get", "x")
	if len(refused) != 1 {
		t.Fatalf("%d events of the request that was refused", len(refused))
	}
	e := refused[0]
	if e.AuditID != "the-id" || e.Stage != "ResponseComplete" || e.Level != "RequestResponse" || e.UserAgent != "kubectl/v1.36" ||
		e.RequestURI != "/api/v1/namespaces/default/configmaps/x?pretty=1" || strings.Join(e.SourceIPs, " ") != "192.0.2.7 10.0.0.1" ||
		e.User.Username != "root" || e.ImpersonatedUser == nil || e.ImpersonatedUser.Username != "jane" ||
		e.AuthenticationMetadata == nil || e.AuthenticationMetadata.ImpersonationConstraint != "impersonate:user-info" ||
		e.ResponseStatus.Code != 403 || e.ResponseStatus.Reason != "Forbidden" || e.Annotations["authorization.k8s.io/decision"] != "forbid" {
		t.Errorf("%+v", e)
	}
	created := about(all, "create", "c")
	if len(created) != 1 || created[0].ResponseStatus.Code != 201 || created[0].RequestURI != "/api/v1/namespaces/default/configmaps" ||
		created[0].Annotations["authorization.k8s.io/decision"] != "allow" || created[0].User.Username != "admin" {
		t.Fatalf("%+v", created)
	}
	if body := string(created[0].ResponseObject.Raw); !strings.Contains(body, `"uid"`) || strings.Contains(body, "managedFields") || !strings.Contains(string(created[0].RequestObject.Raw), `"a":"b"`) {
		t.Errorf("request %s response %s", created[0].RequestObject.Raw, body)
	}
	if secret := about(all, "create", "s"); len(secret) != 1 || secret[0].RequestObject != nil || secret[0].ResponseObject != nil {
		t.Errorf("%+v", secret)
	}
	if patch := about(all, "patch", "default"); len(patch) != 1 || patch[0].RequestObject == nil || patch[0].ResponseObject != nil {
		t.Errorf("%+v", patch)
	}
	for _, name := range []string{"none", "neither"} {
		if gone := about(all, "delete", name); len(gone) != 1 || gone[0].ResponseStatus.Code != 404 || gone[0].ResponseStatus.Reason != "NotFound" ||
			gone[0].ResponseStatus.Message != `configmaps "`+name+`" not found` || gone[0].Annotations["authorization.k8s.io/decision"] != "allow" {
			t.Errorf("%+v", gone)
		}
	}
	if one := about(all, "create", "one"); len(one) != 1 || one[0].ResponseStatus.Code != 201 || one[0].Annotations["authorization.k8s.io/decision"] != "allow" {
		t.Errorf("a write of a batch: %+v", one)
	}
	for _, e := range all {
		if e.RequestURI == "/healthz" || e.User.Username == "system:apiserver" {
			t.Errorf("the policy leaves this out: %+v", e)
		}
		if e.Verb == "list" && (e.ResponseObject == nil || !strings.Contains(string(e.ResponseObject.Raw), `"items"`)) {
			t.Errorf("list: %+v", e)
		}
	}
	if !slices.ContainsFunc(all, func(e auditv1.Event) bool {
		return e.RequestURI == "/version" && e.ObjectRef == nil && e.ResponseStatus.Code == 200
	}) {
		t.Error("no event of /version")
	}
	raw, err := os.ReadFile(f.server.cfg.Audit.LogPath)
	if err != nil || strings.Contains(string(raw), "do-not-tell") || strings.Contains(string(raw), "ZG8tbm90LXRlbGw") {
		t.Error("a Secret's content is in the log", err)
	}
	if info, err := os.Stat(f.server.cfg.Audit.LogPath); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// TestAuditOfWhatIsSent: what a body tells of the object that a request is about, and whether what it asks for will go.
func TestAuditOfWhatIsSent(t *testing.T) {
	t.Parallel()
	f, events := audited(t)
	f.must(f.create("v1/configmaps", "kube-public", `{"metadata":{"name":"c"}}`))
	f.must(f.put("v1/configmaps", "", f.object(f.get("v1/configmaps", "kube-public", "c"))))
	f.must(f.create("v1/endpoints", "kube-public", `{"metadata":{"name":"e"}}`))
	if _, err := f.create("v1/bindings", "kube-public", `{"metadata":{"name":"gone"},"target":{"kind":"Node","name":"n"}}`); err == nil {
		t.Error("a pod that is not there was bound")
	}
	if _, err := f.create("v1/configmaps", "nowhere", `{"metadata":{"name":"lost"}}`); err == nil {
		t.Error("there is no such namespace")
	}
	f.must(f.create("v1/configmaps", "kube-public", `{"metadata":{"generateName":"made-"}}`))
	all := events()
	for _, want := range []struct {
		verb, name, resource string
		code                 int32
		identified           bool // by uid and resourceVersion
		deprecated           string
	}{
		{"create", "c", "configmaps", 201, false, ""},
		{"update", "c", "configmaps", 200, true, ""},
		{"create", "e", "endpoints", 201, false, "true"},
		{"create", "gone", "bindings", 404, false, ""},
		{"create", "lost", "configmaps", 404, false, ""},
		{"create", "", "configmaps", 201, false, ""},
	} {
		found := about(all, want.verb, want.name)
		if len(found) != 1 || found[0].ObjectRef.Resource != want.resource || found[0].ResponseStatus.Code != want.code ||
			(found[0].ObjectRef.UID != "") != want.identified || (found[0].ObjectRef.ResourceVersion != "") != want.identified ||
			found[0].Annotations["k8s.io/deprecated"] != want.deprecated {
			t.Errorf("%s of %s %q: %+v", want.verb, want.resource, want.name, found)
		}
	}
}

// TestAuditOfPatchesByWebhooks: that a webhook changed something is told at every level, and how only where requests are told as well.
func TestAuditOfPatchesByWebhooks(t *testing.T) {
	t.Parallel()
	f, events := audited(t)
	h := startHooks(t)
	defer f.configure("mutatingwebhookconfigurations", "a", h.hook("a", "/patch-first", ""))()
	f.must(f.create(configMaps, "default", guardedMap("told")))
	f.must(f.create(configMaps, "kube-public", guardedMap("alone")))
	if _, err := f.api.Batch(f.ctx, &apiv1.BatchRequest{Items: []*apiv1.BatchItem{
		{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Object: []byte(guardedMap("batched"))}}},
	}}); err != nil {
		t.Fatal(err)
	}
	all := events()
	for name, patch := range map[string]bool{"told": true, "batched": true, "alone": false} {
		made := about(all, "create", name)
		if len(made) != 1 {
			t.Errorf("%d events of %s", len(made), name)
			continue
		}
		_, mutated := made[0].Annotations["mutation.webhook.admission.k8s.io/round_0_index_0"]
		if _, patched := made[0].Annotations["patch.webhook.admission.k8s.io/round_0_index_0"]; !mutated || patched != patch {
			t.Errorf("%s: %v, want the patch: %v", name, made[0].Annotations, patch)
		}
	}
}

// TestAuditOfAWatch: its start and its end are told, and only with its end that its version will go.
func TestAuditOfAWatch(t *testing.T) {
	t.Parallel()
	f, events := audited(t)
	stream, err := f.api.Watch(t.Context(), &apiv1.WatchRequest{Version: "v1", Resource: "endpoints", TimeoutSeconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	for deadline := time.Now().Add(time.Minute); ; {
		var stages []string
		for _, e := range events() {
			if e.Verb == "watch" && e.User.Username == "admin" {
				stages = append(stages, string(e.Stage)+e.Annotations["k8s.io/deprecated"])
			}
		}
		if slices.Equal(stages, []string{"ResponseStarted", "ResponseCompletetrue"}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(stages)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestAuditOfAWatchThatIsLeft: whose client leaves while it is told something was answered all the same.
func TestAuditOfAWatchThatIsLeft(t *testing.T) {
	t.Parallel()
	f, events := audited(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if _, err := f.api.Watch(ctx, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "kube-public"}); err != nil {
		t.Fatal(err) // nothing of it is read: the server has more to send than the way holds
	}
	ended := func(stage auditv1.Stage) (code int32) {
		for _, e := range events() {
			if e.Verb == "watch" && e.ObjectRef.Namespace == "kube-public" && e.Stage == stage {
				code = e.ResponseStatus.Code
			}
		}
		return code
	}
	f.await("the watch", func() bool { return ended(auditv1.StageResponseStarted) != 0 })
	read := f.begun(t, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default"}) // another, which shows that both are told
	for i := range 4 {
		f.must(f.create("v1/configmaps", "kube-public", fmt.Sprintf(`{"metadata":{"name":"big-%d"},"data":{"a":%q}}`, i, strings.Repeat("x", 500_000))))
	}
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"last"}}`))
	for last := false; !last; {
		got, err := read.Recv()
		if err != nil {
			t.Fatal(err)
		}
		last = slices.ContainsFunc(got.Events, func(e *apiv1.WatchEvent) bool { return strings.Contains(string(e.Object), `"last"`) })
	}
	leave()
	f.await("its end", func() bool { return ended(auditv1.StageResponseComplete) != 0 })
	if code := ended(auditv1.StageResponseComplete); code != 200 {
		t.Errorf("the watch ended with %d", code)
	}
}

// TestAuditOfStreams: those that take over the connection are recorded with the code of that, and logs as any answer.
func TestAuditOfStreams(t *testing.T) {
	t.Parallel()
	f, events := audited(t, startEcho(t, func(string) {}))
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.reachable()
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"one"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`))
	for _, want := range []struct {
		method, subresource, query, verb string
		code                             int32
	}{
		{"POST", "exec", "command=sh", "create", 101},
		{"GET", "attach", "", "get", 101},
		{"POST", "portforward", "", "create", 101},
		{"GET", "log", "", "get", 200},
	} {
		stream, err := f.api.Connect(f.ctx)
		if err == nil {
			err = stream.Send(&apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{
				Version: "v1", Resource: "pods", Namespace: "default", Name: "one", Subresource: want.subresource, Method: want.method, Query: want.query,
			}}})
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil {
			err = stream.CloseSend()
		}
		if err != nil {
			t.Fatalf("%s: %v", want.subresource, err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		var codes []string
		for _, e := range events() {
			if e.ObjectRef != nil && e.ObjectRef.Subresource == want.subresource && e.Verb == want.verb {
				codes = append(codes, fmt.Sprint(e.Stage, " ", e.ResponseStatus.Code))
			}
		}
		if expected := []string{fmt.Sprint("ResponseStarted ", want.code), fmt.Sprint("ResponseComplete ", want.code)}; !slices.Equal(codes, expected) {
			t.Errorf("%s: %v, want %v", want.subresource, codes, expected)
		}
	}
}

func TestAuditSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	for path, text := range map[string]string{good: auditPolicy, bad: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Everything}]\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		audit Audit
		want  string
	}{
		"no backend":       {Audit{PolicyFile: good}, "needs an --audit-log-path"},
		"no policy":        {Audit{LogPath: "-"}, "need an --audit-policy-file"},
		"a bad level":      {Audit{PolicyFile: bad, LogPath: "-"}, `Unsupported value: "Everything"`},
		"no file":          {Audit{PolicyFile: filepath.Join(dir, "none"), LogPath: "-"}, "failed to read file path"},
		"a folder":         {Audit{PolicyFile: good, LogPath: dir}, "audit log: open"},
		"no configuration": {Audit{PolicyFile: good, WebhookConfigFile: filepath.Join(dir, "none")}, "audit webhook"},
	} {
		if _, err := New(Config{DatabaseURL: "postgres://localhost/none", Audit: tt.audit}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuditOfWhatGatewaysAnswer(t *testing.T) {
	t.Parallel()
	f, events := audited(t)
	report := func(as rpc.User, code int32, status string, pairs ...string) error {
		md := metadata.Pairs(append(pairs, "howdah-origin-bin", "an-id\n1.2.3.4\nbrowser\n/none?a=b")...)
		_, err := apiv1.NewDiscoveryServiceClient(f.dial(as)).Report(metadata.NewOutgoingContext(f.ctx, md),
			&apiv1.ReportRequest{Access: &apiv1.Access{Verb: "get", Path: "/none"}, Code: code, Status: []byte(status)})
		return apistatus.FromGRPC(err)
	}
	gateway := rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}}
	if err := report(gateway, 404, `{"status":"Failure","code":404,"reason":"NotFound","message":"no"}`, "howdah-user", "jane"); err != nil {
		t.Fatal(err)
	}
	if err := report(gateway, 401, `{"status":"Failure","code":401,"reason":"Unauthorized"}`, "authorization", "Bearer bad"); err != nil {
		t.Fatal(err)
	}
	if err := report(rpc.User{Name: "jane"}, 200, ""); apistatus.Of(err).Code != 403 {
		t.Errorf("one who is no gateway: %v", err)
	}
	var got []string
	for _, e := range events() {
		if string(e.AuditID) == "an-id" {
			got = append(got, strings.Join([]string{string(e.Stage), e.User.Username, e.Verb, e.RequestURI, e.SourceIPs[0], e.UserAgent, string(e.ResponseStatus.Reason)}, " "))
		}
	}
	want := []string{"ResponseComplete jane get /none?a=b 1.2.3.4 browser NotFound", "ResponseStarted  get /none?a=b 1.2.3.4 browser Unauthorized"}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q", got)
	}
}
