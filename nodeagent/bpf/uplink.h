// Load balancing of packets that come from outside (NodePort, externalIPs, load-balancer addresses, hostPort), on the
// node's uplink, over IPv4 and IPv6. A backend on this node gets the packet through the stack with the client's address on it; a
// backend elsewhere gets it straight back out of the uplink, or into the tunnel where that leads to it, with the node's
// address as its source, so that the answer comes back here. The tunnel's end is an uplink as well.
#pragma once

#include "flow.h"

// way_to gives the interface towards a backend: that of the packet, unless the route leads into the tunnel, or out of it.
static __always_inline __u32 way_to(struct __sk_buff *skb, struct address *to, __u8 v6)
{
	struct bpf_fib_lookup way = {.family = v6 ? AF_INET6 : AF_INET, .ifindex = skb->ifindex};
	long result;

	if (!overlay)
		return skb->ifindex;
	if (v6)
		__builtin_memcpy(way.ipv6_dst, to->w, sizeof(to->w));
	else
		way.ipv4_dst = to->w[3];
	result = bpf_fib_lookup(skb, &way, sizeof(way), BPF_FIB_LOOKUP_DIRECT);
	if (result != BPF_FIB_LKUP_RET_SUCCESS && result != BPF_FIB_LKUP_RET_NO_NEIGH)
		return skb->ifindex;
	return way.ifindex == overlay || skb->ifindex == overlay ? way.ifindex : skb->ifindex;
}

// begin_outside remembers a new flow from outside. `self` says that its client dialled an address of this node's. 0 on success.
__noinline int begin_outside(struct __sk_buff *skb, struct packet *p, struct backend *b, int self)
{
	if (!p || !b)
		return -1;

	struct tuple *in = &p->tuple;
	struct flow f = new_flow(in, b, SIDE_OUT);

	if (b->flags & BACKEND_LOCAL)
		return remember(in, &f, 1);
	f.forward.out = way_to(skb, &b->address, p->v6);
	f.back.out = skb->ifindex;
	// Of the node's addresses, answers find through the tunnel to its own one alone.
	if (self && f.forward.out == f.back.out)
		f.forward.source = in->destination;
	else if (own_address(&f.forward.source, p->v6))
		return -1;
	f.forward.flags |= NAT_REDIRECT;
	f.back.flags |= NAT_REDIRECT;
	f.answer.side = SIDE_IN;
	f.answer.destination = f.forward.source;
	return remember(in, &f, 0);
}
