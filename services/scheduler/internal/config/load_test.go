package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/services/scheduler/internal/cycle"
	"howdah.dev/services/scheduler/internal/preempt"
	"howdah.dev/services/scheduler/internal/queue"
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func parsed(t *testing.T, text string) *Configuration {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

// show names the filters and scores of a profile, these with their weights.
func show(p cycle.Profile) (filters, scores string) {
	for _, f := range p.Filters {
		filters += " " + f.Name
	}
	for _, s := range p.Scores {
		scores += fmt.Sprintf(" %s×%d", s.Name, s.Weight)
	}
	return strings.TrimSpace(filters), strings.TrimSpace(scores)
}

const (
	defaultFilters = "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding " +
		"VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
	defaultScores = "TaintToleration×3 NodeAffinity×2 NodeResourcesFit×1 PodTopologySpread×2 InterPodAffinity×2 DynamicResources×2 " +
		"NodeResourcesBalancedAllocation×1 ImageLocality×1"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*Configuration{
		"none": Default("default-scheduler"), "an empty one": parsed(t, head),
		"JSON": parsed(t, `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{}]}`),
		"what is the default anyway": parsed(t, head+`
parallelism: 16
percentageOfNodesToScore: 100
enableProfiling: true
leaderElection: {leaderElect: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s, resourceLock: leases, resourceName: kube-scheduler, resourceNamespace: kube-system}
clientConnection: {contentType: application/vnd.kubernetes.protobuf, qps: 50, burst: 100}
profiles:
- percentageOfNodesToScore: 0
  plugins: {queueSort: {enabled: [{name: PrioritySort}]}, score: {disabled: [{name: VolumeBinding}]}, filter: {disabled: [{name: GangScheduling}]}}
  pluginConfig: [{name: NodeResourcesFit}, {name: DynamicResources, args: {filterTimeout: 10s}}]`),
	} {
		if len(c.Profiles) != 1 || c.Profiles[0].Name != "default-scheduler" || c.Backoffs != queue.DefaultBackoffs {
			t.Fatalf("%s: %+v", name, c)
		}
		p := c.Profiles[0]
		if filters, scores := show(p.Profile); filters != defaultFilters || scores != defaultScores {
			t.Errorf("%s: %s; %s", name, filters, scores)
		}
		if *p.Preemption != preempt.Default || p.VolumeTimeout != 10*time.Minute || p.DeviceTimeout != 10*time.Minute {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if filters, scores := show(cycle.Default()); filters != defaultFilters || scores != defaultScores {
		t.Errorf("what cycles do by default is another: %s; %s", filters, scores)
	}
}

// TestMerge has what Kubernetes 1.36 makes of the same profiles, but for SchedulingGates, which it could do without.
func TestMerge(t *testing.T) {
	t.Parallel()
	const all = `{name: "*"}`
	for _, tt := range []struct{ name, plugins, filters, scores string }{
		{
			"weights of a point before those of multiPoint", "multiPoint: {enabled: [{name: NodeResourcesFit, weight: 7}]}, score: {enabled: [{name: ImageLocality, weight: 5}], disabled: [{name: PodTopologySpread}]}",
			defaultFilters, "ImageLocality×5 TaintToleration×3 NodeAffinity×2 NodeResourcesFit×7 InterPodAffinity×2 DynamicResources×2 NodeResourcesBalancedAllocation×1",
		},
		{"no scores", "preScore: {disabled: [" + all + "]}, score: {disabled: [" + all + "]}", defaultFilters, ""},
		{"one score", "score: {disabled: [" + all + "], enabled: [{name: TaintToleration}]}", defaultFilters, "TaintToleration×1"},
		{
			"no weight is 1, wherever it is enabled", "multiPoint: {enabled: [{name: TaintToleration, weight: 0}]}, score: {enabled: [{name: NodeAffinity}, {name: ImageLocality, weight: 0}]}",
			defaultFilters, "NodeAffinity×1 ImageLocality×1 TaintToleration×1 NodeResourcesFit×1 PodTopologySpread×2 InterPodAffinity×2 DynamicResources×2 NodeResourcesBalancedAllocation×1",
		},
		{
			"order", "multiPoint: {enabled: [{name: NodePorts}, {name: NodeName}], disabled: [{name: NodePorts}]}, filter: {enabled: [{name: TaintToleration}, {name: NodeName}]}",
			"TaintToleration NodeName NodeUnschedulable NodeAffinity NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures NodePorts",
			defaultScores,
		},
		{
			"all disabled, some enabled", "multiPoint: {disabled: [" + all + "], enabled: [{name: SchedulingGates}, {name: PrioritySort}, {name: DefaultBinder}, {name: ImageLocality, weight: 7}, {name: NodePorts}, {name: NodeName}]}," +
				" preFilter: {enabled: [{name: VolumeZone}]}, filter: {enabled: [{name: VolumeZone}]}",
			"NodePorts NodeName VolumeZone", "ImageLocality×7",
		},
		{
			"one that Kubernetes has no more", "multiPoint: {enabled: [{name: NodeLabel, weight: 4}]}, filter: {disabled: [{name: NodeLabel}]}",
			defaultFilters, defaultScores + " NodeLabel×4",
		},
		{
			"two of these", "multiPoint: {enabled: [{name: ServiceAffinity, weight: 2}, {name: NodeLabel}]}", defaultFilters + " ServiceAffinity NodeLabel", defaultScores + " ServiceAffinity×2 NodeLabel×1",
		},
		{
			"the part of a filter before nodes are asked stays", "filter: {disabled: [{name: NodeAffinity}, {name: NodeUnschedulable}, {name: NodePorts}]}",
			"NodeName TaintToleration NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures NodeAffinity", defaultScores,
		},
		{"a whole one", "multiPoint: {disabled: [{name: VolumeBinding}, {name: DynamicResources}]}", strings.NewReplacer(" VolumeBinding", "", " DynamicResources", "").Replace(defaultFilters),
			strings.Replace(defaultScores, " DynamicResources×2", "", 1)},
	} {
		filters, scores := show(parsed(t, head+"profiles: [{plugins: {"+tt.plugins+"}}]").Profiles[0].Profile)
		if filters != tt.filters || scores != tt.scores {
			t.Errorf("%s:\n got %s\n     %s\nwant %s\n     %s", tt.name, filters, scores, tt.filters, tt.scores)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	c := parsed(t, head+`
podInitialBackoffSeconds: 3
podMaxBackoffSeconds: 7
profiles:
- schedulerName: a
  plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}, score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig: # of what is not enabled: nothing comes of it
  - {name: DefaultPreemption, args: {minCandidateNodesAbsolute: 5}}
  - {name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 1}]}}
- schedulerName: b
  pluginConfig:
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 5}}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 0}}
  - {name: DynamicResources, args: {bindingTimeout: 90s, filterTimeout: 0s}}`)
	if c.Backoffs != (queue.Backoffs{First: 3 * time.Second, Last: 7 * time.Second}) {
		t.Errorf("backoffs are %v", c.Backoffs)
	}
	if _, scores := show(c.Profiles[0].Profile); strings.Contains(scores, "Balanced") {
		t.Errorf("scores are %s", scores)
	}
	if p := c.Profiles[0]; p.Name != "a" || p.Preemption != nil || p.VolumeTimeout != 10*time.Minute {
		t.Errorf("got %+v", p)
	}
	if p := c.Profiles[1]; p.Name != "b" || *p.Preemption != (preempt.Enough{Percent: 0, Nodes: 5}) || p.VolumeTimeout != 0 || p.DeviceTimeout != 90*time.Second {
		t.Errorf("got %+v", p)
	}
}

func TestExample(t *testing.T) {
	t.Parallel()
	c, err := Load("../../../../examples/config/scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Profiles) != 2 || c.Profiles[0].Name != "default-scheduler" || c.Profiles[1].Name != "packing" || c.Profiles[1].Preemption != nil {
		t.Errorf("got %+v", c.Profiles)
	}
	filters, scores := show(c.Profiles[1].Profile)
	if filters != defaultFilters+" NodeLabel" || !slices.Contains(strings.Fields(scores), "NodeResourcesFit×5") || strings.Contains(scores, "Balanced") {
		t.Errorf("got %s; %s", filters, scores)
	}
}
