package main

import (
	"context"
	"io"
	"net"
	"sync"
)

// joint joins each connection of one listener to one of the other, in the order in which they come.
type joint struct {
	node, tests net.Listener
	tell        func(format string, args ...any) // nil tells nobody
}

// serve returns when ctx ends, or with the error of a listener that ended before. Then all is closed.
func (j joint) serve(ctx context.Context) error {
	var joined sync.WaitGroup
	defer joined.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { j.node.Close(); j.tests.Close() })
	for n := 1; ; n++ {
		near, err := j.node.Accept()
		if err != nil {
			return unless(ctx, err)
		}
		// The tests open theirs beforehand; the kernel keeps them until somebody comes.
		far, err := j.tests.Accept()
		if err != nil {
			near.Close()
			return unless(ctx, err)
		}
		if j.tell != nil {
			j.tell("connection %d: %s", n, far.RemoteAddr())
		}
		joined.Go(func() { join(ctx, near, far) })
	}
}

func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// join copies both ways until one side or ctx ends, and then ends both.
func join(ctx context.Context, a, b net.Conn) {
	closeBoth := func() { a.Close(); b.Close() }
	defer context.AfterFunc(ctx, closeBoth)()
	var copies sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		copies.Go(func() {
			io.Copy(way[0], way[1])
			closeBoth()
		})
	}
	copies.Wait()
}
