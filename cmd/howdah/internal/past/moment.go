package past

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// Moment turns what a user says of a moment into the option of a request: a revision, a time of RFC 3339, or how long ago.
func Moment(text string, now time.Time) (url.Values, error) {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return url.Values{"revision": {text}}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return url.Values{"at": {now.Add(-ago).UTC().Format(time.RFC3339Nano)}}, nil
	}
	if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return url.Values{"at": {text}}, nil
	}
	return nil, fmt.Errorf("%q is neither a revision, nor a time like 2006-01-02T15:04:05Z, nor how long ago like 10m", text)
}
