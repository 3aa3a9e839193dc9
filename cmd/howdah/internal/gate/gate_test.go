package gate

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTable(t *testing.T) {
	t.Parallel()
	gates := Table()
	if len(gates) != 242 || !slices.IsSortedFunc(gates, func(a, b Gate) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d gates", len(gates))
	}
	for _, name := range Switchable() {
		i := slices.IndexFunc(gates, func(g Gate) bool { return g.Name == name })
		if i < 0 || gates[i].Locked || gates[i].Default {
			t.Errorf("%s cannot be switched on", name)
		}
	}
	for _, g := range gates {
		if !slices.Contains([]Stage{Alpha, Beta, Stable, Deprecated}, g.Stage) {
			t.Errorf("%+v", g)
		}
	}
}

func TestWhatIsSaid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		problem, warning, on string
	}{
		"":                           {},
		"CBORServingAndStorage=true": {on: "CBORServingAndStorage"},
		"kube:GenericWorkload=1,CBORServingAndStorage=f":            {on: "GenericWorkload"},
		"ClusterTrustBundle=true,ClusterTrustBundle=false":          {},
		"ClusterTrustBundleProjection=true":                         {problem: "ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]"},
		"ClusterTrustBundleProjection=true,ClusterTrustBundle=true": {on: "ClusterTrustBundle ClusterTrustBundleProjection"},
		"AllAlpha=false":                              {},
		"AllAlpha=false,GenericWorkload=true":         {on: "GenericWorkload"},
		"AllBeta=false":                               {problem: "cannot set feature gate AllBeta to false: of its features only these can be switched here, by their own names: ClusterTrustBundle, ClusterTrustBundleProjection, MaxUnavailableStatefulSet, PodCertificateRequest, StorageVersionMigrator"},
		"AllAlpha=true":                               {problem: "cannot set feature gate AllAlpha to true: of its features only these can be switched here, by their own names: CBORServingAndStorage, ContainerStopSignals, GenericWorkload, HPAScaleToZero, PodLogsQuerySplitStreams"},
		"AllBeta=true":                                {problem: "cannot set feature gate AllBeta to true: of its features only these can be switched here, by their own names: ClusterTrustBundle, ClusterTrustBundleProjection, MaxUnavailableStatefulSet, PodCertificateRequest, StorageVersionMigrator"},
		"AllBeta=x":                                   {problem: `invalid value of AllBeta=x, err: strconv.ParseBool: parsing "x": invalid syntax`},
		"Other=true,CBORServingAndStorage":            {problem: "unrecognized feature gate: Other\nmissing bool value for CBORServingAndStorage"},
		"wardle:X=true":                               {problem: "component not registered: wardle"},
		"GangScheduling=true":                         {problem: "cannot set feature gate GangScheduling to true: the feature is always off here"},
		"GangScheduling=false,APIServerIdentity=true": {},
		"APIResponseCompression=false":                {problem: "cannot set feature gate APIResponseCompression to false: the feature is always on here"},
		"APIServerTracing=false,JobSuccessPolicy=false": {
			problem: "cannot set feature gate APIServerTracing to false, feature is locked to true\ncannot set feature gate JobSuccessPolicy to false, feature is locked to true",
			warning: "setting GA feature gate APIServerTracing=false. It will be removed in a future release.\nsetting GA feature gate JobSuccessPolicy=false. It will be removed in a future release.",
		},
		"GitRepoVolumeDriver=false": {warning: "setting deprecated feature gate GitRepoVolumeDriver=false. It will be removed in a future release."},
	} {
		s, err := Parse(strings.Split(text, ","))
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		var on []string
		for name, is := range s.All() {
			if is && err == nil {
				on = append(on, name)
			}
		}
		slices.Sort(on)
		if problem != want.problem || strings.Join(s.Warnings, "\n") != want.warning || strings.Join(on, " ") != want.on {
			t.Errorf("%s\nproblem %s\nwarning %s\non %s", text, problem, s.Warnings, on)
		}
	}
}

// TestAllOfAStage has everything of a stage said that cannot be switched, so that the rest may follow the gate for all.
func TestAllOfAStage(t *testing.T) {
	t.Parallel()
	settings := []string{"AllBeta=true"}
	for _, g := range Table() {
		if g.Stage == Beta && !g.Default && g.Name != "AllBeta" && g.Name != "StorageVersionMigrator" && g.Name != "ClusterTrustBundle" {
			settings = append(settings, g.Name+"=false")
		}
	}
	s, err := Parse(settings)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"StorageVersionMigrator": true, "ClusterTrustBundle": true, "PodCertificateRequest": false, "GenericWorkload": false, "SELinuxMount": false} {
		if s.Enabled(name) != want {
			t.Errorf("%s is %t", name, !want)
		}
	}
}

func TestMetric(t *testing.T) {
	t.Parallel()
	s, err := Parse([]string{"GenericWorkload=true"})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	for range 2 { // a standalone has several roles
		s.Register(registry)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "kubernetes_feature_enabled" || len(families[0].GetMetric()) != 242 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	states := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		states[m.GetLabel()[0].GetValue()+"/"+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
	}
	for name, want := range map[string]float64{"GenericWorkload/ALPHA": 1, "GangScheduling/ALPHA": 0, "APIServerTracing/": 1, "KMSv1/DEPRECATED": 0, "AllAlpha/ALPHA": 0} {
		if got, ok := states[name]; !ok || got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
