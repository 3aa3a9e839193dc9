package nodestatus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestStartupIsToldOfNewNodes(t *testing.T) {
	t.Parallel()
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	for name, c := range map[string]struct {
		tell func(s *startup)
		want string
	}{
		"not registered yet": {func(s *startup) { s.asking(at(130)) }, ""},
		"known before":       {func(s *startup) { s.asking(at(130)); s.isReady(at(140)) }, ""},
		"not ready yet": {func(s *startup) { s.asking(at(130)); s.made(at(132)) },
			"pre_kubelet_duration_seconds 20 pre_registration_duration_seconds 10 registration_duration_seconds 2"},
		"ready, and later again": {func(s *startup) {
			s.asking(at(130))
			s.made(at(132))
			s.isReady(at(136))
			s.isReady(at(999))
			s.made(at(999))
		},
			"duration_seconds 36 post_registration_duration_seconds 4 pre_kubelet_duration_seconds 20 pre_registration_duration_seconds 10 registration_duration_seconds 2"},
	} {
		s := &startup{booted: at(100), began: at(120)}
		c.tell(s)
		registry := prometheus.NewRegistry()
		registry.MustRegister(s)
		families, err := registry.Gather() // in order
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range families {
			got = append(got, fmt.Sprint(strings.TrimPrefix(f.GetName(), "kubelet_node_startup_"), " ", f.GetMetric()[0].GetGauge().GetValue()))
		}
		if all := strings.Join(got, " "); all != c.want {
			t.Errorf("%s: %s, not %s", name, all, c.want)
		}
	}
}
