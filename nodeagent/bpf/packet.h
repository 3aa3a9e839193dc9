// Load balancing of packets that come from outside (NodePort, externalIPs, load-balancer addresses, hostPort), on the
// node's uplink, over IPv4 and IPv6. A backend on this node gets the packet through the stack with the client's address on it; a
// backend elsewhere gets it straight back out of the uplink, or into the tunnel where that leads to it, with the node's
// address as its source, so that the answer comes back here. The tunnel's end is an uplink as well.
#pragma once

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stddef.h>

#include "choose.h"

#define NEXT TC_ACT_UNSPEC // let the kernel (or the next program) go on

#define AF_INET 2
#define AF_INET6 10

#define SIDE_IN 0
#define SIDE_OUT 1

#define NAT_REDIRECT 1 // leaves by an uplink again
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
	struct address source;
	struct address destination;
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol;
	__u8 side;
	__u16 unused;
};

struct translation {
	struct address source;
	struct address destination;
	__u16 source_port;
	__u16 destination_port;
	__u32 flags;
	__u64 seen; // nanoseconds, monotonic
	__u32 out;  // the interface by which it leaves, with NAT_REDIRECT
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct tuple);
	__type(value, struct translation);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} translations SEC(".maps");

// The node's own addresses, one a family: the source towards other nodes when the client did not dial a node's address. All zero is none.
volatile const struct address node_ipv4 = {};
volatile const struct address node_ipv6 = {};

// The tunnel to nodes on other networks; 0 is none.
volatile const __u32 overlay = 0;

#define EXTENSION_HEADERS 4 // of IPv6, that are looked past; packets with more are nobody's

struct packet {
	struct tuple tuple;
	__u32 l4;
	__u8 v6;
	__u8 ttl;
	__u8 opening; // TCP SYN without ACK
	__u8 closing; // TCP FIN or RST
};

// parse_ipv4 reads the header of a packet that is no fragment. 0 if it is one.
static __always_inline int parse_ipv4(struct __sk_buff *skb, struct packet *p)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return -1;
	if (ip.version != 4 || ip.ihl < 5 || (ip.frag_off & bpf_htons(0x3fff)))
		return -1;
	p->l4 = ETH_HLEN + ip.ihl * 4;
	p->ttl = ip.ttl;
	ipv4(&p->tuple.source, ip.saddr);
	ipv4(&p->tuple.destination, ip.daddr);
	p->tuple.protocol = ip.protocol;
	return 0;
}

// parse_ipv6 likewise. Options, for each hop or for the destination, are looked past. A packet with a routing header goes elsewhere than its
// destination says, and a fragment may have no ports: neither is ours, nor is one that has IPv4's addresses in IPv6, which here mean IPv4.
static __always_inline int parse_ipv6(struct __sk_buff *skb, struct packet *p)
{
	struct ipv6hdr ip;
	__u8 next;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 6)
		return -1;
	p->v6 = 1;
	p->l4 = ETH_HLEN + sizeof(ip);
	p->ttl = ip.hop_limit;
	__builtin_memcpy(&p->tuple.source, &ip.saddr, sizeof(p->tuple.source));
	__builtin_memcpy(&p->tuple.destination, &ip.daddr, sizeof(p->tuple.destination));
	if (is_ipv4(&p->tuple.source) || is_ipv4(&p->tuple.destination))
		return -1;
	next = ip.nexthdr;
#pragma unroll
	for (int i = 0; i < EXTENSION_HEADERS; i++) {
		struct {
			__u8 next;
			__u8 length; // in eight bytes, without the first eight
		} h;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_DSTOPTS)
			break;
		if (bpf_skb_load_bytes(skb, p->l4, &h, sizeof(h)))
			return -1;
		p->l4 += (h.length + 1) * 8;
		next = h.next;
	}
	p->tuple.protocol = next;
	return 0;
}

// parse reads an unfragmented TCP or UDP packet. 0 if it is one.
static __noinline int parse(struct __sk_buff *skb, struct packet *p, __u8 side)
{
	__builtin_memset(p, 0, sizeof(*p));
	switch (skb->protocol) {
	case bpf_htons(ETH_P_IP):
		if (parse_ipv4(skb, p))
			return -1;
		break;
	case bpf_htons(ETH_P_IPV6):
		if (parse_ipv6(skb, p))
			return -1;
		break;
	default:
		return -1;
	}
	p->tuple.side = side;
	if (p->tuple.protocol == IPPROTO_TCP) {
		struct tcphdr tcp;

		if (bpf_skb_load_bytes(skb, p->l4, &tcp, sizeof(tcp)))
			return -1;
		p->tuple.source_port = tcp.source;
		p->tuple.destination_port = tcp.dest;
		p->opening = tcp.syn && !tcp.ack;
		p->closing = tcp.fin || tcp.rst;
		return 0;
	}
	if (p->tuple.protocol == IPPROTO_UDP) {
		struct udphdr udp;

		if (bpf_skb_load_bytes(skb, p->l4, &udp, sizeof(udp)))
			return -1;
		p->tuple.source_port = udp.source;
		p->tuple.destination_port = udp.dest;
		return 0;
	}
	return -1;
}

// replace_address puts another address in an IP header's field, and into the checksums over it: at `sum` TCP's or UDP's, with these flags.
static __always_inline int replace_address(struct __sk_buff *skb, struct packet *p, __u32 v4_field, __u32 v6_field, struct address *from,
					   struct address *to, __u32 sum, __u64 flags)
{
	if (same(from, to))
		return 0;
	if (p->v6) {
		long difference = bpf_csum_diff(from->w, sizeof(from->w), to->w, sizeof(to->w), 0);

		// There is no checksum of the header itself. Of the whole packet, as a device may have summed it up, the one change undoes the other:
		// the kernel takes the first from its sum, so it has to add the second.
		return difference < 0 || bpf_l4_csum_replace(skb, sum, 0, difference, BPF_F_PSEUDO_HDR | flags) ||
		       bpf_skb_store_bytes(skb, ETH_HLEN + v6_field, to->w, sizeof(to->w), BPF_F_RECOMPUTE_CSUM);
	}
	return bpf_l4_csum_replace(skb, sum, from->w[3], to->w[3], BPF_F_PSEUDO_HDR | 4 | flags) ||
	       bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), from->w[3], to->w[3], 4) ||
	       bpf_skb_store_bytes(skb, ETH_HLEN + v4_field, &to->w[3], 4, 0);
}

static __always_inline int replace_port(struct __sk_buff *skb, __u32 field, __u16 from, __u16 to, __u32 sum, __u64 flags)
{
	if (from == to)
		return 0;
	return bpf_l4_csum_replace(skb, sum, from, to, 2 | flags) || bpf_skb_store_bytes(skb, field, &to, 2, 0);
}

static __always_inline int rewrite(struct __sk_buff *skb, struct packet *p, struct translation *t)
{
	__u32 sum = p->l4 + offsetof(struct tcphdr, check);
	struct tuple *old = &p->tuple;
	__u64 flags = 0;

	if (old->protocol != IPPROTO_TCP) {
		sum = p->l4 + offsetof(struct udphdr, check);
		flags = BPF_F_MARK_MANGLED_0;
	}
	return replace_address(skb, p, offsetof(struct iphdr, saddr), offsetof(struct ipv6hdr, saddr), &old->source, &t->source, sum, flags) ||
	       replace_address(skb, p, offsetof(struct iphdr, daddr), offsetof(struct ipv6hdr, daddr), &old->destination, &t->destination, sum, flags) ||
	       replace_port(skb, p->l4, old->source_port, t->source_port, sum, flags) ||
	       replace_port(skb, p->l4 + 2, old->destination_port, t->destination_port, sum, flags);
}

// hop takes one from the packet's time to live. 0 on success.
static __always_inline int hop(struct __sk_buff *skb, struct packet *p)
{
	__u8 ttl = p->ttl - 1;

	if (p->ttl <= 1)
		return -1;
	if (p->v6)
		return bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, hop_limit), &ttl, 1, BPF_F_RECOMPUTE_CSUM);
	// The checksum is over 16-bit words; time to live is the first byte of its word.
	return bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), p->ttl, ttl, 2) ||
	       bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, ttl), &ttl, 1, 0);
}

// translate sends the packet on as its translation says.
static __noinline int translate(struct __sk_buff *skb, struct packet *p, struct translation *entry)
{
	struct translation t = *entry;

	entry->seen = bpf_ktime_get_ns();
	if (p->closing)
		entry->flags = t.flags | NAT_CLOSED;
	if (rewrite(skb, p, &t))
		return TC_ACT_SHOT;
	if (!(t.flags & NAT_REDIRECT))
		return NEXT;
	if (hop(skb, p))
		return TC_ACT_SHOT;
	return bpf_redirect_neigh(t.out, 0, 0, 0);
}

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

// leads says whether a translation is the way back of the flow whose client sends such packets.
static __always_inline int leads(struct translation *back, struct tuple *in)
{
	return same(&back->source, &in->destination) && back->source_port == in->destination_port &&
	       same(&back->destination, &in->source) && back->destination_port == in->source_port;
}

// remember writes the pair of translations for a new flow. 0 on success.
static __noinline int remember(struct __sk_buff *skb, struct packet *p, struct backend *b, int self)
{
	struct tuple *in = &p->tuple;
	__u64 now = bpf_ktime_get_ns();
	struct translation forward = {
		.source = in->source,
		.source_port = in->source_port,
		.destination = b->address,
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
		.source = b->address,
		.source_port = b->port,
		.destination = in->source,
		.destination_port = in->source_port,
		.protocol = in->protocol,
		.side = SIDE_OUT,
	};

	int local = b->flags & BACKEND_LOCAL;

	if (!local) {
		forward.out = way_to(skb, &b->address, p->v6);
		back.out = skb->ifindex;
		// Of the node's addresses, answers find through the tunnel to its own one alone.
		if (self && forward.out == back.out)
			forward.source = in->destination;
		else if (own_address(&forward.source, p->v6))
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
			if (!leads(taken, in) && !reusable(taken, in->protocol, now, i < PORT_TRIES / 2 ? TIME_WAIT : CLOSED_IDLE))
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
static __noinline int answered(struct tuple *in, struct translation *forward)
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

	return back && leads(back, in);
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
		.address = p.tuple.destination,
		.port = p.tuple.destination_port,
		.protocol = p.tuple.protocol,
		.scope = SCOPE_OUTSIDE,
	};
	struct address client = p.tuple.source;
	struct backend b = {}, sticky = {};

	if (t) {
		// A repeated SYN, or the next datagram: the same backend while it is in rotation.
		sticky.address = t->destination;
		sticky.port = t->destination_port;
	}

	__u8 *role = bpf_map_lookup_elem(&nodes, &key.address);
	int self = role && *role == NODE_SELF;

	// A service that refuses is passed on: the stack answers with a reset or an ICMP error at once.
	if (resolve(&key, 0, &client, &sticky, &b) != CHOSEN || is_ipv4(&b.address) == p.v6)
		return NEXT;
	if (t && same(&b.address, &t->destination) && b.port == t->destination_port)
		return translate(skb, &p, t);
	if (remember(skb, &p, &b, self))
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
