package flow

import (
	"math"
	"time"
)

// demand follows how many seats a level's requests want, in time. The zero value wants nothing.
type demand struct {
	begin, last time.Time
	value, peak float64
	// sum and squares are integrals over time, in seconds.
	sum, squares float64
}

// wanted is what a demand was over a period, in seats.
type wanted struct{ average, deviation, peak float64 }

// set says what is wanted from now on.
func (d *demand) set(now time.Time, value float64) {
	d.advance(now)
	d.value = value
	d.peak = math.Max(d.peak, value)
}

func (d *demand) advance(now time.Time) {
	if d.last.IsZero() {
		d.begin, d.last = now, now
	}
	if passed := now.Sub(d.last).Seconds(); passed > 0 {
		d.sum += d.value * passed
		d.squares += d.value * d.value * passed
		d.last = now
	}
}

// period answers what was wanted since the last call, and begins a new period.
func (d *demand) period(now time.Time) wanted {
	d.advance(now)
	w := wanted{average: d.value, peak: d.peak}
	if passed := d.last.Sub(d.begin).Seconds(); passed > 0 {
		w.average = d.sum / passed
		w.deviation = math.Sqrt(math.Max(d.squares/passed-w.average*w.average, 0))
	}
	d.begin, d.sum, d.squares, d.peak = d.last, 0, 0, d.value
	return w
}
