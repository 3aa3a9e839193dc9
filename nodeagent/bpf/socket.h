// Load balancing at the socket: a connect or sendmsg to a service is pointed at a backend before any packet
// exists, so established connections need no further work and no connection tracking.
#pragma once

#include "choose.h"

#define ECONNREFUSED 111

// The node's own network namespace: only there does loopback mean the node.
volatile const __u64 host_netns = 0;

struct dial {
	struct address to; // in: what was dialled; out: the backend
	__u32 port;
	__u64 cookie;
	__u64 netns;
};

static __always_inline int known(__u32 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

static __always_inline void flow_of(struct flow_key *k, __u64 cookie, const struct address *a, __u16 port)
{
	__builtin_memset(k, 0, sizeof(*k));
	k->cookie = cookie;
	k->address = *a;
	k->port = port;
}

// dialled rewrites `d`. Returns a verdict of choose.
static __always_inline int dialled(struct dial *d, __u8 protocol, int connected)
{
	struct frontend_key key = {.address = d->to, .port = d->port, .protocol = protocol, .scope = SCOPE_SOCKET};
	struct address client = {.w = {0, 0, (__u32)d->netns, (__u32)(d->netns >> 32)}};
	struct backend sticky = {}, b = {};
	struct flow_key flow;
	int self = 0;

	if (is_loopback(&d->to)) {
		if (d->netns != host_netns)
			return NOT_SERVICE;
		self = 1;
	}
	if (!connected) {
		struct backend *used;

		flow_of(&flow, d->cookie, &d->to, d->port);
		used = bpf_map_lookup_elem(&flows, &flow);
		if (used)
			sticky = *used;
	}

	int verdict = resolve(&key, self, &client, &sticky, &b);

	if (verdict == NOT_SERVICE && connected && protocol == IPPROTO_UDP) {
		// A UDP socket can connect again; what it had dialled through a service is no longer true. (A sendmsg
		// proves nothing: connected sockets with a mapped address come by here with the backend's.)
		flow_of(&flow, d->cookie, &d->to, d->port);
		if (bpf_map_lookup_elem(&origins, &flow))
			bpf_map_delete_elem(&origins, &flow);
	}
	if (verdict != CHOSEN)
		return verdict;

	struct endpoint dialled_end = {.address = d->to, .port = d->port};

	if (!connected && (b.port != sticky.port || !same(&b.address, &sticky.address)))
		bpf_map_update_elem(&flows, &flow, &b, BPF_ANY);

	flow_of(&flow, d->cookie, &b.address, b.port);
	bpf_map_update_elem(&origins, &flow, &dialled_end, BPF_ANY);
	d->to = b.address;
	d->port = b.port;
	return CHOSEN;
}

// dialled_by gives what the socket had dialled to talk to this far end. 1 if it was a service.
static __always_inline int dialled_by(struct dial *d)
{
	struct flow_key flow;
	struct endpoint *e;

	flow_of(&flow, d->cookie, &d->to, d->port);
	e = bpf_map_lookup_elem(&origins, &flow);
	if (!e)
		return 0;
	d->to = e->address;
	d->port = e->port;
	return 1;
}

static __always_inline int refuse(void)
{
	bpf_set_retval(-ECONNREFUSED);
	return 0;
}

static __always_inline int out4(struct bpf_sock_addr *ctx, int connected)
{
	struct dial d = {.port = (__u16)ctx->user_port};
	__u32 protocol = ctx->protocol;

	if (!known(protocol))
		return 1;
	ipv4(&d.to, ctx->user_ip4);
	d.cookie = bpf_get_socket_cookie(ctx);
	d.netns = bpf_get_netns_cookie(ctx);
	switch (dialled(&d, protocol, connected)) {
	case REFUSED:
		return refuse();
	case CHOSEN:
		if (!is_ipv4(&d.to))
			return refuse();
		ctx->user_ip4 = d.to.w[3];
		ctx->user_port = d.port;
	}
	return 1;
}

static __always_inline int out6(struct bpf_sock_addr *ctx, int connected)
{
	struct dial d = {.port = (__u16)ctx->user_port};
	__u32 protocol = ctx->protocol;

	if (!known(protocol))
		return 1;
	d.to.w[0] = ctx->user_ip6[0];
	d.to.w[1] = ctx->user_ip6[1];
	d.to.w[2] = ctx->user_ip6[2];
	d.to.w[3] = ctx->user_ip6[3];
	d.cookie = bpf_get_socket_cookie(ctx);
	d.netns = bpf_get_netns_cookie(ctx);
	switch (dialled(&d, protocol, connected)) {
	case REFUSED:
		return refuse();
	case CHOSEN:
		ctx->user_ip6[0] = d.to.w[0];
		ctx->user_ip6[1] = d.to.w[1];
		ctx->user_ip6[2] = d.to.w[2];
		ctx->user_ip6[3] = d.to.w[3];
		ctx->user_port = d.port;
	}
	return 1;
}

static __always_inline int in4(struct bpf_sock_addr *ctx)
{
	struct dial d = {.port = (__u16)ctx->user_port};

	if (!known(ctx->protocol))
		return 1;
	ipv4(&d.to, ctx->user_ip4);
	d.cookie = bpf_get_socket_cookie(ctx);
	if (dialled_by(&d) && is_ipv4(&d.to)) {
		ctx->user_ip4 = d.to.w[3];
		ctx->user_port = d.port;
	}
	return 1;
}

static __always_inline int in6(struct bpf_sock_addr *ctx)
{
	struct dial d = {.port = (__u16)ctx->user_port};

	if (!known(ctx->protocol))
		return 1;
	d.to.w[0] = ctx->user_ip6[0];
	d.to.w[1] = ctx->user_ip6[1];
	d.to.w[2] = ctx->user_ip6[2];
	d.to.w[3] = ctx->user_ip6[3];
	d.cookie = bpf_get_socket_cookie(ctx);
	if (dialled_by(&d)) {
		ctx->user_ip6[0] = d.to.w[0];
		ctx->user_ip6[1] = d.to.w[1];
		ctx->user_ip6[2] = d.to.w[2];
		ctx->user_ip6[3] = d.to.w[3];
		ctx->user_port = d.port;
	}
	return 1;
}

SEC("cgroup/connect4")
int lb_connect4(struct bpf_sock_addr *ctx)
{
	return out4(ctx, 1);
}

SEC("cgroup/connect6")
int lb_connect6(struct bpf_sock_addr *ctx)
{
	return out6(ctx, 1);
}

SEC("cgroup/sendmsg4")
int lb_sendmsg4(struct bpf_sock_addr *ctx)
{
	return out4(ctx, 0);
}

SEC("cgroup/sendmsg6")
int lb_sendmsg6(struct bpf_sock_addr *ctx)
{
	return out6(ctx, 0);
}

SEC("cgroup/recvmsg4")
int lb_recvmsg4(struct bpf_sock_addr *ctx)
{
	return in4(ctx);
}

SEC("cgroup/recvmsg6")
int lb_recvmsg6(struct bpf_sock_addr *ctx)
{
	return in6(ctx);
}

SEC("cgroup/getpeername4")
int lb_getpeername4(struct bpf_sock_addr *ctx)
{
	return in4(ctx);
}

SEC("cgroup/getpeername6")
int lb_getpeername6(struct bpf_sock_addr *ctx)
{
	return in6(ctx);
}
