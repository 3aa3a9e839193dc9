package pause

import (
	"errors"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestPauses(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	p := New(clk)
	for i, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		p.Tried("a", errors.New("no"))
		if got := p.Left("a"); got != want {
			t.Errorf("pause %d lasts %s, want %s", i, got, want)
		}
		if err := p.Early("a"); err == nil || !strings.Contains(err.Error(), "durationBeforeRetry "+want.String()) {
			t.Errorf("pause %d: %v", i, err)
		}
		if err := p.Early("b"); err != nil {
			t.Errorf("another's: %v", err)
		}
		clk.Step(want)
		if err := p.Early("a"); err != nil {
			t.Errorf("after pause %d: %v", i, err)
		}
	}
	for range 20 {
		p.Tried("a", errors.New("no"))
	}
	if got := p.Left("a"); got != longest {
		t.Errorf("the longest pause lasts %s", got)
	}
	p.Tried("a", nil)
	if err := p.Early("a"); err != nil || p.Left("a") != time.Millisecond {
		t.Errorf("after a success: %v, %s", err, p.Left("a"))
	}
}
