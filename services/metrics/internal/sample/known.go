package sample

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Pod names a pod.
type Pod struct{ Namespace, Name string }

func (p Pod) compare(o Pod) int {
	return cmp.Or(cmp.Compare(p.Namespace, o.Namespace), cmp.Compare(p.Name, o.Name))
}

// Scrape is what a node told at one time.
type Scrape struct {
	Node Reading
	// Pods are the readings of running containers, by name.
	Pods map[Pod]map[string]Reading
}

// NodeUsage is what a node uses.
type NodeUsage struct {
	Name string
	Usage
}

// PodUsage is what the containers of a pod use, by name; its time is the earliest of theirs and its window the longest.
type PodUsage struct {
	Pod
	Time       time.Time
	Window     time.Duration
	Containers map[string]Usage
}

// series is what is known of a node.
type series struct {
	heard time.Time
	node  Series
	pods  map[Pod]map[string]Series
}

// Known is what nodes have told, as far as it is not too old. It is safe for concurrent use.
type Known struct {
	maxAge time.Duration

	mu    sync.RWMutex
	nodes map[string]series
}

// NewKnown returns an empty one, which forgets what a node told when nothing more is heard of it for maxAge.
func NewKnown(maxAge time.Duration) *Known {
	return &Known{maxAge: maxAge, nodes: map[string]series{}}
}

// Add takes what a node told at now. Containers that are not in it are gone.
func (k *Known) Add(node string, s Scrape, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.nodes[node]
	next := series{heard: now, node: old.node.Next(s.Node), pods: make(map[Pod]map[string]Series, len(s.Pods))}
	for pod, containers := range s.Pods {
		of := make(map[string]Series, len(containers))
		for name, reading := range containers {
			of[name] = old.pods[pod][name].Next(reading)
		}
		next.pods[pod] = of
	}
	k.nodes[node] = next
}

// Keep forgets the nodes that are not among those given, or silent for too long.
func (k *Known) Keep(nodes map[string]bool, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.nodes, func(name string, s series) bool { return !nodes[name] || now.Sub(s.heard) > k.maxAge })
}

// Nodes returns what is known of a node, or with an empty name of all, by name.
func (k *Known) Nodes(name string, now time.Time) []NodeUsage {
	var out []NodeUsage
	k.each(now, func(node string, s series) {
		if name != "" && name != node {
			return
		}
		if usage, ok := s.node.Usage(); ok {
			out = append(out, NodeUsage{node, usage})
		}
	})
	slices.SortFunc(out, func(a, b NodeUsage) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Pods returns what is known of the pods of a namespace, or all, and of one name, or all, by namespace and name. Of a pod that is told, all running
// containers are known.
func (k *Known) Pods(namespace, name string, now time.Time) []PodUsage {
	var out []PodUsage
	k.each(now, func(_ string, s series) {
		for pod, containers := range s.pods {
			if namespace != "" && namespace != pod.Namespace || name != "" && name != pod.Name {
				continue
			}
			if usage, ok := podUsage(pod, containers); ok {
				out = append(out, usage)
			}
		}
	})
	slices.SortFunc(out, func(a, b PodUsage) int { return a.compare(b.Pod) })
	return out
}

func (k *Known) each(now time.Time, f func(node string, s series)) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for name, s := range k.nodes {
		if now.Sub(s.heard) <= k.maxAge {
			f(name, s)
		}
	}
}

func podUsage(pod Pod, containers map[string]Series) (PodUsage, bool) {
	out := PodUsage{Pod: pod, Containers: make(map[string]Usage, len(containers))}
	for name, s := range containers {
		usage, ok := s.Usage()
		if !ok {
			return PodUsage{}, false
		}
		if out.Time.IsZero() || usage.Time.Before(out.Time) {
			out.Time = usage.Time
		}
		out.Window = max(out.Window, usage.Window)
		out.Containers[name] = usage
	}
	return out, len(containers) > 0
}
