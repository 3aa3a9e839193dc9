package iscsi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Command runs a program of the node's, and returns what it says and the code that it ends with. The error is that it did not run.
type Command func(ctx context.Context, name string, args ...string) (said string, code int, err error)

// What iscsiadm ends with where there is a session already, and where there is nothing of the kind that it is asked about.
const (
	sessionExists = 15
	nothingFound  = 21
)

// How long iscsiadm may take. It waits for portals that do not answer, and tries several times.
const (
	discoverWithin = time.Minute
	loginWithin    = 2 * time.Minute
	otherWithin    = 30 * time.Second
)

// call is one of iscsiadm.
type call struct {
	// step says what it does, without any secret.
	step   string
	within time.Duration // 0 is otherWithin
	// fine are codes beside 0 that are as good.
	fine []int
	// hush keeps what iscsiadm says out of errors: it may say what it was given.
	hush bool
}

// admin runs iscsiadm. Its arguments are in no error: some carry passwords.
func (i *Initiator) admin(ctx context.Context, c call, args ...string) (string, error) {
	if c.within == 0 {
		c.within = otherWithin
	}
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	said, code, err := i.cfg.Command(ctx, "iscsiadm", args...)
	switch {
	case ctx.Err() != nil && (err != nil || code != 0):
		return "", fmt.Errorf("%s: %w", c.step, errors.Join(ctx.Err(), err))
	case err != nil:
		return "", fmt.Errorf("%s: %w", c.step, err)
	case code == 0 || slices.Contains(c.fine, code):
		return said, nil
	case c.hush:
		return "", fmt.Errorf("%s: iscsiadm ended with %d", c.step, code)
	}
	return "", fmt.Errorf("%s: iscsiadm ended with %d: %s", c.step, code, said)
}

// node are the arguments that name what the node knows of a target by way of a portal.
func (d *Disk) node(portal string) []string {
	return []string{"-m", "node", "-p", portal, "-T", d.IQN, "-I", d.Interface}
}

// discovery are the arguments that name what the node knows of a portal.
func (d *Disk) discovery(portal string) []string {
	return []string{"-m", "discoverydb", "-t", "sendtargets", "-p", portal, "-I", d.Interface}
}

// with returns args with more behind them, and leaves args as they are.
func with(args []string, more ...string) []string { return append(slices.Clone(args), more...) }

// set is how a setting of what args name is changed.
func set(args []string, name, value string) []string {
	return with(args, "-o", "update", "-n", name, "-v", value)
}
