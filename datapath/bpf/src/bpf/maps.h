/* SPDX-License-Identifier: GPL-2.0 */
/* The BPF maps. Each word has one writer. The loader sets the size of the maps that have one entry
 * a slot, and of the map of destinations.
 */
#ifndef REMUDA_MAPS_H
#define REMUDA_MAPS_H

#include "kernel_types.h"

#define REMUDA_CA_STATE(sk) BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state)
#define REMUDA_IS_CWND_LIMITED(tp) BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited)
#define REMUDA_CHRONO(tp) BPF_CORE_READ_BITFIELD(tp, chrono_type)
#define REMUDA_RESTARTS_AFTER_IDLE(sk)                                                             \
	((sk)->__sk_common.skc_net.net->ipv4.sysctl_tcp_slow_start_after_idle)
#define REMUDA_CWND_PKTS_MAX config.cwnd_max_pkts
#define REMUDA_RATE_MAX config.rate_max_bytes_per_sec

#include "layout.h"

/* Per flow; written by its ACKs, under the socket lock. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct remuda_flow);
} remuda_flows SEC(".maps");

/* Agent to flow. The agent writes every word except applied_*, in_* and generation; the kernel side
 * also clears the flags when a flow starts.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct remuda_slot);
} remuda_slots SEC(".maps");

/* The flows' descriptions. The kernel side writes one when its flow starts, and updates window and
 * round-trip times until the flow has a program. When a lifecycle event is lost, the agent reads
 * from this map which flows are live. admission.h sets the generation to 0, once, when the
 * flow ends.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct remuda_flow_info);
} remuda_infos SEC(".maps");

/* Slots that have had a flow and are free. Slots from slots_used (struct remuda_shared) on have
 * never had a flow, so this queue starts empty. admission.h puts the slot of a flow that has ended
 * here.
 */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
} remuda_free SEC(".maps");

/* How many slots each user and each cgroup has. An account is here while it has a slot, so the map
 * needs at most two entries a slot.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct remuda_account);
	__type(value, u32);
} remuda_accounts SEC(".maps");

/* Users with flags, by uid. The agent writes this map before it registers the name. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, REMUDA_USERS);
	__type(key, u32);
	__type(value, u32);
} remuda_users SEC(".maps");

/* How many sockets were refused, by user, cgroup and reason. When the map is full, the entry that
 * was not counted up for longest makes room.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, REMUDA_REFUSALS);
	__type(key, struct remuda_refusal);
	__type(value, u64);
} remuda_refusals SEC(".maps");

/* Compiled programs, written by the agent. When the agent dies, the kernel empties this map: every
 * tail call then fails, and the flows run their fallback.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, REMUDA_PROGRAMS);
	__type(key, u32);
	__type(value, u32);
} remuda_programs SEC(".maps");

/* How flows begin, found by the longest prefix of their destination. The agent writes this map. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct remuda_destination);
	__type(value, struct remuda_remembered);
} remuda_destinations SEC(".maps");

/* Reports. When the ring is full, a report is dropped and counted in lost_reports. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} remuda_reports SEC(".maps");

/* Lifecycle events, in a ring of their own, so that a flood of reports cannot push them out. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, REMUDA_EVENTS_BYTES);
} remuda_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct remuda_shared);
} remuda_shared SEC(".maps");

const volatile struct remuda_config config SEC(".rodata.config");

/* A value of remuda_flow.native: a former agent had the flow, and its init has not run yet. */
#define FLOW_IS_ADOPTED 2

/* A flow's private words in its socket, which need no map look-up */
#define PRIV(sk) (inet_csk(sk)->icsk_ca_priv)
enum remuda_priv {
	PRIV_PROGRAM = 0, /* index in remuda_programs */
	PRIV_SID = 1,     /* 0: no slot, the flow runs its fallback */
	PRIV_SEQ = 2,     /* seq of the slot when the flow last took its words */
	PRIV_FALLBACK = 3,
	PRIV_FIRST_PROGRAM = 4, /* measures the flow until the agent names another; 0: none */
	PRIV_REFUSED = 5,	/* it is no flow, and leaves for the kernel's algorithm */
	PRIV_RESPONSE = 6,	/* see responses.h */
};

static __always_inline struct remuda_shared *shared(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&remuda_shared, &zero);
}

/* Orders all loads and stores before it before all those after it, on every machine. BPF has no
 * barrier instruction before Linux 6.15, so this uses an atomic exchange; `barrier()` stops only
 * the compiler.
 */
static __always_inline void full_barrier(void)
{
	volatile u64 word = 0;

	__sync_lock_test_and_set(&word, 1);
}

static __always_inline u32 slot_index(u32 sid)
{
	return sid & ((1U << REMUDA_SLOT_BITS) - 1);
}

static __always_inline u32 slot_generation(u32 sid)
{
	return sid >> REMUDA_SLOT_BITS;
}

static __always_inline struct remuda_slot *slot_of(u32 sid)
{
	u32 slot = slot_index(sid);

	return bpf_map_lookup_elem(&remuda_slots, &slot);
}

/* Whether the flow still has its slot. */
static __always_inline bool has_slot(u32 sid)
{
	u32 index = slot_index(sid);
	struct remuda_flow_info *info = bpf_map_lookup_elem(&remuda_infos, &index);

	return sid && info && info->generation == slot_generation(sid);
}

/* The agent may be writing a slot while we read it. Read seq, call full_barrier(), copy the words,
 * and use the copy only if this function returns true.
 */
static __always_inline bool words_are_whole(struct remuda_slot *slot, u32 seq)
{
	full_barrier();
	return !(seq & 1) && *(volatile u32 *)&slot->seq == seq;
}

static __always_inline void emit_of(u32 sid, struct sock *sk, u32 kind, u64 now_ns)
{
	struct remuda_event event = {
		.kind = kind,
		.sid = sid,
		.now_ns = now_ns,
		.cwnd_pkts = tcp_sk(sk)->snd_cwnd,
		.mss_bytes = tcp_sk(sk)->mss_cache,
	};
	struct remuda_shared *s;

	if (bpf_ringbuf_output(&remuda_events, &event, sizeof(event), 0) == 0)
		return;
	s = shared();
	if (s)
		__sync_fetch_and_add(&s->lost_events, 1);
}

static __always_inline void emit(struct sock *sk, u32 kind, u64 now_ns)
{
	emit_of(PRIV(sk)[PRIV_SID], sk, kind, now_ns);
}

#endif
