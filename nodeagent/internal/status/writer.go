// Package status writes pods' statuses to the API: many in one call, each
// only when it says something new, the newest only where several wait.
package status

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/pod"
)

const (
	// gather is how long a write waits for others to share its call.
	gather = 3 * time.Millisecond
	// most is how many writes share a call.
	most = 500
	// retryBase and retryMax bound the pause after a failed call.
	retryBase = 100 * time.Millisecond
	retryMax  = 5 * time.Second
)

// Writer sends statuses and final deletions. One call is in flight at a time.
type Writer struct {
	client  *object.Client
	clock   clock.Clock
	written func(pods int)
	synced  func(took time.Duration)

	mu    sync.Mutex
	dirty map[types.UID]*entry
	order []types.UID
	last  map[types.UID]*corev1.Pod // as the API last answered
	wake  chan struct{}

	sending bool            // a call is in flight
	waiting []chan struct{} // closed when nothing is left to be written
}

// entry is what is to be written of one pod: its status first, then its end.
type entry struct {
	ctx    context.Context
	pod    *corev1.Pod
	status *corev1.PodStatus
	since  time.Time // when the API began to lack a status
	remove bool
}

// New returns a Writer; written, which may be nil, is told of each call's size, and synced, which may be nil too, how long the API did not have a status
// that it has now.
func New(client *object.Client, clk clock.Clock, written func(pods int), synced func(took time.Duration)) *Writer {
	if written == nil {
		written = func(int) {}
	}
	if synced == nil {
		synced = func(time.Duration) {}
	}
	return &Writer{
		client: client, clock: clk, written: written, synced: synced,
		dirty: map[types.UID]*entry{}, last: map[types.UID]*corev1.Pod{}, wake: make(chan struct{}, 1),
	}
}

// Set asks for the status to be written, in the trace of ctx, unless the API
// has it already.
func (w *Writer) Set(ctx context.Context, p *corev1.Pod, s corev1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if waiting := w.dirty[p.UID]; waiting != nil && waiting.status != nil {
		waiting.status, waiting.pod = &s, p
		return
	}
	if pod.Equal(&w.newest(p).Status, &s) {
		return
	}
	e := w.add(ctx, p)
	e.status, e.since = &s, w.clock.Now()
}

// Delete asks for the pod to be removed from the API, after its status.
func (w *Writer) Delete(ctx context.Context, p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(ctx, p).remove = true
}

// Forget drops what is held of a pod that has left the API.
func (w *Writer) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.dirty, uid)
	delete(w.last, uid)
}

// Written waits until everything that was asked for so far is written, or ctx ends.
func (w *Writer) Written(ctx context.Context) error {
	w.mu.Lock()
	if len(w.order) == 0 && !w.sending {
		w.mu.Unlock()
		return nil
	}
	written := make(chan struct{})
	w.waiting = append(w.waiting, written)
	w.mu.Unlock()
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Writer) add(ctx context.Context, p *corev1.Pod) *entry {
	e := w.dirty[p.UID]
	if e == nil {
		e = &entry{ctx: context.WithoutCancel(ctx)}
		w.dirty[p.UID] = e
		w.order = append(w.order, p.UID)
	}
	e.pod = p
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return e
}

// newest returns the newer of the given object and what the API answered to
// the last write, which the informer may not have yet.
func (w *Writer) newest(p *corev1.Pod) *corev1.Pod {
	if last := w.last[p.UID]; last != nil && revision(last) > revision(p) {
		return last
	}
	return p
}

func revision(p *corev1.Pod) uint64 {
	n, _ := strconv.ParseUint(p.ResourceVersion, 10, 64)
	return n
}

// Run writes until ctx ends, and then what still waits.
func (w *Writer) Run(ctx context.Context) error {
	retry := retryBase
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			_ = w.flush(last) // the API may be gone before us
			return ctx.Err()
		case <-w.wake:
		}
		w.pause(ctx, gather)
		for ctx.Err() == nil {
			more := w.flush(ctx)
			if more == nil {
				retry = retryBase
				if w.idle() {
					break
				}
				continue
			}
			slog.Warn("write pod statuses", "err", more)
			w.pause(ctx, retry)
			retry = min(2*retry, retryMax)
		}
	}
}

func (w *Writer) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.order) == 0
}

func (w *Writer) pause(ctx context.Context, d time.Duration) {
	timer := w.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// flush sends one call. The error is that of a call, or an item, to repeat.
func (w *Writer) flush(ctx context.Context) error {
	entries := w.take()
	defer w.sent()
	if len(entries) == 0 {
		return nil
	}
	pods := object.For(w.client, object.Pod)
	items := make([]object.Item, 0, len(entries))
	spans := make([]trace.Span, 0, len(entries))
	for _, e := range entries {
		itemCtx, span := otel.Tracer("nodeagent").Start(e.ctx, "status write", trace.WithAttributes(obs.ObjectAttributes("Pod", e.pod)...))
		spans = append(spans, span)
		if e.status != nil {
			items = append(items, pods.UpdateItem(w.merged(e), "status").Traced(itemCtx))
			continue
		}
		zero := int64(0)
		items = append(items, pods.DeleteItem(e.pod.Namespace, e.pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &e.pod.UID},
		}).Traced(itemCtx))
	}
	results, err := w.client.Batch(obs.Untraced(ctx), items, false)
	w.written(len(items))
	for i, e := range entries {
		itemErr := err
		var stored *corev1.Pod
		if err == nil && results[i].Err != nil {
			itemErr = results[i].Err
		} else if err == nil && e.status != nil {
			stored, itemErr = object.Decode(object.Pod, results[i].Object)
		}
		obs.End(spans[i], itemErr)
		if again := w.settle(ctx, e, stored, itemErr); again != nil {
			err = again
		}
	}
	return err
}

// take removes up to most entries from those that wait, oldest first.
func (w *Writer) take() []*entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.order), most)
	entries := make([]*entry, 0, n)
	for _, uid := range w.order[:n] {
		if e := w.dirty[uid]; e != nil {
			entries = append(entries, e)
			delete(w.dirty, uid)
		}
	}
	w.order = append(w.order[:0:0], w.order[n:]...)
	w.sending = true
	return entries
}

// sent ends a call.
func (w *Writer) sent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = false
	if len(w.order) > 0 {
		return
	}
	for _, written := range w.waiting {
		close(written)
	}
	w.waiting = nil
}

// merged is the newest known object with the entry's status; conditions that
// are not the agent's are the object's own.
func (w *Writer) merged(e *entry) *corev1.Pod {
	w.mu.Lock()
	base := w.newest(e.pod)
	w.mu.Unlock()
	out := base.DeepCopy()
	s := e.status.DeepCopy()
	var conditions []corev1.PodCondition
	for _, c := range s.Conditions {
		if agents[c.Type] || ended(c) {
			conditions = append(conditions, c)
		}
	}
	for _, c := range base.Status.Conditions {
		if !agents[c.Type] && !has(conditions, c.Type) {
			conditions = append(conditions, c)
		}
	}
	s.Conditions = conditions
	s.NominatedNodeName = base.Status.NominatedNodeName
	if pod.Finished(base) {
		s.Phase, s.Reason, s.Message = base.Status.Phase, base.Status.Reason, base.Status.Message
	}
	out.Status = *s
	return out
}

// agents are the conditions that the node agent writes.
var agents = map[corev1.PodConditionType]bool{
	corev1.PodReadyToStartContainers: true, corev1.PodInitialized: true, corev1.ContainersReady: true, corev1.PodReady: true, corev1.PodScheduled: true,
	corev1.PodResizePending: true, corev1.PodResizeInProgress: true, corev1.AllContainersRestarting: true,
}

// ended says whether a condition tells that the agent itself ends the pod; others disrupt pods as well.
func ended(c corev1.PodCondition) bool {
	return c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonTerminationByKubelet
}

func has(conditions []corev1.PodCondition, kind corev1.PodConditionType) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return true
		}
	}
	return false
}

// settle draws the consequences of one item's outcome. It returns the error
// of an item that is to be sent again.
func (w *Writer) settle(ctx context.Context, e *entry, stored *corev1.Pod, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && e.status != nil:
		w.last[e.pod.UID] = stored
		w.synced(w.clock.Since(e.since))
		if e.remove {
			w.again(e, false)
		}
		return nil
	case err == nil, apierrors.IsNotFound(err):
		return nil // removed, by us or before us
	case apierrors.IsConflict(err) && e.status == nil:
		return nil // another pod has taken the name
	case apierrors.IsConflict(err):
		w.mu.Unlock()
		fresh, getErr := object.For(w.client, object.Pod).Get(obs.Untraced(ctx), e.pod.Namespace, e.pod.Name)
		w.mu.Lock()
		switch {
		case apierrors.IsNotFound(getErr) || apierrors.IsForbidden(getErr) || getErr == nil && fresh.UID != e.pod.UID:
			return nil // it is gone, and a node has nothing to do with a pod that is gone
		case getErr != nil:
			w.again(e, true)
			return getErr
		}
		w.last[e.pod.UID] = fresh
		w.again(e, true)
		return nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		slog.ErrorContext(e.ctx, "the API refuses a pod's status", "namespace", e.pod.Namespace, "name", e.pod.Name, "uid", e.pod.UID, "err", err)
		if e.remove && e.status != nil {
			w.again(e, false)
		}
		return nil
	}
	w.again(e, true)
	return err
}

// again puts an entry back; a newer status that came meanwhile wins.
func (w *Writer) again(e *entry, withStatus bool) {
	back := w.dirty[e.pod.UID]
	if back == nil {
		back = &entry{ctx: e.ctx, pod: e.pod}
		w.dirty[e.pod.UID] = back
		w.order = append(w.order, e.pod.UID)
	}
	if withStatus {
		if back.status == nil {
			back.status = e.status
		}
		back.since = e.since
	}
	back.remove = back.remove || e.remove
}
