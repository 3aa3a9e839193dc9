// Packets of services that are translated on their way, over IPv4 and IPv6: those that come from outside (uplink.h), and those of pods for which no
// socket tells whom they dial (pod.h). What is done with a flow stands in one map, in an entry for each way.
#pragma once

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stddef.h>

#include "choose.h"
#include "sctp.h"
#include "way.h"

#define NEXT TC_ACT_UNSPEC // let the kernel (or the next program) go on

// Where a packet is met: on its way into the node by an uplink, or out of it; on its way from a pod, or to it.
#define SIDE_IN 0
#define SIDE_OUT 1
#define SIDE_FROM_POD 2
#define SIDE_TO_POD 3

#define NAT_REDIRECT 1 // leaves by an uplink again
#define NAT_FORWARD 2  // client to backend; the other entry of the pair is the way back
#define NAT_CLOSED 4   // the connection was seen to end

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
	__u32 end; // as the IP header says: a frame may be padded
	__u8 v6;
	__u8 ttl;
	__u8 begins;  // may be a flow's first: a TCP SYN without ACK, an SCTP INIT, any datagram
	__u8 closing; // TCP FIN or RST, and what ends an SCTP association
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
	p->end = ETH_HLEN + bpf_ntohs(ip.tot_len);
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
	p->end = p->l4 + bpf_ntohs(ip.payload_len);
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

static __always_inline int parse_tcp(struct __sk_buff *skb, struct packet *p)
{
	struct tcphdr tcp;

	if (bpf_skb_load_bytes(skb, p->l4, &tcp, sizeof(tcp)))
		return -1;
	p->tuple.source_port = tcp.source;
	p->tuple.destination_port = tcp.dest;
	p->begins = tcp.syn && !tcp.ack;
	p->closing = tcp.fin || tcp.rst;
	return 0;
}

static __always_inline int parse_udp(struct __sk_buff *skb, struct packet *p)
{
	struct udphdr udp;

	if (bpf_skb_load_bytes(skb, p->l4, &udp, sizeof(udp)))
		return -1;
	p->tuple.source_port = udp.source;
	p->tuple.destination_port = udp.dest;
	p->begins = 1;
	return 0;
}

static __always_inline int parse_sctp(struct __sk_buff *skb, struct packet *p)
{
	struct sctp sctp;

	if (bpf_skb_load_bytes(skb, p->l4, &sctp, sizeof(sctp)))
		return -1;
	p->tuple.source_port = sctp.source;
	p->tuple.destination_port = sctp.destination;
	p->begins = sctp.chunk == SCTP_INIT;
	p->closing = sctp_ends(sctp.chunk);
	return 0;
}

// parse reads an unfragmented TCP, UDP or SCTP packet into p, which is all zeros. 0 if it is one.
__noinline int parse(struct __sk_buff *skb, struct packet *p, __u8 side)
{
	if (!p)
		return -1;
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
	switch (p->tuple.protocol) {
	case IPPROTO_TCP:
		return parse_tcp(skb, p);
	case IPPROTO_UDP:
		return parse_udp(skb, p);
	case IPPROTO_SCTP:
		return parse_sctp(skb, p);
	}
	return -1;
}

// store_address puts another address in an IP header's field, and into the checksum of the header, which IPv6 has not.
static __always_inline int store_address(struct __sk_buff *skb, struct packet *p, __u32 v4_field, __u32 v6_field, struct address *from, struct address *to)
{
	if (same(from, to))
		return 0;
	if (p->v6)
		return bpf_skb_store_bytes(skb, ETH_HLEN + v6_field, to->w, sizeof(to->w), BPF_F_RECOMPUTE_CSUM);
	return bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), from->w[3], to->w[3], 4) ||
	       bpf_skb_store_bytes(skb, ETH_HLEN + v4_field, &to->w[3], 4, 0);
}

// replace_address is store_address where TCP's or UDP's checksum, at `sum` with these flags, is over the addresses, too.
static __always_inline int replace_address(struct __sk_buff *skb, struct packet *p, __u32 v4_field, __u32 v6_field, struct address *from,
					   struct address *to, __u32 sum, __u64 flags)
{
	if (same(from, to))
		return 0;
	if (p->v6) {
		long difference = bpf_csum_diff(from->w, sizeof(from->w), to->w, sizeof(to->w), 0);

		// Of the whole packet, as a device may have summed it up, the one change undoes the other: the kernel takes the first from its
		// sum, so it has to add the second.
		if (difference < 0 || bpf_l4_csum_replace(skb, sum, 0, difference, BPF_F_PSEUDO_HDR | flags))
			return -1;
	} else if (bpf_l4_csum_replace(skb, sum, from->w[3], to->w[3], BPF_F_PSEUDO_HDR | 4 | flags)) {
		return -1;
	}
	return store_address(skb, p, v4_field, v6_field, from, to);
}

static __always_inline int replace_port(struct __sk_buff *skb, __u32 field, __u16 from, __u16 to, __u32 sum, __u64 flags)
{
	if (from == to)
		return 0;
	return bpf_l4_csum_replace(skb, sum, from, to, 2 | flags) || bpf_skb_store_bytes(skb, field, &to, 2, 0);
}

static __always_inline int rewrite_sctp(struct __sk_buff *skb, struct packet *p, struct translation *t)
{
	struct tuple *old = &p->tuple;
	__u32 ports = old->source_port | (__u32)old->destination_port << 16;
	__u32 wanted = t->source_port | (__u32)t->destination_port << 16;

	return store_address(skb, p, offsetof(struct iphdr, saddr), offsetof(struct ipv6hdr, saddr), &old->source, &t->source) ||
	       store_address(skb, p, offsetof(struct iphdr, daddr), offsetof(struct ipv6hdr, daddr), &old->destination, &t->destination) ||
	       sctp_replace_ports(skb, p->l4, p->end - p->l4, ports, wanted);
}

static __always_inline int rewrite(struct __sk_buff *skb, struct packet *p, struct translation *t)
{
	__u32 sum = p->l4 + offsetof(struct tcphdr, check);
	struct tuple *old = &p->tuple;
	__u64 flags = 0;

	if (old->protocol == IPPROTO_SCTP)
		return rewrite_sctp(skb, p, t);
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
__noinline int translate(struct __sk_buff *skb, struct packet *p, struct translation *entry)
{
	if (!p || !entry)
		return TC_ACT_SHOT;

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
