package dump

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestWhole(t *testing.T) {
	broken := errors.New("no permission")
	for name, c := range map[string]struct {
		answers []error
		want    error
	}{
		"at once":                  {[]error{nil}, nil},
		"after two that changed":   {[]error{netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted, nil}, nil},
		"another error is not met": {[]error{netlink.ErrDumpInterrupted, broken}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			got, err := Whole(func() ([]int, error) {
				err := c.answers[asked]
				asked++
				return []int{asked}, err
			})
			if !errors.Is(err, c.want) || asked != len(c.answers) || got[0] != asked {
				t.Errorf("got %v, %v after %d lists; want the answer of list %d and %v", got, err, asked, len(c.answers), c.want)
			}
		})
	}
}

func TestWholeGivesUp(t *testing.T) {
	asked := 0
	_, err := Whole(func() ([]int, error) {
		asked++
		return nil, netlink.ErrDumpInterrupted
	})
	if !errors.Is(err, netlink.ErrDumpInterrupted) || asked != attempts {
		t.Errorf("got %v after %d lists, want %v after %d", err, asked, netlink.ErrDumpInterrupted, attempts)
	}
}
