// Package stack saves goroutines that live for one request from growing their stacks step by step.
package stack

// Deepen makes the goroutine's stack as large as most requests need, while there is little on it: it would grow by doubling, and
// each time all frames are copied, which is 7 % of what a get costs the gateway, and 4 % of all that an API server does. The collector takes back what
// stays unused.
func Deepen() { use(0) }

//go:noinline
func use(n int) byte {
	var room [12 << 10]byte
	room[n] = 1
	return room[len(room)-1-n]
}
