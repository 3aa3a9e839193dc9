package netpol

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// world is what the enforcer was told of the cluster. It keeps the pods of every selection of every policy, so that a change of a pod costs
// a look at each selection, and the tables of those that it is in.
type world struct {
	pods       map[types.NamespacedName]*pod
	labelled   map[label]map[types.NamespacedName]*pod // pods by each of their labels
	namespaces map[string]labels.Set
	policies   map[string]map[string]*policy // by namespace and name
	selections map[string]*selected
	asking     map[label]map[string]*selected    // selections by the label that they ask of their pods
	problems   map[types.NamespacedName][]string // of policies
}

// selected is a selection with its pods.
type selected struct {
	*selection
	users   int // rules that use it
	members map[types.NamespacedName]*pod
}

// label is a label and its value. The empty one stands for none: for pods, that is all of them, and for selections those that ask for no
// single value of a label.
type label struct{ key, value string }

func newWorld() *world {
	return &world{
		labelled:   map[label]map[types.NamespacedName]*pod{},
		asking:     map[label]map[string]*selected{},
		pods:       map[types.NamespacedName]*pod{},
		namespaces: map[string]labels.Set{},
		policies:   map[string]map[string]*policy{},
		selections: map[string]*selected{},
		problems:   map[types.NamespacedName][]string{},
	}
}

// effect is what a change asks to be looked at again: tables of selections, and who is selected by the policies of a namespace.
type effect struct {
	selections []string
	namespace  string
}

// update takes an object in, or out, if gone. An older state than the known one changes nothing.
func (w *world) update(obj any, gone bool) effect {
	switch o := obj.(type) {
	case *corev1.Pod:
		return w.updatePod(podOf(o), gone)
	case *corev1.Namespace:
		return w.updateNamespace(o, gone)
	case *networkingv1.NetworkPolicy:
		return w.updatePolicy(o, gone)
	}
	return effect{}
}

func (w *world) updatePod(p *pod, gone bool) effect {
	key, old := p.key(), w.pods[p.key()]
	switch {
	case gone && (old == nil || old.uid != p.uid), !gone && old != nil && (p.revision < old.revision || old.same(p)):
		return effect{}
	case gone:
		delete(w.pods, key)
		p = nil
	default:
		w.pods[key] = p
	}
	about := map[label]bool{{}: true} // whose selections it may enter or leave
	if old != nil {
		for k, v := range old.labels {
			about[label{k, v}] = true
			delete(w.labelled[label{k, v}], key)
			if len(w.labelled[label{k, v}]) == 0 {
				delete(w.labelled, label{k, v})
			}
		}
	}
	if p != nil {
		for k, v := range p.labels {
			about[label{k, v}] = true
			if w.labelled[label{k, v}] == nil {
				w.labelled[label{k, v}] = map[types.NamespacedName]*pod{}
			}
			w.labelled[label{k, v}][key] = p
		}
	}
	var out effect
	for l := range about {
		for _, s := range w.asking[l] {
			if s.put(key, p, w.namespaces[key.Namespace]) {
				out.selections = append(out.selections, s.key)
			}
		}
	}
	return out
}

// put takes a pod's state into account (nil: it is gone) and reports whether that changed the selection.
func (s *selected) put(key types.NamespacedName, p *pod, of labels.Set) bool {
	old := s.members[key]
	if p == nil || !s.matches(p, of) {
		delete(s.members, key)
		return old != nil
	}
	s.members[key] = p
	return old == nil || !slices.Equal(old.addresses, p.addresses) || !slices.Equal(old.ports, p.ports)
}

func (w *world) updateNamespace(o *corev1.Namespace, gone bool) effect {
	of := labels.Set(o.Labels)
	if of == nil {
		of = labels.Set{}
	}
	if old, ok := w.namespaces[o.Name]; ok != gone && (gone || labels.Equals(old, of)) {
		return effect{}
	}
	if gone {
		delete(w.namespaces, o.Name)
	} else {
		w.namespaces[o.Name] = of
	}
	var out effect
	for _, s := range w.selections {
		if s.namespaces == nil {
			continue
		}
		changed := false
		for key, p := range w.pods {
			if key.Namespace == o.Name {
				changed = s.put(key, p, w.namespaces[o.Name]) || changed
			}
		}
		if changed {
			out.selections = append(out.selections, s.key)
		}
	}
	return out
}

func (w *world) updatePolicy(o *networkingv1.NetworkPolicy, gone bool) effect {
	old := w.policies[o.Namespace][o.Name]
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	if old == nil && gone || old != nil && !gone && revision(o) != 0 && revision(o) <= old.revision {
		return effect{}
	}
	var now *policy
	delete(w.problems, key)
	if !gone {
		var problems []string
		if now, problems = parsePolicy(o); len(problems) > 0 {
			w.problems[key] = problems
		}
		w.use(now)
		if w.policies[o.Namespace] == nil {
			w.policies[o.Namespace] = map[string]*policy{}
		}
		w.policies[o.Namespace][o.Name] = now
	} else {
		delete(w.policies[o.Namespace], o.Name)
		if len(w.policies[o.Namespace]) == 0 {
			delete(w.policies, o.Namespace)
		}
	}
	if old != nil {
		w.release(old)
	}
	return effect{namespace: o.Namespace}
}

// use fills the selections that a policy needs and that no other has.
func (w *world) use(p *policy) {
	for _, d := range directions {
		for _, s := range selections(d, p.rules[d]) {
			have := w.selections[s.key]
			if have == nil {
				have = &selected{selection: s, members: map[types.NamespacedName]*pod{}}
				candidates := w.pods
				if s.asks != (label{}) {
					candidates = w.labelled[s.asks]
				}
				for key, p := range candidates {
					have.put(key, p, w.namespaces[key.Namespace])
				}
				w.selections[s.key] = have
				if w.asking[s.asks] == nil {
					w.asking[s.asks] = map[string]*selected{}
				}
				w.asking[s.asks][s.key] = have
			}
			have.users++
		}
	}
}

func (w *world) release(p *policy) {
	for _, d := range directions {
		for _, s := range selections(d, p.rules[d]) {
			if have := w.selections[s.key]; have != nil {
				if have.users--; have.users == 0 {
					delete(w.selections, s.key)
					delete(w.asking[s.asks], s.key)
					if len(w.asking[s.asks]) == 0 {
						delete(w.asking, s.asks)
					}
				}
			}
		}
	}
}

func (w *world) members(s *selection) []*pod {
	have := w.selections[s.key]
	if have == nil {
		return nil
	}
	return slices.Collect(maps.Values(have.members))
}

// group is the pods of this node for which the same rules hold in one direction, with their table.
type group struct {
	direction Direction
	policies  []*policy
	self      []namedPort // if some rule asks for names of the pod's own ports
	uses      map[string]bool
	table     Table
	ranges    int
}

// groupOf finds the policies that isolate a pod in a direction, and a key that is equal for equal rules; "" if it is not isolated.
func (w *world) groupOf(p *pod, d Direction) (string, *group) {
	g := &group{direction: d}
	names := false
	for _, policy := range w.policies[p.namespace] {
		if !policy.isolates[d] || !policy.selects.Matches(p.labels) {
			continue
		}
		g.policies = append(g.policies, policy)
		for i := range policy.rules[d] {
			names = names || d == Ingress && policy.rules[d][i].hasNames()
		}
	}
	if len(g.policies) == 0 {
		return "", nil
	}
	slices.SortFunc(g.policies, func(a, b *policy) int { return strings.Compare(a.name, b.name) })
	var key strings.Builder
	key.WriteString(d.String() + " " + p.namespace)
	for _, policy := range g.policies {
		key.WriteString(" " + policy.name)
	}
	if names {
		g.self = p.ports
		key.WriteString(" " + describe(p.ports))
	}
	return key.String(), g
}

// fill computes the group's table.
func (g *group) fill(w *world) {
	var rules []rule
	for _, p := range g.policies {
		rules = append(rules, p.rules[g.direction]...)
	}
	g.uses = map[string]bool{}
	for _, s := range selections(g.direction, rules) {
		g.uses[s.key] = true
	}
	g.table, g.ranges = compile(g.direction, rules, g.self, w.members)
}

// current says whether a group's table is still that of its policies and of what they select.
func (g *group) current(now *group, changed map[string]bool) bool {
	if !slices.Equal(g.policies, now.policies) {
		return false
	}
	for key := range g.uses {
		if changed[key] {
			return false
		}
	}
	return true
}
