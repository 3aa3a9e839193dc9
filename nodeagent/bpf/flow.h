// Flows: what is remembered of them, and which ports they have.
#pragma once

#include "packet.h"

static __always_inline int reusable(struct translation *t, __u8 protocol, __u64 now, __u64 closed)
{
	__u64 idle = now - t->seen;

	if (t->flags & NAT_CLOSED)
		return idle > closed;
	return idle > (protocol == IPPROTO_UDP ? UDP_IDLE : TCP_IDLE);
}

// own_address gives the node's address of a family. 0 if it has one.
static __always_inline int own_address(struct address *a, __u8 v6)
{
	const volatile struct address *own = v6 ? &node_ipv6 : &node_ipv4;

	a->w[0] = own->w[0];
	a->w[1] = own->w[1];
	a->w[2] = own->w[2];
	a->w[3] = own->w[3];
	return !(a->w[0] | a->w[1] | a->w[2] | a->w[3]);
}

// leads says whether a translation is the way back of the flow whose client sends such packets.
static __always_inline int leads(struct translation *back, struct tuple *in)
{
	return same(&back->source, &in->destination) && back->source_port == in->destination_port &&
	       same(&back->destination, &in->source) && back->destination_port == in->source_port;
}

// A new flow: what its client's packets become, what its answers look like, and what those become.
struct flow {
	struct translation forward;
	struct translation back;
	struct tuple answer;
};

// new_flow is the flow of a client that sends `in` to a backend which sees its address, and whose answers are met at this side.
static __always_inline struct flow new_flow(struct tuple *in, struct backend *b, __u8 side)
{
	return (struct flow){
		.forward = {
			.source = in->source,
			.destination = b->address,
			.destination_port = b->port,
			.flags = NAT_FORWARD,
		},
		.back = {
			.source = in->destination,
			.source_port = in->destination_port,
			.destination = in->source,
			.destination_port = in->source_port,
		},
		.answer = {
			.source = b->address,
			.source_port = b->port,
			.destination = in->source,
			.destination_port = in->source_port,
			.protocol = in->protocol,
			.side = side,
		},
	};
}

// remember writes the pair of translations of a new flow, whose client sends `in`. The backend sees the client's own port if that may be kept, unless the client uses it for another frontend of that backend; otherwise, a port of ours. 0 on success.
static __always_inline int remember(struct tuple *in, struct flow *f, int keep)
{
	__u32 start = bpf_get_prandom_u32();
	__u64 now = bpf_ktime_get_ns();

	f->forward.seen = now;
	f->back.seen = now;
	for (int i = 0; i < PORT_TRIES; i++) {
		if (!keep || i)
			f->answer.destination_port = bpf_htons(FIRST_PORT + (start + i) % PORT_COUNT);

		struct translation *taken = bpf_map_lookup_elem(&translations, &f->answer);
		__u64 how = BPF_NOEXIST;

		if (taken) {
			if (!leads(taken, in) && !reusable(taken, in->protocol, now, i < PORT_TRIES / 2 ? TIME_WAIT : CLOSED_IDLE))
				continue;
			how = BPF_ANY;
		}
		if (bpf_map_update_elem(&translations, &f->answer, &f->back, how))
			continue;
		f->forward.source_port = f->answer.destination_port;
		return bpf_map_update_elem(&translations, in, &f->forward, BPF_ANY);
	}
	return -1;
}

// answer_side tells where the answers of a flow are met.
static __always_inline __u8 answer_side(struct tuple *in, struct translation *forward)
{
	if (in->side == SIDE_FROM_POD)
		return SIDE_TO_POD;
	return forward->flags & NAT_REDIRECT ? SIDE_IN : SIDE_OUT;
}

// answered says whether the way back of a flow is there, and is its own: an entry may be evicted alone, and the port of a
// connection that was closed may be another's by now.
__noinline int answered(struct tuple *in, struct translation *forward)
{
	if (!in || !forward)
		return 0;

	struct tuple answer = {
		.source = forward->destination,
		.source_port = forward->destination_port,
		.destination = forward->source,
		.destination_port = forward->source_port,
		.protocol = in->protocol,
		.side = answer_side(in, forward),
	};
	struct translation *back = bpf_map_lookup_elem(&translations, &answer);

	return back && leads(back, in);
}
