// What pods send to services and no program is asked about when a socket connects (socket.h), at the node's end of a pod's interface: SCTP, and everything
// from sandboxes with a network stack of their own, as gVisor's or a virtual machine's. The packets themselves are pointed at a backend, and the answers are
// given back the address that was dialled.
//
// What comes from a pod gets another destination, before network policies judge it; what goes to a pod gets another source, after they did. So
// policies see pods alone, and a packet from a pod has the pod's address throughout.
#pragma once

#include "flow.h"

// balanced_at_pods says whether a packet may be one that is balanced here though its pod has the node's stack. Options of IPv6 are looked past later.
static __always_inline int balanced_at_pods(struct __sk_buff *skb)
{
	__u32 field = skb->protocol == bpf_htons(ETH_P_IPV6) ? offsetof(struct ipv6hdr, nexthdr) : offsetof(struct iphdr, protocol);
	__u8 protocol;

	return !bpf_skb_load_bytes(skb, ETH_HLEN + field, &protocol, sizeof(protocol)) && protocol != IPPROTO_TCP && protocol != IPPROTO_UDP;
}

// from_this_pod says whether the packet's source is an address of the pod's. One that is not gets no flow, and is dropped by the policies' program.
__noinline int from_this_pod(struct __sk_buff *skb, struct packet *p)
{
	if (!p)
		return 0;
	return p->v6 ? returns_ipv6(skb, p->tuple.source.w) : returns_ipv4(skb, p->tuple.source.w[3]);
}

// turn_around has a pod that was given itself as a backend see the node as its client: it would take no packet from outside that comes from
// its own address. 0 on success.
__noinline int turn_around(struct packet *p, struct translation *forward)
{
	if (!p || !forward)
		return -1;

	struct tuple there = {
		.source = forward->source,
		.source_port = forward->source_port,
		.destination = forward->destination,
		.destination_port = forward->destination_port,
		.protocol = p->tuple.protocol,
		.side = SIDE_TO_POD,
	};
	struct translation as_node = {
		.source_port = there.source_port,
		.destination = there.destination,
		.destination_port = there.destination_port,
		.seen = bpf_ktime_get_ns(),
	};
	struct tuple back = {
		.source = there.destination,
		.source_port = there.destination_port,
		.destination_port = there.source_port,
		.protocol = there.protocol,
		.side = SIDE_FROM_POD,
	};
	struct translation as_client = {
		.source = there.destination,
		.source_port = there.destination_port,
		.destination = there.source,
		.destination_port = there.source_port,
		.seen = as_node.seen,
	};

	if (own_address(&as_node.source, p->v6))
		return -1;
	back.destination = as_node.source;
	return bpf_map_update_elem(&translations, &there, &as_node, BPF_ANY) || bpf_map_update_elem(&translations, &back, &as_client, BPF_ANY);
}

// forget_answers is for a pod that dials another pod itself, from a port that it has dialled a service from: the other pod's answers are its own now.
__noinline int forget_answers(struct tuple *in)
{
	if (!in)
		return -1;

	struct tuple answer = {
		.source = in->destination,
		.source_port = in->destination_port,
		.destination = in->source,
		.destination_port = in->source_port,
		.protocol = in->protocol,
		.side = SIDE_TO_POD,
	};

	return bpf_map_delete_elem(&translations, &answer);
}

// begin_from_pod remembers a new flow of a pod. 0 on success.
__noinline int begin_from_pod(struct packet *p, struct backend *b)
{
	if (!p || !b)
		return -1;

	struct flow f = new_flow(&p->tuple, b, SIDE_TO_POD);

	// With a pod that is its own backend the node's processes may talk from any port but ours (turn_around).
	return remember(&p->tuple, &f, !same(&p->tuple.source, &b->address));
}
