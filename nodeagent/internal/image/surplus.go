package image

import (
	"cmp"
	"slices"
	"time"
)

// Keep says which images a node keeps though no pod needs them.
type Keep struct {
	// High is the share of the disk in use, in percent, from which on images are removed, those that were not needed for longest first,
	// until Low of it are in use. 100 is never.
	High, Low int
	// Least is how long an image is kept at least after it has come.
	Least time.Duration
	// Most is how long an image that nobody needs is kept at most, which is more than Least; 0 is for ever.
	Most time.Duration
}

// Defaults are those of the kubelet.
var Defaults = Keep{High: 85, Low: 80, Least: 2 * time.Minute}

// record is what is known of one image. An agent that starts knows no more than what is there.
type record struct {
	id       string
	size     int64
	pinned   bool
	needed   bool      // at the last look
	seen     time.Time // first
	lastUsed time.Time // when it was last seen to be needed; zero if it never was
}

// disk is the file system on which images lie, in bytes.
type disk struct{ total, available int64 }

// surplus picks the images that are to go, by age and then, until need bytes are free, by when they were last used. It also says how many of the
// bytes that are needed the images cannot give.
func surplus(records []record, keep Keep, need int64, now time.Time) (byAge, bySpace []record, lacking int64) {
	var idle []record
	for _, r := range records {
		if !r.needed && !r.pinned {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b record) int {
		return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.seen.Compare(b.seen), cmp.Compare(a.id, b.id))
	})
	for _, r := range idle {
		since := r.lastUsed
		if since.IsZero() {
			since = r.seen
		}
		switch {
		case keep.Most > 0 && now.Sub(since) > keep.Most:
			byAge = append(byAge, r)
			need -= r.size
		case need > 0 && now.Sub(r.seen) >= keep.Least:
			bySpace = append(bySpace, r)
			need -= r.size
		}
	}
	return byAge, bySpace, max(need, 0)
}

// need is how many bytes images have to give back.
func (k Keep) need(d disk) int64 {
	if k.High >= 100 || d.total <= 0 || 100-d.available*100/d.total < int64(k.High) {
		return 0
	}
	return d.total*int64(100-k.Low)/100 - d.available
}
