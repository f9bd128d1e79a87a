/* SPDX-License-Identifier: GPL-2.0 */
/* The window wanted becomes the window in force: at once, or, while losses are repaired, gradually,
 * as with cong_control the stack does not do it.
 */
#ifndef REMUDA_TCP_CWND_H
#define REMUDA_TCP_CWND_H

#include "pacing.h"
#include "remuda_primitives.h"
#include "remuda_reduction.h"
#include "remuda_tcp.h"

/* If the stack changed the socket's window since we set it, as after a timeout, the stack's window
 * becomes the one wanted.
 */
static __always_inline void note_cwnd(struct remuda_tcp *t, const struct tcp_sock *tp)
{
	if (tp->snd_cwnd != t->cwnd_set_pkts)
		t->cwnd_pkts = tp->snd_cwnd;
}

/* From now on the window is the stack's; who comes back finds it so. */
static __always_inline void leave_to_stack(struct remuda_tcp *t)
{
	t->cwnd_set_pkts = 0;
}

static __always_inline void want_cwnd(struct remuda_tcp *t, const struct tcp_sock *tp, u64 bytes)
{
	u32 mss = tp->mss_cache;

	if (mss)
		t->cwnd_pkts = bound_cwnd(tp, bytes / mss);
}

/* An order of before an idle time does not raise the window of after it: the agent hears of the
 * restart by the next report.
 */
static __always_inline bool is_stale_raise(const struct remuda_tcp *t, const struct tcp_sock *tp,
					   u64 bytes)
{
	return t->report_flags & REPORT_RESTARTED && bytes > (u64)t->cwnd_pkts * tp->mss_cache;
}

/* The stack has found its last recovery, or timeout, spurious (undo_cwnd). A window-based flow gets
 * the window of before it back at once, as by tcp_reno_undo_cwnd(); the next report says so, and the
 * agent's algorithm restores its own state. A paced flow keeps its window: its algorithm has not
 * taken it back for the loss.
 */
static __always_inline u32 undone_cwnd(struct remuda_tcp *t, const struct tcp_sock *tp)
{
	u32 cwnd = tp->snd_cwnd;

	t->report_flags |= REPORT_UNDONE;
	if (t->paced || tp->prior_cwnd <= cwnd)
		return cwnd;
	if (t->cwnd_pkts < tp->prior_cwnd)
		t->cwnd_pkts = bound_cwnd(tp, tp->prior_cwnd);
	return tp->prior_cwnd;
}

/* The stack begins to repair losses. It starts to count prr_out anew, also if a recovery follows
 * another at once.
 */
static __always_inline void begin_reduction(struct remuda_tcp *t, u64 now_ns)
{
	t->prr_delivered = 0;
	t->recovery_ns = now_ns;
}

/* The window in force while losses are repaired. With cong_control the stack does not reduce it. */
static __always_inline u64 reduced_cwnd(struct remuda_tcp *t, const struct tcp_sock *tp,
					const struct remuda_primitives *p, u32 delivered)
{
	struct remuda_repair repair = {
		.wanted = t->cwnd_pkts,
		.ssthresh = tp->snd_ssthresh,
		.prior = tp->prior_cwnd,
		.in_flight = in_flight_pkts(tp),
		.sent = tp->prr_out,
		.delivered_now = delivered,
		.gets_on = p->bytes_acked && !p->lost_pkts_sample,
		.age_ns = t->now_ns - t->recovery_ns,
		.srtt_ns = (u64)(tp->srtt_us >> 3) * NSEC_PER_USEC,
	};

	t->prr_delivered += delivered;
	repair.delivered = t->prr_delivered;
	return remuda_repair_cwnd(&repair);
}

/* A paced flow's window is the agent's as it stands: such algorithms conserve packets. */
static __always_inline void settle_cwnd(struct remuda_tcp *t, struct sock *sk,
					const struct remuda_primitives *p, u32 delivered)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 state = REMUDA_CA_STATE(sk);
	u64 cwnd = t->cwnd_pkts;

	if (!t->paced && (state == TCP_CA_Recovery || state == TCP_CA_CWR))
		cwnd = reduced_cwnd(t, tp, p, delivered);
	set_cwnd_pkts(tp, cwnd);
	t->cwnd_set_pkts = tp->snd_cwnd;
}

#endif
