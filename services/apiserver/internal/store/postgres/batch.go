package postgres

// pending holds the requests that were taken off the queue but not committed yet, in order of arrival. It belongs to the committer.
type pending struct {
	requests []*request
}

// next takes the requests of the next batch out: in order of arrival, with distinct keys, at most batchSize writes and
// batchBytes bytes, but at least one request. A request whose key is in use waits, and so does whatever comes after it with one of its
// keys: writes to a key keep their order. Requests that were abandoned vanish.
func (p *pending) next() []*request {
	batch := make([]*request, 0, min(len(p.requests), batchSize))
	var rest []*request
	keys := make(map[string]struct{}, min(len(p.requests), batchSize))
	size, bytes := 0, int64(0)
	for i, r := range p.requests {
		if size >= batchSize {
			rest = append(rest, p.requests[i:]...)
			break
		}
		// Keys of requests that have to wait are put in keys too: nobody may overtake them.
		free := true
		for _, w := range r.writes {
			if _, used := keys[w.Key]; used {
				free = false
			}
			keys[w.Key] = struct{}{}
		}
		fits := len(batch) == 0 || (size+len(r.writes) <= batchSize && bytes+r.bytes <= batchBytes)
		if !free || !fits {
			if r.state.Load() == queued {
				rest = append(rest, r)
			}
			continue
		}
		if !r.claim() {
			continue
		}
		batch = append(batch, r)
		size += len(r.writes)
		bytes += r.bytes
	}
	p.requests = rest
	return batch
}

// room tells how many more requests are worth taking off the queue before the next batch is formed.
func (p *pending) room() int { return max(0, 2*batchSize-len(p.requests)) }
