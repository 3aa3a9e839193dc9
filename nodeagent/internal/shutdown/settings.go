package shutdown

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"howdah.dev/nodeagent/internal/pod"
)

// ordinary is the priority from which on the first group of Grace and Critical begins, as in Kubernetes.
const ordinary = 0

// Options are the kubelet's shutdownGracePeriod, shutdownGracePeriodCriticalPods and shutdownGracePeriodByPodPriority.
type Options struct {
	// Grace is how long all pods together may take to end, Critical how much of it those of the system's priorities have for themselves, after the
	// others. Without Grace pods are not ended.
	Grace, Critical time.Duration
	// ByPriority has instead times of its own for each range of priorities (PRIORITY=DURATION,…): pods of at least that priority, and less than the next
	// one's, have so long. The lowest priorities end first.
	ByPriority string
}

// Group are the pods of a range of priorities.
type Group struct {
	// Priority is the lowest of them; those below the lowest group's are in it, too.
	Priority int32
	// Grace is how long they may take to end.
	Grace time.Duration
}

// Groups are those of the options, the first to end first; none where nothing is to be done. The error has all that is wrong.
func (o Options) Groups() ([]Group, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.ByPriority != "" {
		return parse(o.ByPriority)
	}
	if o.Grace == 0 {
		return nil, nil
	}
	return []Group{{ordinary, o.Grace - o.Critical}, {pod.SystemCritical, o.Critical}}, nil
}

func (o Options) validate() error {
	var problems []error
	for name, period := range map[string]time.Duration{"shutdown grace period": o.Grace, "shutdown grace period of critical pods": o.Critical} {
		if period < 0 || 0 < period && period < time.Second {
			problems = append(problems, fmt.Errorf("%s: %s must be either zero or otherwise >= 1s", name, period))
		}
	}
	if o.Critical > o.Grace {
		problems = append(problems, fmt.Errorf("shutdown grace period of critical pods: %s must be <= the shutdown grace period (%s)", o.Critical, o.Grace))
	}
	if o.ByPriority != "" && (o.Grace != 0 || o.Critical != 0) {
		problems = append(problems, errors.New("shutdown grace periods: cannot specify both one by pod priority and one for all at the same time"))
	}
	return errors.Join(problems...)
}

func parse(text string) ([]Group, error) {
	var groups []Group
	var problems []error
	for part := range strings.SplitSeq(text, ",") {
		g, err := parseGroup(strings.TrimSpace(part))
		if err == nil && slices.ContainsFunc(groups, func(other Group) bool { return other.Priority == g.Priority }) {
			err = fmt.Errorf("priority %d is named twice", g.Priority)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("shutdown grace period by pod priority: %w", err))
			continue
		}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b Group) int { return int(a.Priority) - int(b.Priority) })
	return groups, errors.Join(problems...)
}

func parseGroup(text string) (Group, error) {
	priority, period, ok := strings.Cut(text, "=")
	if !ok {
		return Group{}, fmt.Errorf("%q is not PRIORITY=DURATION", text)
	}
	n, err := strconv.ParseInt(priority, 10, 32)
	if err != nil {
		return Group{}, fmt.Errorf("priority %q: %w", priority, errors.Unwrap(err))
	}
	grace, err := time.ParseDuration(period)
	if err != nil {
		return Group{}, err
	}
	if grace < time.Second {
		return Group{}, fmt.Errorf("%s of priority %d must be >= 1s", grace, n)
	}
	return Group{int32(n), grace}, nil
}

// Total is how long all groups together may take.
func Total(groups []Group) time.Duration {
	var sum time.Duration
	for _, g := range groups {
		sum += g.Grace
	}
	return sum
}
