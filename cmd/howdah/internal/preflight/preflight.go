// Package preflight looks whether a machine can become what it is meant to: each check has a name, by which its failure can be ignored.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// Check is one thing that has to be so.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// checkFor bounds one check.
const checkFor = 10 * time.Second

// Run runs the checks and reports all that fail but for those to be ignored, whose failures warn is told; "all" ignores each.
func Run(ctx context.Context, checks []Check, ignore []string, warn func(string)) error {
	var problems []error
	for _, c := range checks {
		ctx, cancel := context.WithTimeout(ctx, checkFor)
		err := c.Run(ctx)
		cancel()
		if err == nil {
			continue
		}
		if slices.ContainsFunc(ignore, func(name string) bool { return strings.EqualFold(name, c.Name) || strings.EqualFold(name, "all") }) {
			warn(fmt.Sprintf("%s: %v", c.Name, err))
			continue
		}
		problems = append(problems, fmt.Errorf("[%s] %w", c.Name, err))
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("this machine is not ready (--ignore-preflight-errors=NAME goes on all the same):\n%w", errors.Join(problems...))
}

// PortFree checks that nobody listens on a port of this machine.
func PortFree(port int) Check { return AddressFree("", port) }

// AddressFree checks that nobody listens on a port of an address of this machine, of all where it is empty.
func AddressFree(address string, port int) Check {
	return Check{fmt.Sprintf("Port-%d", port), func(ctx context.Context) error {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(address, fmt.Sprint(port)))
		if err != nil {
			return fmt.Errorf("port %d is in use: %w", port, err)
		}
		return listener.Close()
	}}
}

// Privileged checks that the process is root's, whose user id is 0.
func Privileged(uid int) Check {
	return Check{"IsPrivilegedUser", func(context.Context) error {
		if uid != 0 {
			return errors.New("user is not running as root")
		}
		return nil
	}}
}
