package collect

import "time"

// Bounds of what a container may have stored.
const (
	// lineCost is what a line counts beside its text, in bytes.
	lineCost = 64
	// burst is for how long a container may write faster.
	burst = 10 * time.Second
	// relief is how much has to be free again before lines are taken after some were dropped: then they are taken in stretches, and not one here and there.
	relief = time.Second
)

// bucket bounds how fast a container may write, by the times of its lines: what is read late is not dropped for that, and who reads the same lines
// again decides alike. The zero value is full.
type bucket struct {
	Used     float64   `json:"used,omitempty"` // bytes
	At       time.Time `json:"at,omitzero"`
	Dropping bool      `json:"dropping,omitempty"`
}

// take reports whether a line may be stored.
func (b *bucket) take(at time.Time, bytes int, rate float64) bool {
	if b.At.IsZero() {
		b.At = at
	}
	if passed := at.Sub(b.At); passed > 0 {
		b.Used, b.At = max(b.Used-passed.Seconds()*rate, 0), at
	}
	most := rate * burst.Seconds()
	if b.Dropping && b.Used > most-rate*relief.Seconds() {
		return false
	}
	if b.Dropping = b.Used+float64(bytes+lineCost) > most; b.Dropping {
		return false
	}
	b.Used += float64(bytes + lineCost)
	return true
}
