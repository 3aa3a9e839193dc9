// Package bpf holds the node's eBPF programs: C sources, the compiled object, and the Go code that loads it.
//
// The object is committed, so a build needs no clang. After a change of the sources run `go generate` here
// (Debian packages clang, llvm and libbpf-dev), and commit what it writes.
package bpf

//go:generate sh -c "go tool bpf2go -target bpfel -type frontend_key -type frontend -type slot_key -type backend -type member_key -type source_key -type affinity_key -type affinity -type flow_key -type endpoint -type tuple -type translation LB lb.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/$(uname -m)-linux-gnu"
//go:generate sh -c "go tool bpf2go -target bpfel -type subject -type address -type peer_key -type port_key -type bits -type connection_key -type connection -type fragment_key Policy policy.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/$(uname -m)-linux-gnu"
