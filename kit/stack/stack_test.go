package stack

import (
	"sync"
	"testing"
)

// frames uses as much stack as a request does, a frame at a time.
//
//go:noinline
func frames(n int) byte {
	var room [256]byte
	room[n] = byte(n)
	if n > 0 {
		room[0] = frames(n - 1)
	}
	return room[0]
}

// BenchmarkDeepen is a goroutine that needs 10 kB of stack, against one whose stack grows as it is needed.
func BenchmarkDeepen(b *testing.B) {
	for _, tt := range []struct {
		name  string
		begin func()
	}{{"deepened", Deepen}, {"growing", func() {}}} {
		b.Run(tt.name, func(b *testing.B) {
			var wg sync.WaitGroup
			for b.Loop() {
				wg.Go(func() {
					tt.begin()
					frames(40)
				})
				wg.Wait()
			}
		})
	}
}
