/* SPDX-License-Identifier: GPL-2.0 */
/* Native flows: flows that run one of the kernel's own algorithms.
 *
 * A native flow keeps its slot and its storage, with f->native set. The agent measures it by an
 * iterator at intervals (remuda_look), not at every ACK. A flow changes to the kernel's algorithm
 * at the ACK that finds the order in its slot. From then on its ACKs do not reach us, so they cost
 * nothing extra, and an iterator sets the flow back (remuda_recall).
 */
#ifndef REMUDA_NATIVE_H
#define REMUDA_NATIVE_H

#include "maps.h"
#include "name.h"
#include "pacing.h"

/* The slot's order to change to one of the kernel's algorithms */
struct native_order {
	char name[TCP_CA_NAME_MAX];
	u64 cwnd_bytes; /* 0: unchanged */
	u32 ssthresh_pkts;
};

/* Hands the flow over to the kernel's algorithm. Sets the window and the threshold first, because
 * the kernel keeps both over the change. After the change, the socket's private words belong to the
 * other algorithm. Returns false if the kernel refuses the algorithm.
 */
static __always_inline bool go_native(struct sock *sk, struct remuda_flow *f,
				      struct remuda_slot *slot, u64 now_ns,
				      struct native_order *order)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 mss = tp->mss_cache;

	if (order->cwnd_bytes && mss)
		set_cwnd_pkts(tp, order->cwnd_bytes / mss);
	if (order->ssthresh_pkts)
		tp->snd_ssthresh = order->ssthresh_pkts;
	pace_by_window(sk);
	f->sid = PRIV(sk)[PRIV_SID];
	copy_name(f->native_name, order->name);
	f->native = 1; /* set first: bpf_setsockopt calls our release, which reads it */
	slot->in_native = 1;
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, order->name, sizeof(order->name)) == 0)
		return true;
	f->native = 0;
	slot->in_native = 0;
	emit(sk, REMUDA_NATIVE_REFUSED, now_ns);
	return false;
}

/* Called by our init. Returns true for a native flow that runs our algorithm again and still has
 * its slot. If the slot still orders a native algorithm (the agent did not recall the flow), the
 * flow's next ACK carries out that order again.
 */
static __always_inline bool come_back(struct sock *sk, struct remuda_flow *f)
{
	struct remuda_slot *slot = slot_of(f->sid);

	if (!f->native || !slot || !has_slot(f->sid))
		return false;
	PRIV(sk)[PRIV_SID] = f->sid;
	PRIV(sk)[PRIV_SEQ] = slot->applied_seq;
	if (slot->flags & SLOT_NATIVE) {
		PRIV(sk)[PRIV_SEQ] = slot->seq - 1;
		f->program_seq = slot->program_seq - 1;
	}
	note_totals(&f->tcp, tcp_sk(sk));
	f->program_version = 0;
	f->native = 0;
	slot->in_native = 0;
	return true;
}

/* Sets a native flow to the algorithm that its slot now names: ours, or another of the kernel's. A
 * flow to which its application has given another algorithm is left alone.
 */
SEC("iter/tcp")
int remuda_recall(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	char name[TCP_CA_NAME_MAX];
	struct remuda_slot *slot;
	struct remuda_flow *f;
	struct tcp_sock *tp;
	u32 seq;

	if (!common)
		return 0;
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(common);
	if (!tp || common->skc_state == TCP_LISTEN || common->skc_state == TCP_CLOSE)
		return 0;
	f = bpf_sk_storage_get(&remuda_flows, tp, 0, 0);
	if (!f || !f->native || !has_slot(f->sid) || !runs((struct sock *)tp, f->native_name))
		return 0;
	slot = slot_of(f->sid);
	if (!slot)
		return 0;
	seq = *(volatile u32 *)&slot->seq;
	full_barrier();
	if (slot->for_generation != slot_generation(f->sid))
		return 0;
	if (slot->flags & SLOT_NATIVE)
		copy_name(name, slot->native);
	else if (slot->flags & SLOT_PROGRAM)
		copy_name(name, config.name);
	else
		return 0;
	if (!words_are_whole(slot, seq) || runs((struct sock *)tp, name))
		return 0;
	if (bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		emit_of(f->sid, (struct sock *)tp, REMUDA_RECALL_REFUSED, bpf_ktime_get_ns());
	else if (f->native)
		copy_name(f->native_name, name);
	return 0;
}

static __always_inline u32 look_flags(struct tcp_sock *tp, u32 ca_state)
{
	u32 flags = 0;

	if (BPF_CORE_READ_BITFIELD(tp, rate_app_limited))
		flags |= REPORT_APP_LIMITED;
	if (ca_state >= TCP_CA_Recovery)
		flags |= REPORT_IN_RECOVERY;
	if (REMUDA_IS_CWND_LIMITED(tp))
		flags |= REPORT_CWND_FULL;
	if (tp->snd_cwnd < 2 * tp->max_packets_out)
		flags |= REPORT_CWND_HALF;
	return flags | limit_flags(tp);
}

/* Writes a struct remuda_look for each native flow, in every network namespace. */
SEC("iter/bpf_sk_storage_map")
int remuda_look(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	const struct tcp_congestion_ops *ops;
	struct remuda_flow *f = ctx->value;
	struct remuda_look look = {};
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp;

	if (!sk || !f || !f->native || sk->__sk_common.skc_state == TCP_CLOSE)
		return 0;
	look.sid = f->sid;
	tp = (struct tcp_sock *)bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	look.now_ns = bpf_ktime_get_ns();
	look.ca_state = REMUDA_CA_STATE((struct sock *)tp);
	look.flags = look_flags(tp, look.ca_state);
	look.bytes_acked = tp->bytes_acked;
	look.pending_bytes = tp->write_seq - tp->snd_una;
	look.mss_bytes = tp->mss_cache;
	look.cwnd_pkts = tp->snd_cwnd;
	look.in_flight_pkts = in_flight_pkts(tp);
	look.srtt_us = tp->srtt_us >> 3;
	look.rtt_min_us = tp->rtt_min.s[0].v;
	look.rtt_us = tp->rack.rtt_us;
	look.rate_delivered_pkts = tp->rate_delivered;
	look.rate_interval_us = tp->rate_interval_us;
	look.delivered_pkts = tp->delivered;
	look.delivered_ce_pkts = tp->delivered_ce;
	look.lost_pkts = tp->lost;
	look.sacked_pkts = tp->sacked_out;
	look.netns = sk->__sk_common.skc_net.net->ns.inum;
	ops = inet_csk((struct sock *)tp)->icsk_ca_ops;
	if (ops)
		bpf_probe_read_kernel_str(look.name, sizeof(look.name), ops->name);
	bpf_seq_write(ctx->meta->seq, &look, sizeof(look));
	return 0;
}

#endif
