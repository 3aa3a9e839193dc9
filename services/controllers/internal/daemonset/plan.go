// Package daemonset keeps a pod on every node that a DaemonSet wants one on.
package daemonset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/controllers/internal/pod"
)

// Observed is what a plan is made from.
type Observed struct {
	Nodes []*corev1.Node
	// Pods are the set's own.
	Pods []*corev1.Pod
	// Hash is the label of the pods of the set's template.
	Hash string
	// Settled says that the pods show all that earlier plans did. While they do not, nothing is created or deleted: the same
	// work would be done twice.
	Settled bool
	// Waits are the nodes whose failed pods may not be replaced yet, with how long they have to wait.
	Waits map[string]time.Duration
}

// Event is one to be recorded on the set.
type Event struct {
	Type, Reason, Message string
}

// Plan is what to do for one set.
type Plan struct {
	Create []string // nodes that a pod is made for
	Delete []*corev1.Pod
	Failed []string // nodes with failed pods among Delete
	Events []Event
	Status appsv1.DaemonSetStatus
	// After is when to plan again though nothing has changed; 0 is never.
	After time.Duration
}

// Decide plans one set. A roll-out goes on only when every node has the pods that it should have, except for their versions.
func Decide(ds *appsv1.DaemonSet, seen Observed, now time.Time) Plan {
	d := newDaemons(ds, seen, now)
	p := Plan{Status: d.status()}
	if ds.Spec.MinReadySeconds > 0 {
		p.lookAgain(d.ripening())
	}
	if !seen.Settled {
		return p
	}
	p.Status.ObservedGeneration = ds.Generation
	for _, s := range d.sites {
		d.tend(s, &p)
	}
	if len(p.Create)+len(p.Delete) == 0 && ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		d.roll(&p)
	}
	return p
}

// lookAgain brings the next look forward; 0 does not.
func (p *Plan) lookAgain(after time.Duration) {
	if after > 0 && (p.After == 0 || after < p.After) {
		p.After = after
	}
}

// daemons is a set and its pods, by node.
type daemons struct {
	set        *appsv1.DaemonSet
	hash       string
	generation string
	waits      map[string]time.Duration
	now        time.Time
	sites      []site // by name
	desired    int    // how many nodes should have a pod
}

// site is a node with the set's pods on it and for it. A node that is gone may still have pods; nothing runs or stays there.
type site struct {
	Verdict
	name string
	gone bool
	pods []*corev1.Pod // in the order of older
}

func newDaemons(ds *appsv1.DaemonSet, seen Observed, now time.Time) *daemons {
	d := &daemons{set: ds, hash: seen.Hash, generation: generation(ds), waits: seen.Waits, now: now}
	pods := map[string][]*corev1.Pod{}
	for _, p := range seen.Pods {
		// One that has ended and is on its way out is no longer of interest, whatever its finalizers wait for.
		if p.DeletionTimestamp != nil && pod.Terminal(p) {
			continue
		}
		if node := target(p); node != "" {
			pods[node] = append(pods[node], p)
		}
	}
	fit := NewFit(ds)
	for _, n := range seen.Nodes {
		s := site{Verdict: fit.Judge(n), name: n.Name, pods: pods[n.Name]}
		delete(pods, n.Name)
		if s.Run {
			d.desired++
		}
		if s.Run || len(s.pods) > 0 {
			d.sites = append(d.sites, s)
		}
	}
	for name, left := range pods {
		d.sites = append(d.sites, site{name: name, gone: true, pods: left})
	}
	for _, s := range d.sites {
		slices.SortFunc(s.pods, older)
	}
	slices.SortFunc(d.sites, func(a, b site) int { return strings.Compare(a.name, b.name) })
	return d
}

// tend plans that a node has a pod if and only if it should.
func (d *daemons) tend(s site, p *Plan) {
	switch {
	case s.gone:
		// Those that were bound to it are podgc's; others would wait for ever.
		p.delete(s.pods, func(o *corev1.Pod) bool { return o.Spec.NodeName == "" })
	case s.Run && len(s.pods) == 0:
		p.Create = append(p.Create, s.name)
	case s.Stay:
		d.prune(s, p)
	default:
		p.delete(s.pods, func(*corev1.Pod) bool { return true })
	}
}

// delete adds those pods that are not on their way out yet.
func (p *Plan) delete(pods []*corev1.Pod, which func(*corev1.Pod) bool) {
	for _, o := range pods {
		if o.DeletionTimestamp == nil && which(o) {
			p.Delete = append(p.Delete, o)
		}
	}
}

// prune plans that of a node's pods those go that have ended, and those that are too many.
func (d *daemons) prune(s site, p *Plan) {
	running, waiting := d.bury(s, p)
	switch {
	case !d.surges():
		if len(running) > 1 {
			p.Delete = append(p.Delete, running[1:]...)
		}
	case len(running) > 0:
		d.pruneVersions(running, p)
	case s.Run && !waiting:
		// A surging set does not wait for the end of the pod before.
		p.Create = append(p.Create, s.name)
	}
}

// bury plans the deletion of pods that have ended, and returns the others that are not on their way out. waiting says that one
// which failed has to stay for a while.
func (d *daemons) bury(s site, p *Plan) (running []*corev1.Pod, waiting bool) {
	for _, o := range s.pods {
		switch {
		case o.DeletionTimestamp != nil:
		case o.Status.Phase == corev1.PodFailed && d.waits[s.name] > 0:
			waiting = true
			p.lookAgain(d.waits[s.name])
		case o.Status.Phase == corev1.PodFailed:
			p.Delete = append(p.Delete, o)
			p.Failed = append(p.Failed, s.name)
			p.Events = append(p.Events, Event{corev1.EventTypeWarning, "FailedDaemonPod",
				fmt.Sprintf("Found failed daemon pod %s/%s on node %s, will try to kill it", o.Namespace, o.Name, s.name)})
		case o.Status.Phase == corev1.PodSucceeded:
			p.Delete = append(p.Delete, o)
			p.Events = append(p.Events, Event{corev1.EventTypeNormal, "SucceededDaemonPod",
				fmt.Sprintf("Found succeeded daemon pod %s/%s on node %s, will try to delete it", o.Namespace, o.Name, s.name)})
		default:
			running = append(running, o)
		}
	}
	p.Failed = slices.Compact(p.Failed)
	return running, waiting
}

// pruneVersions plans that at most one pod of the current revision and one other are on a node, and that the other one goes
// when it is not ready, or when the current one can take over.
func (d *daemons) pruneVersions(running []*corev1.Pod, p *Plan) {
	var fresh, stale *corev1.Pod
	for _, o := range running {
		kept := &stale
		if d.updated(o) {
			kept = &fresh
		}
		if *kept == nil {
			*kept = o
		} else {
			p.Delete = append(p.Delete, o)
		}
	}
	if fresh != nil && stale != nil && (!pod.Ready(stale) || d.available(fresh)) {
		p.Delete = append(p.Delete, stale)
	}
}

// updated says whether the pod is of the current template.
func (d *daemons) updated(p *corev1.Pod) bool {
	return d.hash != "" && p.Labels[hashLabel] == d.hash || d.generation != "" && p.Labels[generationLabel] == d.generation
}

func (d *daemons) available(p *corev1.Pod) bool {
	available, _ := pod.Available(p, d.minReady(), d.now)
	return available
}

func (d *daemons) minReady() time.Duration {
	return time.Duration(d.set.Spec.MinReadySeconds) * time.Second
}
