/* SPDX-License-Identifier: GPL-2.0 */
/* Socket fields become CCP primitives, at every ACK, also at those without a valid RTT or rate
 * sample: losses and marks are counted as differences of the socket's totals, so none is missed.
 */
#ifndef REMUDA_PRIMITIVES_H
#define REMUDA_PRIMITIVES_H

#include "maps.h"
#include "pacing.h"

/* libccp's read_reg() order (machine.c) */
enum remuda_primitive {
	P_BYTES_ACKED = 0,
	P_BYTES_MISORDERED,
	P_ECN_BYTES,
	P_ECN_PACKETS,
	P_LOST_PKTS_SAMPLE,
	P_NOW,
	P_PACKETS_ACKED,
	P_PACKETS_MISORDERED,
	P_BYTES_IN_FLIGHT,
	P_BYTES_PENDING,
	P_PACKETS_IN_FLIGHT,
	P_RATE_INCOMING,
	P_RATE_OUTGOING,
	P_RTT_SAMPLE_US,
	P_WAS_TIMEOUT,
};

/* libccp's implicit registers */
enum remuda_implicit { I_FLAG = 0, I_FALLTHROUGH, I_REPORT, I_MICROS, I_CWND, I_RATE };

/* libccp's word for an invalid RTT sample */
#define RTT_INVALID 0xffffffffULL
#define NSEC_PER_USEC 1000

static __always_inline u32 in_flight_pkts(struct tcp_sock *tp)
{
	u32 left = tp->sacked_out + tp->lost_out;
	u32 out = tp->packets_out + tp->retrans_out;

	return out > left ? out - left : 0;
}

/* The window wanted is the socket's, if the stack changed that since we set it: after a timeout, or
 * when it undoes a spurious one.
 */
static __always_inline void note_cwnd(struct remuda_flow *f, struct tcp_sock *tp)
{
	if (tp->snd_cwnd != f->cwnd_set_pkts)
		f->cwnd_pkts = tp->snd_cwnd;
}

static __always_inline void want_cwnd(struct remuda_flow *f, struct tcp_sock *tp, u64 bytes)
{
	u32 mss = tp->mss_cache;

	if (mss)
		f->cwnd_pkts = bound_cwnd(tp, bytes / mss);
}

static __always_inline void count_packets(struct remuda_flow *f, struct tcp_sock *tp,
					  const struct rate_sample *rs)
{
	u64 *p = f->r.primitive;
	u64 mss = tp->mss_cache, bytes_acked = tp->bytes_acked;
	u32 sacked = tp->sacked_out, lost = tp->lost, ce = tp->delivered_ce;
	u32 misordered = sacked > f->sacked_out ? sacked - f->sacked_out : 0;
	u32 acked = rs->acked_sacked > misordered ? rs->acked_sacked - misordered : 0;

	p[P_BYTES_ACKED] = bytes_acked - f->bytes_acked;
	p[P_PACKETS_ACKED] = acked;
	p[P_PACKETS_MISORDERED] = misordered;
	p[P_BYTES_MISORDERED] = misordered * mss;
	p[P_LOST_PKTS_SAMPLE] = lost - f->lost;
	p[P_ECN_PACKETS] = ce - f->delivered_ce;
	p[P_ECN_BYTES] = (u64)(ce - f->delivered_ce) * mss;
	f->bytes_acked = bytes_acked;
	f->sacked_out = sacked;
	f->lost = lost;
	f->delivered_ce = ce;
}

/* A rate sample is valid over an interval of at least the minimum RTT (tcp_rate_gen() says -1
 * otherwise); between valid ones the last stands.
 */
static __always_inline void sample_rates(struct remuda_flow *f, struct tcp_sock *tp,
					 const struct rate_sample *rs)
{
	u64 *p = f->r.primitive;
	u64 bytes_usec;

	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	bytes_usec = (u64)rs->delivered * tp->mss_cache * USEC_PER_SEC;
	if (rs->snd_interval_us)
		p[P_RATE_OUTGOING] = bytes_usec / rs->snd_interval_us;
	if (rs->rcv_interval_us)
		p[P_RATE_INCOMING] = bytes_usec / rs->rcv_interval_us;
	if (rs->is_app_limited)
		f->report_flags |= REPORT_APP_LIMITED;
}

/* How much of its window the sender used, as the stack saw it when it sent (tcp_cwnd_validate()):
 * what is in flight after an ACK that covers a whole small window says nothing.
 */
static __always_inline void note_cwnd_use(struct remuda_flow *f, struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		f->report_flags |= REPORT_CWND_FULL;
	if (tp->snd_cwnd < 2 * tp->max_packets_out)
		f->report_flags |= REPORT_CWND_HALF;
}

static __always_inline void load_primitives(struct remuda_flow *f, struct sock *sk,
					    const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 *p = f->r.primitive, *implicit = f->r.implicit;
	u64 mss = tp->mss_cache;
	u32 in_flight = in_flight_pkts(tp);

	count_packets(f, tp, rs);
	sample_rates(f, tp, rs);
	note_cwnd_use(f, tp);
	p[P_NOW] = f->now_ns / NSEC_PER_USEC;
	p[P_PACKETS_IN_FLIGHT] = in_flight;
	p[P_BYTES_IN_FLIGHT] = in_flight * mss;
	p[P_BYTES_PENDING] = tp->write_seq - tp->snd_una;
	p[P_RTT_SAMPLE_US] = rs->rtt_us > 0 ? rs->rtt_us : RTT_INVALID;
	p[P_WAS_TIMEOUT] = f->timed_out;
	f->timed_out = 0;

	implicit[I_FLAG] = 0;
	implicit[I_FALLTHROUGH] = 0;
	implicit[I_REPORT] = 0;
	implicit[I_MICROS] = (f->now_ns - f->time_zero_ns) / NSEC_PER_USEC;
	implicit[I_CWND] = f->cwnd_pkts * mss;
	implicit[I_RATE] = f->paced ? sk->sk_pacing_rate : 0;
}

#endif
