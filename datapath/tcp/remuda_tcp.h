/* SPDX-License-Identifier: GPL-2.0 */
/* The code that the two datapaths of Linux TCP share: it turns a socket's fields into primitives,
 * and a wanted window and rate into the socket's. Before the BPF datapath or the kernel module
 * includes these headers, it provides:
 *
 *   - the kernel's types, with at least the members that these headers read;
 *   - REMUDA_CA_STATE(sk), REMUDA_IS_CWND_LIMITED(tp) and REMUDA_CHRONO(tp), the kernel's
 *     chrono_type, as all are bit fields;
 *   - REMUDA_RESTARTS_AFTER_IDLE(sk), the sysctl net.ipv4.tcp_slow_start_after_idle;
 *   - REMUDA_CWND_PKTS_MAX and REMUDA_RATE_MAX (bytes per second), the ceilings.
 *
 * All of it runs under the socket's lock. 64-bit machines only: it divides.
 */
#ifndef REMUDA_TCP_H
#define REMUDA_TCP_H

/* Flags of a report */
#define REPORT_APP_LIMITED 1
#define REPORT_IN_RECOVERY 2
#define REPORT_CWND_FULL 4 /* the window held the sender back */
#define REPORT_CWND_HALF 8 /* a flight used more than half of the window */
#define REPORT_UNDONE 16    /* the stack found its last recovery spurious */
#define REPORT_RESTARTED 32 /* the flow was idle, and its window is a restart window */
#define REPORT_RWND_LIMITED 64    /* the peer's receive window held the sender back */
#define REPORT_SNDBUF_LIMITED 128 /* a full send buffer held the application back */

/* What a flow keeps from one ACK to the next. */
struct remuda_tcp {
	u64 now_ns;	   /* time of this ACK */
	u64 recovery_ns;   /* when the stack began to repair losses */
	u64 rate_outgoing; /* of the last valid rate sample, bytes per second */
	u64 rate_incoming;
	u64 bytes_acked; /* the socket's totals, at the last ACK */
	u32 sacked_out;
	u32 lost;
	u32 delivered_ce;
	u32 timed_out;
	u32 paced;	   /* the agent or the program set a rate */
	u32 report_flags;  /* since the last report */
	u32 cwnd_pkts;	   /* the window that the agent or the program wants */
	u32 cwnd_set_pkts; /* the window last set on the socket; 0: the stack has it */
	u32 prr_delivered;
	u32 padding;
};

static __always_inline u32 in_flight_pkts(const struct tcp_sock *tp)
{
	u32 left = tp->sacked_out + tp->lost_out;
	u32 out = tp->packets_out + tp->retrans_out;

	return out > left ? out - left : 0;
}

/* Stores the socket's totals; the next ACK counts from them. */
static __always_inline void note_totals(struct remuda_tcp *t, const struct tcp_sock *tp)
{
	t->bytes_acked = tp->bytes_acked;
	t->sacked_out = tp->sacked_out;
	t->lost = tp->lost;
	t->delivered_ce = tp->delivered_ce;
}

#endif
