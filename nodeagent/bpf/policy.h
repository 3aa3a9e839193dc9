// Network policies, at the node's end of every pod's interface, in both directions, and source.h: whose packets they are.
//
// A packet costs at most one look-up each of its pod, its connection, its far address and its port, whatever the number of
// policies is. Addresses are as in maps.h: 16 bytes in network order, IPv4 as ::ffff:a.b.c.d. Ports are in network order.
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NEXT TC_ACT_UNSPEC // let the kernel (or the next program) go on

// Directions, as the pod sees them.
#define INGRESS 0
#define EGRESS 1

#define SECOND 1000000000ULL
#define TCP_IDLE (86400 * SECOND)
#define CLOSED_IDLE (120 * SECOND) // after a connection's end was seen
#define OTHER_IDLE (180 * SECOND)
#define FRAGMENT_IDLE (30 * SECOND)

struct address {
	__u32 w[4];
};

// What holds for the pod behind an interface: a number of rules for each direction, 0 = not isolated.
struct subject {
	__u32 sets[2];
};

struct peer_key {
	__u32 prefix_length; // bits, of set and address together
	__u32 set;
	struct address address;
};

struct port_key {
	__u32 prefix_length; // bits, of set, protocol (two bytes) and port together
	__u32 set;
	__u8 protocol;
	__u8 unused;
	__u16 port;
};

// One bit for each range of ports that the rules of a set name.
struct bits {
	__u64 w[4];
};

// A connection as the pod's side sees it. An echo has its identifier as the local port, and who asks as the remote one.
struct connection_key {
	__u32 ifindex;
	struct address local;
	struct address remote;
	__u16 local_port;
	__u16 remote_port;
	__u8 protocol;
	__u8 unused[3];
};

struct connection {
	__u64 seen; // nanoseconds, monotonic
	__u8 origin; // the direction of its first packet
	__u8 closed;
	__u8 unused[6];
};

struct fragment_key {
	__u32 ifindex;
	__u32 id;
	struct address local;
	struct address remote;
	__u8 protocol;
	__u8 direction;
	__u16 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32); // ifindex
	__type(value, struct subject);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} subjects SEC(".maps");

// The addresses of this node.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct address);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} own SEC(".maps");

// Which of the set's ranges of ports an address may use. The entry of a prefix holds all that its addresses may, so the longest one tells.
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1048576);
	__type(key, struct peer_key);
	__type(value, struct bits);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} peers SEC(".maps");

// Which of the set's ranges of ports a port is in; likewise.
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct port_key);
	__type(value, struct bits);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 131072);
	__type(key, struct connection_key);
	__type(value, struct connection);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} connections SEC(".maps");

// The datagrams whose first fragment passed, and when.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct fragment_key);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fragments SEC(".maps");

// Packets that were dropped, by direction.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} drops SEC(".maps");

#include "sctp.h"
#include "source.h"

struct packet {
	struct connection_key key;
	__u32 l4;
	__u32 id;	 // of the datagram that it is a part of
	__u16 port;	 // the one that rules are about: the destination's
	__u8 first;	 // the first of several fragments
	__u8 later;	 // another one: it has no ports
	__u8 opening;	 // cannot be an answer: a TCP SYN without ACK, an SCTP INIT, an echo request
	__u8 answer;	 // cannot be a beginning: a TCP SYN with ACK or RST, an SCTP INIT-ACK or ABORT, an echo reply
	__u8 closing;	 // TCP FIN or RST, and what ends an SCTP association
	__u8 always;	 // passes whatever the rules are
};

#define PARSED 0
#define FOREIGN 1 // neither IPv4 nor IPv6
#define BROKEN 2

static __always_inline void mapped(struct address *a, __u32 ipv4)
{
	a->w[0] = 0;
	a->w[1] = 0;
	a->w[2] = bpf_htonl(0xffff);
	a->w[3] = ipv4;
}

static __always_inline void sides(struct packet *p, int direction, struct address *source, struct address *destination)
{
	p->key.local = direction == INGRESS ? *destination : *source;
	p->key.remote = direction == INGRESS ? *source : *destination;
}

static __always_inline int parse_ipv4(struct __sk_buff *skb, struct packet *p, int direction)
{
	struct address source, destination;
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return BROKEN;
	mapped(&source, ip.saddr);
	mapped(&destination, ip.daddr);
	sides(p, direction, &source, &destination);
	p->key.protocol = ip.protocol;
	p->l4 = ETH_HLEN + ip.ihl * 4;
	p->id = ip.id;
	p->later = (ip.frag_off & bpf_htons(0x1fff)) != 0;
	p->first = !p->later && (ip.frag_off & bpf_htons(0x2000));
	return PARSED;
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, struct packet *p, int direction)
{
	struct address source, destination;
	struct ipv6hdr ip;
	__u8 next;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 6)
		return BROKEN;
	__builtin_memcpy(&source, &ip.saddr, sizeof(source));
	__builtin_memcpy(&destination, &ip.daddr, sizeof(destination));
	sides(p, direction, &source, &destination);
	p->l4 = ETH_HLEN + sizeof(ip);
	next = ip.nexthdr;
#pragma unroll
	for (int i = 0; i < 6; i++) {
		struct {
			__u8 next;
			__u8 length;
			__u16 offset;
			__u32 id;
		} h;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS && next != IPPROTO_FRAGMENT)
			break;
		if (bpf_skb_load_bytes(skb, p->l4, &h, sizeof(h)))
			return BROKEN;
		if (next == IPPROTO_FRAGMENT) {
			p->id = h.id;
			p->later = (h.offset & bpf_htons(0xfff8)) != 0;
			p->first = !p->later && (h.offset & bpf_htons(1));
			p->l4 += 8;
			next = h.next;
			break; // of later ones, what follows is not a header
		}
		p->l4 += (h.length + 1) * 8;
		next = h.next;
	}
	p->key.protocol = next;
	return PARSED;
}

static __always_inline void set_ports(struct packet *p, int direction, __u16 source, __u16 destination)
{
	p->key.local_port = direction == INGRESS ? destination : source;
	p->key.remote_port = direction == INGRESS ? source : destination;
	p->port = destination;
}

// parse_icmp tells errors and neighbour discovery, which always pass, from echoes, which are connections.
static __always_inline int parse_icmp(struct __sk_buff *skb, struct packet *p, int direction, int v6)
{
	struct {
		__u8 type;
		__u8 code;
		__u16 sum;
		__u16 id;
		__u16 sequence;
	} h;

	if (bpf_skb_load_bytes(skb, p->l4, &h, sizeof(h)))
		return BROKEN;
	if (v6)
		p->always = h.type < 128 || (h.type >= 130 && h.type <= 137) || h.type == 143;
	else
		p->always = h.type == 3 || h.type == 4 || h.type == 11 || h.type == 12;
	p->opening = h.type == (v6 ? 128 : 8);
	p->answer = h.type == (v6 ? 129 : 0);
	if (p->opening || p->answer) {
		p->key.local_port = h.id;
		p->key.remote_port = p->opening ? direction : !direction;
	}
	return PARSED;
}

static __always_inline int parse_l4(struct __sk_buff *skb, struct packet *p, int direction, int v6)
{
	struct {
		__u16 source;
		__u16 destination;
	} h;

	switch (p->key.protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		if (bpf_skb_load_bytes(skb, p->l4, &h, sizeof(h)))
			return BROKEN;
		set_ports(p, direction, h.source, h.destination);
		break;
	case IPPROTO_ICMP:
		return v6 ? PARSED : parse_icmp(skb, p, direction, 0);
	case IPPROTO_ICMPV6:
		return v6 ? parse_icmp(skb, p, direction, 1) : PARSED;
	}
	if (p->key.protocol == IPPROTO_TCP) {
		__u8 flags;

		if (bpf_skb_load_bytes(skb, p->l4 + 13, &flags, sizeof(flags)))
			return BROKEN;
		p->opening = (flags & 0x12) == 0x02;
		p->answer = (flags & 0x12) == 0x12 || (flags & 0x04);
		p->closing = (flags & 0x05) != 0;
	}
	if (p->key.protocol == IPPROTO_SCTP) {
		__u8 chunk;

		if (bpf_skb_load_bytes(skb, p->l4 + offsetof(struct sctp, chunk), &chunk, sizeof(chunk)))
			return BROKEN;
		p->opening = chunk == SCTP_INIT;
		p->answer = chunk == SCTP_INIT_ACK || chunk == SCTP_ABORT;
		p->closing = sctp_ends(chunk);
	}
	return PARSED;
}

static __always_inline int parse(struct __sk_buff *skb, struct packet *p, int direction)
{
	int v6 = skb->protocol == bpf_htons(ETH_P_IPV6), result;

	if (!v6 && skb->protocol != bpf_htons(ETH_P_IP))
		return FOREIGN;
	result = v6 ? parse_ipv6(skb, p, direction) : parse_ipv4(skb, p, direction);
	if (result || p->later)
		return result;
	return parse_l4(skb, p, direction, v6);
}

// allows says whether the set's rules let the packet pass.
static __always_inline int allows(__u32 set, struct packet *p)
{
	struct peer_key who = {.prefix_length = 32 + 128, .set = set, .address = p->key.remote};
	struct port_key what = {.prefix_length = 32 + 32, .set = set, .protocol = p->key.protocol, .port = p->port};
	struct bits *a, *b;

	a = bpf_map_lookup_elem(&peers, &who);
	if (!a)
		return 0;
	b = bpf_map_lookup_elem(&ports, &what);
	if (!b)
		return 0;
	return ((a->w[0] & b->w[0]) | (a->w[1] & b->w[1]) | (a->w[2] & b->w[2]) | (a->w[3] & b->w[3])) != 0;
}

static __always_inline int drop(int direction)
{
	__u32 key = direction;
	__u64 *count = bpf_map_lookup_elem(&drops, &key);

	if (count)
		*count += 1;
	return TC_ACT_SHOT;
}

static __always_inline void fragment_of(struct fragment_key *f, struct packet *p, int direction)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->ifindex = p->key.ifindex;
	f->id = p->id;
	f->local = p->key.local;
	f->remote = p->key.remote;
	f->protocol = p->key.protocol;
	f->direction = direction;
}

// pass lets the rest of the datagram follow.
static __always_inline int pass(struct packet *p, int direction, __u32 set)
{
	if (p->first && set) {
		struct fragment_key f;
		__u64 now = bpf_ktime_get_ns();

		fragment_of(&f, p, direction);
		bpf_map_update_elem(&fragments, &f, &now, BPF_ANY);
	}
	return NEXT;
}

static __always_inline int live(struct connection *c, __u8 protocol, __u64 now)
{
	__u64 idle = now - c->seen;

	if (c->closed)
		return idle < CLOSED_IDLE;
	return idle < (protocol == IPPROTO_TCP || protocol == IPPROTO_SCTP ? TCP_IDLE : OTHER_IDLE);
}

static __always_inline void refresh(struct connection *c, struct packet *p, __u64 now)
{
	if (now - c->seen > SECOND) // not every packet takes the cache line
		c->seen = now;
	if (p->closing)
		c->closed = 1;
}

// judge decides on one packet of the pod behind the interface.
//
// A packet that a pod sends in another's name goes nowhere, whether or not a policy is about the pod: rules, here and at other nodes, tell
// peers apart by their addresses.
//
// The packets that go the way of a connection's first one are asked about each time, so that a changed policy cuts what it
// forbids; those that go the other way are answers. Connections are remembered of pods that no policy is about, too: one that comes later
// must not cut what it does not forbid.
static __always_inline int judge(struct __sk_buff *skb, int direction)
{
	struct packet p;
	__u32 ifindex = skb->ifindex;
	struct subject *subject;

	if (direction == EGRESS && !genuine(skb))
		return drop_spoofed();
	subject = bpf_map_lookup_elem(&subjects, &ifindex);
	if (!subject)
		return NEXT;

	__u32 set = subject->sets[direction];
	int isolated = set || subject->sets[!direction];

	// What the node sends itself came in by no interface; no pod can forge that.
	if (direction == INGRESS && !skb->ingress_ifindex)
		return NEXT;
	__builtin_memset(&p, 0, sizeof(p));
	p.key.ifindex = ifindex;
	switch (parse(skb, &p, direction)) {
	case FOREIGN:
		return NEXT;
	case BROKEN:
		return set ? drop(direction) : NEXT;
	}
	if (p.always)
		return pass(&p, direction, set);
	if (direction == EGRESS && bpf_map_lookup_elem(&own, &p.key.remote))
		return pass(&p, direction, set);
	if (p.later) {
		struct fragment_key f;
		__u64 *passed;

		if (!set)
			return NEXT;
		fragment_of(&f, &p, direction);
		passed = bpf_map_lookup_elem(&fragments, &f);
		return passed && bpf_ktime_get_ns() - *passed < FRAGMENT_IDLE ? NEXT : drop(direction);
	}
	if (!isolated && p.key.protocol == IPPROTO_TCP && !p.opening)
		return NEXT;

	__u64 now = bpf_ktime_get_ns();
	struct connection *c = bpf_map_lookup_elem(&connections, &p.key);

	if (c && !live(c, p.key.protocol, now))
		c = NULL;
	if (c && c->origin != direction && !p.opening) {
		refresh(c, &p, now);
		return pass(&p, direction, set);
	}
	if (set && !allows(set, &p))
		return drop(direction);
	if (c && c->origin == direction && !(p.opening && c->closed)) {
		refresh(c, &p, now);
		return pass(&p, direction, set);
	}
	if (!p.answer) {
		struct connection fresh = {.seen = now, .origin = direction};

		bpf_map_update_elem(&connections, &p.key, &fresh, BPF_ANY);
	}
	return pass(&p, direction, set);
}

SEC("tcx/egress")
int policy_to_pod(struct __sk_buff *skb)
{
	return judge(skb, INGRESS);
}

SEC("tcx/ingress")
int policy_from_pod(struct __sk_buff *skb)
{
	return judge(skb, EGRESS);
}
