package filter

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/storage"
)

// VolumeBinding refuses nodes that the volumes of the pod's claims cannot be reached from, or where a claim that waits for its first consumer
// finds no volume and none can be made.
var VolumeBinding = Filter{
	Name: "VolumeBinding",
	Of:   OnPlace,
	Ahead: func(pod *corev1.Pod, snapshot cluster.Snapshot) string {
		if !storage.UsesClaims(pod) {
			return ""
		}
		return snapshot.Storage.Refusal(pod)
	},
	Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
		if !storage.UsesClaims(pod) {
			return nil
		}
		if why := snapshot.Storage.Refusal(pod); why != "" {
			return Everywhere(why)
		}
		wants := storage.WantsOf(pod, snapshot.Storage)
		switch {
		case wants.Nothing():
			return nil
		case wants.Undecided():
			return choice{claims{wants}}
		}
		return claims{wants}
	},
}

// claims is the check of a pod whose claims are bound.
type claims struct{ wants storage.Wants }

func (c claims) Check(n *cluster.Node) bool       { return len(c.wants.On(n.Object)) == 0 }
func (c claims) Explain(n *cluster.Node) []string { return c.wants.On(n.Object) }
func (c claims) Resolvable(_ *cluster.Node) bool  { return false }

// choice is that of a pod with claims that are bound with its placement.
type choice struct{ claims }

// Choose implements Chooser.
func (c choice) Choose(n *cluster.Node, choice *Choice) (err error) {
	choice.Volumes, err = c.wants.Choose(n.Object)
	return err
}
