/* SPDX-License-Identifier: GPL-2.0 */
/* The template around a CCP program. The loader splices the compiled program into copies of
 * run_program(), in place of the markers. A marker is `r0 = MARK ll`, a load that nothing else
 * emits.
 */
#ifndef REMUDA_PROGRAM_H
#define REMUDA_PROGRAM_H

#include "cwnd.h"
#include "maps.h"
#include "primitives.h"

/* libccp's implicit registers */
enum remuda_implicit { I_FLAG = 0, I_FALLTHROUGH, I_REPORT, I_MICROS, I_CWND, I_RATE };

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

/* Takes from the slot what the agent wrote since the last ACK. If the agent was writing during the
 * read, the next ACK tries again.
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
	full_barrier();
	if (slot->for_generation != slot_generation(PRIV(sk)[PRIV_SID]))
		return;
	flags = slot->flags;
	/* The slot names a new program, which take_program() has not yet taken: the words are for
	 * that program.
	 */
	if (flags & (SLOT_PROGRAM | SLOT_NATIVE) && slot->program_seq != f->program_seq)
		return;
	cwnd = slot->cwnd_bytes;
	rate = slot->rate_bytes_per_sec;
	mask = flags & SLOT_CONTROL ? slot->control_mask : 0;
	for (int i = 0; i < REMUDA_CONTROL_REGS; i++)
		if (mask & (1U << i))
			f->staged[i] = slot->control[i];
	if (!words_are_whole(slot, seq))
		return;
	for (int i = 0; i < REMUDA_CONTROL_REGS; i++)
		if (mask & (1U << i))
			f->r.control[i] = f->staged[i];
	if (flags & SLOT_CWND && !is_stale_raise(&f->tcp, tcp_sk(sk), cwnd))
		want_cwnd(&f->tcp, tcp_sk(sk), cwnd);
	if (flags & SLOT_RATE) {
		f->tcp.paced = rate != 0;
		if (rate)
			pace_at(sk, rate);
	}
	PRIV(sk)[PRIV_SEQ] = seq;
	slot->applied_ns = f->tcp.now_ns;
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
	f->event.now_ns = f->tcp.now_ns;
	f->event.cwnd_pkts = f->tcp.cwnd_pkts;
	f->event.mss_bytes = tp->mss_cache;
	f->n_fields = n_fields;
	f->srtt_us = tp->srtt_us >> 3;
	f->rtt_min_us = tp->rtt_min.s[0].v;
	f->delivered_pkts = tp->delivered;
	f->lost_pkts = tp->lost;
	f->flags = take_report_flags(&f->tcp, sk);
	bytes += sizeof(struct remuda_report) - sizeof(f->r.report);
	if (bpf_ringbuf_output(&remuda_reports, &f->event, bytes, 0) == 0)
		return;
	/* The flags go with the next report: the agent must hear of a restart. */
	f->tcp.report_flags |= f->flags & ~REPORT_IN_RECOVERY;
	s = shared();
	if (s)
		__sync_fetch_and_add(&s->lost_reports, 1);
}

/* Sets the implicit registers before the program runs */
static __always_inline void load_implicit(struct remuda_flow *f, struct sock *sk)
{
	u64 *implicit = f->r.implicit;
	u64 mss = tcp_sk(sk)->mss_cache;

	implicit[I_FLAG] = 0;
	implicit[I_FALLTHROUGH] = 0;
	implicit[I_REPORT] = 0;
	implicit[I_MICROS] = (f->tcp.now_ns - f->time_zero_ns) / NSEC_PER_USEC;
	implicit[I_CWND] = f->tcp.cwnd_pkts * mss;
	implicit[I_RATE] = f->tcp.paced ? sk->sk_pacing_rate : 0;
}

static __always_inline void obey_program(struct remuda_flow *f, struct sock *sk, u64 cwnd_bytes,
					 u64 rate)
{
	u64 *implicit = f->r.implicit;

	if (implicit[I_CWND] && implicit[I_CWND] != cwnd_bytes)
		want_cwnd(&f->tcp, tcp_sk(sk), implicit[I_CWND]);
	if (implicit[I_RATE] && implicit[I_RATE] != rate) {
		f->tcp.paced = 1;
		pace_at(sk, implicit[I_RATE]);
	}
}

static __always_inline void run_program(struct sock *sk, const struct rate_sample *rs)
{
	struct remuda_flow *f = bpf_sk_storage_get(&remuda_flows, sk, 0, 0);
	u64 version, cwnd_bytes, rate;

	if (!f)
		return;
	f->tcp.now_ns = bpf_ktime_get_ns();
	version = CONSTANT(MARK_VERSION);
	if ((u32)version != f->program_version) {
		f->program_version = version;
		f->time_zero_ns = f->tcp.now_ns;
		f->program_uid = CONSTANT(MARK_UID);
		SPLICE(MARK_DEFINE, f);
	}
	note_cwnd(&f->tcp, tcp_sk(sk));
	take_slot(f, sk);
	load_primitives(&f->tcp, tcp_sk(sk), rs, &f->r.primitive);
	load_implicit(f, sk);
	cwnd_bytes = f->r.implicit[I_CWND];
	rate = f->r.implicit[I_RATE];
	SPLICE(MARK_BODY, f);
	/* Without a program from the agent, this is the remembered destination's program, which
	 * only measures: Reno has already handled this ACK.
	 */
	if (PRIV(sk)[PRIV_PROGRAM]) {
		obey_program(f, sk, cwnd_bytes, rate);
		settle_cwnd(&f->tcp, sk, &f->r.primitive, rs->acked_sacked);
		if (!f->tcp.paced)
			pace_by_window(sk);
	}
	if (f->r.implicit[I_REPORT]) {
		send_report(f, sk, CONSTANT(MARK_FIELDS));
		SPLICE(MARK_VOLATILE, f);
	}
}

#endif
