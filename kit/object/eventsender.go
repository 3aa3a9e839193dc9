package object

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// eventSender writes queued events, outside of any trace: they are many, and
// small. Kubernetes' correlator decides which of them are new, which count
// an older one up, and which are too many; it is used by run only.
type eventSender struct {
	events     Resource[*corev1.Event]
	queue      <-chan *corev1.Event
	correlator *record.EventCorrelator
	series     *series
}

func newEventSender(events Resource[*corev1.Event], queue <-chan *corev1.Event) *eventSender {
	return &eventSender{events, queue, record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}), newSeries()}
}

// eventWrite is what is to be done about one stored event.
type eventWrite struct {
	event *corev1.Event
	patch []byte // nil creates the event
}

func (s *eventSender) run(ctx context.Context) error {
	for {
		writes := s.correlate(s.gather(ctx))
		if rest := s.write(ctx, writes); ctx.Err() != nil {
			s.flush(ctx, rest)
			return ctx.Err()
		}
	}
}

// gather waits for an event, and a moment for others. It returns what it has
// when ctx ends.
func (s *eventSender) gather(ctx context.Context) []*corev1.Event {
	var batch []*corev1.Event
	select {
	case e := <-s.queue:
		batch = append(batch, e)
	case <-ctx.Done():
		return nil
	}
	timer := time.NewTimer(eventWait)
	defer timer.Stop()
	for len(batch) < eventBatch {
		select {
		case e := <-s.queue:
			batch = append(batch, e)
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// flush makes one attempt to write rest, and what is queued, when the sender
// ends.
func (s *eventSender) flush(ctx context.Context, rest []eventWrite) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventFlush)
	defer cancel()
	for len(s.try(ctx, rest)) == 0 && len(s.queue) > 0 {
		var batch []*corev1.Event
		for len(s.queue) > 0 && len(batch) < eventBatch {
			batch = append(batch, <-s.queue)
		}
		rest = s.correlate(batch)
	}
}

// correlate returns the writes for a batch, at most one for each stored
// event: writes of one call may overlap, so what repeats within the batch is
// counted before it is sent.
func (s *eventSender) correlate(batch []*corev1.Event) []eventWrite {
	writes := make([]eventWrite, 0, len(batch))
	at := make(map[types.NamespacedName]int, len(batch))
	for _, e := range batch {
		w, ok := s.one(e)
		if !ok {
			continue
		}
		key := types.NamespacedName{Namespace: w.event.Namespace, Name: w.event.Name}
		i, repeated := at[key]
		switch {
		case !repeated:
			at[key] = len(writes)
			writes = append(writes, w)
		case writes[i].patch == nil:
			writes[i].event = w.event // is created with the higher count
		default:
			writes[i] = w // the later patch says all that the earlier one did
		}
	}
	return writes
}

// one returns what is to be written of an event; false where that is nothing.
func (s *eventSender) one(e *corev1.Event) (w eventWrite, ok bool) {
	if !e.EventTime.IsZero() {
		return s.series.see(e)
	}
	result, err := s.correlator.EventCorrelate(e)
	if err != nil {
		slog.Error("correlate an event", "namespace", e.Namespace, "name", e.Name, "err", err)
		return w, false
	}
	if result.Skip {
		return w, false
	}
	w.event = result.Event
	if result.Event.Count > 1 {
		w.patch = result.Patch
	}
	return w, true
}

// write sends the writes and repeats, with a back-off, those that failed for
// want of a server. It returns what is left when ctx ends.
func (s *eventSender) write(ctx context.Context, writes []eventWrite) []eventWrite {
	wait := eventBackoff
	for try := 1; len(writes) > 0; try++ {
		writes = s.try(ctx, writes)
		if len(writes) == 0 || ctx.Err() != nil {
			break
		}
		if try == eventTries {
			slog.Warn("events were not written", "events", len(writes), "tries", try)
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		wait = min(2*wait, lastEventBackoff)
	}
	return writes
}

// try sends the writes once and returns those that are worth another try.
func (s *eventSender) try(ctx context.Context, writes []eventWrite) (again []eventWrite) {
	if len(writes) == 0 {
		return nil
	}
	items := make([]Item, 0, len(writes))
	for _, w := range writes {
		if w.patch != nil {
			items = append(items, s.events.PatchItem(w.event.Namespace, w.event.Name, types.StrategicMergePatchType, w.patch, ""))
			continue
		}
		w.event.ResourceVersion = ""
		items = append(items, s.events.CreateItem(w.event))
	}
	results, err := s.events.client.Batch(untraced(ctx), items, false)
	for i, w := range writes {
		outcome := err
		if i < len(results) {
			outcome = results[i].Err
		}
		switch {
		case outcome == nil:
			if stored, err := Decode(Event, results[i].Object); err == nil && w.event.EventTime.IsZero() {
				s.correlator.UpdateState(stored)
			}
		case w.patch != nil && apierrors.IsNotFound(outcome): // it has expired
			again = append(again, eventWrite{event: w.event})
		case apierrors.IsAlreadyExists(outcome): // an earlier try was not in vain
		case apierrors.HasStatusCause(outcome, corev1.NamespaceTerminatingCause):
		case retriable(outcome):
			again = append(again, w)
		default:
			slog.Warn("an event was refused", "namespace", w.event.Namespace, "name", w.event.Name, "reason", w.event.Reason, "err", outcome)
		}
	}
	return again
}

// retriable says whether the same write may succeed later.
func retriable(err error) bool {
	if _, answered := err.(apierrors.APIStatus); !answered {
		return true // the call itself failed
	}
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsConflict(err)
}
