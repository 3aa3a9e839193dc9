// Package election lets one process at a time write what needs writing once, by a Lease object of the API.
//
// The roles of the control plane elect their leaders in PostgreSQL. This one takes requests from outside, and so it gets no way to the database. It needs
// no fence either: two processes that both take themselves for the leader write the same.
package election

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"howdah.dev/kit/object"
)

// How long a leader that says nothing is believed in, how long it tries to say something before it steps down, and how often it tries.
const (
	believed = 15 * time.Second
	trying   = 10 * time.Second
	every    = 2 * time.Second
)

// Election is one process's part.
type Election struct{ lock *lock }

// New returns the part of a holder in the election by a Lease.
func New(client *object.Client, namespace, name, holder string) *Election {
	return &Election{&lock{leases: object.For(client, object.Lease), namespace: namespace, name: name, holder: holder}}
}

// Run calls lead while this process leads, until ctx ends or lead does. lead's context ends with the leadership; then Run waits for it anew.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context) error) error {
	for ctx.Err() == nil {
		ended, err := e.term(ctx, lead)
		if ended {
			return err
		}
	}
	return ctx.Err()
}

// term waits for the leadership and leads once. It answers whether lead ended by itself, and with what.
func (e *Election) term(ctx context.Context, lead func(context.Context) error) (ended bool, err error) {
	term, stop := context.WithCancel(ctx)
	defer stop()
	begun, done := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, LeaseDuration: believed, RenewDeadline: trying, RetryPeriod: every, ReleaseOnCancel: true, Name: e.lock.name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				close(begun)
				defer close(done)
				err = lead(leading)
				ended = leading.Err() == nil
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return true, err
	}
	elector.Run(term)
	select {
	case <-begun: // what leads must have ended before another term
		<-done
	default:
	}
	return ended, err
}

// lock implements resourcelock.Interface.
type lock struct {
	leases                  object.Resource[*coordinationv1.Lease]
	namespace, name, holder string
	last                    *coordinationv1.Lease
}

// Get implements resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	lease, err := l.leases.Get(ctx, l.namespace, l.name)
	if err != nil {
		return nil, nil, err
	}
	l.last = lease
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	// What tells one version from another, whoever wrote it.
	return record, []byte(lease.ResourceVersion), nil
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	lease, err := l.leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}, Spec: resourcelock.LeaderElectionRecordToLeaseSpec(&r),
	})
	if err == nil {
		l.last = lease
	}
	return err
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	next := l.last.DeepCopy()
	next.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&r)
	lease, err := l.leases.Update(ctx, next)
	if err == nil {
		l.last = lease
	}
	return err
}

// RecordEvent implements resourcelock.Interface; who leads is in the Lease.
func (l *lock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *lock) Identity() string { return l.holder }

// Describe implements resourcelock.Interface.
func (l *lock) Describe() string { return l.namespace + "/" + l.name }
