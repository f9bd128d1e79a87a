/* SPDX-License-Identifier: GPL-2.0 */
/* The memory that the kernel side and the agent share, and its limits. layout.rs mirrors this file
 * and asserts the same sizes; change both together.
 */
#ifndef REMUDA_LAYOUT_H
#define REMUDA_LAYOUT_H

#include "remuda_primitives.h"
#include "remuda_tcp.h"

/* A sid is generation << REMUDA_SLOT_BITS | slot. The loader sets the number of slots. */
#define REMUDA_SLOT_BITS 17
#define REMUDA_PROGRAMS 128 /* entry 0 stays empty: a flow without a program */
#define REMUDA_REPORT_REGS 32
#define REMUDA_CONTROL_REGS 32
#define REMUDA_ADDRESS_BITS 128
#define REMUDA_NETNS_BITS 64
#define REMUDA_EVENTS_BYTES (1 << 19) /* of the ring of lifecycle events */
#define REMUDA_USERS 4096    /* users with flags */
#define REMUDA_REFUSALS 1024 /* users, cgroups and reasons whose refusals are counted apart */

/* Flags of a slot: what the flow has to take over at its next ACK */
#define SLOT_PROGRAM 1
#define SLOT_CWND 2
#define SLOT_RATE 4
#define SLOT_CONTROL 8
#define SLOT_NATIVE 16 /* one of the kernel's own algorithms, by name */

enum remuda_event_kind {
	REMUDA_CREATED = 1,
	REMUDA_CLOSED = 2,
	REMUDA_REPORT = 3,
	REMUDA_FELL_BACK = 4,
	REMUDA_RESTORED = 5,
	REMUDA_NATIVE_REFUSED = 7, /* the kernel refused the flow one of its own algorithms */
	REMUDA_RECALL_REFUSED = 8, /* the kernel refused to set the flow back from one */
	REMUDA_RESPONSE = 9,	   /* a struct remuda_response */
};

/* Why a socket does not become a flow */
enum remuda_refusal_reason {
	REMUDA_NOT_ALLOWED = 1,	 /* the name is restricted to other users */
	REMUDA_USER_QUOTA = 2,	 /* its user has the slots that it may have */
	REMUDA_CGROUP_QUOTA = 3, /* its cgroup has the slots that it may have */
	REMUDA_FULL = 4,	 /* no slot is free */
};

/* The flags of a user in the map of users */
#define REMUDA_USER_ALLOWED 1	/* it may run the name while the name is restricted */
#define REMUDA_USER_UNLIMITED 2 /* its flows are held to no quota */

/* Who a socket belongs to */
struct remuda_owner {
	u64 netns;	    /* cookie of its network namespace; 0: the agent's own */
	u64 quota_cgroup;   /* the cgroup whose quota it counts for; 0: none */
	u32 uid;	    /* the user that it counts for */
	u32 is_of_host;	    /* the initial user namespace owns its network namespace */
	u32 has_user_quota; /* it counts for the quota of that user */
	u32 padding;
};

/* A flow's description. The flow is live while the generation is that of its sid. */
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
	u32 cwnd_pkts; /* when the flow started to run our algorithm */
	u32 ssthresh_pkts;
	u32 srtt_us;
	u32 rtt_min_us;
	u64 cgroup_id;
	u64 created_ns;
	u64 cookie; /* SO_COOKIE; 0 if no program has asked for it before */
	struct remuda_owner owner;
};

/* Agent to flow: a sequence lock. The agent makes seq odd, writes the words, and makes seq even. At
 * its next ACK the flow takes the words and writes that seq to applied_seq. Both sides have full
 * barriers between seq and the words.
 */
struct remuda_slot {
	u32 seq;
	u32 generation;     /* of the slot's last flow; the kernel side counts it */
	u32 for_generation; /* generation of the flow that the agent's words are for */
	u32 flags;
	u32 program;     /* index in the jump table */
	u32 program_seq; /* counts program changes, so that a flow makes each only once */
	u32 control_mask;
	u32 in_fallback;
	u64 cwnd_bytes;
	u64 rate_bytes_per_sec; /* 0: the datapath chooses the pacing rate */
	u64 control[REMUDA_CONTROL_REGS];
	u64 applied_ns;
	u32 applied_seq;
	u32 native_ssthresh_pkts; /* 0: unchanged */
	char native[TCP_CA_NAME_MAX];
	u32 in_native; /* the flow runs one of the kernel's own algorithms */
	u32 padding;
};

/* Flow to agent. A lifecycle event is this header and nothing else. */
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

/* What a server sent between two requests of its peer; see responses.h. The event's time is that of
 * the acknowledgement of the last byte, and its window that of the same moment.
 */
struct remuda_response {
	struct remuda_event event;
	u64 started_ns; /* when its first byte left */
	u64 bytes;	/* 0: no complete response waits to be reported */
	u32 srtt_us;	/* at its end */
	u32 rtt_min_us;
	u32 lost_pkts;	       /* during it */
	u32 rwnd_bytes;	       /* the peer's receive window at its start */
	u32 started_cwnd_pkts; /* the window at its start */
	u32 number;	       /* 1: the first of its connection */
};

/* The socket's totals when a response began */
struct remuda_response_start {
	u64 acked_bytes;
	u64 received_bytes;
	u32 lost_pkts;
	u32 padding;
};

/* What a look at a native flow reads: totals over the socket's life, and values of this moment. The
 * names are those of struct tcp_sock.
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
	u32 rtt_us; /* of the segment delivered last */
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

/* The network that a flow goes to, as a key of the map: the bits of its prefix (those of the
 * namespace and those of the address), the network namespace from which it is reached, and its IPv6
 * address in network order.
 */
struct remuda_destination {
	u32 prefix_bits;
	u32 netns[2]; /* as remuda_owner.netns */
	u32 address[4];
};

/* Who has a share of the slots: a user by uid, or a cgroup by id */
struct remuda_account {
	u64 id;
	u32 kind; /* enum remuda_account_kind of admission.h */
	u32 padding;
};

/* Sockets that were refused, counted by these */
struct remuda_refusal {
	u64 cgroup_id; /* of the socket itself */
	u32 uid;
	u32 reason; /* enum remuda_refusal_reason */
};

/* What remuda_vacate is called with */
struct remuda_vacated {
	u32 sid;
};

/* How a flow to such a network begins */
struct remuda_remembered {
	u32 program; /* index in the jump table; 0: none */
	u32 initial_cwnd_pkts; /* 0: the kernel's */
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
	u64 remembered; /* flows that began by a remembered destination */
	u64 slots_used; /* slots from here on have never had a flow; may exceed flows_max */
	u64 slots_live; /* slots that have a flow now */
	u64 refused;	/* sockets that did not become flows, for any reason */
};

/* Set before load, so the verifier treats it as constant */
struct remuda_config {
	u64 heartbeat_timeout_ns;
	u64 rate_max_bytes_per_sec;
	u32 cwnd_max_pkts;
	u32 assign_initial_cwnd_pkts; /* 0: the kernel's */
	u32 flows_max;		      /* entries of the maps with one entry a slot */
	u32 is_restricted;	      /* only users in the map of users may run the name */
	u64 own_netns;		      /* cookie of the agent's network namespace */
	u32 user_percent;	      /* of the slots that others leave, at most this share */
	u32 cgroup_percent;
	u32 measures_responses;
	u32 padding;
	char name[TCP_CA_NAME_MAX];   /* of our algorithm */
	char native[TCP_CA_NAME_MAX]; /* of the algorithm that flows get when the agent leaves */
};

/* A flow's registers, in the order of the wire protocol's numbers. Compiled programs address them
 * at fixed offsets.
 */
struct remuda_registers {
	u64 report[REMUDA_REPORT_REGS]; /* first: a report is the fields before it and this array */
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
	u32 program_version;   /* the program that the registers belong to */
	u32 program_seq;
	u32 native; /* 1: it runs one of the kernel's own algorithms; or FLOW_IS_ADOPTED */
	u32 sid;    /* also in the socket's private words while it runs ours; 0: no slot */
	char native_name[TCP_CA_NAME_MAX]; /* the algorithm that we set */
	struct remuda_response response;
	struct remuda_response_start response_start;
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
	/* Control registers as read from the slot, until the words are known to be whole. */
	u64 staged[REMUDA_CONTROL_REGS];
};

_Static_assert(sizeof(struct remuda_flow_info) == 128, "layout.rs");
_Static_assert(sizeof(struct remuda_slot) == 344, "layout.rs");
_Static_assert(sizeof(struct remuda_event) == 24, "layout.rs");
_Static_assert(sizeof(struct remuda_tcp) == 80, "layout.rs");
_Static_assert(sizeof(struct remuda_report) == 56 + 8 * REMUDA_REPORT_REGS, "layout.rs");
_Static_assert(sizeof(struct remuda_look) == 104, "layout.rs");
_Static_assert(__builtin_offsetof(struct remuda_flow, sid) == 100, "layout.rs");
_Static_assert(sizeof(struct remuda_destination) == 28, "layout.rs");
_Static_assert(sizeof(struct remuda_remembered) == 8, "layout.rs");
_Static_assert(sizeof(struct remuda_owner) == 32, "layout.rs");
_Static_assert(sizeof(struct remuda_refusal) == 16, "layout.rs");
_Static_assert(sizeof(struct remuda_vacated) == 4, "layout.rs");
_Static_assert(sizeof(struct remuda_config) == 88, "layout.rs");
_Static_assert(sizeof(struct remuda_response) == 64, "layout.rs");
_Static_assert(sizeof(struct remuda_response_start) == 24, "layout.rs");
_Static_assert(sizeof(struct remuda_shared) == 120, "layout.rs");
_Static_assert(__builtin_offsetof(struct remuda_flow, r) ==
		       __builtin_offsetof(struct remuda_flow, event) + 56,
	       "a report is contiguous");
_Static_assert(sizeof(struct remuda_flow) < 4096 - 64, "socket storage of one page");

#endif
