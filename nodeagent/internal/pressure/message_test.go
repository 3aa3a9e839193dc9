package pressure

import (
	"maps"
	"testing"

	"k8s.io/utils/ptr"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	asks := newPod("p", 0, "memory=64Mi", "ephemeral-storage=1Mi")
	asks.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	patient := newPod("p", 0)
	for name, test := range map[string]struct {
		threshold Threshold
		seen      Observation
		candidate Candidate
		message   string
		grace     int64
		notes     map[string]string
	}{
		"memory": {
			Threshold{Signal: MemoryAvailable, Value: Value{Number: 100 << 20}, Hard: true}, Observation{Available: 50 << 20, Capacity: 1 << 30},
			Candidate{Pod: asks, Containers: []Container{{Name: "c", Memory: 65 << 20}, {Name: "d"}}},
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was using 65Mi, request is 64Mi, has larger consumption of memory. ", 1,
			map[string]string{"offending_containers": "c", "offending_containers_usage": "65Mi", "starved_resource": "memory"},
		},
		"a share of the disk, with grace": {
			Threshold{Signal: ImageFSAvailable, Value: Value{Percent: 10}}, Observation{Available: 2048, Capacity: 100 << 20},
			Candidate{Pod: asks, Containers: []Container{{Name: "c", Disk: 3 << 20}, {Name: "d", Disk: 2048}}},
			"The node was low on resource: ephemeral-storage. Threshold quantity: 10Mi, available: 2Ki. Container c was using 3Mi, request is 1Mi, has larger consumption of ephemeral-storage. " +
				"Container d was using 2Ki, request is 0, has larger consumption of ephemeral-storage. ", 30,
			map[string]string{"offending_containers": "c,d", "offending_containers_usage": "3Mi,2Ki", "starved_resource": "ephemeral-storage"},
		},
		"inodes, with less grace than the pod's": {
			Threshold{Signal: NodeFSInodesFree, Value: Value{Number: 1000}}, Observation{Available: 10, Capacity: 2000},
			Candidate{Pod: patient, Containers: []Container{{Name: "c", Disk: 3 << 20}}},
			"The node was low on resource: inodes. Threshold quantity: 1k, available: 10. ", 60,
			map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "inodes"},
		},
		"processes": {
			Threshold{Signal: PIDAvailable, Value: Value{Percent: 50}, Hard: true}, Observation{Available: 10, Capacity: 2000}, Candidate{Pod: asks},
			"The node was low on resource: pids. Threshold quantity: 1k, available: 10. ", 1,
			map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "pids"},
		},
	} {
		why, notes := Why(test.threshold, test.seen, &test.candidate, 60)
		if why.Reason != "Evicted" || why.Message != test.message || why.Disruption != test.message || *why.Grace != test.grace {
			t.Errorf("%s: %+v, grace %d", name, why, *why.Grace)
		}
		if !maps.Equal(notes, test.notes) {
			t.Errorf("%s: %v", name, notes)
		}
	}
}
