package nodestatus

import (
	"errors"
	"fmt"
	"time"
)

// Pace says how often and how much a node tells of itself, as the kubelet's settings that begin with nodeStatus and nodeLease.
type Pace struct {
	// Look is how often the node looks at itself; what has changed it tells at once.
	Look time.Duration
	// Tell is how old becomes what it has told where nothing changes.
	Tell time.Duration
	// Lease is for how long others take it for alive without hearing of it, in whole seconds; it is heard of four times as often.
	Lease time.Duration
	// Images are the most images that it tells of; -1 tells of all.
	Images int
}

// DefaultPace is a kubelet's.
var DefaultPace = Pace{Look: 10 * time.Second, Tell: 5 * time.Minute, Lease: 40 * time.Second, Images: 50}

// Validate says what is wrong with it.
func (p Pace) Validate() error {
	var problems []error
	if p.Look <= 0 || p.Tell <= 0 {
		problems = append(problems, fmt.Errorf("a node tells of itself after some time, not after %s or %s", p.Look, p.Tell))
	}
	if p.Lease < time.Second {
		problems = append(problems, fmt.Errorf("a node's lease is of a second at least, not of %s", p.Lease))
	}
	if p.Images < -1 {
		problems = append(problems, fmt.Errorf("a node tells of so many images, or of all (-1), not of %d", p.Images))
	}
	return errors.Join(problems...)
}

// Renew is how often the lease is renewed.
func (p Pace) Renew() time.Duration { return p.Lease / 4 }
