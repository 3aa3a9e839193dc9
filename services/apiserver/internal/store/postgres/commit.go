package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/kit/database"
	"howdah.dev/services/apiserver/internal/store"
)

const (
	commitStatement = "howdah_commit"
	// The contents, by far the most of a batch, are its last argument: pgx writes the arguments into one buffer, and what follows the
	// contents would make it grow, and all of them be copied, once more.
	commitSQL = `SELECT * FROM howdah.commit($1, $2, $10, $3, $4, $5, $6, $7, $8, $9)`
	// keptBuffer is the size of a batch, in bytes, above which its buffer is not kept for the next one.
	keptBuffer = 4 << 20
	// diskFull is PostgreSQL's disk_full.
	diskFull = "53100"
	// commitAttempts bounds how often a batch that the server refused for a passing reason is tried.
	commitAttempts = 6
)

// commitLoop forms batches and commits them one after the other.
func (s *Store) commitLoop(ctx context.Context) error {
	var p pending
	var conn *pgx.Conn
	var retry backoff
	defer func() {
		if conn != nil {
			closeNow(conn)
		}
		for _, r := range p.requests {
			if r.claim() {
				r.fail(fmt.Errorf("%w: it is being stopped", store.ErrUnavailable))
			}
		}
	}()
	for {
		if len(p.requests) == 0 {
			select {
			case r := <-s.queue:
				p.requests = append(p.requests, r)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		// Before a batch is formed: until then its requests may still be given up by their callers.
		if conn == nil {
			var err error
			if conn, err = s.connectWriter(ctx); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				s.cfg.Logger.WarnContext(ctx, "cannot connect to commit", "err", err)
				if err := retry.wait(ctx); err != nil {
					return err
				}
				continue
			}
			retry.reset()
		}
		s.fill(&p)
		if batch := p.next(); len(batch) > 0 && !s.commitBatch(ctx, conn, batch) {
			closeNow(conn)
			conn = nil
			s.hub.setWriter(0)
		}
	}
}

// fill takes what waits in the queue, without waiting itself.
func (s *Store) fill(p *pending) {
	for range p.room() {
		select {
		case r := <-s.queue:
			p.requests = append(p.requests, r)
		default:
			return
		}
	}
}

func (s *Store) connectWriter(ctx context.Context) (*pgx.Conn, error) {
	conn, err := s.dial.connect(ctx, map[string]string{"application_name": "howdah-apiserver-commit"})
	if err != nil {
		return nil, err
	}
	if _, err := conn.Prepare(ctx, commitStatement, commitSQL); err != nil {
		closeNow(conn)
		return nil, err
	}
	s.hub.setWriter(conn.PgConn().PID())
	return conn, nil
}

// commitBatch settles every request of the batch. It answers whether the connection can still be used.
func (s *Store) commitBatch(ctx context.Context, conn *pgx.Conn, batch []*request) (usable bool) {
	var retry backoff
	for attempt := 1; ; attempt++ {
		err := s.tryCommit(ctx, conn, batch)
		if err == nil {
			return true
		}
		refused, alive := answered(err)
		if !alive {
			if pgconn.SafeToRetry(err) {
				settle(batch, fmt.Errorf("%w: %w", store.ErrUnavailable, err))
			} else {
				settle(batch, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err))
			}
			s.hub.wake() // it may have been committed
			return false
		}
		if attempt < commitAttempts && s.remedy(ctx, conn, batch, refused) {
			if retry.wait(ctx) == nil {
				continue
			}
		}
		if len(batch) > 1 {
			// One of them may be at fault; the others shall not pay for it.
			for i, r := range batch {
				if !s.commitBatch(ctx, conn, []*request{r}) {
					settle(batch[i+1:], fmt.Errorf("%w: the connection was lost", store.ErrUnavailable))
					return false
				}
			}
			return true
		}
		s.cfg.Logger.ErrorContext(ctx, "commit refused", "err", err)
		s.metrics.refused.WithLabelValues(refused.Code).Inc()
		settle(batch, refusal(refused))
		return true
	}
}

// refusal is what a writer is told when the server refused its batch: class 53 is lack of resources, 55, 57 and 40 pass by themselves.
func refusal(err *pgconn.PgError) error {
	if err.Code == diskFull {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	switch err.Code[:2] {
	case "53", "55", "57", "40", "58":
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("commit: %w", err)
}

// remedy does something about the cause of a refusal, and answers whether trying again makes sense.
func (s *Store) remedy(ctx context.Context, conn *pgx.Conn, batch []*request, refused *pgconn.PgError) bool {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CommitTimeout)
	defer cancel()
	switch refused.Code {
	case lockNotAvailable:
		_, err := conn.Exec(ctx, evictSQL)
		return err == nil
	case "23514": // no partition for the next revision: maintenance is late
		size := s.cfg.PartitionSize
		orDefault(&size, minPartition)
		_, err := conn.Exec(ctx, "SELECT howdah.extend_log($1, $2)", 2*countWrites(batch), size) // a deletion may take two
		return err == nil
	case "40001", "40P01", "57014":
		return true
	}
	return false
}

// settle answers all requests of the batch with err.
func settle(batch []*request, err error) {
	for _, r := range batch {
		r.fail(err)
	}
}

// tryCommit makes one round trip, and on success tells the tails and the callers.
func (s *Store) tryCommit(ctx context.Context, conn *pgx.Conn, batch []*request) error {
	// A stop of the process lets the batch finish.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CommitTimeout)
	defer cancel()
	begin := time.Now()
	ctx, span := s.startBatchSpan(ctx, batch)
	args, buffer := encode(batch, s.buffer)
	result := conn.PgConn().ExecPrepared(ctx, commitStatement, args, binaryFormat, binaryFormat).Read()
	if s.buffer = buffer; cap(buffer) > keptBuffer {
		s.buffer = nil
	}
	err := result.Err
	if err == nil {
		// Its wait for the replicas was cut short: it may be lost yet.
		err = database.Replicated(conn.PgConn())
	}
	var out outcome
	if err == nil {
		if len(result.Rows) != 1 {
			err = errors.New("commit function answered no row")
		} else {
			out, err = decode(result.Rows[0])
		}
	}
	endBatchSpan(span, err)
	if err != nil {
		return err
	}
	events, writes := apply(batch, out)
	s.metrics.committed(begin, writes, len(events))
	if len(events) > 0 {
		s.dial.saw(events[len(events)-1].Revision)
		s.hub.offer(events)
	}
	for _, r := range batch {
		close(r.done)
	}
	return nil
}

// apply writes the outcome into the requests' results and answers the events of those that succeeded, in order.
func apply(batch []*request, out outcome) (events []store.Event, writes int) {
	writes = countWrites(batch)
	events = make([]store.Event, 0, writes)
	i := 0
	for _, r := range batch {
		for j := range r.writes {
			w := &r.writes[j]
			if err := out.err(i); err != nil {
				r.results[j] = store.Result{Err: err}
				i++
				continue
			}
			result := store.Result{Revision: out.revisions[i], Time: out.time}
			if w.Op != store.Create {
				result.Previous = &store.Entry{Key: w.Key, Value: out.previousValues[i], Revision: out.previous[i], CreateRevision: out.created[i]}
			}
			r.results[j] = result
			event := store.Event{
				Type: store.Put, Key: w.Key, Value: w.Value, Revision: out.revisions[i], PreviousRevision: out.previous[i],
				CreateRevision: out.created[i], Trace: w.Trace, Actor: w.Actor, Time: out.time, Last: !r.atomic || j == len(r.writes)-1,
			}
			switch {
			case w.Op == store.Delete:
				if len(w.Value) > 0 {
					told := event
					told.Revision, told.Last = event.Revision-1, false
					events = append(events, told)
					event.PreviousRevision = told.Revision
				}
				event.Type, event.Value = store.Removed, nil
			case w.Value == nil:
				event.Value = []byte{} // as the log has it
			}
			events = append(events, event)
			i++
		}
	}
	return events, writes
}

func countWrites(batch []*request) (n int) {
	for _, r := range batch {
		n += len(r.writes)
	}
	return n
}
