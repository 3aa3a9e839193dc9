package apiserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
)

// status is the Status of a failed call.
func status(err error) metav1.Status { return apistatus.Of(apistatus.FromGRPC(err)) }

func (f *fixture) must(b []byte, err error) map[string]any {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(apistatus.FromGRPC(err))
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		f.t.Fatal(err)
	}
	return m
}

// at walks into decoded JSON.
func at(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func TestRefusals(t *testing.T) {
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"there"}}`))
	create := func(req *apiv1.CreateRequest) error {
		if req.Resource == "" {
			req.Version, req.Resource, req.Namespace = "v1", "configmaps", "default"
		}
		_, err := f.api.Create(f.ctx, req)
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		code int32
		text string
	}{
		{"missing namespace", create(&apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "nowhere", Object: []byte(`{"metadata":{"name":"a"}}`)}),
			404, `namespaces "nowhere" not found`},
		{"exists", create(&apiv1.CreateRequest{Object: []byte(`{"metadata":{"name":"there"}}`)}), 409, `configmaps "there" already exists`},
		{"no name", create(&apiv1.CreateRequest{Object: []byte(`{}`)}), 422, "name or generateName is required"},
		{"bad name", create(&apiv1.CreateRequest{Object: []byte(`{"metadata":{"name":"UPPER"}}`)}), 422, "metadata.name: Invalid value"},
		{"other namespace", create(&apiv1.CreateRequest{Object: []byte(`{"metadata":{"name":"a","namespace":"other"}}`)}), 400,
			"the namespace of the provided object does not match the namespace sent on the request"},
		{"bad JSON", create(&apiv1.CreateRequest{Object: []byte(`{"metadata":`)}), 400, "json parse error"},
		{"wrong kind", create(&apiv1.CreateRequest{Object: []byte(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}`)}), 400,
			"Secret in version \"v1\" cannot be handled as a ConfigMap"},
		{"wrong version", create(&apiv1.CreateRequest{Object: []byte(`{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"a"}}`)}), 400,
			`ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v2"`},
		{"strict", create(&apiv1.CreateRequest{Object: []byte(`{"metadata":{"name":"a"},"dta":{}}`), FieldValidation: "Strict"}), 400,
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dta"`},
		{"strict twice", create(&apiv1.CreateRequest{Object: []byte(`{"metadata":{"name":"a"},"data":{},"data":{}}`), FieldValidation: "Strict"}), 400,
			`strict decoding error: duplicate field "data"`},
		{"bad validation", create(&apiv1.CreateRequest{Object: []byte(`{}`), FieldValidation: "Nonsense"}), 422, "fieldValidation"},
		{"bad dry run", create(&apiv1.CreateRequest{Object: []byte(`{}`), DryRun: []string{"Some"}}), 422, "dryRun"},
		{"bad media", create(&apiv1.CreateRequest{Object: []byte(`{}`), ContentType: "text/csv"}), 415, "the body of the request was in an unknown format"},
		{"bad accept", create(&apiv1.CreateRequest{Object: []byte(`{}`), Accept: "application/cbor"}), 406, "406: Not Acceptable"},
		{"bad protobuf", create(&apiv1.CreateRequest{Object: []byte(`{}`), ContentType: protobuf}), 400, "does not appear to be a protobuf message"},
		{"too large", create(&apiv1.CreateRequest{Object: []byte(`{"metadata":{"name":"a"},"data":{"a":"` + strings.Repeat("x", 3<<20) + `"}}`)}), 413, "limit is 3145728"},
		{"too deep", create(&apiv1.CreateRequest{Object: []byte(`{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`)}), 400, "invalid character '[' exceeded max depth"},
		{"no resource", create(&apiv1.CreateRequest{Version: "v1", Resource: "nonsense", Namespace: "default"}), 404, "the server could not find the requested resource"},
		{"revision", create(&apiv1.CreateRequest{Object: []byte(`{"metadata":{"name":"a","resourceVersion":"5"}}`)}), 500, "resourceVersion should not be set on objects to be created"},
		{"no account", create(&apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default",
			Object: []byte(`{"metadata":{"name":"a"},"spec":{"serviceAccountName":"x","containers":[{"name":"c","image":"i"}]}}`)}),
			403, `pods "a" is forbidden: error looking up service account default/x: serviceaccount "x" not found`},
		{"no class", create(&apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default",
			Object: []byte(`{"metadata":{"name":"a"},"spec":{"priorityClassName":"x","containers":[{"name":"c","image":"i"}]}}`)}),
			403, "no PriorityClass with name x was found"},
	} {
		if s := status(c.err); s.Code != c.code || !strings.Contains(s.Message, c.text) {
			t.Errorf("%s: %d %q, wanted %d %q", c.name, s.Code, s.Message, c.code, c.text)
		}
	}
	for _, ns := range []string{"default", "kube-system", "kube-public"} {
		_, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "namespaces", Name: ns})
		if s := status(err); s.Code != 403 || s.Message != fmt.Sprintf(`namespaces %q is forbidden: this namespace may not be deleted`, ns) {
			t.Errorf("delete %s: %d %s", ns, s.Code, s.Message)
		}
	}
}

func TestWarnings(t *testing.T) {
	f := startMemory(t)
	api := f.api
	var header metadata.MD
	_, err := api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "default",
		Object: []byte(`{"metadata":{"name":"a"},"dta":{}}`)}, grpc.Header(&header))
	if err != nil || len(header.Get("warning")) != 1 || header.Get("warning")[0] != `unknown field "dta"` {
		t.Errorf("warnings %q, %v", header.Get("warning"), err)
	}
}

func TestTerminatingNamespace(t *testing.T) {
	f := startMemory(t)
	f.must(f.create("v1/namespaces", "", `{"metadata":{"name":"going"}}`))
	if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "namespaces", Name: "going"}); err != nil {
		t.Fatal(err)
	}
	_, err := f.create("v1/configmaps", "going", `{"metadata":{"name":"a"}}`)
	s := status(err)
	if s.Code != 403 || !strings.Contains(s.Message, "unable to create new content in namespace going because it is being terminated") ||
		s.Details == nil || len(s.Details.Causes) != 1 || s.Details.Causes[0].Type != "NamespaceTerminating" {
		t.Errorf("%+v", s)
	}
	got := f.must(f.get("v1/namespaces", "", "going"))
	if at(got, "status", "phase") != "Terminating" {
		t.Errorf("phase %v", at(got, "status", "phase"))
	}
	spec := got["spec"].(map[string]any)
	delete(spec, "finalizers")
	body, _ := json.Marshal(got)
	if _, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "namespaces", Name: "going", Subresource: "finalize", Object: body}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.get("v1/namespaces", "", "going"); !apierrors.IsNotFound(err) {
		t.Errorf("after the last finalizer: %v", err)
	}
}

func TestDeletion(t *testing.T) {
	f := startMemory(t)
	cm := func(name, finalizers string) {
		f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"`+name+`","finalizers":[`+finalizers+`]}}`))
	}
	del := func(name, options string, change func(*apiv1.DeleteRequest)) (map[string]any, int32, error) {
		req := &apiv1.DeleteRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: name, Options: []byte(options)}
		if change != nil {
			change(req)
		}
		resp, err := f.api.Delete(f.ctx, req)
		if err != nil {
			return nil, 0, err
		}
		return f.must(resp.GetObject(), nil), resp.GetCode(), nil
	}
	t.Run("finalizer", func(t *testing.T) {
		cm("held", `"a.io/b"`)
		got, _, err := del("held", "", nil)
		if err != nil || at(got, "metadata", "deletionTimestamp") == nil {
			t.Fatalf("%v %v", got, err)
		}
		if _, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "held",
			ContentType: "application/merge-patch+json", Object: []byte(`{"metadata":{"finalizers":null}}`)}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.get("v1/configmaps", "default", "held"); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	t.Run("propagation", func(t *testing.T) {
		for policy, finalizer := range map[string]string{"Foreground": "foregroundDeletion", "Orphan": "orphan"} {
			name := strings.ToLower(policy)
			cm(name, "")
			got, _, err := del(name, "", func(r *apiv1.DeleteRequest) { r.PropagationPolicy = policy })
			finalizers, _ := at(got, "metadata", "finalizers").([]any)
			if err != nil || len(finalizers) != 1 || finalizers[0] != finalizer {
				t.Errorf("%s: %v %v", policy, finalizers, err)
			}
		}
		cm("background", "")
		if got, _, err := del("background", `{"propagationPolicy":"Background"}`, nil); err != nil || got["kind"] != "Status" || got["status"] != "Success" {
			t.Errorf("%v %v", got, err)
		}
	})
	t.Run("preconditions", func(t *testing.T) {
		cm("pre", "")
		if _, _, err := del("pre", `{"preconditions":{"uid":"other"}}`, nil); status(err).Code != 409 {
			t.Error(err)
		}
		if _, _, err := del("pre", `{"preconditions":{"resourceVersion":"1"}}`, nil); status(err).Code != 409 {
			t.Error(err)
		}
	})
	t.Run("absent", func(t *testing.T) {
		if _, _, err := del("absent", "", nil); status(err).Code != 404 || status(err).Message != `configmaps "absent" not found` {
			t.Error(err)
		}
	})
}

func TestListSemantics(t *testing.T) {
	f := startMemory(t)
	for i := range 10 {
		f.must(f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"c%d","labels":{"even":"%v"}}}`, i, i%2 == 0)))
	}
	list := func(change func(*apiv1.ListRequest)) (map[string]any, error) {
		req := &apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default"}
		change(req)
		b, err := f.list(req)
		if err != nil {
			return nil, err
		}
		return f.must(b, nil), nil
	}
	names := func(l map[string]any) string {
		var all []string
		items, _ := l["items"].([]any)
		for _, i := range items {
			all = append(all, at(i, "metadata", "name").(string))
		}
		return strings.Join(all, " ")
	}
	t.Run("pages are of one revision", func(t *testing.T) {
		first, err := list(func(r *apiv1.ListRequest) { r.Limit = 4 })
		if err != nil {
			t.Fatal(err)
		}
		if names(first) != "c0 c1 c2 c3" || at(first, "metadata", "remainingItemCount") != 6.0 {
			t.Fatalf("%v", first["metadata"])
		}
		f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"c9a"}}`))
		if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "c5"}); err != nil {
			t.Fatal(err)
		}
		all, page := names(first), first
		for at(page, "metadata", "continue") != nil {
			token := at(page, "metadata", "continue").(string)
			if page, err = list(func(r *apiv1.ListRequest) { r.Limit, r.Continue = 4, token }); err != nil {
				t.Fatal(err)
			}
			if at(page, "metadata", "resourceVersion") != at(first, "metadata", "resourceVersion") {
				t.Error("the revision changed between pages")
			}
			all += " " + names(page)
		}
		if all != "c0 c1 c2 c3 c4 c5 c6 c7 c8 c9" {
			t.Errorf("pages: %s", all)
		}
		exact, err := list(func(r *apiv1.ListRequest) {
			r.ResourceVersion, r.ResourceVersionMatch = at(first, "metadata", "resourceVersion").(string), "Exact"
		})
		if err != nil || names(exact) != all {
			t.Errorf("exact: %s %v", names(exact), err)
		}
	})
	t.Run("selectors", func(t *testing.T) {
		for selector, want := range map[string]string{"even=true": "c0 c2 c4 c6 c8", "even notin (true),even": "c1 c3 c7 c9", "!even": "c9a"} {
			got, err := list(func(r *apiv1.ListRequest) { r.LabelSelector = selector })
			if err != nil || names(got) != want {
				t.Errorf("%s: %s %v", selector, names(got), err)
			}
		}
		got, err := list(func(r *apiv1.ListRequest) { r.FieldSelector = "metadata.name=c1" })
		if err != nil || names(got) != "c1" {
			t.Errorf("by name: %s %v", names(got), err)
		}
		got, err = list(func(r *apiv1.ListRequest) {
			r.FieldSelector = "metadata.name!=c1,metadata.namespace=default"
			r.LabelSelector = "even=false"
		})
		if err != nil || names(got) != "c3 c7 c9" {
			t.Errorf("by name: %s %v", names(got), err)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		for name, c := range map[string]struct {
			change func(*apiv1.ListRequest)
			code   int32
			text   string
		}{
			"field":     {func(r *apiv1.ListRequest) { r.FieldSelector = "spec.x=y" }, 400, `"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`},
			"label":     {func(r *apiv1.ListRequest) { r.LabelSelector = "a in (" }, 400, "unable to parse requirement"},
			"match":     {func(r *apiv1.ListRequest) { r.ResourceVersionMatch = "Exact" }, 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"},
			"revision":  {func(r *apiv1.ListRequest) { r.ResourceVersion = "x" }, 400, "Invalid value"},
			"too large": {func(r *apiv1.ListRequest) { r.ResourceVersion = "999999" }, 504, "Too large resource version"},
			"continue":  {func(r *apiv1.ListRequest) { r.Continue = "!" }, 400, "continue key is not valid"},
		} {
			_, err := list(c.change)
			if s := status(err); s.Code != c.code || !strings.Contains(s.Message, c.text) {
				t.Errorf("%s: %d %s", name, s.Code, s.Message)
			}
		}
	})
}

// TestContinueTokensAge: pages are of one revision for five minutes, although the log could tell them for longer; a client
// that counts on the end of a token sees it even where nobody writes.
func TestContinueTokensAge(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	f := startMemory(t, func(c *Config) { c.Clock = clock })
	for i := range 6 {
		f.must(f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, i)))
	}
	list := func(token string) (map[string]any, error) {
		body, err := f.list(&apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Limit: 2, Continue: token})
		if err != nil {
			return nil, err
		}
		return f.must(body, nil), nil
	}
	first, err := list("")
	if err != nil {
		t.Fatal(err)
	}
	clock.Step(4 * time.Minute)
	token := at(first, "metadata", "continue").(string)
	second, err := list(token)
	if err != nil || at(second, "metadata", "resourceVersion") != at(first, "metadata", "resourceVersion") {
		t.Fatalf("after four minutes: %v %v", second, err)
	}
	// The age of a list counts from its first page.
	clock.Step(2 * time.Minute)
	for name, token := range map[string]string{"first": token, "second": at(second, "metadata", "continue").(string)} {
		_, err := list(token)
		s := status(err)
		if s.Code != 410 || s.Reason != metav1.StatusReasonExpired || s.ListMeta.Continue == "" {
			t.Errorf("the %s token after six minutes: %+v", name, s)
			continue
		}
		if _, err := list(s.ListMeta.Continue); err != nil {
			t.Errorf("going on inconsistently: %v", err)
		}
	}
}

func TestExpiredContinue(t *testing.T) {
	st := memstore.New()
	f := start(t, memory{st})
	for i := range 6 {
		f.must(f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, i)))
	}
	first := f.must(f.list(&apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Limit: 2}))
	token := at(first, "metadata", "continue").(string)
	other := start(t, memory{st}) // another apiserver has not that state in memory
	for i := range 3 {
		f.must(f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"d%d"}}`, i)))
	}
	page := other.must(other.list(&apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Limit: 2, Continue: token}))
	if at(page, "metadata", "resourceVersion") != at(first, "metadata", "resourceVersion") {
		t.Error("another apiserver goes on at another revision")
	}
	third := start(t, memory{st})
	st.Compact(1 << 30)
	_, err := third.list(&apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Limit: 2, Continue: token})
	s := status(err)
	if s.Code != 410 || s.Reason != metav1.StatusReasonExpired || !strings.HasPrefix(s.Message, "The provided continue parameter is too old") || s.ListMeta.Continue == "" {
		t.Fatalf("%+v", s)
	}
	rest := third.must(third.list(&apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Continue: s.ListMeta.Continue}))
	if items := rest["items"].([]any); len(items) != 7 {
		t.Errorf("the inconsistent rest has %d items", len(items))
	}
}

func TestServerSideApply(t *testing.T) {
	f := startMemory(t)
	apply := func(manager, force, body string) (map[string]any, int32, error) {
		resp, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "a",
			ContentType: "application/apply-patch+yaml", FieldManager: manager, Force: force, Object: []byte("apiVersion: v1\nkind: ConfigMap\n" + body)})
		if err != nil {
			return nil, 0, err
		}
		return f.must(resp.GetObject(), nil), resp.GetCode(), nil
	}
	got, code, err := apply("one", "", "metadata: {name: a}\ndata: {x: \"1\", w: \"1\"}")
	if err != nil || code != 201 || at(got, "data", "x") != "1" {
		t.Fatalf("%v %d %v", got, code, err)
	}
	if _, _, err := apply("two", "", "data: {x: \"2\"}"); status(err).Code != 409 || !strings.Contains(status(err).Message, `conflict with "one": .data.x`) {
		t.Errorf("conflict: %v", err)
	}
	if got, code, err = apply("two", "true", "data: {x: \"2\"}"); err != nil || code != 200 || at(got, "data", "x") != "2" || at(got, "data", "w") != "1" {
		t.Errorf("forced: %v %v", got, err)
	}
	if got, _, err = apply("one", "", "data: {z: \"1\"}"); err != nil || at(got, "data", "w") != nil || at(got, "data", "x") != "2" || at(got, "data", "z") != "1" {
		t.Errorf("what is not applied any more stays: %v %v", got["data"], err)
	}
	if _, _, err := apply("", "", "data: {}"); status(err).Code != 422 || !strings.Contains(status(err).Message, "is required for apply patch") {
		t.Errorf("no manager: %v", err)
	}
}

func TestUpdateOfWhatIsAbsent(t *testing.T) {
	f := startMemory(t)
	_, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "a", Object: []byte(`{"metadata":{"name":"a"}}`)})
	if status(err).Code != 404 {
		t.Errorf("a ConfigMap: %v", err)
	}
	resp, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Namespace: "default", Name: "a",
		Object: []byte(`{"metadata":{"name":"a"},"spec":{"holderIdentity":"x"}}`)})
	if err != nil || resp.GetCode() != 201 {
		t.Errorf("a Lease: %d %v", resp.GetCode(), err)
	}
}

func TestGenerateName(t *testing.T) {
	f := startMemory(t)
	got := f.must(f.create("v1/configmaps", "default", `{"metadata":{"generateName":"pre-"}}`))
	if name := at(got, "metadata", "name").(string); len(name) != 9 || !strings.HasPrefix(name, "pre-") {
		t.Errorf("name %q", name)
	}
}

func TestNodesKeepToTheirOwn(t *testing.T) {
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	pod := `{"metadata":{"name":"NAME"},"spec":{"nodeName":"NODE","containers":[{"name":"c","image":"i"}]}}`
	for name, node := range map[string]string{"mine": "n1", "theirs": "n2"} {
		f.must(f.create("v1/pods", "default", strings.NewReplacer("NAME", name, "NODE", node).Replace(pod)))
	}
	api := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}))
	create := func(group, resource, namespace, body string) error {
		_, err := api.Create(f.ctx, &apiv1.CreateRequest{Group: group, Version: "v1", Resource: resource, Namespace: namespace, Object: []byte(body)})
		return err
	}
	status := func(name string) error {
		_, err := api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: name, Subresource: "status",
			ContentType: "application/merge-patch+json", Object: []byte(`{"status":{"message":"x"}}`)})
		return err
	}
	for name, c := range map[string]struct {
		err     error
		allowed bool
	}{
		"its node":          {create("", "nodes", "", `{"metadata":{"name":"n1"}}`), true},
		"another node":      {create("", "nodes", "", `{"metadata":{"name":"n2"}}`), false},
		"its lease":         {create("coordination.k8s.io", "leases", "kube-node-lease", `{"metadata":{"name":"n1"},"spec":{"holderIdentity":"n1"}}`), true},
		"another lease":     {create("coordination.k8s.io", "leases", "kube-node-lease", `{"metadata":{"name":"n2"}}`), false},
		"a lease elsewhere": {create("coordination.k8s.io", "leases", "default", `{"metadata":{"name":"n1"}}`), false},
		"its pod's status":  {status("mine"), true},
		"another's status":  {status("theirs"), false},
		"a pod":             {create("", "pods", "default", strings.NewReplacer("NAME", "x", "NODE", "n1").Replace(pod)), false},
		"a service account": {create("", "serviceaccounts", "default", `{"metadata":{"name":"x"}}`), false},
		"a deployment":      {create("apps", "deployments", "default", `{}`), false},
		"an event":          {create("", "events", "default", `{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"default","name":"mine"},"reason":"R","type":"Normal"}`), true},
	} {
		code := apistatus.Of(c.err).Code
		if c.allowed && c.err != nil || !c.allowed && code != 403 {
			t.Errorf("%s: %v", name, apistatus.FromGRPC(c.err))
		}
	}
}

func TestNobodyIsRefused(t *testing.T) {
	f := startMemory(t)
	gateway := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}}))
	req := &apiv1.GetRequest{Version: "v1", Resource: "namespaces", Name: "default"}
	if _, err := gateway.Get(f.ctx, req); status(err).Code != 401 || status(err).Message != "Unauthorized" {
		t.Errorf("a gateway for nobody: %v", err)
	}
	for name, md := range map[string]metadata.MD{
		"for a user": metadata.Pairs("howdah-user", "jane", "howdah-group", "system:masters"),
	} {
		if _, err := gateway.Get(metadata.NewOutgoingContext(f.ctx, md), req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := gateway.Get(metadata.NewOutgoingContext(f.ctx, metadata.Pairs("authorization", "Bearer x.y.z")), req); status(err).Code != 401 {
		t.Errorf("a bad token: %v", err)
	}
}

// A namespace whose name is generated bears it as a label like any other.
func TestGeneratedNamespaceIsLabelled(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	made := f.must(f.create("v1/namespaces", "", `{"metadata":{"generateName":"abc-","labels":{"a":"b"}}}`))
	name := at(made, "metadata", "name").(string)
	for _, ns := range []any{made, f.must(f.get("v1/namespaces", "", name))} {
		if got := at(ns, "metadata", "labels"); !reflect.DeepEqual(got, map[string]any{"a": "b", "kubernetes.io/metadata.name": name}) {
			t.Errorf("%v", got)
		}
	}
}
