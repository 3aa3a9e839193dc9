package past

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/restmapper"
	clienttesting "k8s.io/client-go/testing"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestParse(t *testing.T) {
	t.Parallel()
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, ShortNames: []string{"po"}},
			{Name: "nodes", SingularName: "node", Kind: "Node", ShortNames: []string{"no"}},
		}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}}}},
	}
	client := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: lists}}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		t.Fatal(err)
	}
	m := mapper(groups, discovery.DiscoveryInterface(client))
	for _, tt := range []struct{ kind, name, path string }{
		{"deploy", "web", "/howdah/v1/history/apis/apps/v1/namespaces/shop/deployments/web"},
		{"deployment.apps", "web", "/howdah/v1/history/apis/apps/v1/namespaces/shop/deployments/web"},
		{"deployments.v1.apps", "web", "/howdah/v1/history/apis/apps/v1/namespaces/shop/deployments/web"},
		{"po", "", "/howdah/v1/history/api/v1/namespaces/shop/pods"},
		{"Node", "n/1", "/howdah/v1/history/api/v1/nodes/n%2F1"},
		{"shoes", "x", ""},
	} {
		got, err := parse(m, "shop", tt.kind, tt.name)
		if (err != nil) != (tt.path == "") || err == nil && got.Path() != tt.path {
			t.Errorf("%s/%s: %s, %v", tt.kind, tt.name, got.Path(), err)
		}
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"17": "revision=17", "10m": "at=2026-01-02T14%3A50%3A00Z", "2026-01-02T03:00:00+01:00": "at=2026-01-02T03%3A00%3A00%2B01%3A00",
		"": "", "noon": "", "-1h": "", "2026-01-02": "",
	} {
		got, err := Moment(text, now)
		if (err != nil) != (want == "") || got.Encode() != want {
			t.Errorf("%q: %s, %v", text, got.Encode(), err)
		}
	}
}

func TestPrintVersions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	h := &apiv1.HistoryResponse{More: true, Versions: []*apiv1.ObjectVersion{
		{Revision: 9, Time: timestamppb.New(now.Add(-time.Minute)), Operation: "UPDATED", Verb: "apply", User: "jane", FieldManager: "kubectl",
			Diff: "--- a\n+++ b\n-x\n+y\n+z\n", ObjectJson: `{"kind":"Pod"}`},
		{Revision: 3, Uid: "u"},
	}}
	for form, want := range map[string][]string{
		"":     {"REVISION   AGE         OPERATION          VERB     USER     MANAGER   LINES\n", "9          60s         UPDATED            apply    jane     kubectl   +2 -1\n", "(before the log)", "--before 3 shows them"},
		"wide": {"PROGRAM", "<none>"},
		"yaml": {"kind: History", "object:\n    kind: Pod", "revision: 9"},
		"json": {`"kind": "Pod"`, `"time": "2026-01-02T14:59:00Z"`},
	} {
		var out bytes.Buffer
		if err := PrintVersions(&out, h, form, false, now); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%q: no %q in\n%s", form, part, out.String())
			}
		}
	}
	if err := PrintVersions(&bytes.Buffer{}, h, "xml", false, now); err == nil {
		t.Error("xml was accepted")
	}
}
