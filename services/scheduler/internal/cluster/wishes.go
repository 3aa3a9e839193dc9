package cluster

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/affinity"
)

// Wishes are what a pod has to say of others near it, beside what it refuses.
type Wishes struct {
	// Required are the terms without which it would not be where it is.
	Required []affinity.Term
	// Preferred are those that it would rather have near, or away.
	Preferred []affinity.Weighted
}

// WishesOf returns a pod's, nil where it has none.
func WishesOf(pod *corev1.Pod) *Wishes {
	w := Wishes{affinity.Required(pod), affinity.Preferred(pod)}
	if len(w.Required)+len(w.Preferred) == 0 {
		return nil
	}
	return &w
}

// Wishing is a pod that has wishes.
type Wishing struct {
	Pod *corev1.Pod
	*Wishes
}
