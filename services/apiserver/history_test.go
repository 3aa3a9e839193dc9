package apiserver

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// past asks for versions as a user.
func (f *fixture) past(user rpc.User, req *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
	f.t.Helper()
	resp, err := apiv1.NewHistoryServiceClient(f.dial(user)).History(f.ctx, req)
	return resp, apistatus.FromGRPC(err)
}

func (f *fixture) listAt(user rpc.User, req *apiv1.ListAtRequest) (string, error) {
	f.t.Helper()
	stream, err := apiv1.NewHistoryServiceClient(f.dial(user)).ListAt(f.ctx, req)
	if err != nil {
		return "", apistatus.FromGRPC(err)
	}
	var body strings.Builder
	for {
		piece, err := stream.Recv()
		if err == io.EOF {
			return body.String(), nil
		}
		if err != nil {
			return "", apistatus.FromGRPC(err)
		}
		body.Write(piece.GetObject())
	}
}

func configMap(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"key":%q}}`, name, value)
}

// lives gives a ConfigMap two lives, by two users, and returns the moment between them.
func lives(t *testing.T, f *fixture) (between time.Time) {
	t.Helper()
	jane := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "jane", Groups: []string{"system:masters"}}))
	ctx := metadata.AppendToOutgoingContext(f.ctx, "howdah-user-agent", "kubectl/v1.36.3 (linux/amd64)")
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(apistatus.FromGRPC(err))
		}
	}
	_, err := f.create("v1/configmaps", "default", configMap("c", "one"))
	step(err)
	_, err = jane.Patch(ctx, &apiv1.PatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "c",
		Object: []byte(configMap("c", "two")), ContentType: "application/apply-patch+yaml", FieldManager: "jane-tool", Force: "true"})
	step(err)
	_, err = jane.Delete(ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "c"})
	step(err)
	between = time.Now()
	_, err = f.create("v1/configmaps", "default", configMap("c", "three"))
	step(err)
	return between
}

func TestHistoryTellsWhoDidWhat(t *testing.T) {
	t.Parallel()
	f := startPostgres(t)
	between := lives(t, f)
	req := &apiv1.HistoryRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "c", Objects: true}
	got, err := f.past(root, req)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ operation, verb, user, manager, agent, diff, object string }{
		{"CREATED", "create", "admin", "", "", "+  key: three", `"key":"three"`},
		{"DELETED", "delete", "jane", "kubectl", "kubectl/v1.36.3", "-  key: two", `"key":"two"`},
		{"UPDATED", "apply", "jane", "jane-tool", "kubectl/v1.36.3", "-  key: one\n+  key: two", `"key":"two"`},
		{"CREATED", "create", "admin", "", "", "+  key: one", `"key":"one"`},
	}
	if len(got.Versions) != len(want) || got.More {
		t.Fatalf("%d versions, want %d", len(got.Versions), len(want))
	}
	for i, w := range want {
		v := got.Versions[i]
		if v.Operation != w.operation || v.Verb != w.verb || v.User != w.user || w.manager != "" && v.FieldManager != w.manager ||
			w.agent != "" && v.UserAgent != w.agent || !strings.Contains(v.Diff, w.diff) || !strings.Contains(v.ObjectJson, w.object) || v.Time == nil {
			t.Errorf("version %d: %v, want %+v", i, v, w)
		}
	}
	if v := got.Versions; v[0].Uid == v[1].Uid || v[1].Uid != v[3].Uid || v[2].PreviousRevision != v[3].Revision || strings.Contains(v[2].Diff, "managedFields") {
		t.Errorf("lives and chain: %v", v)
	}

	// Pages, and what was in force at a revision and at a moment.
	req.Limit = 2
	page, err := f.past(root, req)
	if err != nil || len(page.Versions) != 2 || !page.More {
		t.Errorf("a page: %v, %v", page, err)
	}
	req.Before = page.Versions[1].Revision
	if page, err = f.past(root, req); err != nil || len(page.Versions) != 2 || page.Versions[1].Revision != got.Versions[3].Revision {
		t.Errorf("the page after: %v, %v", page, err)
	}
	one := &apiv1.HistoryRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "c", Revision: got.Versions[2].Revision, Objects: true}
	if v, err := f.past(root, one); err != nil || len(v.Versions) != 1 || !strings.Contains(v.Versions[0].ObjectJson, `"key":"two"`) {
		t.Errorf("at a revision: %v, %v", v, err)
	}
	one.Revision, one.At = 0, between.Format(time.RFC3339Nano)
	if v, err := f.past(root, one); err != nil || len(v.Versions) != 1 || v.Versions[0].Operation != "DELETED" {
		t.Errorf("at a moment: %v, %v", v, err)
	}

	// The collection then.
	for revision, want := range map[int64]string{got.Versions[3].Revision: "one", got.Versions[2].Revision: "two", got.Versions[0].Revision: "three"} {
		body, err := f.listAt(root, &apiv1.ListAtRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Revision: revision, FieldSelector: "metadata.name=c"})
		if err != nil || !strings.Contains(body, `"key":"`+want+`"`) || !strings.Contains(body, `"resourceVersion":"`+strconv.FormatInt(revision, 10)+`"`) {
			t.Errorf("list at %d: %s, %v", revision, body, err)
		}
	}
	body, err := f.listAt(root, &apiv1.ListAtRequest{Version: "v1", Resource: "configmaps", Namespace: "default", At: between.Format(time.RFC3339Nano), FieldSelector: "metadata.name=c"})
	if err != nil || strings.Contains(body, `"key"`) {
		t.Errorf("list between the lives: %s, %v", body, err)
	}
}

func TestHistoryRefuses(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	lives(t, f)
	jane := rpc.User{Name: "john"}
	object := func(change func(*apiv1.HistoryRequest)) error {
		req := &apiv1.HistoryRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "c"}
		user := root
		if change == nil {
			user = jane
		} else {
			change(req)
		}
		_, err := f.past(user, req)
		return err
	}
	at := func(user rpc.User, req *apiv1.ListAtRequest) error {
		req.Version, req.Resource, req.Namespace = "v1", "configmaps", "default"
		_, err := f.listAt(user, req)
		return err
	}
	for name, tt := range map[string]struct {
		err  error
		code int32
		text string
	}{
		"somebody who may not get":  {object(nil), 403, `configmaps "c" is forbidden: User "john" cannot get resource "configmaps"`},
		"somebody who may not list": {at(jane, &apiv1.ListAtRequest{Revision: 5}), 403, `cannot list resource "configmaps"`},
		"an object that never was":  {object(func(r *apiv1.HistoryRequest) { r.Name = "x" }), 404, `configmaps "x" not found`},
		"no such resource":          {object(func(r *apiv1.HistoryRequest) { r.Resource = "x" }), 404, "the server could not find the requested resource"},
		"before it was":             {object(func(r *apiv1.HistoryRequest) { r.Revision = 1 }), 404, `configmaps "c" not found`},
		"a revision to come":        {object(func(r *apiv1.HistoryRequest) { r.Revision = 1 << 40 }), 400, "is not reached yet"},
		"a moment to come":          {object(func(r *apiv1.HistoryRequest) { r.At = time.Now().Add(time.Hour).Format(time.RFC3339) }), 400, "has not come yet"},
		"no time":                   {object(func(r *apiv1.HistoryRequest) { r.At = "noon" }), 400, `"noon" is not a time`},
		"no duration":               {object(func(r *apiv1.HistoryRequest) { r.Since = "long" }), 400, "neither a duration"},
		"both":                      {object(func(r *apiv1.HistoryRequest) { r.Revision, r.At = 1, "2026-01-01T00:00:00Z" }), 400, "exclude each other"},
		"too many":                  {object(func(r *apiv1.HistoryRequest) { r.Limit = 501 }), 400, "at most 500"},
		"a list at no moment":       {at(root, &apiv1.ListAtRequest{}), 400, "one of revision and at is needed"},
		"a list to come":            {at(root, &apiv1.ListAtRequest{Revision: 1 << 40}), 400, "is not reached yet"},
	} {
		if status := apistatus.Of(tt.err); tt.err == nil || status.Code != tt.code || !strings.Contains(status.Message, tt.text) {
			t.Errorf("%s: %d %s", name, status.Code, status.Message)
		}
	}
	// What the log has lost.
	f.server.store.(measured).backend.(memory).Compact(f.revision(t))
	for name, err := range map[string]error{
		"an old revision": object(func(r *apiv1.HistoryRequest) { r.Revision = 2 }),
		"an old moment":   object(func(r *apiv1.HistoryRequest) { r.At = time.Now().Add(-time.Hour).Format(time.RFC3339) }),
		"an old list":     at(root, &apiv1.ListAtRequest{Revision: 2}),
	} {
		if status := apistatus.Of(err); err == nil || status.Code != 410 || status.Reason != "Expired" || !strings.Contains(status.Message, "too old") {
			t.Errorf("%s: %d %s %s", name, status.Code, status.Reason, status.Message)
		}
	}
	got, err := f.past(root, &apiv1.HistoryRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "c", Objects: true})
	if err != nil || len(got.Versions) != 1 || got.Versions[0].Time != nil || !strings.Contains(got.Versions[0].ObjectJson, "three") {
		t.Errorf("what is left: %v, %v", got, err)
	}
}
