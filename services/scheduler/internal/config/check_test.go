package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefusals has the texts of Kubernetes 1.36 where it refuses, too.
func TestRefusals(t *testing.T) {
	t.Parallel()
	plugins := func(text string) string { return head + "profiles: [{plugins: {" + text + "}}]" }
	args := func(name, text string) string {
		return head + "profiles: [{pluginConfig: [{name: " + name + ", args: {" + text + "}}]}]"
	}
	ratio := func(shape string) string {
		return args("NodeResourcesFit", "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: ["+shape+"]}}")
	}
	constraint := func(text string) string {
		return args("PodTopologySpread", "defaultingType: List, defaultConstraints: [{"+text+"}]")
	}
	const at = "profiles[0].pluginConfig[0].args."
	for text, wants := range map[string][]string{
		"":          {"Object 'Kind' is missing"},
		"kind: Foo": {"Object 'apiVersion' is missing"},
		strings.Replace(head, "v1", "v1beta3", 1):                                        {`no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3"`},
		strings.Replace(head, "KubeSchedulerConfiguration", "NodeLabelArgs", 1):          {"couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, Kind=NodeLabelArgs"},
		head + "profiles: [{foo: 1, plugins: {score: {disabled: [{name: A, bar: 1}]}}}]": {`unknown field "profiles[0].foo", unknown field "profiles[0].plugins.score.disabled[0].bar"`},
		head + "profiles: []\nprofiles: []":                                              {`key "profiles" already set in map`},
		args("NodeResourcesFit", "foo: 1"):                                               {`decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeResourcesFit: strict decoding error: unknown field "foo"`},
		args("NodeResourcesFit", "kind: Foo"):                                            {`decoding args for plugin NodeResourcesFit: no kind "Foo" is registered`},
		args("NodeLabel", "foo: 1"):                                                      {`decoding args for plugin NodeLabel: strict decoding error: unknown field "foo"`},

		head + "profiles: [{schedulerName: a}, {schedulerName: a}, {}]": {`profiles[1].schedulerName: Duplicate value: "a"`, "profiles[2].schedulerName: Required value"},
		head + "podInitialBackoffSeconds: 0":                            {"podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"},
		head + "podMaxBackoffSeconds: 10000000000":                      {"podMaxBackoffSeconds: Invalid value: 10000000000: must be at most"},
		head + "podInitialBackoffSeconds: 9\npodMaxBackoffSeconds: 5":   {"podMaxBackoffSeconds: Invalid value: 5: must be greater than or equal to PodInitialBackoffSeconds"},
		head + "parallelism: 0\npercentageOfNodesToScore: 101": {
			"parallelism: Invalid value: 0: should be an integer value greater than zero", "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
		},
		head + "parallelism: 8\npercentageOfNodesToScore: 50\nextenders: [{urlPrefix: 'http://x'}]\ndelayCacheUntilActive: true\nenableProfiling: false\nenableContentionProfiling: false": {
			"parallelism: Forbidden", "percentageOfNodesToScore: Forbidden: howdah looks at all nodes", "extenders: Forbidden: howdah calls no extenders", "delayCacheUntilActive: Forbidden",
			"enableProfiling: Forbidden", "enableContentionProfiling: Forbidden",
		},
		head + "leaderElection: {leaderElect: false, leaseDuration: 1s, renewDeadline: 1s, retryPeriod: 1s, resourceLock: foo, resourceName: a, resourceNamespace: b}": {
			"leaderElection.leaderElect: Forbidden", "leaderElection.leaseDuration: Forbidden", "leaderElection.renewDeadline: Forbidden", "leaderElection.retryPeriod: Forbidden",
			`leaderElection.resourceLock: Invalid value: "foo": resourceLock value must be "leases"`, "leaderElection.resourceName: Forbidden", "leaderElection.resourceNamespace: Forbidden",
		},
		head + "clientConnection: {kubeconfig: a, acceptContentTypes: b, contentType: c, qps: 1, burst: 1}": {
			"clientConnection.kubeconfig: Forbidden", "clientConnection.acceptContentTypes: Forbidden", "clientConnection.contentType: Forbidden", "clientConnection.qps: Forbidden",
			"clientConnection.burst: Forbidden",
		},
		head + "profiles: [{percentageOfNodesToScore: -1}]": {"profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"},

		plugins("score: {enabled: [{name: Foo}]}"):                          {`profiles[0].plugins.score.enabled[0].name: Invalid value: "Foo": ScorePlugin "Foo" does not exist (profile "default-scheduler")`},
		plugins("score: {disabled: [{name: Foo}]}"):                         {`profiles[0].plugins.score.disabled[0].name: Invalid value: "Foo": ScorePlugin "Foo" does not exist (profile "default-scheduler")`},
		plugins("multiPoint: {enabled: [{name: GangScheduling}]}"):          {`profiles[0].plugins.multiPoint.enabled[0].name: Invalid value: "GangScheduling": howdah has no plugin`},
		plugins("score: {enabled: [{name: NodeName}]}"):                     {`plugin "NodeName" does not extend ScorePlugin plugin`},
		plugins("score: {enabled: [{name: VolumeBinding}]}"):                {`plugin "VolumeBinding" does not extend ScorePlugin plugin`},
		plugins("permit: {enabled: [{name: NodeName}]}"):                    {`plugin "NodeName" does not extend PermitPlugin plugin`},
		plugins("score: {enabled: [{name: NodeLabel}, {name: NodeLabel}]}"): {`profiles[0].plugins.score.enabled[1].name: Invalid value: "NodeLabel": plugin "NodeLabel" already registered as "ScorePlugin"`},
		plugins("score: {enabled: [{name: ImageLocality, weight: -1}]}"):    {"profiles[0].plugins.score.enabled[0].weight: Invalid value: -1: must be greater than or equal to 0"},
		plugins("filter: {enabled: [{name: NodeName, weight: 1}]}"):         {"profiles[0].plugins.filter.enabled[0].weight: Forbidden: only scores have a weight"},
		plugins("multiPoint: {enabled: [{name: NodeName, weight: 1}]}"):     {"profiles[0].plugins.multiPoint.enabled[0].weight: Forbidden"},
		plugins("score: {disabled: [{name: ImageLocality, weight: 1}]}"):    {"profiles[0].plugins.score.disabled[0].weight: Forbidden"},
		plugins("queueSort: {disabled: [{name: '*'}]}"):                     {`only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0`},
		plugins("bind: {disabled: [{name: DefaultBinder}]}"):                {`at least one bind plugin is needed for profile with scheduler name "default-scheduler"`},
		plugins("preEnqueue: {disabled: [{name: SchedulingGates}]}"):        {`profiles[0].plugins.preEnqueue: Invalid value: "SchedulingGates"`},
		plugins("reserve: {disabled: [{name: '*'}]}"):                       {`profiles[0].plugins.reserve: Invalid value: "VolumeBinding": works at [preFilter filter reserve preBind] together, or not at all`, `"DynamicResources"`},
		plugins("preFilter: {disabled: [{name: NodeDeclaredFeatures}]}"):    {`profiles[0].plugins.preFilter: Invalid value: "NodeDeclaredFeatures": is needed by its filter`},
		plugins("preFilter: {disabled: [{name: NodePorts}]}"):               {`profiles[0].plugins.preFilter: Invalid value: "NodePorts": is needed by its filter`},
		plugins("preScore: {disabled: [{name: TaintToleration}]}"):          {`profiles[0].plugins.preScore: Invalid value: "TaintToleration": is needed by its score`},

		args("Foo", ""):      {`profiles[0].pluginConfig[0].name: Invalid value: "Foo": no plugin named Foo exists`},
		args("NodeName", ""): {`profiles[0].pluginConfig[0].name: Invalid value: "NodeName": the plugin takes no arguments`},
		head + "profiles: [{pluginConfig: [{name: VolumeBinding}, {name: VolumeBinding}]}]": {`profiles[0].pluginConfig[1]: Duplicate value: "VolumeBinding"`},

		args("NodeResourcesFit", "ignoredResources: [cpu, 'a b/c'], ignoredResourceGroups: [a/b]"): {
			at + `ignoredResources[0]: Invalid value: "cpu": only extended resources can be ignored`, at + `ignoredResources[1]: Invalid value: "a b/c": prefix part`,
			at + `ignoredResourceGroups[0]: Invalid value: "a/b": resource group name can't contain '/'`,
		},
		args("NodeResourcesFit", "scoringStrategy: {}"): {at + `scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`},
		args("NodeResourcesFit", "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}, {name: cpu, weight: -1}, {name: pods}], requestedToCapacityRatio: {}}"): {
			at + "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]", at + "scoringStrategy.resources[1].weight: Invalid value: -1",
			at + `scoringStrategy.resources[1].name: Duplicate value: "cpu"`, at + `scoringStrategy.resources[2].name: Invalid value: "pods": must be cpu, memory, ephemeral-storage or an extended resource`,
			at + "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio",
		},
		args("NodeResourcesFit", "scoringStrategy: {type: RequestedToCapacityRatio}"): {at + "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio"},
		ratio(""): {at + "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified"},
		ratio("{utilization: 50, score: 11}, {utilization: 50, score: -1}, {utilization: 101, score: 1}"): {
			"shape[1].utilization: Invalid value: 50: values must be sorted in increasing order", "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
			"shape[1].score: Invalid value: -1: not in valid range [0, 10]", "shape[2].utilization: Invalid value: 101: not in valid range [0, 100]",
		},
		args("NodeResourcesBalancedAllocation", "resources: [{name: cpu, weight: 2}, {name: cpu}]"): {
			at + "resources[0].weight: Invalid value: 2: must be 1", at + `resources[1].name: Duplicate value: "cpu"`,
		},
		args("DefaultPreemption", "minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1"): {
			at + "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]", at + "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
		},
		args("DefaultPreemption", "minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0"): {
			at + "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute",
			at + "minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage",
		},
		args("VolumeBinding", "bindTimeoutSeconds: -1, shape: [{utilization: 0, score: 0}]"): {
			at + "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value", "unexpected field `shape`, remove it",
		},
		args("VolumeBinding", "bindTimeoutSeconds: 10000000000"): {at + "bindTimeoutSeconds: Invalid value: 10000000000: must be at most"},
		args("DynamicResources", "filterTimeout: -1s, bindingTimeout: 0s"): {
			at + `filterTimeout: Invalid value: "-1s": must be zero or positive`, at + `bindingTimeout: Invalid value: "0s": must be at least 1 second`,
		},
		args("NodeAffinity", "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Foo, values: [x]}]}]},"+
			" preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: In, values: []}]}}]}"): {
			at + `addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Foo"`,
			at + "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]",
		},
		args("InterPodAffinity", "hardPodAffinityWeight: 101"): {at + "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"},
		args("PodTopologySpread", "defaultingType: Foo"):       {at + `defaultingType: Unsupported value: "Foo": supported values: "System", "List"`},
		args("PodTopologySpread", "defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]"): {
			at + `defaultingType: Invalid value: "System": when .defaultConstraints are not empty`,
		},
		constraint("maxSkew: 0, topologyKey: '', whenUnsatisfiable: X, labelSelector: {}"): {
			at + "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)", at + "defaultConstraints[0].topologyKey: Required value: can not be empty",
			at + `defaultConstraints[0].whenUnsatisfiable: Unsupported value: "X": supported values: "DoNotSchedule", "ScheduleAnyway"`,
			at + "defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod",
		},
		constraint("maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, minDomains: 2, matchLabelKeys: [b]"): {
			at + "defaultConstraints[0].minDomains: Forbidden", at + "defaultConstraints[0].matchLabelKeys: Forbidden",
		},
		constraint("maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, minDomains: 0"): {
			at + "defaultConstraints[0].minDomains: Invalid value: 0: must be greater than 0",
		},
		constraint("maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: ScheduleAnyway"): {
			at + `defaultConstraints[1]: Duplicate value: "{a, ScheduleAnyway}"`,
		},
		head + "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeLabel}]}}, pluginConfig: [{name: NodeLabel, args: {presentLabels: [a, 'b c'], absentLabels: [a]," +
			" presentLabelsPreference: [d], absentLabelsPreference: [d]}}]}]": {
			at + `presentLabels[0]: Invalid value: "a": detecting at least one label (e.g., "a") that exist in both the present([a b c]) and absent([a]) label list`,
			at + `presentLabels[1]: Invalid value: "b c"`, at + `presentLabelsPreference[0]: Invalid value: "d"`,
		},
		head + "profiles: [{plugins: {multiPoint: {enabled: [{name: ServiceAffinity}]}}, pluginConfig: [{name: ServiceAffinity, args: {affinityLabels: ['b c'], antiAffinityLabelsPreference: [a, '']}}]}]": {
			at + `affinityLabels[0]: Invalid value: "b c"`, at + `antiAffinityLabelsPreference[1]: Invalid value: ""`,
		},
	} {
		_, err := Parse([]byte(text))
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s:\n got %v\nwant %s", text, err, want)
			}
		}
	}
}

func TestLoadSaysWhichFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, []byte(head+"parallelism: 0"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "parallelism: Invalid value") {
		t.Errorf("got %v", err)
	}
}
