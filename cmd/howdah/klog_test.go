package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// TestFollower: what was made of a logger before follows it, too.
func TestFollower(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	now := slog.New(slog.NewTextHandler(&first, nil))
	log := slog.New(follower{func() *slog.Logger { return now }})
	with := log.With("a", 1).WithGroup("g")
	with.Info("one", "b", 2)
	now = slog.New(slog.NewTextHandler(&second, &slog.HandlerOptions{Level: slog.LevelError}))
	with.Info("two")
	with.Error("three", "b", 3)
	if got := first.String(); !strings.HasSuffix(got, "msg=one a=1 g.b=2\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("the first has %q", got)
	}
	if got := second.String(); !strings.HasSuffix(got, "msg=three a=1 g.b=3\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("the second has %q", got)
	}
}

// TestASecondRoleLeavesKlogAlone: the race detector tells of a logger that is set while libraries log.
func TestASecondRoleLeavesKlogAlone(t *testing.T) {
	start := func() {
		t.Helper()
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		finish, err := (&role{name: "test", logLevel: "error"}).start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		finish()
	}
	start()
	ctx, stop := context.WithCancel(t.Context())
	logged := make(chan struct{})
	var once sync.Once
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			klog.Info("of no account at this level")
			once.Do(func() { close(logged) })
		}
	}()
	<-logged
	start()
	stop()
	<-done
}
