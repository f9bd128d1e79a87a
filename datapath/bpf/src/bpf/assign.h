/* SPDX-License-Identifier: GPL-2.0 */
/* Takes sockets over and gives them back: a cgroup's sockets after their handshake, the sockets
 * that a former agent left, and on exit all sockets back to the kernel's algorithm.
 */
#ifndef REMUDA_ASSIGN_H
#define REMUDA_ASSIGN_H

#include "maps.h"
#include "name.h"

/* Sets the initial window before the algorithm, so that remuda_init sees that window. */
SEC("sockops")
int remuda_assign(struct bpf_sock_ops *ops)
{
	struct remuda_shared *s = shared();
	char name[TCP_CA_NAME_MAX];
	u32 initial = config.assign_initial_cwnd_pkts;
	long error = 0;

	if (ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (initial)
		bpf_setsockopt(ops, SOL_TCP, TCP_BPF_IW, &initial, sizeof(initial));
	copy_name(name, config.name);
	error = bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	if (!s)
		return 1;
	if (error) {
		__sync_fetch_and_add(&s->assign_errors, 1);
		s->last_errno = error;
	} else {
		__sync_fetch_and_add(&s->assigned, 1);
	}
	return 1;
}

/* Marks a flow of a former agent. It had a slot there, within the quotas, so its init is held to no
 * quota: in which order flows are adopted must not decide which of them are lost.
 */
static __always_inline void mark_adopted(struct tcp_sock *tp)
{
	struct remuda_flow *f = bpf_sk_storage_get(&remuda_flows, tp, 0, 0);

	if (f)
		return; /* it is a flow of ours */
	f = bpf_sk_storage_get(&remuda_flows, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (f)
		f->native = FLOW_IS_ADOPTED;
}

/* Sets a socket that runs an algorithm of our name to the algorithm `to`. With our own name as
 * `to`, it adopts the flows that a former agent left: their ops have the same name but are not
 * ours. For flows that already run our ops, the kernel changes nothing. A listening socket hands
 * its ops to the connections that it accepts, so it is adopted too; it is no flow and not counted.
 */
static __always_inline int retarget(struct bpf_iter__tcp *ctx, const volatile char *to,
				    bool adopts)
{
	struct sock_common *common = ctx->sk_common;
	struct remuda_shared *s = shared();
	char name[TCP_CA_NAME_MAX];
	struct tcp_sock *tp;
	bool listens;
	long error;

	if (!common || !s)
		return 0;
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(common);
	if (!tp || common->skc_state == TCP_CLOSE)
		return 0;
	listens = common->skc_state == TCP_LISTEN;
	if (listens && !adopts)
		return 0;
	if (!runs((struct sock *)tp, config.name))
		return 0;
	if (adopts && !listens)
		mark_adopted(tp);
	copy_name(name, to);
	error = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	if (error) {
		__sync_fetch_and_add(&s->adopt_errors, 1);
		s->last_errno = error;
	} else if (!listens) {
		__sync_fetch_and_add(&s->adopted, 1);
	}
	return 0;
}

SEC("iter/tcp")
int remuda_adopt(struct bpf_iter__tcp *ctx)
{
	return retarget(ctx, config.name, true);
}

SEC("iter/tcp")
int remuda_let_go(struct bpf_iter__tcp *ctx)
{
	return retarget(ctx, config.native, false);
}

#endif
