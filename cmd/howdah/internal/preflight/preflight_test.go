package preflight

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

func TestPreflight(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, text, _ := net.SplitHostPort(listener.Addr().String())
	taken, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	checks := []Check{Privileged(1000), PortFree(taken), Privileged(0)}
	var said []string
	warn := func(text string) { said = append(said, text) }
	err = Run(t.Context(), checks, nil, warn)
	for _, want := range []string{"[IsPrivilegedUser] user is not running as root", fmt.Sprintf("[Port-%d] port %d is in use", taken, taken), "--ignore-preflight-errors"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if err := Run(t.Context(), checks, []string{"isprivilegeduser"}, warn); err == nil || strings.Contains(err.Error(), "IsPrivilegedUser") || len(said) != 1 {
		t.Errorf("%v, said %q", err, said)
	}
	if err := Run(t.Context(), checks, []string{"all"}, warn); err != nil || len(said) != 3 {
		t.Errorf("%v, said %q", err, said)
	}
}
