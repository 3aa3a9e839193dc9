// Load balancing of packets that come from outside (NodePort, externalIPs, load-balancer addresses), on the
// node's uplink. A backend on this node gets the packet through the stack with the client's address on it; a
// backend elsewhere gets it straight back out of the uplink, with the node's address as its source, so that
// the answer comes back here.
#pragma once

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stddef.h>

#include "choose.h"

#define NEXT TC_ACT_UNSPEC // let the kernel (or the next program) go on

#define SIDE_IN 0
#define SIDE_OUT 1

#define NAT_REDIRECT 1 // leaves by the uplink again
#define NAT_FORWARD 2  // client to backend; the other entry of the pair is the way back
#define NAT_CLOSED 4   // a FIN or RST was seen

#define FIRST_PORT 10240 // source ports that we give: below NodePorts and the kernel's own range
#define PORT_COUNT 19760
#define PORT_TRIES 32

#define TIME_WAIT (60 * SECOND)  // a backend's kernel knows a connection that it closed for that long
#define CLOSED_IDLE (5 * SECOND) // if all ports that were tried are younger than that
#define UDP_IDLE (120 * SECOND)
#define TCP_IDLE (7200 * SECOND)

struct tuple {
	__u32 source;
	__u32 destination;
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol;
	__u8 side;
	__u16 unused;
};

struct translation {
	__u32 source;
	__u32 destination;
	__u16 source_port;
	__u16 destination_port;
	__u32 flags;
	__u64 seen; // nanoseconds, monotonic
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct tuple);
	__type(value, struct translation);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} translations SEC(".maps");

// The node's own IPv4 address: the source towards other nodes when the client did not dial a node's address.
volatile const __u32 node_ipv4 = 0;

struct packet {
	struct tuple tuple;
	__u32 l4;
	__u8 ttl;
	__u8 opening; // TCP SYN without ACK
	__u8 closing; // TCP FIN or RST
};

// parse reads an unfragmented IPv4 TCP or UDP packet. 0 if it is one.
static __always_inline int parse(struct __sk_buff *skb, struct packet *p, __u8 side)
{
	struct iphdr ip;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return -1;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return -1;
	if (ip.version != 4 || ip.ihl < 5 || (ip.frag_off & bpf_htons(0x3fff)))
		return -1;
	__builtin_memset(p, 0, sizeof(*p));
	p->l4 = ETH_HLEN + ip.ihl * 4;
	p->ttl = ip.ttl;
	p->tuple.source = ip.saddr;
	p->tuple.destination = ip.daddr;
	p->tuple.protocol = ip.protocol;
	p->tuple.side = side;
	if (ip.protocol == IPPROTO_TCP) {
		struct tcphdr tcp;

		if (bpf_skb_load_bytes(skb, p->l4, &tcp, sizeof(tcp)))
			return -1;
		p->tuple.source_port = tcp.source;
		p->tuple.destination_port = tcp.dest;
		p->opening = tcp.syn && !tcp.ack;
		p->closing = tcp.fin || tcp.rst;
		return 0;
	}
	if (ip.protocol == IPPROTO_UDP) {
		struct udphdr udp;

		if (bpf_skb_load_bytes(skb, p->l4, &udp, sizeof(udp)))
			return -1;
		p->tuple.source_port = udp.source;
		p->tuple.destination_port = udp.dest;
		return 0;
	}
	return -1;
}

static __always_inline int rewrite(struct __sk_buff *skb, struct packet *p, struct translation *t)
{
	__u32 sum = p->l4, address = BPF_F_PSEUDO_HDR | 4, port = 2;
	struct tuple *old = &p->tuple;

	if (old->protocol == IPPROTO_TCP) {
		sum += offsetof(struct tcphdr, check);
	} else {
		sum += offsetof(struct udphdr, check);
		address |= BPF_F_MARK_MANGLED_0;
		port |= BPF_F_MARK_MANGLED_0;
	}
	if (t->source != old->source) {
		if (bpf_l4_csum_replace(skb, sum, old->source, t->source, address) ||
		    bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), old->source, t->source, 4) ||
		    bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, saddr), &t->source, 4, 0))
			return -1;
	}
	if (t->destination != old->destination) {
		if (bpf_l4_csum_replace(skb, sum, old->destination, t->destination, address) ||
		    bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), old->destination, t->destination, 4) ||
		    bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, daddr), &t->destination, 4, 0))
			return -1;
	}
	if (t->source_port != old->source_port) {
		if (bpf_l4_csum_replace(skb, sum, old->source_port, t->source_port, port) ||
		    bpf_skb_store_bytes(skb, p->l4, &t->source_port, 2, 0))
			return -1;
	}
	if (t->destination_port != old->destination_port) {
		if (bpf_l4_csum_replace(skb, sum, old->destination_port, t->destination_port, port) ||
		    bpf_skb_store_bytes(skb, p->l4 + 2, &t->destination_port, 2, 0))
			return -1;
	}
	return 0;
}

// translate sends the packet on as its translation says.
static __always_inline int translate(struct __sk_buff *skb, struct packet *p, struct translation *entry)
{
	struct translation t = *entry;

	entry->seen = bpf_ktime_get_ns();
	if (p->closing)
		entry->flags = t.flags | NAT_CLOSED;
	if (rewrite(skb, p, &t))
		return TC_ACT_SHOT;
	if (!(t.flags & NAT_REDIRECT))
		return NEXT;

	__u8 ttl = p->ttl - 1;

	if (p->ttl <= 1)
		return TC_ACT_SHOT;
	// The checksum is over 16-bit words; time to live is the first byte of its word.
	if (bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), p->ttl, ttl, 2) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, ttl), &ttl, 1, 0))
		return TC_ACT_SHOT;
	return bpf_redirect_neigh(skb->ifindex, 0, 0, 0);
}

static __always_inline int reusable(struct translation *t, __u8 protocol, __u64 now, __u64 closed)
{
	__u64 idle = now - t->seen;

	if (t->flags & NAT_CLOSED)
		return idle > closed;
	return idle > (protocol == IPPROTO_UDP ? UDP_IDLE : TCP_IDLE);
}

// remember writes the pair of translations for a new flow. 0 on success.
static __always_inline int remember(struct packet *p, struct backend *b, int self)
{
	struct tuple *in = &p->tuple;
	__u64 now = bpf_ktime_get_ns();
	struct translation forward = {
		.source = in->source,
		.source_port = in->source_port,
		.destination = b->address.w[3],
		.destination_port = b->port,
		.flags = NAT_FORWARD,
		.seen = now,
	};
	struct translation back = {
		.source = in->destination,
		.source_port = in->destination_port,
		.destination = in->source,
		.destination_port = in->source_port,
		.seen = now,
	};
	struct tuple answer = {
		.source = b->address.w[3],
		.source_port = b->port,
		.destination = in->source,
		.destination_port = in->source_port,
		.protocol = in->protocol,
		.side = SIDE_OUT,
	};

	int local = b->flags & BACKEND_LOCAL;

	if (!local) {
		forward.source = self ? in->destination : node_ipv4;
		if (!forward.source)
			return -1;
		forward.flags |= NAT_REDIRECT;
		back.flags |= NAT_REDIRECT;
		answer.side = SIDE_IN;
		answer.destination = forward.source;
	}

	// A local backend sees the client's own port, unless the client uses it for another frontend of that backend;
	// otherwise, a port of ours.
	__u32 start = bpf_get_prandom_u32();

	for (int i = 0; i < PORT_TRIES; i++) {
		if (!local || i)
			answer.destination_port = bpf_htons(FIRST_PORT + (start + i) % PORT_COUNT);

		struct translation *taken = bpf_map_lookup_elem(&translations, &answer);
		__u64 how = BPF_NOEXIST;

		if (taken) {
			int same_flow = taken->source == back.source && taken->source_port == back.source_port &&
					taken->destination == back.destination && taken->destination_port == back.destination_port;

			if (!same_flow && !reusable(taken, in->protocol, now, i < PORT_TRIES / 2 ? TIME_WAIT : CLOSED_IDLE))
				continue;
			how = BPF_ANY;
		}
		if (bpf_map_update_elem(&translations, &answer, &back, how))
			continue;
		forward.source_port = answer.destination_port;
		return bpf_map_update_elem(&translations, in, &forward, BPF_ANY);
	}
	return -1;
}

// answered says whether the way back of a flow is there, and is its own: an entry may be evicted alone, and the port of a
// connection that was closed may be another's by now.
static __always_inline int answered(struct tuple *in, struct translation *forward)
{
	struct tuple answer = {
		.source = forward->destination,
		.source_port = forward->destination_port,
		.destination = forward->source,
		.destination_port = forward->source_port,
		.protocol = in->protocol,
		.side = forward->flags & NAT_REDIRECT ? SIDE_IN : SIDE_OUT,
	};
	struct translation *back = bpf_map_lookup_elem(&translations, &answer);

	return back && back->source == in->destination && back->source_port == in->destination_port &&
	       back->destination == in->source && back->destination_port == in->source_port;
}

SEC("tcx/ingress")
int lb_ingress(struct __sk_buff *skb)
{
	struct packet p;

	if (parse(skb, &p, SIDE_IN))
		return NEXT;

	struct translation *t = bpf_map_lookup_elem(&translations, &p.tuple);

	// Within a TCP connection, and on the way back, nothing is decided any more.
	if (t && (!(t->flags & NAT_FORWARD) || (p.tuple.protocol == IPPROTO_TCP && !p.opening)))
		return translate(skb, &p, t);
	if (p.tuple.protocol == IPPROTO_TCP && !p.opening)
		return NEXT;

	// A client port that is used again is another connection: nothing of the one before is kept.
	if (t && ((t->flags & NAT_CLOSED) || !answered(&p.tuple, t)))
		t = NULL;

	struct frontend_key key = {
		.port = p.tuple.destination_port,
		.protocol = p.tuple.protocol,
		.scope = SCOPE_OUTSIDE,
	};
	struct address client;
	struct backend b = {}, sticky = {};

	ipv4(&key.address, p.tuple.destination);
	ipv4(&client, p.tuple.source);
	if (t) {
		// A repeated SYN, or the next datagram: the same backend while it is in rotation.
		ipv4(&sticky.address, t->destination);
		sticky.port = t->destination_port;
	}

	__u8 *role = bpf_map_lookup_elem(&nodes, &key.address);
	int self = role && *role == NODE_SELF;

	// A service that refuses is passed on: the stack answers with a reset or an ICMP error at once.
	if (resolve(&key, 0, &client, &sticky, &b) != CHOSEN || !is_ipv4(&b.address))
		return NEXT;
	if (t && b.address.w[3] == t->destination && b.port == t->destination_port)
		return translate(skb, &p, t);
	if (remember(&p, &b, self))
		return TC_ACT_SHOT;
	t = bpf_map_lookup_elem(&translations, &p.tuple);
	if (!t)
		return TC_ACT_SHOT;
	return translate(skb, &p, t);
}

SEC("tcx/egress")
int lb_egress(struct __sk_buff *skb)
{
	struct packet p;

	if (parse(skb, &p, SIDE_OUT))
		return NEXT;

	struct translation *t = bpf_map_lookup_elem(&translations, &p.tuple);

	if (!t)
		return NEXT;
	return translate(skb, &p, t);
}
