package filter

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/storage"
)

// VolumeRestrictions refuses nodes where another pod has a disk that only one may have, and all nodes while a claim of the pod, which only one pod
// may use, is used.
var VolumeRestrictions = Filter{
	Name:        "VolumeRestrictions",
	AcrossNodes: true,
	Frees:       sharesVolumes,
	Ahead: func(pod *corev1.Pod, snapshot cluster.Snapshot) string {
		for _, u := range storage.Uses(pod) {
			if !u.Own && snapshot.Storage.Claim(pod.Namespace, u.Claim) == nil {
				return storage.Missing(u.Claim)
			}
		}
		return ""
	},
	Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
		r := restrictions{pod: pod, disks: disks(pod)}
		for _, u := range storage.Uses(pod) {
			if claim := snapshot.Storage.Claim(pod.Namespace, u.Claim); !u.Own && claim != nil && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
				r.single = append(r.single, u.Claim)
			}
		}
		if len(r.disks) == 0 && len(r.single) == 0 {
			return nil
		}
		for _, n := range snapshot.Nodes {
			for _, other := range n.Claiming {
				r.users += r.uses(other)
			}
		}
		return r
	},
	Alter: func(_ *corev1.Pod, check Check, was, now *cluster.Node) Check {
		r, ok := check.(restrictions)
		if !ok {
			return check // nothing of the pod is restricted
		}
		changed(was.Claiming, now.Claiming,
			func(p *corev1.Pod) { r.users -= r.uses(p) },
			func(p *corev1.Pod) { r.users += r.uses(p) })
		return r
	},
}

// sharesVolumes reports whether a pod that has gone used a claim or a disk of another one.
func sharesVolumes(pod, gone *corev1.Pod) bool {
	r := restrictions{pod: pod, disks: disks(pod)}
	for _, u := range storage.Uses(pod) {
		if !u.Own {
			r.single = append(r.single, u.Claim)
		}
	}
	return r.uses(gone) > 0 || r.conflicts(gone)
}

// restrictions are what a pod must have to itself.
type restrictions struct {
	pod    *corev1.Pod
	disks  []*corev1.Volume
	single []string // claims that one pod at a time may use
	users  int      // how often other pods use these
}

// uses counts how often a pod on a node uses the claims that one pod at a time may use.
func (r *restrictions) uses(other *corev1.Pod) (count int) {
	if len(r.single) == 0 || other.Namespace != r.pod.Namespace {
		return 0
	}
	for _, u := range storage.Uses(other) {
		if !u.Own && slices.Contains(r.single, u.Claim) {
			count++
		}
	}
	return count
}

func (r restrictions) Check(n *cluster.Node) bool { return r.users == 0 && !r.taken(n) }

func (r restrictions) Explain(n *cluster.Node) []string {
	if r.taken(n) {
		return []string{"node(s) had no available disk"}
	}
	return []string{"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"}
}

func (r restrictions) Resolvable(_ *cluster.Node) bool { return true }

func (r restrictions) taken(n *cluster.Node) bool {
	if len(r.disks) == 0 {
		return false
	}
	return slices.ContainsFunc(n.Pods, r.conflicts)
}

// conflicts reports whether another pod has a disk that the pod wants to itself.
func (r *restrictions) conflicts(other *corev1.Pod) bool {
	for _, has := range disks(other) {
		if slices.ContainsFunc(r.disks, func(wants *corev1.Volume) bool { return conflict(wants, has) }) {
			return true
		}
	}
	return false
}

// disks are the volumes that pods name themselves and that cannot be in any number of them.
func disks(pod *corev1.Pod) []*corev1.Volume {
	var found []*corev1.Volume
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil {
			found = append(found, v)
		}
	}
	return found
}

// conflict reports whether two volumes are one disk that two pods on a node cannot have. All but the disks of EBS may be read by many.
func conflict(a, b *corev1.Volume) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		x, y := a.GCEPersistentDisk, b.GCEPersistentDisk
		return x.PDName == y.PDName && !(x.ReadOnly && y.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		return a.ISCSI.IQN == b.ISCSI.IQN && !(a.ISCSI.ReadOnly && b.ISCSI.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		x, y := a.RBD, b.RBD
		monitored := slices.ContainsFunc(x.CephMonitors, func(m string) bool { return slices.Contains(y.CephMonitors, m) })
		return monitored && x.RBDPool == y.RBDPool && x.RBDImage == y.RBDImage && !(x.ReadOnly && y.ReadOnly)
	}
	return false
}
