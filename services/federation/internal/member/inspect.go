package member

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/carry"
)

// Probe asks whether the member is ready to serve.
func (m *Member) Probe(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := m.finder.RESTClient().Get().AbsPath("/readyz").Do(ctx).Raw()
	return err
}

const (
	// inspectTimeout bounds all that is asked of a member about itself.
	inspectTimeout = time.Minute
	// page is how many nodes or pods are asked for at a time.
	page = 500
)

// Facts are what a member says about itself.
type Facts struct {
	Version                string
	APIs                   []api.ServedAPI
	Nodes                  *api.Nodes
	Allocatable, Allocated api.Resources
	// Room says why resources are not known, where they are not.
	Room error
}

// Inspect asks the member about itself.
func (m *Member) Inspect(ctx context.Context) (Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	facts := Facts{}
	version, err := m.finder.ServerVersion()
	if err != nil {
		return facts, fmt.Errorf("ask for its version: %w", err)
	}
	facts.Version = version.GitVersion
	_, lists, err := m.finder.ServerGroupsAndResources()
	if err != nil && len(lists) == 0 {
		return facts, fmt.Errorf("ask for its kinds: %w", err)
	}
	facts.APIs = served(lists)
	facts.Room = m.count(ctx, &facts)
	return facts, nil
}

// served are the kinds that can be carried.
func served(lists []*metav1.APIResourceList) []api.ServedAPI {
	var all []api.ServedAPI
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		one := api.ServedAPI{GroupVersion: list.GroupVersion}
		for _, r := range list.APIResources {
			if !isSubresource(r.Name) && slices.Contains(r.Verbs, "patch") && slices.Contains(r.Verbs, "watch") && carry.KindCarriable(gv.Group, r.Kind) == nil && !slices.Contains(one.Kinds, r.Kind) {
				one.Kinds = append(one.Kinds, r.Kind)
			}
		}
		if len(one.Kinds) > 0 {
			slices.Sort(one.Kinds)
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b api.ServedAPI) int { return cmp.Compare(a.GroupVersion, b.GroupVersion) })
	return all
}

// count adds up nodes and what pods ask for.
func (m *Member) count(ctx context.Context, facts *Facts) error {
	usable := map[string]bool{}
	nodes, allocatable, allocated := &api.Nodes{}, api.Resources{}, api.Resources{}
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := m.typed.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return fmt.Errorf("list its nodes: %w", err)
		}
		for i := range list.Items {
			n := &list.Items[i]
			nodes.Total++
			if !ready(n) {
				continue
			}
			nodes.Ready++
			if n.Spec.Unschedulable {
				continue
			}
			usable[n.Name] = true
			for name, q := range n.Status.Allocatable {
				add(allocatable, string(name), q)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	options = metav1.ListOptions{Limit: page}
	for {
		list, err := m.typed.CoreV1().Pods("").List(ctx, options)
		if err != nil {
			return fmt.Errorf("list its pods: %w", err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			// Those that wait for a node will want it, too.
			if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.Spec.NodeName != "" && !usable[p.Spec.NodeName] {
				continue
			}
			add(allocated, string(corev1.ResourcePods), one)
			for name, q := range carry.Requests(&p.Spec) {
				add(allocated, name, q)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	facts.Nodes, facts.Allocatable, facts.Allocated = nodes, written(allocatable), written(allocated)
	return nil
}

var one = resource.MustParse("1")

func add(sum api.Resources, name string, q resource.Quantity) {
	total := sum[name]
	total.Add(q)
	sum[name] = total
}

// written are resources as they are read again, so that they compare.
func written(r api.Resources) api.Resources {
	for name, q := range r {
		r[name] = resource.MustParse(q.String())
	}
	return r
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
