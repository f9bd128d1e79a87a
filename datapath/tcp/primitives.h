/* SPDX-License-Identifier: GPL-2.0 */
/* Turns socket fields into CCP primitives at every ACK, also at an ACK without a valid RTT or rate
 * sample. Losses and marks are differences of the socket's totals, so none is missed.
 */
#ifndef REMUDA_TCP_PRIMITIVES_H
#define REMUDA_TCP_PRIMITIVES_H

#include "remuda_primitives.h"
#include "remuda_tcp.h"

static __always_inline void count_packets(struct remuda_tcp *t, const struct tcp_sock *tp,
					  const struct rate_sample *rs, struct remuda_primitives *p)
{
	u64 mss = tp->mss_cache;
	u32 sacked = tp->sacked_out, ce = tp->delivered_ce - t->delivered_ce;
	u32 misordered = sacked > t->sacked_out ? sacked - t->sacked_out : 0;
	u32 acked = rs->acked_sacked > misordered ? rs->acked_sacked - misordered : 0;

	p->bytes_acked = tp->bytes_acked - t->bytes_acked;
	p->packets_acked = acked;
	p->packets_misordered = misordered;
	p->bytes_misordered = misordered * mss;
	p->lost_pkts_sample = (u32)(tp->lost - t->lost);
	p->ecn_packets = ce;
	p->ecn_bytes = ce * mss;
	note_totals(t, tp);
}

/* A rate sample is valid only over an interval of at least the minimum RTT (tcp_rate_gen() returns
 * an interval of -1 otherwise). Until the next valid sample, the last one is used.
 */
static __always_inline void sample_rates(struct remuda_tcp *t, const struct tcp_sock *tp,
					 const struct rate_sample *rs, struct remuda_primitives *p)
{
	u64 bytes_usec;

	if (rs->delivered > 0 && rs->interval_us > 0) {
		bytes_usec = (u64)rs->delivered * tp->mss_cache * (u64)USEC_PER_SEC;
		if (rs->snd_interval_us)
			t->rate_outgoing = bytes_usec / rs->snd_interval_us;
		if (rs->rcv_interval_us)
			t->rate_incoming = bytes_usec / rs->rcv_interval_us;
		if (rs->is_app_limited)
			t->report_flags |= REPORT_APP_LIMITED;
	}
	p->rate_outgoing = t->rate_outgoing;
	p->rate_incoming = t->rate_incoming;
}

/* Notes how much of its window the sender used. The stack records that when it sends
 * (tcp_cwnd_validate()). What is in flight at an ACK would not show it: an ACK can cover a whole
 * small window.
 */
static __always_inline void note_cwnd_use(struct remuda_tcp *t, struct tcp_sock *tp)
{
	if (REMUDA_IS_CWND_LIMITED(tp))
		t->report_flags |= REPORT_CWND_FULL;
	if (tp->snd_cwnd < 2 * tp->max_packets_out)
		t->report_flags |= REPORT_CWND_HALF;
}

/* What beside the window and the rate holds the sender back: the receive window, as the stack found
 * when it last tried to send (tcp_chrono_set()); or the send buffer, if less than a segment is left
 * to send and the application waits for room. The stack's own chronograph of the latter starts only
 * when an ACK has it send.
 */
static __always_inline u32 limit_flags(const struct tcp_sock *tp)
{
	const struct socket *socket = ((const struct sock *)tp)->sk_socket;
	bool waits = socket && socket->flags & 1UL << SOCK_NOSPACE;

	if (REMUDA_CHRONO(tp) == TCP_CHRONO_RWND_LIMITED)
		return REPORT_RWND_LIMITED;
	if (waits && tp->write_seq - tp->snd_nxt < tp->mss_cache)
		return REPORT_SNDBUF_LIMITED;
	return 0;
}

static __always_inline void load_primitives(struct remuda_tcp *t, struct tcp_sock *tp,
					    const struct rate_sample *rs,
					    struct remuda_primitives *p)
{
	u64 mss = tp->mss_cache;
	u32 in_flight = in_flight_pkts(tp);

	count_packets(t, tp, rs, p);
	sample_rates(t, tp, rs, p);
	note_cwnd_use(t, tp);
	t->report_flags |= limit_flags(tp);
	p->now_us = t->now_ns / NSEC_PER_USEC;
	p->packets_in_flight = in_flight;
	p->bytes_in_flight = in_flight * mss;
	p->bytes_pending = tp->write_seq - tp->snd_una;
	p->rtt_sample_us = rs->rtt_us > 0 ? rs->rtt_us : REMUDA_RTT_NONE;
	p->was_timeout = t->timed_out;
	t->timed_out = 0;
}

/* Returns the flags of the next report, and clears them. */
static __always_inline u32 take_report_flags(struct remuda_tcp *t, struct sock *sk)
{
	u32 flags = t->report_flags;

	if (REMUDA_CA_STATE(sk) >= TCP_CA_Recovery)
		flags |= REPORT_IN_RECOVERY;
	t->report_flags = 0;
	return flags;
}

#endif
