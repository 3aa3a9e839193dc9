// Package queue holds the pods that wait for a node: the ones to try now, in
// order of priority, the ones in back-off, and the ones that no node can
// take until something changes.
package queue

import (
	"cmp"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/clock"

	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/storage"
)

// A pod that nothing woke is tried again after idle, as in Kubernetes.
const idle = 5 * time.Minute

// Backoffs are how long a pod waits after a failed attempt: First, then twice as long each time, up to Last.
type Backoffs struct{ First, Last time.Duration }

// DefaultBackoffs are Kubernetes'.
var DefaultBackoffs = Backoffs{First: time.Second, Last: 10 * time.Second}

// State says where a pod waits.
type State string

// Where pods wait.
const (
	Active        State = "active"
	Backoff       State = "backoff"
	Unschedulable State = "unschedulable"
)

// Item is a waiting pod.
type Item struct {
	Pod *corev1.Pod
	// Group is the same for pods that can be placed as one.
	Group uint64
	// Added is when the pod came; Attempts is how often it was tried.
	Added    time.Time
	Attempts int

	state  State
	ready  time.Time // end of the back-off, or of the idle wait
	taken  bool      // by Pop, until Fail or Delete
	wakes  int       // the queue's count of wakes when it was taken
	stores int       // and of changes of storage
	moves  int       // and of pods that others look at
	order  int       // among the pods that came at the same moment
	at     int       // in the heap of its group, or of those that wait
	held   bool      // not to be tried before something of its claims changes
	self   *Item     // the queue's own, where this is the copy that Pop handed out
}

func (i *Item) place() *int { return &i.at }

// group is the active items that can be placed as one, the first that came
// on top.
type group struct {
	ordered[*Item]
	at int
}

func (g *group) place() *int { return &g.at }

// Queue is safe for concurrent use. Each operation costs the logarithm of
// how many wait, or one step for each item that it moves.
type Queue struct {
	clock    clock.WithTicker
	backoffs Backoffs
	signal   chan struct{}

	mu            sync.Mutex
	items         map[types.UID]*Item
	groups        map[uint64]*group
	active        ordered[*group] // the group to pop next on top
	waiting       ordered[*Item]  // those in back-off and unschedulable ones, the first that is ready on top
	unschedulable map[*Item]bool
	claiming      map[*Item]bool // the unschedulable ones that use claims, of volumes or of devices
	sociable      map[*Item]bool // and those that go where other pods are, or are not
	also          func(pod *corev1.Pod) bool
	// counters
	wakes, stores, moves, added int
}

// New returns an empty queue.
func New(clock clock.WithTicker, backoffs Backoffs) *Queue {
	return &Queue{
		clock: clock, backoffs: backoffs, signal: make(chan struct{}, 1), items: map[types.UID]*Item{}, groups: map[uint64]*group{},
		active:        ordered[*group]{before: func(a, b *group) bool { return sooner(a.first(), b.first()) }},
		waiting:       ordered[*Item]{before: func(a, b *Item) bool { return a.ready.Before(b.ready) }},
		unschedulable: map[*Item]bool{}, claiming: map[*Item]bool{}, sociable: map[*Item]bool{},
	}
}

// AlsoSociable has the pods that match count among those that look at others, beside those that say so themselves. It is said before the first pod comes.
func (q *Queue) AlsoSociable(match func(pod *corev1.Pod) bool) { q.also = match }

// sooner says whether a is to be tried before b: by priority, then by age.
func sooner(a, b *Item) bool {
	return cmp.Or(cmp.Compare(scheduling.PodPriority(b.Pod), scheduling.PodPriority(a.Pod)),
		a.Added.Compare(b.Added), cmp.Compare(a.order, b.order)) < 0
}

// Add adds a pod, or replaces it with its newest version. A change of a
// waiting pod's spec or labels makes it worth another try.
func (q *Queue) Add(pod *corev1.Pod, group uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	item, ok := q.items[pod.UID]
	if !ok {
		q.added++
		item = &Item{Pod: pod, Group: group, Added: q.clock.Now(), order: q.added, at: outside}
		q.items[pod.UID] = item
		q.activate(item)
		return
	}
	changed := item.Group != group
	if changed && item.state == Active && !item.taken {
		q.withdraw(item)
		item.Pod, item.Group = pod, group
		q.activate(item)
		return
	}
	item.Pod, item.Group = pod, group
	switch {
	case changed && item.taken:
		item.wakes = -1 // what is being tried is not the pod of now
	case changed && item.state == Unschedulable:
		q.activate(item)
	}
}

// Hold adds a pod that has no chance before something of its claims changes: other changes do not wake it. One that is there already it only
// replaces with its newest version, as Add does.
func (q *Queue) Hold(pod *corev1.Pod, group uint64) {
	q.mu.Lock()
	item, ok := q.items[pod.UID]
	if ok && !item.held {
		q.mu.Unlock()
		q.Add(pod, group)
		return
	}
	defer q.mu.Unlock()
	if ok {
		item.Pod, item.Group = pod, group
		return
	}
	q.added++
	now := q.clock.Now()
	item = &Item{Pod: pod, Group: group, Added: now, order: q.added, at: outside, state: Unschedulable, ready: now.Add(idle), held: true}
	q.items[pod.UID] = item
	q.claiming[item] = true
	q.waiting.add(item)
	q.poke() // the popper's timer must know
}

// Delete forgets a pod.
func (q *Queue) Delete(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if item, ok := q.items[uid]; ok {
		delete(q.items, uid)
		q.withdraw(item)
	}
}

// withdraw takes an item out of the heap that it is in.
func (q *Queue) withdraw(item *Item) {
	delete(q.unschedulable, item)
	delete(q.claiming, item)
	delete(q.sociable, item)
	if item.at == outside {
		return
	}
	if item.state != Active {
		q.waiting.remove(item)
		return
	}
	g := q.groups[item.Group]
	g.remove(item)
	q.settle(item.Group, g)
}

// settle puts a group that has lost items in its place again.
func (q *Queue) settle(key uint64, g *group) {
	if g.empty() {
		q.active.remove(g)
		delete(q.groups, key)
		return
	}
	q.active.fix(g)
}

// Wake makes the pods that no node could take worth another try, once their
// back-off is over: a node came or changed, or a pod left.
func (q *Queue) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakes++
	for item := range q.unschedulable {
		q.backOff(item)
	}
}

// WakeClaiming does the same for those of the pods that use claims and that match: what they claim has changed.
func (q *Queue) WakeClaiming(match func(pod *corev1.Pod) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stores++
	for item := range q.claiming {
		if match(item.Pod) {
			q.backOff(item)
		}
	}
}

// WakeSociable does the same for those of the pods that look at others and that match: others have come, or are not as they were. It asks once for
// all that can be placed as one.
func (q *Queue) WakeSociable(match func(pod *corev1.Pod) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.moves++
	verdicts := map[uint64]bool{}
	for item := range q.sociable {
		verdict, asked := verdicts[item.Group]
		if !asked {
			verdict = match(item.Pod)
			verdicts[item.Group] = verdict
		}
		if verdict {
			q.backOff(item)
		}
	}
}

// sociable reports whether where a pod may go depends on the pods of other nodes.
func sociable(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) || len(pod.Spec.TopologySpreadConstraints) > 0
}

// Fail puts an item that Pop returned back after an attempt that found no
// node. retriable says that the attempt failed for another reason (a write
// that was refused), so that it needs no change to be worth another try.
func (q *Queue) Fail(popped *Item, retriable bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	item := popped.self
	if q.items[item.Pod.UID] != item {
		return
	}
	item.taken = false
	item.Attempts++
	item.ready = q.clock.Now().Add(q.backoffs.after(item.Attempts))
	claiming := storage.UsesClaims(item.Pod) || device.MayUse(item.Pod)
	looking := sociable(item.Pod) || q.also != nil && q.also(item.Pod)
	if retriable || item.wakes != q.wakes || claiming && item.stores != q.stores || looking && item.moves != q.moves { // something changed while it was being tried
		item.state = Backoff
		q.backOff(item)
		return
	}
	item.state, item.ready = Unschedulable, q.clock.Now().Add(idle)
	q.unschedulable[item] = true
	if claiming {
		q.claiming[item] = true
	}
	if looking {
		q.sociable[item] = true
	}
	q.waiting.add(item)
	q.poke() // the popper's timer must know
}

// backOff moves an item to the active ones when its back-off is over.
func (q *Queue) backOff(item *Item) {
	until := item.ready
	if item.state == Unschedulable {
		until = item.ready.Add(-idle).Add(q.backoffs.after(item.Attempts))
	}
	if !until.After(q.clock.Now()) {
		q.activate(item)
		return
	}
	q.withdraw(item)
	item.state, item.ready = Backoff, until
	q.waiting.add(item)
	q.poke() // the popper's timer must know
}

// after is the back-off after so many attempts.
func (b Backoffs) after(attempts int) time.Duration {
	if attempts == 0 { // it was held, and never tried
		return 0
	}
	wait := b.First
	for range attempts - 1 {
		if wait >= b.Last/2 {
			return b.Last
		}
		wait *= 2
	}
	return min(wait, b.Last)
}

func (q *Queue) activate(item *Item) {
	q.withdraw(item)
	item.state, item.held = Active, false
	g, ok := q.groups[item.Group]
	if !ok {
		g = &group{ordered[*Item]{before: sooner}, outside}
		q.groups[item.Group] = g
	}
	g.add(item)
	if g.at == outside {
		q.active.add(g)
	} else {
		q.active.fix(g)
	}
	q.poke()
}

func (q *Queue) poke() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// Pop waits for the pod of the highest priority that came first, and returns
// it with all active pods of its group, at most limit. It returns nil when
// ctx ends. The items do not change any more. Each must be given back with
// Fail, or its pod deleted.
func (q *Queue) Pop(ctx context.Context, limit int) []*Item {
	for {
		items, wait := q.take(limit)
		if len(items) > 0 {
			return items
		}
		timer := q.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-q.signal:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// take returns the next group, or how long to wait for the next back-off to end.
func (q *Queue) take(limit int) ([]*Item, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait := q.expire()
	if q.active.empty() {
		return nil, wait
	}
	g := q.active.first()
	key := g.first().Group
	var items []*Item
	for len(items) < limit && !g.empty() {
		item := g.first()
		g.remove(item)
		item.taken, item.wakes, item.stores, item.moves = true, q.wakes, q.stores, q.moves
		copied := *item // the queue's own follows the pod while this one is being tried
		copied.self = item
		items = append(items, &copied)
	}
	q.settle(key, g)
	return items, 0
}

// expire activates the items whose wait is over and returns the time to the
// next one.
func (q *Queue) expire() time.Duration {
	now := q.clock.Now()
	for !q.waiting.empty() {
		item := q.waiting.first()
		if left := item.ready.Sub(now); left > 0 {
			return left
		}
		q.activate(item)
	}
	return idle
}

// Lookup returns where a pod waits and how often it was tried; "" where it
// does not wait.
func (q *Queue) Lookup(uid types.UID) (State, int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	item, ok := q.items[uid]
	if !ok {
		return "", 0
	}
	return item.state, item.Attempts
}

// Counts returns how many pods wait in each state.
func (q *Queue) Counts() map[State]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	counts := map[State]int{Active: 0, Backoff: 0, Unschedulable: 0}
	for _, item := range q.items {
		counts[item.state]++
	}
	return counts
}
