package plugin

import (
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/score"
)

// table has the plugins in the order in which the default profile asks them.
var table = []Plugin{
	{Name: "SchedulingGates", Points: []Point{PreEnqueue}, Always: "pods with scheduling gates wait in every profile"},
	{Name: "PrioritySort", Points: []Point{QueueSort}, Always: "only one queue sort plugin required for profile with scheduler name %q, but got 0"},
	{Name: "NodeUnschedulable", Points: []Point{Filter}, Filter: plain(filter.NodeUnschedulable)},
	{Name: "NodeName", Points: []Point{Filter}, Filter: plain(filter.NodeName)},
	{
		Name: "TaintToleration", Points: []Point{Filter, PreScore, Score}, Weight: 3,
		Filter: plain(filter.TaintToleration), Score: plain(score.TaintToleration),
	},
	{
		Name: "NodeAffinity", Points: []Point{PreFilter, Filter, PreScore, Score}, Weight: 2, Args: affinityArgs,
		Filter: taking(affinityFilter), Score: taking(affinityScore),
	},
	{Name: "NodePorts", Points: []Point{PreFilter, Filter}, Filter: plain(filter.NodePorts)},
	{
		Name: "NodeResourcesFit", Points: []Point{PreFilter, Filter, PreScore, Score}, Weight: 1, Args: fitArgs,
		Filter: taking(fitFilter), Score: taking(fitScore),
	},
	{Name: "VolumeRestrictions", Points: []Point{PreFilter, Filter}, Filter: plain(filter.VolumeRestrictions)},
	{Name: "NodeVolumeLimits", Points: []Point{PreFilter, Filter}, Filter: plain(filter.NodeVolumeLimits)},
	{
		Name: "VolumeBinding", Points: []Point{PreFilter, Filter, Reserve, PreBind}, Whole: true, Args: volumeArgs,
		Filter: plain(filter.VolumeBinding),
	},
	{Name: "VolumeZone", Points: []Point{PreFilter, Filter}, Filter: plain(filter.VolumeZone)},
	{
		Name: "PodTopologySpread", Points: []Point{PreFilter, Filter, PreScore, Score}, Weight: 2, Args: spreadArgs,
		Filter: taking(spreadFilter), Score: taking(spreadScore),
	},
	{
		Name: "InterPodAffinity", Points: []Point{PreFilter, Filter, PreScore, Score}, Weight: 2, Args: neighbourArgs,
		Filter: plain(filter.InterPodAffinity), Score: taking(neighbourScore),
	},
	{
		Name: "DynamicResources", Points: []Point{PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind}, Whole: true, Weight: 2,
		Args: deviceArgs, Filter: taking(deviceFilter), Score: taking(deviceScore),
	},
	{Name: Preemption, Points: []Point{PostFilter}, Args: preemptionArgs},
	{
		Name: "NodeResourcesBalancedAllocation", Points: []Point{PreScore, Score}, Weight: 1, Args: balancedArgs,
		Score: taking(balancedScore),
	},
	{Name: "ImageLocality", Points: []Point{Score}, Weight: 1, Score: plain(score.ImageLocality)},
	{Name: "DefaultBinder", Points: []Point{Bind}, Always: "at least one bind plugin is needed for profile with scheduler name %q"},
	{Name: "NodeDeclaredFeatures", Points: []Point{PreFilter, Filter}, Filter: plain(filter.NodeDeclaredFeatures)},
	{
		Name: "NodeLabel", Points: []Point{Filter, Score}, Legacy: true, Weight: 1, Args: labelArgs,
		Filter: taking(labelFilter), Score: taking(labelScore),
	},
	{
		Name: Together, Points: []Point{PreFilter, Filter, Score}, Legacy: true, Weight: 1, Args: serviceArgs,
		Filter: taking(serviceFilter), Score: taking(serviceScore),
	},
}
