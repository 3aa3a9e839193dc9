package scheduler

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/score"
	"howdah.dev/services/scheduler/internal/storage"
)

// group returns the same number for pods that every filter and score treats
// alike: what they read of a pod, and nothing else, is hashed. The seed is
// the process's own, so that nobody can write pods that share a number by
// design.
func (s *Server) group(pod *corev1.Pod) uint64 {
	h := hasher{}
	h.SetSeed(s.seed)
	h.text(pod.Namespace, pod.Spec.SchedulerName, pod.Spec.NodeName)
	h.number(int64(scheduling.PodPriority(pod)))
	if pod.Spec.PreemptionPolicy != nil {
		h.text("preemption", string(*pod.Spec.PreemptionPolicy))
	}
	h.labels(pod.Labels)
	h.labels(pod.Spec.NodeSelector)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		h.text("owner", string(owner.UID))
	}
	demand := cluster.DemandOf(pod)
	h.resources(demand.Requests)
	h.resources(demand.Scored)
	h.resources(cluster.RatedRequests(pod))
	for _, p := range cluster.HostPorts(pod) {
		h.text("port", p.IP, string(p.Protocol))
		h.number(int64(p.Port))
	}
	h.number(int64(len(pod.Spec.InitContainers)))
	for _, image := range slices.Sorted(slices.Values(score.Images(pod))) {
		h.text("image", image)
	}
	for _, u := range storage.Uses(pod) {
		h.text("claim", u.Claim)
		if u.Own { // it must be the pod's own
			h.text(string(pod.UID))
		}
	}
	for i := range pod.Spec.ResourceClaims {
		h.message("device claim", &pod.Spec.ResourceClaims[i])
		if pod.Spec.ResourceClaims[i].ResourceClaimTemplateName != nil { // its claim is its own
			h.text(string(pod.UID))
			h.text(device.Names(pod)...)
		}
	}
	if pod.Status.ExtendedResourceClaimStatus != nil { // it may have a claim that others have not
		h.text("extended", string(pod.UID))
	}
	for i := range pod.Spec.Volumes {
		h.disk(&pod.Spec.Volumes[i].VolumeSource)
	}
	for _, feature := range filter.Needed(pod) {
		h.text("feature", feature)
	}
	if pod.Spec.Affinity != nil {
		h.message("affinity", pod.Spec.Affinity)
	}
	for i := range pod.Spec.Tolerations {
		h.message("toleration", &pod.Spec.Tolerations[i])
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		h.message("spread", &pod.Spec.TopologySpreadConstraints[i])
	}
	return h.Sum64()
}

// hasher hashes values with their lengths, so that no two sequences of them
// look the same.
type hasher struct{ maphash.Hash }

func (h *hasher) number(n int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = h.Write(b[:])
}

func (h *hasher) text(values ...string) {
	for _, v := range values {
		h.number(int64(len(v)))
		_, _ = h.WriteString(v)
	}
}

func (h *hasher) labels(m map[string]string) {
	h.number(int64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		h.text(key, m[key])
	}
}

func (h *hasher) resources(r cluster.Resources) {
	for _, n := range []int64{r.MilliCPU, r.Memory, r.EphemeralStorage, r.Pods, int64(len(r.Extended))} {
		h.number(n)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Extended)) {
		h.text(string(name))
		h.number(r.Extended[name])
	}
}

// message hashes a part of the API in its protobuf encoding, which is the
// same for equal values: maps are encoded in the order of their keys.
func (h *hasher) message(what string, m interface{ Marshal() ([]byte, error) }) {
	data, err := m.Marshal()
	if err != nil { // plain data always encodes
		data = nil
	}
	h.text(what, string(data))
}

// disk hashes what of a volume only one pod may have.
func (h *hasher) disk(v *corev1.VolumeSource) {
	switch {
	case v.GCEPersistentDisk != nil:
		h.message("disk", v.GCEPersistentDisk)
	case v.AWSElasticBlockStore != nil:
		h.message("disk", v.AWSElasticBlockStore)
	case v.ISCSI != nil:
		h.message("disk", v.ISCSI)
	case v.RBD != nil:
		h.message("disk", v.RBD)
	}
}
