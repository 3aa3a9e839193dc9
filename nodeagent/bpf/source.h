// Whose packet it is: what a pod sends has to come from an address that leads back to the pod's interface.
//
// The node's routes tell, of which the CNI plugin makes one for each address of a pod, before anything of the pod runs. So there is no
// table that an agent has to keep beside them.
#pragma once

#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#include "way.h"

// Packets that were dropped because they came from no address of their pod.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} spoofed SEC(".maps");

// An ARP packet for IPv4 over Ethernet.
struct arp {
	__u16 hardware;
	__u16 protocol;
	__u8 hardware_length;
	__u8 protocol_length;
	__u16 operation;
	__u8 sender_hardware[6];
	__u32 sender;
} __attribute__((packed));

static __always_inline int genuine_arp(struct __sk_buff *skb)
{
	struct arp arp;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &arp, sizeof(arp)) || arp.hardware_length != ETH_ALEN || arp.protocol_length != 4)
		return 0;
	// Nobody's address asks whether one is in use.
	return !arp.sender || returns_ipv4(skb, arp.sender);
}

// genuine_ipv6 lets pass, beside a pod's own addresses, what belongs to the link between pod and node and is never forwarded: link-local
// addresses, which a pod gives itself, and none at all, for who asks whether an address is in use or joins a multicast group.
static __always_inline int genuine_ipv6(struct __sk_buff *skb)
{
	struct {
		__u32 source[4];
		__u32 destination[4];
	} ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN + 8, &ip, sizeof(ip)))
		return 0;
	if ((ip.source[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000))
		return 1;
	if (!(ip.source[0] | ip.source[1] | ip.source[2] | ip.source[3]))
		return (ip.destination[0] & bpf_htonl(0xffff0000)) == bpf_htonl(0xff020000);
	return returns_ipv6(skb, ip.source);
}

// genuine says whether a packet comes from an address of the pod behind the interface. What is neither IP nor ARP is from nobody: the node has
// no use for it, and frames with several VLAN tags would be IP packets again after us.
static __always_inline int genuine(struct __sk_buff *skb)
{
	__u32 source;

	switch (skb->protocol) {
	case bpf_htons(ETH_P_IP):
		return !bpf_skb_load_bytes(skb, ETH_HLEN + 12, &source, sizeof(source)) && returns_ipv4(skb, source);
	case bpf_htons(ETH_P_IPV6):
		return genuine_ipv6(skb);
	case bpf_htons(ETH_P_ARP):
		return genuine_arp(skb);
	}
	return 0;
}

static __always_inline int drop_spoofed(void)
{
	__u32 key = 0;
	__u64 *count = bpf_map_lookup_elem(&spoofed, &key);

	if (count)
		*count += 1;
	return TC_ACT_SHOT;
}
