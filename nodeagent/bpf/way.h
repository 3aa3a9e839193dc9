// Whether an address leads back to the interface that a packet came in by: the node's routes tell, of which the CNI plugin makes one for each
// address of a pod.
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET 2
#define AF_INET6 10

// returns says whether the route to the address leads to the interface that the packet came in by. Rules of policy routing are not asked: pods'
// routes are in the main table.
static __always_inline int returns(struct __sk_buff *skb, struct bpf_fib_lookup *way)
{
	long result;

	way->ifindex = skb->ifindex;
	result = bpf_fib_lookup(skb, way, sizeof(*way), BPF_FIB_LOOKUP_DIRECT);
	return (result == BPF_FIB_LKUP_RET_SUCCESS || result == BPF_FIB_LKUP_RET_NO_NEIGH) && way->ifindex == skb->ifindex;
}

static __always_inline int returns_ipv4(struct __sk_buff *skb, __u32 source)
{
	struct bpf_fib_lookup way = {.family = AF_INET, .ipv4_dst = source};

	return returns(skb, &way);
}

static __always_inline int returns_ipv6(struct __sk_buff *skb, const __u32 source[4])
{
	struct bpf_fib_lookup way = {.family = AF_INET6};

	__builtin_memcpy(way.ipv6_dst, source, 16);
	return returns(skb, &way);
}
