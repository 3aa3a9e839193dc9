package apiserver

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/transaction"
)

// transact sends a transaction as a user.
func (f *fixture) transact(user rpc.User, req *apiv1.TransactRequest) (*transaction.Result, error) {
	f.t.Helper()
	resp, err := apiv1.NewTransactionServiceClient(f.dial(user)).Transact(f.ctx, req)
	if err != nil {
		return nil, apistatus.FromGRPC(err)
	}
	var result transaction.Result
	if err := json.Unmarshal(resp.GetObject(), &result); err != nil {
		f.t.Fatalf("%v: %s", err, resp.GetObject())
	}
	return &result, nil
}

var root = rpc.User{Name: "admin", Groups: []string{"system:masters"}}

const yamlMedia = "application/yaml"

const shop = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {of: shop}}
---
# nothing but a comment
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {color: red}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
`

func TestTransactionMakesANamespaceAndWhatIsInIt(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	dry, err := f.transact(root, &apiv1.TransactRequest{Object: []byte(shop), ContentType: yamlMedia, DryRun: []string{"All"}})
	if err != nil || !dry.DryRun || dry.FirstRevision != "" || len(dry.Items) != 4 || dry.Items[3].Result != "created" {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	if _, err := f.get("v1/namespaces", "", "shop"); !apierrors.IsNotFound(err) {
		t.Fatalf("a dry run made the namespace: %v", err)
	}
	got, err := f.transact(root, &apiv1.TransactRequest{Object: []byte(shop), ContentType: yamlMedia})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"namespaces/shop created", "configmaps/settings created", "services/web created", "deployments.apps/web created"} {
		i := got.Items[n]
		if text := i.Resource + "/" + i.Name + " " + i.Result; text != want || i.Index != n || i.Revision == "" || i.UID == "" {
			t.Errorf("item %d: %+v, want %s", n, i, want)
		}
	}
	if got.FirstRevision != got.Items[0].Revision || got.LastRevision != got.Items[3].Revision {
		t.Errorf("revisions %s to %s", got.FirstRevision, got.LastRevision)
	}
	again, err := f.transact(root, &apiv1.TransactRequest{Object: []byte(strings.Replace(shop, "red", "blue", 1)), ContentType: yamlMedia})
	if err != nil {
		t.Fatal(err)
	}
	if again.Items[0].Result != "unchanged" || again.Items[1].Result != "configured" || again.FirstRevision != again.LastRevision {
		t.Errorf("again: %s %s, revisions %s to %s", again.Items[0].Result, again.Items[1].Result, again.FirstRevision, again.LastRevision)
	}
}

// The beginning of a pod's deletion is an event of the transaction, too.
func TestTransactionTellsOfDeletions(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	before := f.revision(t)
	got, err := f.transact(root, &apiv1.TransactRequest{Object: []byte(`{"items":[
		{"operation":"delete","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}},
		{"operation":"create","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	text := func(n int64) string { return strconv.FormatInt(before+n, 10) }
	if got.FirstRevision != text(1) || got.Items[0].Revision != text(2) || got.LastRevision != text(3) {
		t.Errorf("after %d: revisions %s to %s, the deletion is %s", before, got.FirstRevision, got.LastRevision, got.Items[0].Revision)
	}
}

func TestTransactionChangesNothingWhereAnItemFails(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	before := f.revision(t)
	body := shop + `
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "Bad Name", namespace: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: elsewhere}
`
	_, err := f.transact(root, &apiv1.TransactRequest{Object: []byte(body), ContentType: yamlMedia})
	status := apistatus.Of(err)
	if status.Code != 422 || status.Details == nil || len(status.Details.Causes) != 2 || status.Details.Causes[0].Field != "items[4]" ||
		status.Details.Causes[1].Type != metav1.CauseType(metav1.StatusReasonNotFound) ||
		!strings.Contains(status.Message, `nothing was changed: item 4 (apply configmaps "Bad Name" in namespace "shop")`) ||
		!strings.Contains(status.Message, `item 5 (apply secrets "s" in namespace "elsewhere"): namespaces "elsewhere" not found`) {
		t.Fatalf("%d %+v", status.Code, status)
	}
	if after := f.revision(t); after != before {
		t.Errorf("the revision went from %d to %d", before, after)
	}
}

// revision returns the newest revision.
func (f *fixture) revision(t *testing.T) int64 {
	t.Helper()
	revision, err := f.server.store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestTransactionWithOperations(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	for _, name := range []string{"old", "patched", "replaced"} {
		if _, err := f.create("v1/configmaps", "default", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":"1"}}`, name)); err != nil {
			t.Fatal(err)
		}
	}
	object := func(name, more string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}%s}`, name, more)
	}
	got, err := f.transact(root, &apiv1.TransactRequest{Object: []byte(`{"items":[
		{"operation":"delete","object":` + object("old", "") + `,"options":{"propagationPolicy":"Background"}},
		{"operation":"patch","object":` + object("patched", "") + `,"patch":[{"op":"replace","path":"/data/a","value":"2"}],"patchType":"json"},
		{"operation":"update","object":` + object("replaced", `,"data":{"b":"1"}`) + `},
		{"operation":"create","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"made-"}}},
		{"operation":"apply","object":` + object("applied", `,"data":{"x":"y"}`) + `,"fieldManager":"me","force":true}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	results := ""
	for _, i := range got.Items {
		results += i.Result + " "
	}
	if results != "deleted configured configured created created " || !strings.HasPrefix(got.Items[3].Name, "made-") {
		t.Errorf("%s%+v", results, got.Items)
	}
	if body, err := f.get("v1/configmaps", "default", "patched"); err != nil || !strings.Contains(string(body), `"a":"2"`) {
		t.Errorf("patched: %s, %v", body, err)
	}
	if _, err := f.get("v1/configmaps", "default", "old"); !apierrors.IsNotFound(err) {
		t.Errorf("old: %v", err)
	}
	if body, err := f.get("v1/configmaps", "default", "applied"); err != nil || !strings.Contains(string(body), `"manager":"me","operation":"Apply"`) {
		t.Errorf("applied: %s, %v", body, err)
	}
}

func TestTransactionRefuses(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	const cm = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`
	const gone = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"gone"}}`
	if _, err := f.create("v1/configmaps", "default", gone); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, body, contentType string
		code                    int32
		text                    string
	}{
		{"nothing", "", "", 400, "no items"},
		{"nothing but comments", "# x\n---\n", yamlMedia, 400, "no items"},
		{"no JSON", "{", "", 400, "not JSON"},
		{"no YAML", "a: [", yamlMedia, 400, "document 1 is not YAML"},
		{"a key twice", "kind: A\nkind: B\n", yamlMedia, 400, "already set in map"},
		{"protobuf", "x", "application/vnd.kubernetes.protobuf", 415, "unknown format"},
		{"a number", "3", "", 400, "no manifest"},
		{"no kind", `{"apiVersion":"v1"}`, "", 400, "Object 'Kind' is missing"},
		{"no version", `{"kind":"Pod"}`, "", 400, "Object 'apiVersion' is missing"},
		{"unknown kind", `{"apiVersion":"x.example/v1","kind":"Foo","metadata":{"name":"a"}}`, "", 400, `no matches for kind "Foo" in version "x.example/v1"`},
		{"no name", `{"apiVersion":"v1","kind":"ConfigMap"}`, "", 400, "metadata.name is missing"},
		{"unknown operation", `{"items":[{"operation":"replace","object":` + cm + `}]}`, "", 400, `unknown operation "replace"`},
		{"unknown field", `{"items":[{"operation":"create","objekt":` + cm + `}]}`, "", 400, `items[0]: json: unknown field "objekt"`},
		{"patch without one", `{"items":[{"operation":"patch","object":` + cm + `}]}`, "", 400, "patch belongs to the operation patch"},
		{"options of an apply", `{"items":[{"object":` + cm + `,"options":{}}]}`, "", 400, "options belongs to the operation delete"},
		{"a name twice", `[` + cm + `,` + cm + `]`, "", 400, `configmaps "c" is changed by item 0 already`},
		{"gone and back", `{"items":[{"operation":"delete","object":` + gone + `},{"operation":"create","object":` + gone + `}]}`, "", 400, `configmaps "gone" is changed by item 0 already`},
		{"too many", `[` + strings.TrimSuffix(strings.Repeat(cm+",", transaction.MaxItems+1), ",") + `]`, "", 413, "at most 1000 items"},
		{"too much", strings.Repeat(" ", transaction.MaxBody+1), "", 413, "limit is 3145728"},
	}
	before := f.revision(t)
	for _, tt := range tests {
		_, err := f.transact(root, &apiv1.TransactRequest{Object: []byte(tt.body), ContentType: tt.contentType})
		if status := apistatus.Of(err); err == nil || status.Code != tt.code || !strings.Contains(status.Message, tt.text) {
			t.Errorf("%s: %d %s", tt.name, status.Code, status.Message)
		}
	}
	if after := f.revision(t); after != before {
		t.Errorf("the revision went from %d to %d", before, after)
	}
}

// TestTransactionAuthorizesEachItem lets a user do one thing, and not the other beside it.
func TestTransactionAuthorizesEachItem(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	_, err := f.transact(root, &apiv1.TransactRequest{ContentType: yamlMedia, Object: []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: settings}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: settings}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: settings}
subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]
`)})
	if err != nil {
		t.Fatal(err)
	}
	jane := rpc.User{Name: "jane"}
	const allowed = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mine"}}`
	const refused = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"mine"}}`
	var status metav1.Status
	f.await("jane's role counts", func() bool { // roles are followed
		_, err := f.transact(jane, &apiv1.TransactRequest{Object: []byte(`[` + allowed + `,` + refused + `]`)})
		status = apistatus.Of(err)
		return status.Details != nil && len(status.Details.Causes) == 1
	})
	if status.Code != 403 || len(status.Details.Causes) != 1 || !strings.Contains(status.Message, `item 1 (apply secrets "mine" in namespace "default"): secrets "mine" is forbidden: User "jane" cannot patch resource "secrets"`) {
		t.Errorf("%d %s", status.Code, status.Message)
	}
	if _, err := f.get("v1/configmaps", "default", "mine"); !apierrors.IsNotFound(err) {
		t.Errorf("half of it was done: %v", err)
	}
	if _, err := f.transact(jane, &apiv1.TransactRequest{Object: []byte(`[` + allowed + `]`)}); err != nil {
		t.Error(err)
	}
}
