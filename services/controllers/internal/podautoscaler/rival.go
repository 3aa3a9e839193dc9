package podautoscaler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// rivals knows which pods each autoscaler scales, and so whether two scale the same ones. It is safe for concurrent use.
type rivals struct {
	mu sync.Mutex
	of map[string]map[string]claim // by namespace and the autoscaler's key
	// index files the keys of a namespace under a label that all their pods have; those without such a one under none.
	index map[string]map[label][]string
}

type claim struct {
	selector labels.Selector
	text     string
	by       label
}

type label struct{ key, value string }

func newRivals() *rivals {
	return &rivals{of: map[string]map[string]claim{}, index: map[string]map[label][]string{}}
}

// claim notes what an autoscaler selects.
func (r *rivals) claim(namespace, key string, selector labels.Selector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := selector.String()
	if known, ok := r.of[namespace][key]; ok && known.text == text {
		return
	}
	r.drop(namespace, key)
	if r.of[namespace] == nil {
		r.of[namespace], r.index[namespace] = map[string]claim{}, map[label][]string{}
	}
	c := claim{selector, text, common(selector)}
	r.of[namespace][key] = c
	r.index[namespace][c.by] = append(r.index[namespace][c.by], key)
}

// forget drops an autoscaler that has gone.
func (r *rivals) forget(namespace, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(namespace, key)
}

func (r *rivals) drop(namespace, key string) {
	c, ok := r.of[namespace][key]
	if !ok {
		return
	}
	delete(r.of[namespace], key)
	left := slices.DeleteFunc(r.index[namespace][c.by], func(k string) bool { return k == key })
	r.index[namespace][c.by] = left
	if len(left) == 0 {
		delete(r.index[namespace], c.by)
	}
	if len(r.of[namespace]) == 0 {
		delete(r.of, namespace)
		delete(r.index, namespace)
	}
}

// common returns a label that every pod has that the selector selects, or none.
func common(selector labels.Selector) label {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				return label{r.Key(), values[0]}
			}
		}
	}
	return label{}
}

// over returns the keys of the autoscalers that scale any of the pods, which are of one namespace.
func (r *rivals) over(namespace string, pods []*corev1.Pod) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[string]bool{}
	for _, p := range pods {
		match := func(under label) {
			for _, key := range r.index[namespace][under] {
				if !found[key] && r.of[namespace][key].selector.Matches(labels.Set(p.Labels)) {
					found[key] = true
				}
			}
		}
		match(label{})
		for k, v := range p.Labels {
			match(label{k, v})
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// selected parses the selector of a target's scale. It returns the pods that it selects of those, or what is wrong with it.
func (r *rivals) selected(namespace, key, selector string, pods []*corev1.Pod) (labels.Selector, []*corev1.Pod, *Problem) {
	if selector == "" {
		return nil, nil, &Problem{"SelectorRequired", "InvalidSelector", "selector is required", "the HPA target's scale is missing a selector"}
	}
	parsed, err := labels.Parse(selector)
	if err != nil {
		text := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err)
		return nil, nil, &Problem{"InvalidSelector", "InvalidSelector", text, text}
	}
	r.claim(namespace, key, parsed)
	var own []*corev1.Pod
	for _, p := range pods {
		if parsed.Matches(labels.Set(p.Labels)) {
			own = append(own, p)
		}
	}
	// In one order, so that what is wrong with the first one is told of the same one every time.
	slices.SortFunc(own, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	if all := r.over(namespace, own); len(all) > 1 {
		text := fmt.Sprintf("pods by selector %s are controlled by multiple HPAs: %v", selector, all)
		return nil, nil, &Problem{"AmbiguousSelector", "AmbiguousSelector", text, text}
	}
	return parsed, own, nil
}
