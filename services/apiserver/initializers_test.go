package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
)

// bare is a pod's JSON with more metadata.
func bare(name, more string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"` + more + `},"spec":{"containers":[{"name":"c","image":"i"}]}}`
}

const oneInitializer = `{"apiVersion":"admissionregistration.k8s.io/v1alpha1","kind":"InitializerConfiguration","metadata":{"name":"NAME"},
	"initializers":[{"name":"NAME.example.com","rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["RESOURCE"]}]}]}`

func (f *fixture) initializer(name, resource string) {
	f.t.Helper()
	body := strings.NewReplacer("NAME", name, "RESOURCE", resource).Replace(oneInitializer)
	if _, err := f.create("admissionregistration.k8s.io/v1alpha1/initializerconfigurations", "", body); err != nil {
		f.t.Fatal(err)
	}
}

// postAnswer is what became of a create.
type postAnswer struct {
	code int32
	body string
	err  error
}

func (f *fixture) post(ctx context.Context, resource, body string, include bool) postAnswer {
	g, v, r := split(resource)
	resp, err := f.api.Create(ctx, &apiv1.CreateRequest{
		Group: g, Version: v, Resource: r, Namespace: "default", Object: []byte(body), ContentType: "application/json", IncludeUninitialized: include,
	})
	return postAnswer{resp.GetCode(), string(resp.GetObject()), apistatus.FromGRPC(err)}
}

func (f *fixture) patchPod(name, contentType, body string) (string, error) {
	resp, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{
		Version: "v1", Resource: "pods", Namespace: "default", Name: name, Object: []byte(body), ContentType: contentType, FieldManager: "test",
	})
	return string(resp.GetObject()), apistatus.FromGRPC(err)
}

func (f *fixture) named(resource string, include bool) (names []string) {
	f.t.Helper()
	g, v, r := split(resource)
	body, err := f.list(&apiv1.ListRequest{Group: g, Version: v, Resource: r, Namespace: "default", IncludeUninitialized: include})
	if err != nil {
		f.t.Fatal(err)
	}
	var read struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(body, &read); err != nil {
		f.t.Fatal(err)
	}
	for _, i := range read.Items {
		names = append(names, i.Metadata.Name)
	}
	return names
}

// watched sends the types and names of a watch's events from now on.
func (f *fixture) watched(resource string, include bool) <-chan string {
	f.t.Helper()
	g, v, r := split(resource)
	stream, err := f.api.Watch(f.ctx, &apiv1.WatchRequest{Group: g, Version: v, Resource: r, Namespace: "default", IncludeUninitialized: include})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		f.t.Fatal(err)
	}
	events := make(chan string, 100)
	go func() {
		for {
			response, err := stream.Recv()
			if err != nil {
				return
			}
			for _, e := range response.GetEvents() {
				var obj struct {
					Metadata struct {
						Name         string
						Initializers json.RawMessage
					}
				}
				if err := json.Unmarshal(e.GetObject(), &obj); err == nil {
					events <- strings.TrimSpace(e.GetType() + " " + obj.Metadata.Name + " " + string(obj.Metadata.Initializers))
				}
			}
		}
	}()
	return events
}

func next(t *testing.T, events <-chan string, want string) {
	t.Helper()
	select {
	case got := <-events:
		if got != want {
			t.Fatalf("got the event %s, want %s", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no event, want %s", want)
	}
}

const (
	strategic = "application/strategic-merge-patch+json"
	pendingA  = `{"pending":[{"name":"a.example.com"}]}`
)

func withInitializers(c *Config) { c.EnabledAdmission = []string{"Initializers"} }

func TestInitializers(t *testing.T) {
	t.Parallel()
	f := startMemory(t, withInitializers, withoutAccounts)
	f.initializer("b", "pods")
	f.initializer("a", "pods")
	all, shown := f.watched("v1/pods", true), f.watched("v1/pods", false)

	held := make(chan postAnswer, 1)
	go func() { held <- f.post(f.ctx, "v1/pods", bare("p", ""), false) }()
	next(t, all, `ADDED p {"pending":[{"name":"a.example.com"},{"name":"b.example.com"}]}`)
	if got := f.named("v1/pods", false); len(got) != 0 {
		t.Errorf("lists show %v", got)
	}
	if got := f.named("v1/pods", true); len(got) != 1 {
		t.Errorf("lists that ask for it show %v", got)
	}
	if body, err := f.get("v1/pods", "default", "p"); err != nil || !strings.Contains(string(body), `"initializers":{"pending":[{"name":"a.example.com"}`) || strings.Contains(string(body), "howdah.dev/initializers\"") {
		t.Errorf("get: %v %s", err, body)
	}

	// The first adds a container and takes itself off; nothing is held against that.
	body, err := f.patchPod("p", strategic, `{"metadata":{"initializers":{"pending":[{"$patch":"delete","name":"a.example.com"}]}},"spec":{"containers":[{"name":"sidecar","image":"s"}]}}`)
	if err != nil || !strings.Contains(body, "sidecar") || !strings.Contains(body, `{"pending":[{"name":"b.example.com"}]}`) {
		t.Fatalf("%v %s", err, body)
	}
	next(t, all, `MODIFIED p {"pending":[{"name":"b.example.com"}]}`)
	select {
	case got := <-held:
		t.Fatalf("answered with one to come: %v", got)
	default:
	}
	if body, err = f.patchPod("p", "application/json-patch+json", `[{"op":"test","path":"/metadata/initializers/pending/0/name","value":"b.example.com"},{"op":"remove","path":"/metadata/initializers/pending/0"},{"op":"add","path":"/metadata/labels","value":{"done":"yes"}}]`); err != nil || strings.Contains(body, `"initializers"`) {
		t.Fatalf("%v %s", err, body)
	}
	next(t, all, "MODIFIED p")
	next(t, shown, "ADDED p")
	if got := <-held; got.err != nil || got.code != 201 || !strings.Contains(got.body, "sidecar") || !strings.Contains(got.body, `"done":"yes"`) {
		t.Errorf("the create: %+v", got)
	}
	if got := f.named("v1/pods", false); len(got) != 1 {
		t.Errorf("lists show %v", got)
	}
	if _, err := f.patchPod("p", strategic, `{"metadata":{"initializers":`+pendingA+`}}`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.initializers: Invalid value: null: field is immutable once initialization has completed") {
		t.Errorf("begun again: %v", err)
	}
	if _, err := f.patchPod("p", strategic, `{"spec":{"containers":[{"name":"more","image":"s"}]}}`); !apierrors.IsInvalid(err) {
		t.Errorf("the pod still changes freely: %v", err)
	}
}

func withoutAccounts(c *Config) { c.DisabledAdmission = []string{"ServiceAccount"} }

func TestInitializersAtOnceAndByHand(t *testing.T) {
	t.Parallel()
	f := startMemory(t, withInitializers, withoutAccounts)
	f.initializer("a", "pods")
	got := f.post(f.ctx, "v1/pods", bare("at-once", ""), true)
	if got.err != nil || got.code != 202 || !strings.Contains(got.body, `"initializers":`+pendingA) {
		t.Errorf("%+v", got)
	}
	for name, body := range map[string]string{
		"bypass": bare("bypass", `,"initializers":{"pending":[]}`), "mirror": strings.Replace(bare("mirror", `,"annotations":{"kubernetes.io/config.mirror":"x"}`), `"spec":{`, `"spec":{"nodeName":"n",`, 1),
	} {
		if got := f.post(f.ctx, "v1/pods", body, false); got.err != nil || got.code != 201 || strings.Contains(got.body, `"initializers"`) {
			t.Errorf("%s: %+v %v", name, got, got.err)
		}
	}
	if got := f.post(f.ctx, "v1/configmaps", `{"metadata":{"name":"c","initializers":{"pending":[{"name":"by.hand.example.com"}]}},"data":{"k":"v"}}`, true); got.code != 202 {
		t.Errorf("by hand: %+v", got)
	}
	for body, want := range map[string]string{
		bare("x", `,"initializers":{"pending":[{"name":"short"}]}`):              `metadata.initializers.pending[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots`,
		bare("x", `,"initializers":{"result":{"status":"Success"}}`):             "metadata.initializers.result.status: Invalid value: \"Success\": must be 'Failure'",
		bare("x", `,"initializers":{"colour":"red"}`):                            `metadata.initializers: json: unknown field "colour"`,
		bare("x", `,"annotations":{"howdah.dev/initializers":"nonsense"}`):       "annotation howdah.dev/initializers",
		bare("x", `,"initializers":{"pending":"a.example.com"}`):                 "metadata.initializers: json: cannot unmarshal",
		`{"metadata":{"name":"x","initializers":[]},"spec":{"containers":null}}`: "metadata.initializers: json: cannot unmarshal",
	} {
		if got := f.post(f.ctx, "v1/pods", body, true); got.err == nil || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%s: %v", body, got.err)
		}
	}
	// A PUT that does not speak of them ends the waiting; the status and other subresources cannot.
	_, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{
		Version: "v1", Resource: "pods", Namespace: "default", Name: "at-once", Subresource: "status", Object: []byte(bare("at-once", "")), ContentType: "application/json",
	})
	if err = apistatus.FromGRPC(err); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must not update status when the object is uninitialized") {
		t.Errorf("status: %v", err)
	}
	updated, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{
		Version: "v1", Resource: "configmaps", Namespace: "default", Name: "c", Object: []byte(`{"metadata":{"name":"c"}}`), ContentType: "application/json",
	})
	if err != nil || strings.Contains(string(updated.GetObject()), "initializers") {
		t.Errorf("%v %s", err, updated.GetObject())
	}
	if got := f.named("v1/configmaps", false); len(got) != 1 || got[0] != "c" {
		t.Errorf("lists show %v", got)
	}
	if body, err := f.patchPod("at-once", "application/merge-patch+json", `{"metadata":{"initializers":null,"annotations":{"more":"x"}}}`); err != nil || strings.Contains(body, "initializers") {
		t.Errorf("merge patch: %v %s", err, body)
	}
	if body, err := f.patchPod("applied", "application/apply-patch+yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: applied\n  initializers: {pending: []}\nspec:\n  containers:\n  - {name: c, image: i}\n"); err != nil || strings.Contains(body, `"initializers"`) {
		t.Errorf("apply: %v %s", err, body)
	}
}

func TestInitializersFail(t *testing.T) {
	t.Parallel()
	f := startMemory(t, withInitializers, withoutAccounts)
	f.initializer("a", "pods")
	all, shown := f.watched("v1/pods", true), f.watched("v1/pods", false)
	held := make(chan postAnswer, 1)
	go func() {
		held <- f.post(f.ctx, "v1/pods", bare("p", `,"finalizers":["example.com/stays"]`), false)
	}()
	next(t, all, "ADDED p "+pendingA)
	const result = `{"status":"Failure","reason":"Forbidden","code":403,"message":"not this image"}`
	if body, err := f.patchPod("p", "application/merge-patch+json", `{"metadata":{"initializers":{"result":`+result+`}}}`); err != nil || !strings.Contains(body, "not this image") {
		t.Fatalf("%v %s", err, body)
	}
	if got := <-held; !apierrors.IsForbidden(got.err) || got.err.Error() != "not this image" {
		t.Errorf("the create: %+v", got)
	}
	if _, err := f.get("v1/pods", "default", "p"); !apierrors.IsNotFound(err) {
		t.Errorf("it stays: %v", err)
	}
	if got := <-all; !strings.HasPrefix(got, "MODIFIED p ") {
		t.Errorf("got %s", got)
	}
	if got := <-all; !strings.HasPrefix(got, "DELETED p ") {
		t.Errorf("got %s", got)
	}

	// Who deletes what waits ends the waiting, too; others never saw any of it.
	go func() { held <- f.post(f.ctx, "v1/pods", bare("q", ""), false) }()
	next(t, all, "ADDED q "+pendingA)
	if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "q"}); err != nil {
		t.Fatal(err)
	}
	if got := <-held; !apierrors.IsInternalError(got.err) || !strings.Contains(got.err.Error(), "object deleted while waiting for creation") {
		t.Errorf("the create: %+v", got)
	}
	if got := f.post(f.ctx, "v1/pods", bare("seen", `,"initializers":{"pending":[]}`), false); got.err != nil {
		t.Fatal(got.err)
	}
	next(t, shown, "ADDED seen")
	if _, err := f.api.DeleteCollection(f.ctx, &apiv1.DeleteCollectionRequest{Version: "v1", Resource: "pods", Namespace: "default"}); err != nil {
		t.Fatal(err)
	}
	next(t, shown, "MODIFIED seen") // that it is being deleted
	next(t, shown, "DELETED seen")
}

func TestInitializersThatNeverCome(t *testing.T) {
	t.Parallel()
	f := startMemory(t, withInitializers, withoutAccounts)
	f.initializer("a", "pods")
	ctx, cancel := context.WithTimeout(f.ctx, 300*time.Millisecond)
	defer cancel()
	if got := f.post(ctx, "v1/pods", bare("p", ""), false); !apierrors.IsTimeout(got.err) && !errors.Is(got.err, context.DeadlineExceeded) && apistatus.Of(got.err).Code != 504 {
		t.Errorf("%+v", got)
	}
	if got := f.named("v1/pods", false); len(got) != 0 {
		t.Errorf("lists show %v", got)
	}
	if got := f.named("v1/pods", true); len(got) != 1 {
		t.Errorf("lists that ask for it show %v", got)
	}
}

// TestInitializersOfEverything names all resources: reviews, which are not stored, are answered all the same.
func TestInitializersOfEverything(t *testing.T) {
	t.Parallel()
	f := startMemory(t, withInitializers, withoutAccounts)
	all := strings.NewReplacer("NAME", "a", "RESOURCE", "*", `"apiGroups":[""]`, `"apiGroups":["*"]`, `"apiVersions":["v1"]`, `"apiVersions":["*"]`)
	if _, err := f.create("admissionregistration.k8s.io/v1alpha1/initializerconfigurations", "", all.Replace(oneInitializer)); err != nil {
		t.Fatal(err)
	}
	f.must(f.create("authorization.k8s.io/v1/selfsubjectaccessreviews", "", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`))
	if got := f.post(f.ctx, "coordination.k8s.io/v1/leases", `{"metadata":{"name":"l"}}`, true); got.code != 202 {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithTimeout(f.ctx, 300*time.Millisecond)
	defer cancel()
	_, err := f.api.Update(ctx, &apiv1.UpdateRequest{
		Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Namespace: "default", Name: "put", Object: []byte(`{"metadata":{"name":"put"}}`), ContentType: "application/json",
	})
	if err = apistatus.FromGRPC(err); apistatus.Of(err).Code != 504 && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a PUT that creates: %v", err)
	}
	if got := f.named("coordination.k8s.io/v1/leases", true); len(got) != 2 {
		t.Errorf("leases: %v", got)
	}
}

// TestInitializersOutliveTheServer ends the server while it holds a create: the next one knows the object as one that waits, and no more.
func TestInitializersOutliveTheServer(t *testing.T) {
	t.Parallel()
	st := memory{memstore.New()}
	t.Run("first", func(t *testing.T) {
		f := start(t, st, withInitializers, withoutAccounts)
		f.initializer("a", "pods")
		all := f.watched("v1/pods", true)
		go f.post(f.ctx, "v1/pods", bare("p", ""), false)
		next(t, all, "ADDED p "+pendingA)
	})
	f := start(t, st, withInitializers, withoutAccounts)
	if got := f.named("v1/pods", false); len(got) != 0 {
		t.Errorf("lists show %v", got)
	}
	if body, err := f.patchPod("p", strategic, `{"metadata":{"initializers":null}}`); err != nil || strings.Contains(body, `"initializers"`) {
		t.Errorf("%v %s", err, body)
	}
	if got := f.named("v1/pods", false); len(got) != 1 {
		t.Errorf("lists show %v", got)
	}
	off := start(t, st, withoutAccounts)
	if body, err := off.get("v1/pods", "default", "p"); err != nil || strings.Contains(string(body), "howdah.dev/initializers") {
		t.Errorf("%v %s", err, body)
	}
}

func TestOnlyInitializersChangeWhatWaits(t *testing.T) {
	t.Parallel()
	f := startMemory(t, withInitializers, withoutAccounts)
	f.initializer("a", "pods")
	const role = `{"metadata":{"name":"NAME","namespace":"default"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":[VERBS]}]}`
	const binding = `{"metadata":{"name":"NAME","namespace":"default"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"NAME"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"NAME"}]}`
	clients := map[string]apiv1.ObjectServiceClient{}
	for name, verbs := range map[string]string{"writer": `"create","update","patch","delete"`, "initializer": `"update","patch","initialize"`} {
		replaced := strings.NewReplacer("NAME", name, "VERBS", verbs)
		if _, err := f.create("rbac.authorization.k8s.io/v1/roles", "default", replaced.Replace(role)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.create("rbac.authorization.k8s.io/v1/rolebindings", "default", replaced.Replace(binding)); err != nil {
			t.Fatal(err)
		}
		clients[name] = apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: name}))
	}
	f.fresh()
	create := func(body string) error {
		_, err := clients["writer"].Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default", Object: []byte(body), ContentType: "application/json", IncludeUninitialized: true})
		return apistatus.FromGRPC(err)
	}
	patch := func(who, body string) error {
		_, err := clients[who].Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "p", Object: []byte(body), ContentType: "application/merge-patch+json"})
		return apistatus.FromGRPC(err)
	}
	if err := create(bare("x", `,"initializers":{"pending":[]}`)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "create with initializers denied") {
		t.Errorf("a bypass: %v", err)
	}
	if err := create(bare("p", "")); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"metadata":{"initializers":null}}`, `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"howdah.dev/initializers":null}}}`} {
		if err := patch("writer", body); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `pods "p" is forbidden: update to uninitialized resource denied`) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if err := patch("initializer", `{"metadata":{"labels":{"a":"b"}}}`); err != nil {
		t.Error(err)
	}
	if err := patch("initializer", `{"metadata":{"initializers":{"pending":[]}}}`); err != nil {
		t.Error(err)
	}
	if err := patch("writer", `{"metadata":{"labels":{"c":"d"}}}`); err != nil {
		t.Errorf("after it has come: %v", err)
	}
}

func TestInitializerConfigurations(t *testing.T) {
	t.Parallel()
	f := startMemory(t, withInitializers)
	const resource = "admissionregistration.k8s.io/v1alpha1/initializerconfigurations"
	for rule, want := range map[string]string{
		`"apiGroups":["*"],"apiVersions":["*"],"resources":["pods/status"]`:                        "must not specify subresources",
		`"apiGroups":["*","apps"],"apiVersions":["*"],"resources":["*"]`:                           "if '*' is present, must not specify other API groups",
		`"apiGroups":[],"apiVersions":["*"],"resources":["*"]`:                                     "initializers[0].rules[0].apiGroups",
		`"apiGroups":["*"],"apiVersions":["*"]`:                                                    "initializers[0].rules[0].resources: Required value",
		`"apiGroups":["*"],"apiVersions":["v1"],"resources":["pods"]}],"name":"short","x":[{"y":1`: "should be a domain with at least three segments separated by dots",
	} {
		_, err := f.create(resource, "", `{"metadata":{"name":"x"},"initializers":[{"name":"a.example.com","rules":[{`+rule+`}]}]}`)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	off := startMemory(t)
	if _, err := off.create(resource, "", strings.NewReplacer("NAME", "x", "RESOURCE", "pods").Replace(oneInitializer)); err == nil {
		t.Error("configurations are served where the plugin is off")
	}
}
