/* SPDX-License-Identifier: GPL-2.0 */
/* The frame of a CCP program. The loader splices the compiled program into copies of
 * run_program(), at the markers: `r0 = MARK ll`, a load that nothing else emits.
 */
#ifndef REMUDA_PROGRAM_H
#define REMUDA_PROGRAM_H

#include "maps.h"
#include "primitives.h"

#define MARK_BODY 0x7ead0001     /* the program's clauses */
#define MARK_DEFINE 0x7ead0002   /* every register's initial value */
#define MARK_VOLATILE 0x7ead0003 /* the initial value of volatile registers */
#define MARK_VERSION 0x7ead0004  /* constant: unique per load */
#define MARK_UID 0x7ead0005      /* constant: the agent's name for the program */
#define MARK_FIELDS 0x7ead0006   /* constant: number of report fields */

#define STRINGIFY(x) #x
#define EXPAND(x) STRINGIFY(x)

/* Spliced code finds the flow in r1 and may clobber r0 to r5. */
#define SPLICE(mark, flow)                                                                         \
	asm volatile("r1 = %[f]\n"                                                                 \
		     "r0 = " EXPAND(mark) " ll\n"                                                  \
		     :                                                                             \
		     : [f] "r"(flow)                                                               \
		     : "r0", "r1", "r2", "r3", "r4", "r5", "memory")

#define CONSTANT(mark)                                                                             \
	({                                                                                         \
		u64 value;                                                                         \
		asm volatile("%[v] = " EXPAND(mark) " ll" : [v] "=r"(value));                      \
		value;                                                                             \
	})

/* Takes from the slot what the agent wrote since the last ACK. Torn reads are tried again at the
 * next one.
 */
static __always_inline void take_slot(struct remuda_flow *f, struct sock *sk)
{
	struct remuda_slot *slot = slot_of(PRIV(sk)[PRIV_SID]);
	u64 cwnd, rate;
	u32 seq, flags, mask;

	if (!slot)
		return;
	seq = *(volatile u32 *)&slot->seq;
	if (seq == (u32)PRIV(sk)[PRIV_SEQ] || (seq & 1))
		return;
	if (slot->for_generation != PRIV(sk)[PRIV_SID] >> REMUDA_SLOT_BITS)
		return;
	flags = slot->flags;
	/* Written since the flow looked for another program: the words are that one's. */
	if (flags & (SLOT_PROGRAM | SLOT_NATIVE) && slot->program_seq != f->program_seq)
		return;
	cwnd = slot->cwnd_bytes;
	rate = slot->rate_bytes_per_sec;
	mask = flags & SLOT_CONTROL ? slot->control_mask : 0;
	for (int i = 0; i < REMUDA_CONTROL_REGS; i++)
		if (mask & (1U << i))
			f->r.control[i] = slot->control[i];
	barrier();
	if (*(volatile u32 *)&slot->seq != seq)
		return;
	if (flags & SLOT_CWND)
		want_cwnd(f, tcp_sk(sk), cwnd);
	if (flags & SLOT_RATE) {
		f->paced = rate != 0;
		if (rate)
			pace_at(sk, rate);
	}
	PRIV(sk)[PRIV_SEQ] = seq;
	slot->applied_ns = f->now_ns;
	slot->applied_seq = seq;
}

static __always_inline void send_report(struct remuda_flow *f, struct sock *sk, u64 n_fields)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct remuda_shared *s;
	u64 bytes = n_fields * sizeof(u64);

	if (bytes > sizeof(f->r.report))
		return;
	f->event.kind = REMUDA_REPORT;
	f->event.sid = PRIV(sk)[PRIV_SID];
	f->event.now_ns = f->now_ns;
	f->event.cwnd_pkts = f->cwnd_pkts;
	f->event.mss_bytes = tp->mss_cache;
	f->n_fields = n_fields;
	f->srtt_us = tp->srtt_us >> 3;
	f->rtt_min_us = tp->rtt_min.s[0].v;
	f->delivered_pkts = tp->delivered;
	f->lost_pkts = tp->lost;
	f->flags = f->report_flags;
	if (BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state) >= TCP_CA_RECOVERY)
		f->flags |= REPORT_IN_RECOVERY;
	f->report_flags = 0;
	bytes += sizeof(struct remuda_report) - sizeof(f->r.report);
	if (bpf_ringbuf_output(&remuda_reports, &f->event, bytes, 0) == 0)
		return;
	s = shared();
	if (s)
		__sync_fetch_and_add(&s->lost_reports, 1);
}

/* Until the agent has answered a loss, which takes it far less than a quarter of a round trip, the
 * window wanted is taken to be the stack's threshold: what is sent meanwhile into a full queue is
 * lost, and would be a second loss after the agent's reduction.
 */
static __always_inline u64 wanted_cwnd(struct remuda_flow *f, struct tcp_sock *tp)
{
	u64 answer_ns = (u64)(tp->srtt_us >> 3) * NSEC_PER_USEC / 4;

	if (f->cwnd_pkts >= tp->prior_cwnd && f->now_ns - f->recovery_ns < answer_ns &&
	    tp->snd_ssthresh < f->cwnd_pkts)
		return tp->snd_ssthresh;
	return f->cwnd_pkts;
}

/* Proportional rate reduction, RFC 6937 with its slow start only while the repair gets on, as
 * tcp_cwnd_reduction() in net/ipv4/tcp_input.c, which the stack does not call for us: while losses
 * are repaired, so much is sent for what is delivered that the window wanted is what is in flight
 * in the end. Without it, a window cut below what is in flight silences the sender, and its
 * retransmissions, for a while.
 */
static __always_inline u64 reduced_cwnd(struct remuda_flow *f, struct tcp_sock *tp, u32 delivered)
{
	u64 in_flight = in_flight_pkts(tp), wanted = wanted_cwnd(f, tp), out = tp->prr_out;
	u64 allowed, send = 0;

	f->prr_delivered += delivered;
	if (in_flight > wanted) {
		u64 prior = tp->prior_cwnd ? tp->prior_cwnd : wanted;

		allowed = (wanted * f->prr_delivered + prior - 1) / prior;
		if (allowed > out)
			send = allowed - out;
	} else {
		allowed = f->prr_delivered > out ? f->prr_delivered - out : 0;
		if (allowed < delivered)
			allowed = delivered;
		if (f->r.primitive[P_BYTES_ACKED] && !f->r.primitive[P_LOST_PKTS_SAMPLE])
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
static __always_inline void settle_cwnd(struct remuda_flow *f, struct sock *sk,
					const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
	u64 cwnd = f->cwnd_pkts;

	if (!f->paced && (state == TCP_CA_RECOVERY || state == TCP_CA_CWR)) {
		u64 reduced = reduced_cwnd(f, tp, rs->acked_sacked);

		if (reduced < cwnd || in_flight_pkts(tp) > wanted_cwnd(f, tp))
			cwnd = reduced;
	}
	set_cwnd_pkts(tp, cwnd);
	f->cwnd_set_pkts = tp->snd_cwnd;
}

static __always_inline void obey_program(struct remuda_flow *f, struct sock *sk, u64 cwnd_bytes,
					 u64 rate)
{
	u64 *implicit = f->r.implicit;

	if (implicit[I_CWND] && implicit[I_CWND] != cwnd_bytes)
		want_cwnd(f, tcp_sk(sk), implicit[I_CWND]);
	if (implicit[I_RATE] && implicit[I_RATE] != rate) {
		f->paced = 1;
		pace_at(sk, implicit[I_RATE]);
	}
}

static __always_inline void run_program(struct sock *sk, const struct rate_sample *rs)
{
	struct remuda_flow *f = bpf_sk_storage_get(&remuda_flows, sk, 0, 0);
	u64 version, cwnd_bytes, rate;

	if (!f)
		return;
	f->now_ns = bpf_ktime_get_ns();
	version = CONSTANT(MARK_VERSION);
	if ((u32)version != f->program_version) {
		f->program_version = version;
		f->time_zero_ns = f->now_ns;
		f->program_uid = CONSTANT(MARK_UID);
		SPLICE(MARK_DEFINE, f);
	}
	note_cwnd(f, tcp_sk(sk));
	take_slot(f, sk);
	load_primitives(f, sk, rs);
	cwnd_bytes = f->r.implicit[I_CWND];
	rate = f->r.implicit[I_RATE];
	SPLICE(MARK_BODY, f);
	obey_program(f, sk, cwnd_bytes, rate);
	settle_cwnd(f, sk, rs);
	if (!f->paced)
		pace_by_window(sk);
	if (f->r.implicit[I_REPORT]) {
		send_report(f, sk, CONSTANT(MARK_FIELDS));
		SPLICE(MARK_VOLATILE, f);
	}
}

#endif
