package fair

// Look is what one queue looks like.
type Look struct {
	// Waiting and Running are requests; Seats is what the running ones hold.
	Waiting, Running, Seats int
	// Virtual is how many seat-seconds the queue has been charged.
	Virtual float64
}

// Looks returns what the queues look like; none where nobody can wait.
func (q *Queues) Looks() []Look {
	if q.cfg.Queues == 0 {
		return nil
	}
	all := make([]Look, len(q.queues))
	for i := range q.queues {
		c := &q.queues[i]
		all[i] = Look{Waiting: c.length, Running: c.running, Seats: c.seats, Virtual: c.virtual}
	}
	return all
}

// Queue is the index of the queue that the request is or was in, -1 where there are none.
func (q *Queues) Queue(r *Request) int {
	for i := range q.queues {
		if q.cfg.Queues > 0 && &q.queues[i] == r.queue {
			return i
		}
	}
	return -1
}

// Place is how many requests stand before one that waits in its queue, -1 where it does not wait.
func (q *Queues) Place(r *Request) int {
	if r.seats > 0 || r.gone || r.queue == nil {
		return -1
	}
	at := 0
	for other := r.queue.first; other != nil; other = other.next {
		if other == r {
			return at
		}
		if !other.gone {
			at++
		}
	}
	return -1
}
