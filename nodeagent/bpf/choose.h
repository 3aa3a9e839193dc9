// Choosing a backend: one hash lookup a step, whatever the number of services.
#pragma once

#include "maps.h"

#define NOT_SERVICE 0
#define CHOSEN 1
#define REFUSED 2

#define IPV4_WORD bpf_htonl(0xffff)
#define SECOND 1000000000ULL

static __always_inline void ipv4(struct address *a, __u32 v4)
{
	a->w[0] = 0;
	a->w[1] = 0;
	a->w[2] = IPV4_WORD;
	a->w[3] = v4;
}

static __always_inline int is_ipv4(const struct address *a)
{
	return a->w[0] == 0 && a->w[1] == 0 && a->w[2] == IPV4_WORD;
}

static __always_inline int same(const struct address *a, const struct address *b)
{
	return a->w[0] == b->w[0] && a->w[1] == b->w[1] && a->w[2] == b->w[2] && a->w[3] == b->w[3];
}

static __always_inline int is_loopback(const struct address *a)
{
	if (is_ipv4(a))
		return (a->w[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
	return a->w[0] == 0 && a->w[1] == 0 && a->w[2] == 0 && a->w[3] == bpf_htonl(1);
}

// unspecified keeps nothing of an address but its family.
static __always_inline void unspecified(struct address *a)
{
	a->w[2] = is_ipv4(a) ? IPV4_WORD : 0;
	a->w[0] = 0;
	a->w[1] = 0;
	a->w[3] = 0;
}

static __always_inline int is_member(__u32 set, const struct backend *b)
{
	struct member_key k = {.set = set, .address = b->address, .port = b->port};

	return bpf_map_lookup_elem(&members, &k) != 0;
}

static __always_inline int source_allowed(__u64 service, const struct address *client)
{
	struct source_key k = {.prefix_length = 64 + 128, .address = *client};

	k.service[0] = (__u32)service;
	k.service[1] = (__u32)(service >> 32);
	return bpf_map_lookup_elem(&sources, &k) != 0;
}

// choose picks a backend for the frontend `key`. `client` names the client for session affinity; `sticky` is
// the backend that the flow used so far (port 0 = none) and is kept as long as it is in rotation.
//
// The agent replaces elements while programs run, and the kernel may hand a replaced element's memory to
// another key at once. So what was read is checked by a second lookup, and read again if it has changed.
//
// The larger functions, this one first, are not static: the kernel checks such a function once, whoever calls it, and a static one anew at each call,
// with all that it knows there. What they are given may be nothing, as far as the kernel sees, and has to be written before (Linux 6.4 asks for that no more).
__noinline int choose(struct frontend_key *key, struct address *client, struct backend *sticky,
			     struct backend *out)
{
	if (!key || !client || !sticky || !out)
		return NOT_SERVICE;
	for (int try = 0; try < 4; try++) {
		struct frontend *f = bpf_map_lookup_elem(&frontends, key);

		if (!f)
			return NOT_SERVICE;

		__u64 service = f->service;
		__u32 set = f->set, count = f->count, affinity = f->affinity, flags = f->flags;
		int found = 0;
		struct affinity_key ak = {.service = service, .client = *client};

		if (affinity && count) {
			struct affinity *a = bpf_map_lookup_elem(&affinities, &ak);

			if (a && bpf_ktime_get_ns() - a->used < affinity * SECOND) {
				*out = a->backend;
				found = is_member(set, out);
			}
		} else if (count && sticky->port) {
			*out = *sticky;
			found = is_member(set, out);
		}
		if (!found && count) {
			struct slot_key sk = {.set = set};
			struct backend *b;

			sk.slot = __sync_fetch_and_add(&f->next, 1) % count;
			b = bpf_map_lookup_elem(&slots, &sk);
			if (!b)
				continue;
			*out = *b;
		}

		f = bpf_map_lookup_elem(&frontends, key);
		if (!f || f->set != set || f->service != service)
			continue;
		if (!count)
			return REFUSED;
		if ((flags & FRONTEND_CHECK_SOURCE) && !source_allowed(service, client))
			return REFUSED;
		if (affinity) {
			struct affinity a = {.used = bpf_ktime_get_ns(), .backend = *out};

			bpf_map_update_elem(&affinities, &ak, &a, BPF_ANY);
		}
		return CHOSEN;
	}
	return REFUSED;
}

// resolve looks for a service behind `key`: the address itself, then NodePort and hostPort if it is a node's.
static __always_inline int resolve(struct frontend_key *key, int self, struct address *client,
				   struct backend *sticky, struct backend *out)
{
	int verdict = choose(key, client, sticky, out);

	if (verdict != NOT_SERVICE)
		return verdict;

	__u8 *role = bpf_map_lookup_elem(&nodes, &key->address);

	if (!role && !self)
		return NOT_SERVICE;
	if (role && *role == NODE_SELF)
		self = 1;
	unspecified(&key->address);
	key->scope |= SCOPE_ANY_NODE;
	verdict = choose(key, client, sticky, out);
	if (verdict != NOT_SERVICE || !self)
		return verdict;
	key->scope ^= SCOPE_ANY_NODE | SCOPE_THIS_NODE;
	return choose(key, client, sticky, out);
}
