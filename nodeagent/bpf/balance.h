// What each packet meets: the programs at uplinks (lb_ingress, lb_egress), at pods' interfaces (lb_from_pod, lb_to_pod), and at those of pods with a network
// stack of their own (lb_from_stack, lb_to_stack).
#pragma once

#include "pod.h"
#include "uplink.h"

// begin remembers a new flow. 0 on success.
static __always_inline int begin(struct __sk_buff *skb, struct packet *p, struct backend *b, int self)
{
	return p->tuple.side == SIDE_FROM_POD ? begin_from_pod(p, b) : begin_outside(skb, p, b, self);
}

// balance sends a packet of the wire (SCOPE_OUTSIDE) or of a pod (SCOPE_SOCKET) on to a backend, if it is for a service or one of its answers.
static __always_inline int balance(struct __sk_buff *skb, struct packet *p, __u8 scope)
{
	struct translation *t = bpf_map_lookup_elem(&translations, &p->tuple);

	// Within a connection, and on the way back, nothing is decided any more.
	if (t && (!(t->flags & NAT_FORWARD) || !p->begins))
		return translate(skb, p, t);
	if (!p->begins)
		return NEXT;

	// A client port that is used again is another connection: nothing of the one before is kept.
	if (t && ((t->flags & NAT_CLOSED) || !answered(&p->tuple, t)))
		t = NULL;

	struct frontend_key key = {
		.address = p->tuple.destination,
		.port = p->tuple.destination_port,
		.protocol = p->tuple.protocol,
		.scope = scope,
	};
	struct address client = p->tuple.source;
	struct backend b = {}, sticky = {};

	if (t) {
		// A repeated SYN or INIT, or the next datagram: the same backend while it is in rotation.
		sticky.address = t->destination;
		sticky.port = t->destination_port;
	}

	__u8 *role = bpf_map_lookup_elem(&nodes, &key.address);
	int self = role && *role == NODE_SELF;

	int verdict = resolve(&key, 0, &client, &sticky, &b);

	if (verdict == NOT_SERVICE && scope == SCOPE_SOCKET && from_this_pod(skb, p))
		forget_answers(&p->tuple);
	// A service that refuses is passed on: the stack answers with a reset or an ICMP error at once.
	if (verdict != CHOSEN || is_ipv4(&b.address) == p->v6)
		return NEXT;
	if (t && same(&b.address, &t->destination) && b.port == t->destination_port)
		return translate(skb, p, t);
	if (scope == SCOPE_SOCKET && !from_this_pod(skb, p))
		return NEXT;
	if (begin(skb, p, &b, self))
		return TC_ACT_SHOT;
	t = bpf_map_lookup_elem(&translations, &p->tuple);
	if (!t || (scope == SCOPE_SOCKET && same(&t->source, &t->destination) && turn_around(p, t)))
		return TC_ACT_SHOT;
	return translate(skb, p, t);
}

// answer gives a packet on its way out, or to a pod, the address that its receiver dialled.
static __always_inline int answer(struct __sk_buff *skb, struct packet *p)
{
	struct translation *t = bpf_map_lookup_elem(&translations, &p->tuple);

	return t ? translate(skb, p, t) : NEXT;
}

SEC("tcx/ingress")
int lb_ingress(struct __sk_buff *skb)
{
	struct packet p = {};

	return parse(skb, &p, SIDE_IN) ? NEXT : balance(skb, &p, SCOPE_OUTSIDE);
}

SEC("tcx/egress")
int lb_egress(struct __sk_buff *skb)
{
	struct packet p = {};

	return parse(skb, &p, SIDE_OUT) ? NEXT : answer(skb, &p);
}

SEC("tcx/ingress")
int lb_from_pod(struct __sk_buff *skb)
{
	struct packet p = {};

	return !balanced_at_pods(skb) || parse(skb, &p, SIDE_FROM_POD) ? NEXT : balance(skb, &p, SCOPE_SOCKET);
}

SEC("tcx/egress")
int lb_to_pod(struct __sk_buff *skb)
{
	struct packet p = {};

	return !balanced_at_pods(skb) || parse(skb, &p, SIDE_TO_POD) ? NEXT : answer(skb, &p);
}

SEC("tcx/ingress")
int lb_from_stack(struct __sk_buff *skb)
{
	struct packet p = {};

	return parse(skb, &p, SIDE_FROM_POD) ? NEXT : balance(skb, &p, SCOPE_SOCKET);
}

SEC("tcx/egress")
int lb_to_stack(struct __sk_buff *skb)
{
	struct packet p = {};

	return parse(skb, &p, SIDE_TO_POD) ? NEXT : answer(skb, &p);
}
