/* SPDX-License-Identifier: GPL-2.0 */
/* The window wanted becomes the window in force: at once, or, while losses are repaired, gradually,
 * as with cong_control the stack does not do it.
 */
#ifndef REMUDA_TCP_CWND_H
#define REMUDA_TCP_CWND_H

#include "pacing.h"
#include "remuda_primitives.h"
#include "remuda_tcp.h"

/* The window wanted is the socket's, if the stack changed that since we set it, as after a timeout.
 * What it would undo as spurious it asks us for, and gets the window as it is.
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

/* The stack begins to repair losses. It starts to count prr_out anew, also if a recovery follows
 * another at once.
 */
static __always_inline void begin_reduction(struct remuda_tcp *t, u64 now_ns)
{
	t->prr_delivered = 0;
	t->recovery_ns = now_ns;
}

/* Until the agent has answered a loss, which takes it far less than a quarter of a round trip, the
 * window wanted is taken to be the stack's threshold: what is sent meanwhile into a full queue is
 * lost, and would be a second loss after the agent's reduction.
 */
static __always_inline u64 wanted_cwnd(const struct remuda_tcp *t, const struct tcp_sock *tp)
{
	u64 answer_ns = (u64)(tp->srtt_us >> 3) * NSEC_PER_USEC / 4;

	if (t->cwnd_pkts >= tp->prior_cwnd && t->now_ns - t->recovery_ns < answer_ns &&
	    tp->snd_ssthresh < t->cwnd_pkts)
		return tp->snd_ssthresh;
	return t->cwnd_pkts;
}

/* Proportional rate reduction, RFC 6937 with its slow start only while the repair gets on, as
 * tcp_cwnd_reduction() in net/ipv4/tcp_input.c, which the stack does not call for us: while losses
 * are repaired, so much is sent for what is delivered that the window wanted is what is in flight
 * in the end. Without it, a window cut below what is in flight silences the sender, and its
 * retransmissions, for a while.
 */
static __always_inline u64 reduced_cwnd(struct remuda_tcp *t, const struct tcp_sock *tp,
					const struct remuda_primitives *p, u32 delivered)
{
	u64 in_flight = in_flight_pkts(tp), wanted = wanted_cwnd(t, tp), out = tp->prr_out;
	u64 allowed, send = 0;

	t->prr_delivered += delivered;
	if (in_flight > wanted) {
		u64 prior = tp->prior_cwnd ? tp->prior_cwnd : wanted;

		allowed = (wanted * t->prr_delivered + prior - 1) / prior;
		if (allowed > out)
			send = allowed - out;
	} else {
		allowed = t->prr_delivered > out ? t->prr_delivered - out : 0;
		if (allowed < delivered)
			allowed = delivered;
		if (p->bytes_acked && !p->lost_pkts_sample)
			allowed++; /* the repair gets on */
		send = wanted - in_flight;
		if (send > allowed)
			send = allowed;
	}
	if (!out && !send)
		send = 1; /* the fast retransmission */
	return in_flight + send;
}

/* A paced flow's window is the agent's as it stands: such algorithms conserve packets. */
static __always_inline void settle_cwnd(struct remuda_tcp *t, struct sock *sk,
					const struct remuda_primitives *p, u32 delivered)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 state = REMUDA_CA_STATE(sk);
	u64 cwnd = t->cwnd_pkts;

	if (!t->paced && (state == TCP_CA_Recovery || state == TCP_CA_CWR)) {
		u64 reduced = reduced_cwnd(t, tp, p, delivered);

		if (reduced < cwnd || in_flight_pkts(tp) > wanted_cwnd(t, tp))
			cwnd = reduced;
	}
	set_cwnd_pkts(tp, cwnd);
	t->cwnd_set_pkts = tp->snd_cwnd;
}

#endif
