/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel side and the agent share: memory layouts and limits. layout.rs mirrors this file
 * and asserts the same sizes; a change here is a change there.
 */
#ifndef REMUDA_LAYOUT_H
#define REMUDA_LAYOUT_H

#include "remuda_primitives.h"
#include "remuda_tcp.h"

/* A sid is generation << REMUDA_SLOT_BITS | slot. How many slots there are is set before load. */
#define REMUDA_SLOT_BITS 17
#define REMUDA_PROGRAMS 128 /* entry 0 stays empty: a flow without a program */
#define REMUDA_REPORT_REGS 32
#define REMUDA_CONTROL_REGS 32
#define REMUDA_ADDRESS_BITS 128

/* What a slot asks of its flow at the next ACK */
#define SLOT_PROGRAM 1
#define SLOT_CWND 2
#define SLOT_RATE 4
#define SLOT_CONTROL 8
#define SLOT_NATIVE 16 /* an algorithm of the kernel's own, by name */

enum remuda_event_kind {
	REMUDA_CREATED = 1,
	REMUDA_CLOSED = 2,
	REMUDA_REPORT = 3,
	REMUDA_FELL_BACK = 4,
	REMUDA_RESTORED = 5,
	REMUDA_TABLE_FULL = 6,
	REMUDA_REFUSED = 7, /* the kernel did not let it go to an algorithm of its own */
	REMUDA_STUCK = 8,   /* nor away from one */
};

/* A flow in words that do not change while it lives. The slot's generation says whether it does. */
struct remuda_flow_info {
	u32 generation; /* 0: the slot is free */
	u16 family;
	u16 ecn;
	u16 local_port; /* host order */
	u16 remote_port;
	u32 local_addr[4]; /* network order */
	u32 remote_addr[4];
	u32 mss_bytes;
	u32 mark;
	u32 cwnd_pkts; /* when the flow came to us */
	u32 ssthresh_pkts;
	u32 srtt_us;
	u32 rtt_min_us;
	u64 cgroup_id;
	u64 created_ns;
	u64 cookie; /* SO_COOKIE, if somebody has asked for it before; else 0 */
};

/* Agent to flow: a sequence lock. The agent makes seq odd, writes, makes it even; the flow takes
 * what it finds at its next ACK and says so in applied_seq.
 */
struct remuda_slot {
	u32 seq;
	u32 generation;     /* of the last flow here; the kernel side counts it */
	u32 for_generation; /* whom the agent's words are for */
	u32 flags;
	u32 program;     /* index in the jump table */
	u32 program_seq; /* counts program changes, so that none is carried out twice */
	u32 control_mask;
	u32 in_fallback;
	u64 cwnd_bytes;
	u64 rate_bytes_per_sec; /* 0: pacing is the datapath's */
	u64 control[REMUDA_CONTROL_REGS];
	u64 applied_ns;
	u32 applied_seq;
	u32 native_ssthresh_pkts; /* 0: leave it */
	char native[TCP_CA_NAME_MAX];
	u32 in_native; /* the flow has gone to an algorithm of the kernel's own */
	u32 padding;
};

/* Flow to agent. Lifecycle events are the header alone. */
struct remuda_event {
	u32 kind;
	u32 sid; /* generation << REMUDA_SLOT_BITS | slot */
	u64 now_ns;
	u32 cwnd_pkts;
	u32 mss_bytes;
};

struct remuda_report {
	struct remuda_event event;
	u32 program_uid;
	u32 n_fields;
	u32 srtt_us;
	u32 rtt_min_us;
	u32 delivered_pkts;
	u32 lost_pkts;
	u32 flags;
	u32 padding;
	u64 fields[REMUDA_REPORT_REGS];
};

/* What a look at a flow under an algorithm of the kernel's own finds: totals of its life, and what
 * holds now. The names are those of struct tcp_sock.
 */
struct remuda_look {
	u32 sid;
	u32 flags; /* of a report */
	u64 now_ns;
	u64 bytes_acked;
	u64 pending_bytes;
	u32 mss_bytes;
	u32 cwnd_pkts;
	u32 in_flight_pkts;
	u32 srtt_us;
	u32 rtt_min_us;
	u32 rtt_us; /* of what was delivered last */
	u32 rate_delivered_pkts;
	u32 rate_interval_us;
	u32 delivered_pkts;
	u32 delivered_ce_pkts;
	u32 lost_pkts;
	u32 sacked_pkts;
	u32 ca_state;
	u32 netns; /* inode number of its network namespace */
	char name[TCP_CA_NAME_MAX];
};

/* Where a flow goes to: as a key, how many bits count, and then the address, which is of IPv6, in
 * network order.
 */
struct remuda_destination {
	u32 prefix_bits;
	u32 address[4];
};

/* How a flow to there begins. */
struct remuda_beginning {
	u32 program; /* index in the jump table; 0: none */
	u32 initial_cwnd_pkts; /* 0: leave it */
};

/* One per datapath, mapped into the agent */
struct remuda_shared {
	u64 heartbeat_ns; /* CLOCK_MONOTONIC, written by the agent */
	u64 lost_reports; /* the ring was full */
	u64 lost_events;
	u64 table_full;
	u64 fallbacks;
	u64 restores;
	u64 adopted;
	u64 adopt_errors;
	u64 assigned;
	u64 assign_errors;
	s64 last_errno;
	u64 remembered; /* flows that began as their destination is remembered */
	u64 slots_used; /* slots from here on have never had a flow; may exceed flows_max */
};

/* Set before load; a constant to the verifier */
struct remuda_config {
	u64 heartbeat_timeout_ns;
	u64 rate_max_bytes_per_sec;
	u32 cwnd_max_pkts;
	u32 assign_initial_cwnd_pkts; /* 0: leave it */
	u32 flows_max;		      /* entries of the maps with one entry a slot */
	u32 padding;
	char name[TCP_CA_NAME_MAX];   /* ours */
	char native[TCP_CA_NAME_MAX]; /* what flows go back to */
};

/* A flow's registers, as the wire protocol numbers them. Straight-line code of compiled programs
 * addresses them at fixed offsets.
 */
struct remuda_registers {
	u64 report[REMUDA_REPORT_REGS]; /* first: sent from here, with what precedes it */
	u64 control[REMUDA_CONTROL_REGS];
	u64 implicit[8];
	u64 temporary[8];
	u64 local[8];
	struct remuda_primitives primitive;
	u64 padding;
};

struct remuda_flow {
	struct remuda_tcp tcp; /* begins with the time of this ACK */
	u64 time_zero_ns;      /* Micros counts from here */
	u32 program_version;   /* whose registers these are */
	u32 program_seq;
	u32 native; /* it has gone to an algorithm of the kernel's own */
	u32 sid;    /* as in the socket's private words, which may be another's; 0: not ours */
	char native_name[TCP_CA_NAME_MAX]; /* where we sent it */
	/* the head of struct remuda_report, followed by its fields */
	struct remuda_event event;
	u32 program_uid;
	u32 n_fields;
	u32 srtt_us;
	u32 rtt_min_us;
	u32 delivered_pkts;
	u32 lost_pkts;
	u32 flags;
	u32 padding;
	struct remuda_registers r;
};

_Static_assert(sizeof(struct remuda_flow_info) == 96, "layout.rs");
_Static_assert(sizeof(struct remuda_slot) == 344, "layout.rs");
_Static_assert(sizeof(struct remuda_event) == 24, "layout.rs");
_Static_assert(sizeof(struct remuda_tcp) == 80, "layout.rs");
_Static_assert(sizeof(struct remuda_report) == 56 + 8 * REMUDA_REPORT_REGS, "layout.rs");
_Static_assert(sizeof(struct remuda_look) == 104, "layout.rs");
_Static_assert(__builtin_offsetof(struct remuda_flow, sid) == 100, "layout.rs");
_Static_assert(sizeof(struct remuda_destination) == 20, "layout.rs");
_Static_assert(sizeof(struct remuda_beginning) == 8, "layout.rs");
_Static_assert(sizeof(struct remuda_config) == 64, "layout.rs");
_Static_assert(sizeof(struct remuda_shared) == 104, "layout.rs");
_Static_assert(__builtin_offsetof(struct remuda_flow, r) ==
		       __builtin_offsetof(struct remuda_flow, event) + 56,
	       "a report is contiguous");
_Static_assert(sizeof(struct remuda_flow) < 4096 - 64, "socket storage of one page");

#endif
