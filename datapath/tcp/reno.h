/* SPDX-License-Identifier: GPL-2.0 */
/* Reno for a flow without an agent. It starts from the flow's current window. */
#ifndef REMUDA_TCP_RENO_H
#define REMUDA_TCP_RENO_H

#include "pacing.h"
#include "remuda_tcp.h"

/* How many segments the path last delivered in one smoothed RTT. begin_reno() uses it because the
 * current window may be a probe's few segments, from which a small ssthresh would let Reno grow
 * only slowly.
 */
static __always_inline u32 delivered_per_rtt_pkts(const struct tcp_sock *tp)
{
	if (!tp->rate_interval_us)
		return 0;
	return (u64)tp->rate_delivered * (tp->srtt_us >> 3) / tp->rate_interval_us;
}

/* Sets ssthresh when a flow falls back to Reno. During loss recovery, the stack has already set
 * ssthresh to half by our callback, because the agent may not have reduced the window; then half of
 * what the path delivered counts.
 */
static __always_inline void begin_reno(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 ssthresh = tp->snd_cwnd, delivered = delivered_per_rtt_pkts(tp);

	if (REMUDA_CA_STATE(sk) >= TCP_CA_CWR) {
		ssthresh = tp->snd_ssthresh;
		delivered /= 2;
	}
	if (delivered > ssthresh)
		ssthresh = delivered;
	tp->snd_ssthresh = ssthresh;
}

static __always_inline void run_reno(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 state = REMUDA_CA_STATE(sk);

	/* Recovery and CWR: the stack has set ssthresh by our callback, but does not reduce the
	 * window for an algorithm that has cong_control.
	 */
	if (state == TCP_CA_Recovery || state == TCP_CA_CWR) {
		if (tp->snd_cwnd > tp->snd_ssthresh)
			set_cwnd_pkts(tp, tp->snd_ssthresh);
	} else {
		if (tp->snd_cwnd < CWND_MIN_PKTS)
			set_cwnd_pkts(tp, CWND_MIN_PKTS);
		tcp_reno_cong_avoid(sk, 0, rs->acked_sacked);
	}
	pace_by_window(sk);
}

#endif
