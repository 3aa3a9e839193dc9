package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/gateway"
	"howdah.dev/gateway/internal/fake"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
)

// guarded lets those who are known read the logs of the namespace "mine" alone.
type guarded struct{ *fake.Server }

func (g guarded) Authenticate(ctx context.Context, in *apiv1.AuthenticateRequest) (*apiv1.AuthenticateResponse, error) {
	resp, err := g.Server.Authenticate(ctx, in)
	if err != nil {
		return nil, err
	}
	a := in.GetAccess()
	what := fmt.Sprintf("%s %s/%s %s in %q%s", a.GetVerb(), a.GetResource(), a.GetSubresource(), a.GetVersion(), a.GetNamespace(), a.GetPath())
	if what != `get pods/log v1 in "mine"` {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: a.GetResource()}, "", errors.New(what))
	}
	return resp, nil
}

// found answers with what it was asked.
type found struct {
	logsv1.UnimplementedSearchServiceServer
}

func (found) Search(ctx context.Context, in *logsv1.SearchRequest) (*logsv1.SearchResponse, error) {
	if in.GetOrder() == "up" {
		return nil, apierrors.NewBadRequest("order: it is not")
	}
	in.Continue = who(ctx) + in.GetContinue()
	asked, err := protojson.Marshal(in)
	return &logsv1.SearchResponse{Continue: strings.ReplaceAll(string(asked), `"`, "'")}, err
}

func TestSearchOfLogs(t *testing.T) {
	t.Parallel()
	conn := dialServer(t, func(server *rpc.Server) {
		api := fake.New()
		apiv1.RegisterObjectServiceServer(server, api)
		apiv1.RegisterDiscoveryServiceServer(server, guarded{api})
		logsv1.RegisterSearchServiceServer(server, found{})
	})
	c := setup(t, func(config *gateway.Config) { config.APIServer, config.Logs = conn, conn })
	without := setup(t, func(config *gateway.Config) { config.APIServer = conn })
	const path = "/howdah/v1/logs"
	for name, tt := range map[string]struct {
		c             *cluster
		role          string
		method, query string
		code          int
		part          string
	}{
		"mine":                 {c, "admin", "GET", "?namespace=mine&labelSelector=a%3Db&query=%22x%20y%22&limit=3&since=1h&unknown=x", 200, "'labelSelector':'a=b'"},
		"by the caller":        {c, "admin", "GET", "?namespace=mine", 200, "kubernetes-admin"},
		"another":              {c, "admin", "GET", "?namespace=yours", 403, `pods is forbidden: get pods/log v1 in \"yours\"`},
		"all":                  {c, "admin", "GET", "", 403, `get pods/log v1 in \"\"`},
		"by nobody":            {c, "", "GET", "?namespace=mine", 401, "Unauthorized"},
		"two namespaces":       {c, "admin", "GET", "?namespace=mine&namespace=yours", 403, `get pods/log v1 in \"\"`},
		"its other form":       {c, "admin", "GET", "?namespace=mine&label_selector=c", 200, "'labelSelector':'c'"},
		"a number that is not": {c, "admin", "GET", "?namespace=mine&limit=x", 403, `in \"\"`},
		"what it refuses":      {c, "admin", "GET", "?namespace=mine&order=up", 400, "order: it is not"},
		"by post":              {c, "admin", "POST", "?namespace=mine", 405, "MethodNotAllowed"},
		"below":                {c, "admin", "GET", "/x?namespace=mine", 403, "in \\\"\\\"/howdah/v1/logs/x"},
		"where nobody keeps":   {without, "admin", "GET", "?namespace=mine", 403, "in \\\"\\\"/howdah/v1/logs"},
	} {
		got := tt.c.do(tt.c.client(tt.role), tt.method, path+tt.query, "")
		body := strings.ReplaceAll(got.body, `": `, `":`) // protojson varies its spaces
		if body = strings.ReplaceAll(body, `': `, `':`); got.StatusCode != tt.code || !strings.Contains(body, tt.part) {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.body)
		}
	}
}
