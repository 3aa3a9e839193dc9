package endpointslicemirroring

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/controllers/internal/pack"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	m.planned("a/x", pack.Plan{Tally: pack.Tally{Added: 3, Updated: 2, Removed: 1, Endpoints: 7, Slices: 2, Wanted: 1}}, Skipped{All: 5})
	m.planned("a/y", pack.Plan{Tally: pack.Tally{Added: 1, Endpoints: 1, Slices: 1, Wanted: 1}}, Skipped{})
	m.planned("a/y", pack.Plan{Tally: pack.Tally{Endpoints: 1, Slices: 1, Wanted: 1}}, Skipped{})
	m.synced(time.Second)
	want := map[string]float64{ // the sums of histograms
		"endpoints_added_per_sync": 4, "endpoints_updated_per_sync": 2, "endpoints_removed_per_sync": 1, "addresses_skipped_per_sync": 5, "endpoints_sync_duration": 1,
		"endpoints_desired": 8, "num_endpoint_slices": 3, "desired_endpoint_slices": 2,
	}
	compare := func() {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			got := f.Metric[0].GetGauge().GetValue()
			if h := f.Metric[0].GetHistogram(); h != nil {
				got = h.GetSampleSum()
			}
			if name := f.GetName()[len("endpoint_slice_mirroring_controller_"):]; got != want[name] {
				t.Errorf("%s is %v, want %v", name, got, want[name])
			}
		}
		if len(families) != len(want) {
			t.Errorf("%d metrics, want %d", len(families), len(want))
		}
	}
	compare()
	m.forget("a/x")
	m.forget("a/none")
	want["endpoints_desired"], want["num_endpoint_slices"], want["desired_endpoint_slices"] = 1, 1, 1
	compare()
	m.began()
	want["endpoints_desired"], want["num_endpoint_slices"], want["desired_endpoint_slices"] = 0, 0, 0
	compare()
	var none *Metrics
	none.began()
	none.planned("", pack.Plan{}, Skipped{})
	none.forget("")
	none.synced(0)
}
