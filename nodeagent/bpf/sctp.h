// SCTP (RFC 9260), as far as those have to know it who look at its packets or change their ports.
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stddef.h>

// Types of chunks.
#define SCTP_INIT 1
#define SCTP_INIT_ACK 2
#define SCTP_ABORT 6
#define SCTP_SHUTDOWN 7
#define SCTP_SHUTDOWN_ACK 8
#define SCTP_SHUTDOWN_COMPLETE 14

// Polynomials have their highest power in the lowest bit.
#define CRC32C 0x82f63b78
#define CRC_ONE 0x80000000

// The common header, and the type of the first chunk: INIT, and what ends an association, begin their packets.
struct sctp {
	__u16 source;
	__u16 destination;
	__u32 tag;
	__u32 sum; // CRC32c of the whole packet, with this field 0
	__u8 chunk;
} __attribute__((packed));

// sctp_ends says whether a chunk ends an association, at once or soon.
static __always_inline int sctp_ends(__u8 chunk)
{
	return chunk == SCTP_ABORT || chunk == SCTP_SHUTDOWN || chunk == SCTP_SHUTDOWN_ACK || chunk == SCTP_SHUTDOWN_COMPLETE;
}

// times gives the number if the bit is 1, and else 0. The kernel follows both ways of a branch, and of a shift that makes a mask of a bit: with two at each
// bit it would never end. So the compiler must not know that this is one.
static __always_inline __u32 times(__u32 number, __u32 bit)
{
	barrier_var(bit);
	return number * bit;
}

// crc_multiply gives the product of two polynomials modulo CRC32c's.
static __always_inline __u32 crc_multiply(__u32 a, __u32 b)
{
	__u32 product = 0;

#pragma unroll
	for (int i = 0; i < 32; i++) {
		product ^= times(b, a >> 31);
		a <<= 1;
		b = b >> 1 ^ times(CRC32C, b & 1);
	}
	return product;
}

// x to the power of eight times 1, 2, 4 and so on: what so many bytes of zeros do to a checksum.
const __u32 crc_zeros[16] = {
	0x00800000, 0x00008000, 0x82f63b78, 0x6ea2d55c, 0x18b8ea18, 0x510ac59a, 0xb82be955, 0xb8fdb1e7,
	0x88e56f72, 0x74c360a4, 0xe4172b16, 0x0d65762a, 0x35d73a62, 0x28461564, 0xbf455269, 0xe2ea32dc,
};

// crc_difference gives by how much the checksum of a packet of so many bytes changes if the difference is added to its first four. The CRC of a
// sum is the sum of the CRCs, so the packet's other bytes do not matter: they are zeros in the difference. It is no static function, so that the kernel
// checks it once, and not for each call.
__noinline __u32 crc_difference(__u32 difference, __u32 length)
{
	for (int i = 0; i < 16 && length >> i; i++) {
		__u32 taken = length >> i & 1;

		difference = crc_multiply(difference, times(crc_zeros[i], taken) | times(CRC_ONE, !taken));
	}
	return difference;
}

// sctp_replace_ports puts other ports (both as they stand in the header) into a packet of so many bytes, and into its checksum. A checksum of 0
// is one that the device is to compute, once the packet is sent; that a right one is 0 is as likely as that a wrong one is not noticed.
static __always_inline int sctp_replace_ports(struct __sk_buff *skb, __u32 l4, __u32 length, __u32 from, __u32 to)
{
	__u32 sum;

	if (from == to)
		return 0;
	if (bpf_skb_load_bytes(skb, l4 + offsetof(struct sctp, sum), &sum, sizeof(sum)))
		return -1;
	if (sum) {
		sum ^= crc_difference(from ^ to, length);
		if (bpf_skb_store_bytes(skb, l4 + offsetof(struct sctp, sum), &sum, sizeof(sum), BPF_F_RECOMPUTE_CSUM))
			return -1;
	}
	return bpf_skb_store_bytes(skb, l4, &to, sizeof(to), BPF_F_RECOMPUTE_CSUM);
}
