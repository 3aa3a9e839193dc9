package postgres

import "sort"

// maxPending is how many requests are looked at for a batch: twice what waited while 50,000 pods were made at once (docs/performance.md). What does not
// fit waits in the queue behind it, and there it is first come, first served.
const maxPending = 4096

// pending holds the requests that were taken off the queue but not committed yet, in order of arrival. It belongs to the committer.
type pending struct {
	requests []*request
}

// next takes the requests of the next batch out: in order of arrival, with distinct keys, at most batchSize writes and
// batchBytes bytes, but at least one request. Where more wait than fit, flows of few writes come before the many of another: a
// controller that makes thousands of pods keeps nobody waiting for more than a batch. A request whose key is in use waits, and so does
// whatever comes after it with one of its keys: writes to a key keep their order. Requests that were abandoned vanish.
func (p *pending) next() []*request {
	b := batch{taken: map[flow]int{}}
	share := p.share()
	p.requests = b.take(p.requests, share)
	if share < batchSize && b.size < batchSize { // some shares could not be used
		p.requests = b.take(p.requests, batchSize)
	}
	return b.requests
}

// batch is one in the making.
type batch struct {
	requests []*request
	size     int
	bytes    int64
	taken    map[flow]int // writes
}

// take takes what fits, at most share writes of a flow unless one request has more, and answers the rest.
func (b *batch) take(requests []*request, share int) (rest []*request) {
	keys := make(map[string]struct{}, min(len(requests), batchSize))
	for _, r := range b.requests {
		r.use(keys)
	}
	for i, r := range requests {
		if b.size >= batchSize {
			return append(rest, requests[i:]...)
		}
		// Keys of requests that have to wait are put in keys too: nobody may overtake them.
		if free := r.use(keys); !free || !b.fits(r, share) {
			if r.state.Load() == queued {
				rest = append(rest, r)
			}
			continue
		}
		if !r.claim() {
			continue
		}
		b.requests = append(b.requests, r)
		b.size += len(r.writes)
		b.bytes += r.bytes
		if share < batchSize {
			b.taken[r.flow()] += len(r.writes)
		}
	}
	return rest
}

func (b *batch) fits(r *request, share int) bool {
	if len(b.requests) == 0 {
		return true
	}
	if b.size+len(r.writes) > batchSize || b.bytes+r.bytes > batchBytes {
		return false
	}
	if share >= batchSize {
		return true
	}
	has := b.taken[r.flow()]
	return has == 0 || has+len(r.writes) <= share
}

// flow is what shares the batches with others: somebody's writes of one kind.
type flow struct{ actor, kind string }

// flow is that of the request's first write.
func (r *request) flow() flow {
	w := &r.writes[0]
	return flow{w.Actor, folder(w.Key)}
}

// folder is the part of a key that all objects of a kind have, "/core/pods/" of "/core/pods/default/web".
func folder(key string) string {
	slashes := 0
	for i := range len(key) {
		if key[i] == '/' {
			if slashes++; slashes == 3 {
				return key[:i+1]
			}
		}
	}
	return ""
}

// use puts the request's keys in, and says whether none was there.
func (r *request) use(keys map[string]struct{}) (free bool) {
	free = true
	for _, w := range r.writes {
		if _, used := keys[w.Key]; used {
			free = false
		}
		keys[w.Key] = struct{}{}
	}
	return free
}

// share is how many writes of a batch a flow may have so that all that wait have as many, or all that they want.
func (p *pending) share() int {
	all := 0
	for _, r := range p.requests {
		all += len(r.writes)
	}
	if all <= batchSize {
		return batchSize
	}
	wanted := map[flow]int{}
	for _, r := range p.requests {
		wanted[r.flow()] += len(r.writes)
	}
	return sort.Search(batchSize, func(n int) bool { // the first with one more of which the batch overflows
		sum := 0
		for _, want := range wanted {
			sum += min(want, n+1)
		}
		return sum > batchSize
	})
}

// room tells how many more requests are worth taking off the queue before the next batch is formed.
func (p *pending) room() int { return max(0, maxPending-len(p.requests)) }
