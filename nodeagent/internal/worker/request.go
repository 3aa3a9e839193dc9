package worker

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// operation is what a worker was asked for, by a kubelet's names, the more important one later.
type operation int

const (
	look operation = iota // to look again
	update
	create
	kill
	terminated // not asked for: the last round of all
)

var operationNames = [...]string{look: "sync", update: "update", create: "create", kill: "kill", terminated: "terminated"}

func (o operation) String() string { return operationNames[o] }

// requests are what a worker was asked for since its last round: what is the most important of it, and when the first of it came.
type requests struct {
	mu    sync.Mutex
	what  operation
	since time.Time // zero: nothing
}

func (r *requests) add(what operation, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		r.what, r.since = what, now
		return
	}
	r.what = max(r.what, what)
}

// take empties the list. Where nothing was asked for, it is the worker itself that looks again, from now on.
func (r *requests) take(now time.Time) (what operation, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return look, now
	}
	what, since = r.what, r.since
	r.what, r.since = look, time.Time{}
	return what, since
}

// asks is what a newer pod asks for of the worker. A status that comes back from the API asks for nothing but a look.
func asks(before, now *corev1.Pod, ends bool) operation {
	switch {
	case ends:
		return kill
	case before.Generation != now.Generation, !maps.Equal(before.Labels, now.Labels), !maps.Equal(before.Annotations, now.Annotations):
		return update
	}
	return look
}
