// SPDX-License-Identifier: GPL-2.0
/* Writes, for each listening socket, the owner of its congestion-control algorithm; owner.rs reads
 * that. This object is loaded before the datapath, and by processes that load no datapath.
 */
#include "kernel_types.h"

char LICENSE[] SEC("license") = "GPL";

struct tcp_congestion_ops___owner {
	void *owner;
} __attribute__((preserve_access_index));

/* What is written for each listening socket: SocketOwner in layout.rs */
struct remuda_socket_owner {
	u64 cookie;
	u64 owner; /* address of the module, or a mark */
};

_Static_assert(sizeof(struct remuda_socket_owner) == 16, "layout.rs");

SEC("iter/tcp")
int remuda_owner(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_congestion_ops___owner *owned;
	struct remuda_socket_owner written = {};
	struct tcp_sock *tp;

	if (!common || common->skc_state != TCP_LISTEN)
		return 0;
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	written.cookie = common->skc_cookie.counter;
	owned = (const void *)inet_csk((struct sock *)tp)->icsk_ca_ops;
	written.owner = (u64)BPF_CORE_READ(owned, owner);
	bpf_seq_write(ctx->meta->seq, &written, sizeof(written));
	return 0;
}
