// Package dump reads lists from the kernel that are whole.
//
// The kernel hands a list out in parts and marks it where something changed in between (NLM_F_DUMP_INTR, netlink(7)); what it gave
// then may lack an entry that was there all the time. Nodes make and remove interfaces whenever a pod begins or ends, so this is
// nothing rare.
package dump

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// attempts bounds how often a list is asked for. Each takes some hundred microseconds, and changes come one by one.
const attempts = 20

// Whole calls list until nothing changed while it read, and fails with [netlink.ErrDumpInterrupted] where that never happens. Other
// errors are list's own.
func Whole[T any](list func() ([]T, error)) ([]T, error) {
	for range attempts - 1 {
		if all, err := list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return list()
}
