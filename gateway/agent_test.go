package gateway

import (
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
)

func TestWithAgent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, agent string
		said        []string
		want        string
	}{
		{"named", "kubectl/v1.36.3 (linux/amd64)", nil, "kubectl/v1.36.3 (linux/amd64)"},
		{"none, which must not read as the gateway's own", "", nil, ""},
		{"said before", "kubectl", []string{"helm"}, "helm"},
		{"unprintable", "a\x01b\u00e9c", nil, "a?b?c"},
		{"long", strings.Repeat("x", 300), nil, strings.Repeat("x", maxAgent)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			md := metadata.MD{}
			if test.said != nil {
				md[agentKey] = test.said
			}
			if got := withAgent(md, test.agent)[agentKey]; len(got) != 1 || got[0] != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
