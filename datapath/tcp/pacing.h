/* SPDX-License-Identifier: GPL-2.0 */
/* Bounds of the window, and the pacing rate. The stack leaves both to an algorithm that has
 * cong_control.
 *
 * If the agent or the program sets no rate, pacing is off, as for the kernel's own window-based
 * algorithms. The socket still needs a rate, because TSO bursts are sized by it: it gets the one
 * that tcp_update_pacing_rate() (net/ipv4/tcp_input.c) would set.
 */
#ifndef REMUDA_TCP_PACING_H
#define REMUDA_TCP_PACING_H

#include "remuda_tcp.h"

/* RFC 5681: a receiver delays the ACK of a single segment, so the window keeps at least two */
#define CWND_MIN_PKTS 2
/* A rate near 0 would bring no ACKs, and so no report that could raise it */
#define RATE_MIN_SEGMENTS_PER_SEC 10
/* net.ipv4.tcp_pacing_ss_ratio and tcp_pacing_ca_ratio, per cent */
#define PACING_SS_PERCENT 200
#define PACING_CA_PERCENT 120

static __always_inline u32 bound_cwnd(const struct tcp_sock *tp, u64 pkts)
{
	u64 max = tp->snd_cwnd_clamp;

	if (max > REMUDA_CWND_PKTS_MAX)
		max = REMUDA_CWND_PKTS_MAX;
	if (pkts > max)
		pkts = max;
	if (pkts < CWND_MIN_PKTS)
		pkts = CWND_MIN_PKTS;
	return pkts;
}

static __always_inline void set_cwnd_pkts(struct tcp_sock *tp, u64 pkts)
{
	tp->snd_cwnd = bound_cwnd(tp, pkts);
}

/* Paces the socket at a rate, in bytes per second, that the agent or the program set. The fq qdisc
 * or the stack's own timer enforces it.
 */
static __always_inline void pace_at(struct sock *sk, u64 rate)
{
	u64 min = (u64)tcp_sk(sk)->mss_cache * RATE_MIN_SEGMENTS_PER_SEC;

	if (rate < min)
		rate = min;
	if (rate > REMUDA_RATE_MAX)
		rate = REMUDA_RATE_MAX;
	if (rate > sk->sk_max_pacing_rate)
		rate = sk->sk_max_pacing_rate;
	sk->sk_pacing_rate = rate;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

static __always_inline void pace_by_window(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 cwnd = tp->snd_cwnd, in_use = tp->packets_out, srtt_us = tp->srtt_us >> 3, rate;
	u32 percent = PACING_CA_PERCENT;

	if (cwnd < tp->snd_ssthresh / 2)
		percent = PACING_SS_PERCENT;
	rate = (u64)tp->mss_cache * (cwnd > in_use ? cwnd : in_use) * percent / 100 *
	       (u64)USEC_PER_SEC;
	if (srtt_us)
		rate /= srtt_us;
	if (rate > sk->sk_max_pacing_rate)
		rate = sk->sk_max_pacing_rate;
	sk->sk_pacing_rate = rate;
	/* Pacing stays on if the application has set SO_MAX_PACING_RATE. */
	if (sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0UL)
		sk->sk_pacing_status = SK_PACING_NONE;
}

#endif
