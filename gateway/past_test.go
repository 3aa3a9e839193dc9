package gateway_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/gateway"
	"howdah.dev/gateway/internal/fake"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// past answers with what it was asked.
type past struct {
	apiv1.UnimplementedTransactionServiceServer
	apiv1.UnimplementedHistoryServiceServer
}

func who(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(append(md.Get("howdah-user"), md.Get("howdah-user-agent")...), " ")
}

func (past) Transact(ctx context.Context, in *apiv1.TransactRequest) (*apiv1.TransactResponse, error) {
	if in.GetOperation() == "fail" {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", context.Canceled)
	}
	text := strings.Join([]string{string(in.GetObject()), in.GetContentType(), strings.Join(in.GetDryRun(), ","), in.GetFieldManager(), who(ctx)}, "|")
	return &apiv1.TransactResponse{Object: []byte(text), ContentType: "application/json"}, nil
}

func (past) History(ctx context.Context, in *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
	if in.GetName() == "old" {
		return nil, apierrors.NewResourceExpired("too old")
	}
	text := strings.Join([]string{in.GetGroup(), in.GetVersion(), in.GetNamespace(), in.GetResource(), in.GetName(), in.GetSince()}, "|")
	return &apiv1.HistoryResponse{Versions: []*apiv1.ObjectVersion{{Revision: in.GetBefore(), Diff: text, User: who(ctx)}}}, nil
}

func (past) ListAt(in *apiv1.ListAtRequest, stream grpc.ServerStreamingServer[apiv1.ListAtResponse]) error {
	if in.GetResource() == "lost" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "lost"}, "")
	}
	text := strings.Join([]string{in.GetGroup(), in.GetVersion(), in.GetNamespace(), in.GetResource(), in.GetAt(), in.GetLabelSelector(), in.GetAccept()}, "|")
	for n, piece := range strings.SplitAfter(text, "|") {
		response := &apiv1.ListAtResponse{Object: []byte(piece)}
		if n == 0 {
			response.ContentType = "application/json"
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
	return nil
}

func TestTransactionsAndHistory(t *testing.T) {
	t.Parallel()
	conn := dialServer(t, func(server *rpc.Server) {
		fake.New().Register(server)
		apiv1.RegisterTransactionServiceServer(server, past{})
		apiv1.RegisterHistoryServiceServer(server, past{})
	})
	c := setup(t, func(config *gateway.Config) { config.APIServer, config.MaxBody = conn, 1000 })
	const transactions, history = "/howdah/v1/transactions", "/howdah/v1/history"
	for name, tt := range map[string]struct {
		method, path, body string
		headers            []string
		code               int
		part               string
	}{
		"transaction":             {"POST", transactions + "?dryRun=All&fieldManager=m&unknown=x", "kind: A", []string{"Content-Type: application/yaml", "User-Agent: curl/8"}, 200, "kind: A|application/yaml|All|m|kubernetes-admin curl/8"},
		"user agent that is none": {"POST", transactions, "x", []string{"User-Agent: \u00fc"}, 200, "kubernetes-admin ?"},
		"transaction that fails":  {"POST", transactions + "?operation=fail", "", nil, 409, `"reason":"Conflict"`},
		"transaction by get":      {"GET", transactions, "", nil, 405, "MethodNotAllowed"},
		"too large":               {"POST", transactions, strings.Repeat("x", 1001), nil, 413, "limit is 1000"},
		"option that is none":     {"GET", history + "/api/v1/nodes/n?before=x", "", nil, 400, "before"},
		"history":                 {"GET", history + "/apis/apps/v1/namespaces/ns/deployments/web?since=1h&before=7", "", nil, 200, `"diff":"apps|v1|ns|deployments|web|1h"`},
		"history of a node":       {"GET", history + "/api/v1/nodes/n%2Fx", "", nil, 404, ""},
		"history of a namespace":  {"GET", history + "/api/v1/namespaces/ns", "", nil, 200, `"diff":"|v1||namespaces|ns|"`},
		"too old":                 {"GET", history + "/api/v1/nodes/old", "", nil, 410, `"reason":"Expired"`},
		"list":                    {"GET", history + "/api/v1/namespaces/ns/pods?at=now&labelSelector=a%3Db", "", []string{"Accept: application/json"}, 200, "|v1|ns|pods|now|a=b|application/json"},
		"list that fails":         {"GET", history + "/api/v1/lost", "", nil, 404, `"reason":"NotFound"`},
		"status":                  {"GET", history + "/api/v1/nodes/n/status", "", nil, 404, "could not find the requested resource"},
		"no path":                 {"GET", history + "/nothing", "", nil, 404, "could not find the requested resource"},
		"by post":                 {"POST", history + "/api/v1/nodes/n", "", nil, 405, "MethodNotAllowed"},
	} {
		got := c.do(c.client("admin"), tt.method, tt.path, tt.body, tt.headers...)
		body := strings.ReplaceAll(got.body, `": `, `":`) // protojson varies its spaces
		if got.StatusCode != tt.code || !strings.Contains(body, tt.part) {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.body)
		}
	}
}
