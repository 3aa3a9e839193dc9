package container

import (
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Users are the IDs of the node's users and groups that a pod's own stand for: from 0 on, Length of them stand for those from Host on. The zero
// value is a pod that shares the node's.
type Users struct {
	Host   uint32 `json:"hostId"`
	Length uint32 `json:"length"`
}

// Own reports whether the pod has users of its own.
func (u Users) Own() bool { return u.Length > 0 }

// OwnUsers reports whether a pod is to have users of its own.
func OwnUsers(p *corev1.Pod) bool { return p.Spec.HostUsers != nil && !*p.Spec.HostUsers }

// mappings are the users in the runtime's terms; nil for the node's.
func (u Users) mappings() []*runtimeapi.IDMapping {
	if !u.Own() {
		return nil
	}
	return []*runtimeapi.IDMapping{{HostId: u.Host, ContainerId: 0, Length: u.Length}}
}

// namespace asks the runtime for a namespace of users; nil leaves the pod in the node's.
func (u Users) namespace() *runtimeapi.UserNamespace {
	if !u.Own() {
		return nil
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: u.mappings(), Gids: u.mappings()}
}

// mapIDs has mounts show files that belong to user n on disk as the pod's user n.
func (u Users) mapIDs(mounts []*runtimeapi.Mount) {
	for _, m := range mounts {
		if m.GetHostPath() != "" { // what an image brings, the runtime maps itself
			m.UidMappings, m.GidMappings = u.mappings(), u.mappings()
		}
	}
}
