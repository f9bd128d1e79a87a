// SPDX-License-Identifier: GPL-2.0
/* CCP datapath for Linux TCP, without a module.
 *
 * This file defines one tcp_congestion_ops. At every ACK, cong_control checks the agent's heartbeat
 * and reads the flow's slot, then enters the flow's compiled CCP program by tail call. A flow
 * without a program runs Reno (fallback.h). Programs are copies of remuda_template with the
 * compiled clauses spliced in (program.h). So no interpreter runs, and a flow changes its program
 * by one word in its socket.
 */
#include "kernel_types.h"
#include "layout.h"
#include "maps.h"
#include "admission.h"
#include "destinations.h"
#include "fallback.h"
#include "idle.h"
#include "program.h"
#include "responses.h"
#include "native.h"
#include "assign.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline void note_path(struct remuda_flow_info *info, struct tcp_sock *tp)
{
	info->mss_bytes = tp->mss_cache;
	info->cwnd_pkts = tp->snd_cwnd;
	info->ssthresh_pkts = tp->snd_ssthresh;
	info->srtt_us = tp->srtt_us >> 3;
	info->rtt_min_us = tp->rtt_min.s[0].v;
}

static __always_inline void describe(struct remuda_flow_info *info, struct sock *sk, u64 now_ns)
{
	struct sock_common *c = &sk->__sk_common;
	struct tcp_sock *tp = tcp_sk(sk);
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;

	__builtin_memset(info, 0, sizeof(*info));
	info->family = c->skc_family;
	info->ecn = tp->ecn_flags;
	info->local_port = c->skc_num;
	info->remote_port = bpf_ntohs(c->skc_dport);
	if (c->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++) {
			info->local_addr[i] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			info->remote_addr[i] = c->skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		info->local_addr[0] = c->skc_rcv_saddr;
		info->remote_addr[0] = c->skc_daddr;
	}
	note_path(info, tp);
	info->mark = sk->sk_mark;
	info->cgroup_id = cgroup ? cgroup->kn->id : 0;
	info->created_ns = now_ns;
	info->cookie = c->skc_cookie.counter;
}

/* Gives a socket a free slot with a new generation. Returns the sid; 0 if the socket is refused. */
static __always_inline u32 admit(struct sock *sk, bool is_adopted, u64 now_ns)
{
	struct remuda_owner owner = {};
	struct remuda_flow_info *info;
	struct remuda_slot *slot;
	struct remuda_shared *s = shared();
	u32 index, generation, reason;

	if (!s)
		return 0;
	describe_owner(&owner, sk);
	reason = take_quota(&owner, s, is_adopted);
	if (!reason) {
		index = pop_slot(s);
		if (index >= config.flows_max) {
			give_quota_back(&owner);
			reason = REMUDA_FULL;
		}
	}
	if (reason) {
		refuse(sk, &owner, reason, s);
		return 0;
	}
	slot = bpf_map_lookup_elem(&remuda_slots, &index);
	info = bpf_map_lookup_elem(&remuda_infos, &index);
	if (!slot || !info)
		return 0;
	__sync_fetch_and_add(&s->slots_live, 1);
	/* The generation counts on where the slot's last flow left it, and is never 0 in a sid. */
	generation = (slot->generation + 1) & ((1U << (32 - REMUDA_SLOT_BITS)) - 1);
	if (!generation)
		generation = 1;
	describe(info, sk, now_ns);
	info->owner = owner;
	slot->flags = 0;
	slot->applied_seq = slot->seq;
	slot->in_fallback = 0;
	slot->in_native = 0;
	slot->generation = generation;
	PRIV(sk)[PRIV_SEQ] = slot->seq;
	/* An exchange is a full barrier: the agent sees the generation after the words above. */
	__sync_lock_test_and_set(&info->generation, generation);
	return generation << REMUDA_SLOT_BITS | index;
}

/* A socket can run the ops of an agent that has ended: the socket was not connected at that time,
 * or its namespace has those ops as default. Then this program belongs to the former agent. It asks
 * the kernel for our name again, finds the ops of the agent that runs now, and their init begins
 * the flow. If no agent has replaced ours, the kernel keeps the ops.
 */
static __always_inline bool moved_to_live_ops(struct sock *sk)
{
	const struct tcp_congestion_ops *before = inet_csk(sk)->icsk_ca_ops;
	char name[TCP_CA_NAME_MAX];

	copy_name(name, config.name);
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return false;
	return inet_csk(sk)->icsk_ca_ops != before;
}

SEC("struct_ops")
void BPF_PROG(remuda_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 now_ns = bpf_ktime_get_ns();
	struct remuda_flow *f;
	bool is_adopted;
	u32 sid;

	if (moved_to_live_ops(sk))
		return;
	for (int i = 0; i <= PRIV_RESPONSE; i++)
		PRIV(sk)[i] = 0;
	f = bpf_sk_storage_get(&remuda_flows, sk, 0, 0);
	if (f && come_back(sk, f))
		return;
	is_adopted = f && f->native == FLOW_IS_ADOPTED;
	if (is_adopted)
		f->native = 0;
	sid = admit(sk, is_adopted, now_ns);
	if (!sid)
		return;
	f = bpf_sk_storage_get(&remuda_flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f) {
		give_slot_back(sid);
		return;
	}
	__builtin_memset(f, 0, __builtin_offsetof(struct remuda_flow, r));
	note_totals(&f->tcp, tp);
	begin_as_remembered(sk, sid, now_ns);
	PRIV(sk)[PRIV_SID] = sid;
	f->sid = sid;
	emit(sk, REMUDA_CREATED, now_ns);
}

SEC("struct_ops")
void BPF_PROG(remuda_release, struct sock *sk)
{
	u32 sid = PRIV(sk)[PRIV_SID];
	struct remuda_flow *f;

	if (!sid)
		return;
	f = bpf_sk_storage_get(&remuda_flows, sk, 0, 0);
	if (f && f->native)
		return;
	PRIV(sk)[PRIV_SID] = 0;
	if (f) {
		report_response(f);
		f->sid = 0;
	}
	/* Before the event: if the event is lost and counted, a reader of that count sees the freed
	 * slot.
	 */
	give_slot_back(sid);
	emit_of(sid, sk, REMUDA_CLOSED, bpf_ktime_get_ns());
}

/* Takes the program or kernel algorithm that the slot newly names. Returns true if the flow now
 * runs a kernel algorithm. If the kernel refuses that algorithm, the flow runs the program that the
 * slot also names.
 */
static __always_inline bool take_program(struct sock *sk, struct remuda_slot *slot, u64 now_ns)
{
	u32 seq = *(volatile u32 *)&slot->seq, flags, program, program_seq;
	struct native_order order;
	struct remuda_flow *f;

	if (seq == (u32)PRIV(sk)[PRIV_SEQ] || (seq & 1))
		return false;
	full_barrier();
	if (slot->for_generation != slot_generation(PRIV(sk)[PRIV_SID]))
		return false;
	flags = slot->flags;
	program = slot->program;
	program_seq = slot->program_seq;
	copy_name(order.name, slot->native);
	order.cwnd_bytes = flags & SLOT_CWND ? slot->cwnd_bytes : 0;
	order.ssthresh_pkts = slot->native_ssthresh_pkts;
	if (!words_are_whole(slot, seq) || !(flags & (SLOT_PROGRAM | SLOT_NATIVE)))
		return false;
	f = bpf_sk_storage_get(&remuda_flows, sk, 0, 0);
	if (!f || f->program_seq == program_seq)
		return false;
	f->program_seq = program_seq;
	if (flags & SLOT_NATIVE) {
		slot->applied_ns = now_ns;
		slot->applied_seq = seq;
		if (go_native(sk, f, slot, now_ns, &order))
			return true;
	}
	if (flags & SLOT_PROGRAM) {
		/* Version 0 makes the program set its registers anew. If the agent names the
		 * program that the flow began with, its measurements are kept.
		 */
		if (program != PRIV(sk)[PRIV_FIRST_PROGRAM])
			f->program_version = 0;
		PRIV(sk)[PRIV_FIRST_PROGRAM] = 0;
		PRIV(sk)[PRIV_PROGRAM] = program;
	}
	return false;
}

/* Keeps the flow's description current until the flow has a program, so that an agent that reads it
 * late sees the current window and round-trip times.
 */
static __always_inline void keep_info(struct sock *sk, u32 sid)
{
	u32 index = slot_index(sid);
	struct remuda_flow_info *info = bpf_map_lookup_elem(&remuda_infos, &index);

	if (info && info->generation == slot_generation(sid))
		note_path(info, tcp_sk(sk));
}

SEC("struct_ops")
void BPF_PROG(remuda_cong_control, struct sock *sk, u32 ack, int flag,
	      const struct rate_sample *rs)
{
	u64 now_ns = bpf_ktime_get_ns();
	u32 sid = PRIV(sk)[PRIV_SID];
	struct remuda_slot *slot = slot_of(sid);

	end_response(sk, now_ns);
	if (sid && slot && !agent_is_late(now_ns)) {
		if (PRIV(sk)[PRIV_PROGRAM] && PRIV(sk)[PRIV_FALLBACK])
			leave_fallback(sk, now_ns);
		if (take_program(sk, slot, now_ns))
			return;
		bpf_tail_call(ctx, &remuda_programs, (u32)PRIV(sk)[PRIV_PROGRAM]);
	}
	if (!sid && PRIV(sk)[PRIV_REFUSED] && leave_for_native(sk))
		return;
	/* A flow that never had a program also runs Reno, but does not count as in fallback. */
	if (!PRIV(sk)[PRIV_FALLBACK] && PRIV(sk)[PRIV_PROGRAM])
		enter_fallback(sk, now_ns);
	run_reno(sk, rs);
	if (sid && !PRIV(sk)[PRIV_PROGRAM]) {
		keep_info(sk, sid);
		bpf_tail_call(ctx, &remuda_programs, (u32)PRIV(sk)[PRIV_FIRST_PROGRAM]);
	}
}

SEC("struct_ops")
void BPF_PROG(remuda_template, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	run_program(sk, rs);
}

SEC("struct_ops")
void BPF_PROG(remuda_set_state, struct sock *sk, u8 new_state)
{
	struct remuda_flow *f;

	if (new_state != TCP_CA_Loss && new_state != TCP_CA_Recovery && new_state != TCP_CA_CWR)
		return;
	f = bpf_sk_storage_get(&remuda_flows, sk, 0, 0);
	if (!f)
		return;
	if (new_state == TCP_CA_Loss) {
		f->tcp.timed_out = 1;
		timed_out_without_agent(sk, bpf_ktime_get_ns());
		return;
	}
	begin_reduction(&f->tcp, bpf_ktime_get_ns());
}

SEC("struct_ops")
u32 BPF_PROG(remuda_ssthresh, struct sock *sk)
{
	u32 half = tcp_sk(sk)->snd_cwnd >> 1;

	return half < CWND_MIN_PKTS ? CWND_MIN_PKTS : half;
}

SEC("struct_ops")
u32 BPF_PROG(remuda_undo_cwnd, struct sock *sk)
{
	struct remuda_flow *f = bpf_sk_storage_get(&remuda_flows, sk, 0, 0);

	if (!f)
		return tcp_sk(sk)->snd_cwnd;
	return undone_cwnd(&f->tcp, tcp_sk(sk));
}

SEC("struct_ops")
void BPF_PROG(remuda_cwnd_event, struct sock *sk, u32 event)
{
	struct remuda_flow *f;

	if (event != CA_EVENT_TX_START)
		return;
	f = bpf_sk_storage_get(&remuda_flows, sk, 0, 0);
	if (!f)
		return;
	note_transmission(&f->tcp, sk, bpf_jiffies64());
	if (config.measures_responses)
		begin_response(f, sk, bpf_ktime_get_ns());
}

SEC(".struct_ops.link")
struct tcp_congestion_ops remuda_ops = {
	.name = "remuda",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)remuda_init,
	.release = (void *)remuda_release,
	.ssthresh = (void *)remuda_ssthresh,
	.set_state = (void *)remuda_set_state,
	.cong_control = (void *)remuda_cong_control,
	.undo_cwnd = (void *)remuda_undo_cwnd,
	.cwnd_event = (void *)remuda_cwnd_event,
};

/* Never attached. It is here so that libbpf verifies and relocates the template. */
SEC(".struct_ops.link")
struct tcp_congestion_ops remuda_template_ops = {
	.name = "remuda_template",
	.ssthresh = (void *)remuda_ssthresh,
	.cong_control = (void *)remuda_template,
	.undo_cwnd = (void *)remuda_undo_cwnd,
};
