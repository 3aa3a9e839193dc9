// The maps of the load balancer, shared by the socket and the packet programs.
//
// Every address is 16 bytes in network order; IPv4 stands as ::ffff:a.b.c.d, so one set of maps and one
// lookup serve both families. Ports are in network order.
#pragma once

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// Who asks, and for what kind of address: one of the first two plus, perhaps, one of the last two.
#define SCOPE_SOCKET 0    // a process of this node (pod or host)
#define SCOPE_OUTSIDE 1   // a packet that came in by the wire
#define SCOPE_ANY_NODE 2  // any address of any node (NodePort); the key's address is 0 in its family
#define SCOPE_THIS_NODE 4 // any address of this node (hostPort); likewise

#define FRONTEND_CHECK_SOURCE 1 // only the sources listed in `sources` may use it

#define BACKEND_LOCAL 1 // runs on this node: reached through the stack, with no SNAT

#define NODE_OTHER 1 // an address of another node
#define NODE_SELF 2  // an address of this node

struct address {
	__u32 w[4];
};

// A frontend is what a client dials.
struct frontend_key {
	struct address address;
	__u16 port;
	__u8 protocol;
	__u8 scope;
};

struct frontend {
	__u64 service;  // identity of the service port, stable over restarts: the affinity's key
	__u32 set;      // whose slots to read; never used twice for different contents
	__u32 count;    // slots in the set; 0 = refuse
	__u32 affinity; // seconds, 0 = none
	__u32 flags;
	__u32 next; // round robin, advanced by the programs
	__u32 unused;
};

struct slot_key {
	__u32 set;
	__u32 slot;
};

struct backend {
	struct address address;
	__u16 port;
	__u16 flags;
};

struct member_key {
	__u32 set;
	struct address address;
	__u16 port;
	__u16 unused;
};

struct affinity_key {
	__u64 service;
	struct address client; // netns cookie in words 2 and 3, or the outside client's address
};

struct affinity {
	__u64 used; // nanoseconds, monotonic
	struct backend backend;
	__u32 unused;
};

// One socket and one far end of it.
struct flow_key {
	__u64 cookie;
	struct address address;
	__u16 port;
	__u16 unused[3];
};

struct endpoint {
	struct address address;
	__u16 port;
	__u16 unused;
};

struct source_key {
	__u32 prefix_length; // bits, of service and address together
	__u32 service[2];
	struct address address;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, struct frontend_key);
	__type(value, struct frontend);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} frontends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct slot_key);
	__type(value, struct backend);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} slots SEC(".maps");

// Tells in one lookup whether a remembered backend is still in the set.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct member_key);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} members SEC(".maps");

// The addresses of the nodes: where a NodePort answers.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct address);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nodes SEC(".maps");

// loadBalancerSourceRanges.
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct source_key);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} sources SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct affinity_key);
	__type(value, struct affinity);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} affinities SEC(".maps");

// Which backend an unconnected UDP socket uses for a frontend.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct flow_key);
	__type(value, struct backend);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows SEC(".maps");

// What a socket had dialled when it got this backend: for recvmsg and getpeername.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, struct endpoint);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} origins SEC(".maps");
