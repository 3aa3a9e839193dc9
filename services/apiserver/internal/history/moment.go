package history

import (
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Moment reads a time of RFC 3339; name is the option that it was given as.
func Moment(name, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, apierrors.NewBadRequest(fmt.Sprintf("%s: %q is not a time like 2006-01-02T15:04:05Z", name, text))
	}
	return at, nil
}

// Since reads a time of RFC 3339, or how long ago it was; empty is the zero time.
func Since(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		if ago < 0 {
			return time.Time{}, apierrors.NewBadRequest(fmt.Sprintf("since: %q is in the future", text))
		}
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, apierrors.NewBadRequest(fmt.Sprintf("since: %q is neither a duration like 1h nor a time like 2006-01-02T15:04:05Z", text))
	}
	return at, nil
}

// Origin takes a write's origin apart.
func Origin(text string) (verb, manager, program string) {
	verb, rest, _ := strings.Cut(text, "\t")
	manager, program, _ = strings.Cut(rest, "\t")
	return verb, manager, program
}

// TraceID returns the trace of a W3C traceparent that was recorded, or nothing.
func TraceID(traceparent string) string {
	if len(traceparent) != 55 || traceparent[2] != '-' || (traceparent[54]-'0')&1 == 0 {
		return ""
	}
	return traceparent[3:35]
}
