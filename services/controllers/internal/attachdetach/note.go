package attachdetach

import (
	"context"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
)

// ledger is what is known of noted volumes that no object says. It has a lock of its own, which nobody holds while he takes another.
type ledger struct {
	mu *sync.Mutex
	// left are volumes that nodes had, and used, whose Nodes are gone: the machine may use them still.
	left map[string]map[corev1.UniqueVolumeName]bool
	// heard is what the statuses of nodes said when they were last heard of: the cache may have lost a Node of which left says nothing yet.
	heard map[string][]corev1.UniqueVolumeName
	// known are the Nodes whose end was not heard of.
	known map[string]types.UID
	// waiting are nodes that look for a volume which one node has alone.
	waiting map[corev1.UniqueVolumeName]map[string]bool
}

func newLedger() ledger {
	return ledger{
		mu: &sync.Mutex{}, left: map[string]map[corev1.UniqueVolumeName]bool{}, heard: map[string][]corev1.UniqueVolumeName{},
		known: map[string]types.UID{}, waiting: map[corev1.UniqueVolumeName]map[string]bool{},
	}
}

// notes are the noted volumes of a node, which may be gone.
func (c *attacher) notes(name string, node *corev1.Node) []corev1.UniqueVolumeName {
	out := notes(node)
	c.noted.mu.Lock()
	defer c.noted.mu.Unlock()
	for unique := range c.noted.left[name] {
		if !slices.Contains(out, unique) {
			out = append(out, unique)
		}
	}
	return out
}

// notedElsewhere are the other nodes that have a noted volume.
func (c *attacher) notedElsewhere(node string, unique corev1.UniqueVolumeName) []Attachment {
	has := map[string]bool{}
	for _, n := range c.nodes.ByIndex(byNote, string(unique)) {
		has[n.Name] = true
	}
	c.noted.mu.Lock()
	for name, left := range c.noted.left {
		if left[unique] {
			has[name] = true
		}
	}
	for name, said := range c.noted.heard {
		if slices.Contains(said, unique) {
			has[name] = true
		}
	}
	c.noted.mu.Unlock()
	delete(has, node)
	var out []Attachment
	for name := range has {
		out = append(out, Attachment{Node: name, Attached: true})
	}
	return out
}

// wait has the node looked at again when another one loses a volume.
func (c *attacher) wait(node string, unique corev1.UniqueVolumeName) {
	c.noted.mu.Lock()
	defer c.noted.mu.Unlock()
	if c.noted.waiting[unique] == nil {
		c.noted.waiting[unique] = map[string]bool{}
	}
	c.noted.waiting[unique][node] = true
}

// heard follows what the status of a node says of noted volumes. At no moment is a volume that was neither freed nor given away unknown.
func (c *attacher) heard(old, new *corev1.Node) {
	before, after := notes(old), notes(new)
	var freed []corev1.UniqueVolumeName
	for _, unique := range before {
		switch {
		case slices.Contains(after, unique):
		case (new == nil || new.UID != old.UID) && slices.Contains(old.Status.VolumesInUse, unique):
			c.leave(old.Name, unique, true)
		default:
			freed = append(freed, unique)
		}
	}
	c.said(old, new, after)
	for _, unique := range after {
		c.release(new.Name, Volume{Name: unique, Noted: true})
		c.has(new.Name, unique)
	}
	for _, unique := range freed {
		c.freed(old.Name, unique)
	}
}

// said keeps what the status of a node was heard to say.
func (c *attacher) said(old, new *corev1.Node, after []corev1.UniqueVolumeName) {
	c.noted.mu.Lock()
	defer c.noted.mu.Unlock()
	if new == nil {
		delete(c.noted.known, old.Name)
		delete(c.noted.heard, old.Name)
		return
	}
	c.noted.known[new.Name] = new.UID
	if c.noted.heard[new.Name] = after; len(after) == 0 {
		delete(c.noted.heard, new.Name)
	}
}

// upToDate reports whether what was heard of a node is about this Node of its name; nil is none.
func (c *attacher) upToDate(name string, node *corev1.Node) bool {
	c.noted.mu.Lock()
	defer c.noted.mu.Unlock()
	if node == nil {
		return c.noted.known[name] == ""
	}
	return c.noted.known[name] == node.UID
}

// has notes that the status of a node says what had to be known without it.
func (c *attacher) has(node string, unique corev1.UniqueVolumeName) {
	c.leave(node, unique, false)
	c.noted.mu.Lock()
	defer c.noted.mu.Unlock()
	if waiting := c.noted.waiting[unique]; waiting != nil {
		if delete(waiting, node); len(waiting) == 0 {
			delete(c.noted.waiting, unique)
		}
	}
}

// leave says whether a node has a volume though there is nothing that says so.
func (c *attacher) leave(node string, unique corev1.UniqueVolumeName, has bool) {
	c.noted.mu.Lock()
	defer c.noted.mu.Unlock()
	left := c.noted.left[node]
	switch {
	case has && left == nil:
		c.noted.left[node] = map[corev1.UniqueVolumeName]bool{unique: true}
	case has:
		left[unique] = true
	default:
		if delete(left, unique); len(left) == 0 {
			delete(c.noted.left, node)
		}
	}
}

// forget ends what is known of a volume of a node. Where the status of the node has said it, what it says now is heard anyway.
func (c *attacher) forget(node string, unique corev1.UniqueVolumeName) {
	c.leave(node, unique, false)
	c.freed(node, unique)
}

// freed looks at the nodes that wait for a volume which one has lost.
func (c *attacher) freed(node string, unique corev1.UniqueVolumeName) {
	c.noted.mu.Lock()
	waiting := c.noted.waiting[unique]
	delete(c.noted.waiting, unique)
	c.noted.mu.Unlock()
	var cause trace.SpanContext
	if n, ok := c.nodes.Get("", node); ok {
		cause = c.nodes.Trace(n)
	}
	for name := range waiting {
		c.queue.Enqueue(name, cause)
	}
}

// note takes the noted volumes of a plan for the node, and has the plan's status call attached what it could take. What was taken stays so until the
// status is heard of, or settle has found that it never was written.
func (c *attacher) note(name string, s *Situation, p *Plan) {
	for _, v := range p.Attach {
		if !v.Noted {
			continue
		}
		// Of a Node that was heard of, it will be heard how it ended with what it is now given.
		if !c.upToDate(name, s.Node) || !c.reserve(name, v) { // two nodes asked at the same time
			p.After = soon
			continue
		}
		p.note(s.Node, v)
	}
}

// settle ends the reservations of a node for volumes that it does not want any more, or cannot get: a write that nobody answered may have brought them about or not,
// and until it is known no other node may have them. Nor may it while a Node of this name has ended of which it is not heard what it used.
func (c *attacher) settle(ctx context.Context, name string, s *Situation) error {
	var open []corev1.UniqueVolumeName
	c.mu.Lock()
	for lock, node := range c.made {
		unique := corev1.UniqueVolumeName(lock)
		if _, wanted := s.Wanted[lock]; node == name && isNote(unique) && (!wanted || s.Node == nil) {
			open = append(open, unique)
		}
	}
	c.mu.Unlock()
	if len(open) == 0 {
		return nil
	}
	node, err := object.For(c.client, object.Node).Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		node = nil
	} else if err != nil {
		return err
	}
	if !c.upToDate(name, node) {
		return nil // the node is looked at again when that is heard of
	}
	for _, unique := range open {
		if slices.Contains(notes(node), unique) {
			continue // the cache is about to hear of it
		}
		c.release(name, Volume{Name: unique, Noted: true})
		c.freed(name, unique)
	}
	return nil
}
