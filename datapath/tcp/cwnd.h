/* SPDX-License-Identifier: GPL-2.0 */
/* The window that the agent or the program wants becomes the socket's window: at once, or gradually
 * during loss recovery. With cong_control, the stack does not reduce the window gradually.
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

/* Hands the window to the stack (fallback). note_cwnd() then takes the stack's window over at the
 * next ACK under the agent.
 */
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

/* Whether a window was ordered before the agent has learnt, by the next report, that the flow
 * restarted after an idle time. Such an order must not raise the restart window.
 */
static __always_inline bool is_stale_raise(const struct remuda_tcp *t, const struct tcp_sock *tp,
					   u64 bytes)
{
	return t->report_flags & REPORT_RESTARTED && bytes > (u64)t->cwnd_pkts * tp->mss_cache;
}

/* Called when the stack finds its last recovery or timeout spurious (undo_cwnd). A window-based
 * flow gets its earlier window back at once, as from tcp_reno_undo_cwnd(). REPORT_UNDONE tells the
 * agent's algorithm to restore its own state. A paced flow keeps its window, because its algorithm
 * does not reduce the window for a loss.
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

/* Called when the stack begins to repair losses. The stack sets prr_out to 0 then, even when one
 * recovery follows another at once, so prr_delivered restarts with it.
 */
static __always_inline void begin_reduction(struct remuda_tcp *t, u64 now_ns)
{
	t->prr_delivered = 0;
	t->recovery_ns = now_ns;
}

/* The window during loss recovery, in segments. With cong_control the stack does not reduce it. */
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

/* Sets the socket's window. A paced flow gets the wanted window unchanged, even in recovery: its
 * pacing rate already keeps it from sending a burst.
 */
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
