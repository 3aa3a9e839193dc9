package flow

import "sync"

// Watched is what a watch is of: all objects of a resource, those of a namespace, or one. Selectors do not count, as in Kubernetes, but for that of the pods
// of a node, which costs the events of other pods nothing.
type Watched struct{ Group, Resource, Namespace, Name string }

// watches counts those that are open.
type watches struct {
	mu   sync.Mutex
	open map[Watched]int
}

// add counts one until the function that it returns is called.
func (w *watches) add(of Watched) (forget func()) {
	w.change(of, 1)
	return sync.OnceFunc(func() { w.change(of, -1) })
}

func (w *watches) change(of Watched, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[Watched]int{}
	}
	if w.open[of] += by; w.open[of] == 0 {
		delete(w.open, of)
	}
}

// interested is how many are told of a change of the objects that of names.
func (w *watches) interested(of Watched) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.open[Watched{Group: of.Group, Resource: of.Resource}]
	if of.Namespace != "" {
		n += w.open[Watched{Group: of.Group, Resource: of.Resource, Namespace: of.Namespace}]
	}
	if of.Name != "" {
		n += w.open[of]
	}
	return n
}
