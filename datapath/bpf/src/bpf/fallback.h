/* SPDX-License-Identifier: GPL-2.0 */
/* What a flow does without an agent: Reno, in place, from the window it has.
 *
 * It enters when the agent's heartbeat is too old, when the agent is gone (its jump table is empty
 * then) and before the agent has given the flow a program. It looks at every ACK, and at a timeout,
 * which is where ACKs fail to come. One event a transition.
 */
#ifndef REMUDA_FALLBACK_H
#define REMUDA_FALLBACK_H

#include "maps.h"
#include "pacing.h"

extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;

static __always_inline bool agent_is_late(u64 now_ns)
{
	struct remuda_shared *s = shared();
	u64 beat;

	if (!s)
		return true;
	beat = s->heartbeat_ns;
	return now_ns > beat && now_ns - beat > config.heartbeat_timeout_ns;
}

/* What the path last delivered in one smoothed RTT. The window at hand may be a probe's few
 * segments, and ssthresh decides how fast Reno leaves it.
 */
static __always_inline u32 delivered_per_rtt_pkts(struct tcp_sock *tp)
{
	if (!tp->rate_interval_us)
		return 0;
	return (u64)tp->rate_delivered * (tp->srtt_us >> 3) / tp->rate_interval_us;
}

static __always_inline void note_fallback(struct sock *sk, u64 now_ns)
{
	struct remuda_slot *slot = slot_of(PRIV(sk)[PRIV_SID]);
	struct remuda_shared *s = shared();

	PRIV(sk)[PRIV_FALLBACK] = 1;
	if (!PRIV(sk)[PRIV_SID])
		return;
	if (slot)
		slot->in_fallback = 1;
	if (s)
		__sync_fetch_and_add(&s->fallbacks, 1);
	emit(sk, REMUDA_FELL_BACK, now_ns);
}

static __always_inline bool is_repairing(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state) >= TCP_CA_CWR;
}

/* In a repair the stack has set ssthresh by our callback, for a reduction that the agent may not
 * have lived to make; what the path delivered is halved as well then.
 */
static __always_inline void enter_fallback(struct sock *sk, u64 now_ns)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 ssthresh = tp->snd_cwnd, delivered = delivered_per_rtt_pkts(tp);

	if (is_repairing(sk)) {
		ssthresh = tp->snd_ssthresh;
		delivered /= 2;
	}
	if (delivered > ssthresh)
		ssthresh = delivered;
	tp->snd_ssthresh = ssthresh;
	note_fallback(sk, now_ns);
}

/* At a retransmission timeout no ACK comes that could notice the agent's silence. The stack has set
 * ssthresh by our callback and the window by itself.
 */
static __always_inline void timed_out_without_agent(struct sock *sk, u64 now_ns)
{
	if (!PRIV(sk)[PRIV_FALLBACK] && PRIV(sk)[PRIV_PROGRAM] && agent_is_late(now_ns))
		note_fallback(sk, now_ns);
}

static __always_inline void leave_fallback(struct sock *sk, u64 now_ns)
{
	struct remuda_slot *slot = slot_of(PRIV(sk)[PRIV_SID]);
	struct remuda_shared *s = shared();

	PRIV(sk)[PRIV_FALLBACK] = 0;
	if (slot)
		slot->in_fallback = 0;
	if (s)
		__sync_fetch_and_add(&s->restores, 1);
	emit(sk, REMUDA_RESTORED, now_ns);
}

static __always_inline void fallback_reno(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);

	/* Recovery and CWR: the stack has set ssthresh by our callback, and no PRR runs for us. */
	if (state == TCP_CA_RECOVERY || state == TCP_CA_CWR) {
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
