package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/gateway/internal/fake"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestWhatTheGatewayAnswersByItselfIsReported(t *testing.T) {
	t.Parallel()
	c := setup(t)
	pods := &apiv1.Access{Verb: "list", Version: "v1", Resource: "pods", Namespace: "default"}
	for _, tt := range []struct {
		method, path string
		code         int32
		want         *apiv1.Access // nil is for the API server to record
	}{
		{"GET", "/api/v1/namespaces/default/pods", 200, nil},
		{"GET", "/api/v1/namespaces/default/pods?limit=x", 400, nil},
		{"PUT", "/api/v1/namespaces/default/pods", 405, &apiv1.Access{Verb: "update", Version: "v1", Resource: "pods", Namespace: "default"}},
		{"GET", "/api/v1/namespaces/default/pods?timeout=x", 400, pods},
		{"GET", "/none", 404, &apiv1.Access{Verb: "get", Path: "/none"}},
		{"POST", "/version", 405, &apiv1.Access{Verb: "post", Path: "/version"}},
		{"GET", "/version", 200, nil},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, c.url+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer good")
		req.Header.Set("Audit-Id", "one"+strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(tt.path)+tt.method)
		resp, err := c.client("").Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != int(tt.code) {
			t.Errorf("%s %s: %s", tt.method, tt.path, resp.Status)
		}
		if tt.want == nil {
			continue
		}
		var got fake.Report
		select {
		case got = <-c.Reports:
		case <-time.After(time.Minute):
			t.Fatalf("%s %s is not reported", tt.method, tt.path)
		}
		if diff := cmp.Diff(tt.want, got.Message.GetAccess(), protocmp.Transform()); diff != "" || got.Message.GetCode() != tt.code {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, got.Message.GetCode(), diff)
		}
		var status metav1.Status
		if err := json.Unmarshal(got.Message.GetStatus(), &status); err != nil || status.Code != tt.code {
			t.Errorf("%s %s: the status is %s", tt.method, tt.path, got.Message.GetStatus())
		}
		origin := strings.Join(got.Metadata.Get("howdah-origin-bin"), "")
		if !strings.HasPrefix(origin, req.Header.Get("Audit-Id")+"\n") || !strings.Contains(origin, tt.path) || got.Metadata.Get("authorization")[0] != "Bearer good" {
			t.Errorf("%s %s: comes with %q", tt.method, tt.path, got.Metadata)
		}
	}
}
