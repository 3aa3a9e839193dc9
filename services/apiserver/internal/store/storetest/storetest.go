// Package storetest proves that an implementation of package store keeps its promises. Run runs the whole suite.
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"howdah.dev/services/apiserver/internal/store"
)

// State is one state of a cluster, that several stores may be opened on, as several API servers are.
type State interface {
	// Open answers a store that runs until the test ends.
	Open(t testing.TB) store.Store
	// Compact throws as much of the log away as it can and answers the new limit: what is below cannot be read. Of the log's last
	// hundred changes some must remain.
	Compact(t testing.TB) (compacted int64)
	// Lead makes somebody else the leader of role and answers the new epoch.
	Lead(t testing.TB, role string) (epoch int64)
}

// Run runs the suite; fresh answers an empty state.
func Run(t *testing.T, fresh func(t testing.TB) State) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, State)
	}{
		{"Create", testCreate},
		{"CompareAndSwap", testCompareAndSwap},
		{"Delete", testDelete},
		{"ToldDelete", testToldDelete},
		{"ToldDeletesAtOnce", testToldDeletesAtOnce},
		{"InvalidWrites", testInvalidWrites},
		{"AtomicGroup", testAtomicGroup},
		{"AtomicGroupFails", testAtomicGroupFails},
		{"AtomicGroupIsDeliveredWhole", testAtomicGroupIsDeliveredWhole},
		{"Fence", testFence},
		{"FenceOfManyWrites", testFenceOfManyWrites},
		{"CanceledWrite", testCanceledWrite},
		{"RevisionCoversAcknowledgedWrites", testRevisionCoversAcknowledgedWrites},
		{"EventCarriesAll", testEventCarriesAll},
		{"TailFromEveryRevision", testTailFromEveryRevision},
		{"TailEndsWithDeliver", testTailEndsWithDeliver},
		{"ListPages", testListPages},
		{"ListPrefixes", testListPrefixes},
		{"ListAtEveryRevision", testListAtEveryRevision},
		{"History", testHistory},
		{"HistoryAfterCompaction", testHistoryAfterCompaction},
		{"RevisionAt", testRevisionAt},
		{"Replay", testReplay},
		{"ReplayAfterCompaction", testReplayAfterCompaction},
		{"Compaction", testCompaction},
		{"CompactionUnderLoad", testCompactionUnderLoad},
		{"SlowTailIsCompactedAway", testSlowTailIsCompactedAway},
		{"ManyWritersOfTwoStores", testManyWriters},
		{"OneWinnerOfCreate", testOneWinner},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
}

// must answers the revision of a write that has to succeed.
func must(t testing.TB, r store.Result) int64 {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("write: %v", r.Err)
	}
	return r.Revision
}

func create(key, value string) store.Write {
	return store.Write{Op: store.Create, Key: key, Value: []byte(value)}
}

func update(key, value string, revision int64) store.Write {
	return store.Write{Op: store.Update, Key: key, Value: []byte(value), Revision: revision}
}

func remove(key string, revision int64) store.Write {
	return store.Write{Op: store.Delete, Key: key, Revision: revision}
}

func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error %v, want %v", got, want)
	}
}

func wantConflict(t testing.TB, got error, current int64) {
	t.Helper()
	var conflict *store.ConflictError
	if !errors.As(got, &conflict) || conflict.Current != current {
		t.Errorf("error %v, want a conflict with revision %d", got, current)
	}
}

func wantValue(t testing.TB, s store.Store, key, want string) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if err != nil || string(got.Value) != want {
		t.Errorf("Get(%s) = %q, %v; want %q", key, got.Value, err, want)
	}
}

// errEnough ends a tail that has seen what it was waiting for.
var errEnough = errors.New("enough")

// tailTo answers the events after from up to and including to, and checks that they come ordered, once and without a gap.
func tailTo(t testing.TB, s store.Store, from, to int64) []store.Event {
	t.Helper()
	events, err := tailUntil(t.Context(), s, from, to)
	if err != nil {
		t.Errorf("tail from %d to %d: %v", from, to, err)
	}
	return events
}

func tailUntil(ctx context.Context, s store.Store, from, to int64) ([]store.Event, error) {
	if from >= to {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var events []store.Event
	last := from
	err := s.Tail(ctx, from, func(es []store.Event) error {
		if err := checkDelivery(last, es); err != nil {
			return err
		}
		last += int64(len(es))
		events = append(events, es...)
		if last >= to {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	for len(events) > 0 && events[len(events)-1].Revision > to {
		events = events[:len(events)-1]
	}
	return events, err
}
