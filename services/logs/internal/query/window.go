package query

import (
	"fmt"
	"time"
)

// byDefault is how far back a search goes that names no beginning.
const byDefault = time.Hour

// Window is a span of time: from Since on, before Until.
type Window struct{ Since, Until time.Time }

// ParseWindow reads the options since and until: times of RFC 3339, or how long ago. Times are those of the store, of microseconds.
func ParseWindow(since, until string, now time.Time) (Window, error) {
	w := Window{now.Add(-byDefault), now}
	var err error
	if until != "" {
		if w.Until, err = moment(until, now); err != nil {
			return w, fmt.Errorf("until: %w", err)
		}
		w.Since = w.Until.Add(-byDefault)
	}
	if since != "" {
		if w.Since, err = moment(since, now); err != nil {
			return w, fmt.Errorf("since: %w", err)
		}
	}
	if until == "" {
		w.Until = w.Until.Add(ahead)
	}
	w.Since, w.Until = w.Since.Truncate(time.Microsecond), w.Until.Truncate(time.Microsecond)
	if !w.Since.Before(w.Until) {
		return w, fmt.Errorf("since is not before until: %s, %s", w.Since.UTC().Format(time.RFC3339), w.Until.UTC().Format(time.RFC3339))
	}
	return w, nil
}

// ahead is how far nodes' clocks may be before this one's for their newest lines to be found.
const ahead = time.Minute

func moment(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil {
		if ago < 0 {
			return time.Time{}, fmt.Errorf("%q is in the future", text)
		}
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, fmt.Errorf("%q is neither a duration like 1h nor a time like 2006-01-02T15:04:05Z", text)
	}
	if year := at.UTC().Year(); year < 1970 || year > 9999 {
		return at, fmt.Errorf("%q is too far away", text)
	}
	return at, nil
}
