/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What a datapath consists of, and what it tells its agent. To include: remuda_datapath.h. */
#ifndef REMUDA_ANNOUNCE_H
#define REMUDA_ANNOUNCE_H

#include "remuda_vm.h"

/* How counters count; a caller whose ACKs run at the same time may want per-CPU or atomic ones. */
#ifndef REMUDA_COUNT
#define REMUDA_COUNT(counter) ((counter)++)
#endif

/* For a caller whose flows, messages and ACKs run beside each other (README.md, Serialisation): a
 * lock of each flow; how what one of them writes whole is seen by the others; and that an entry of
 * the table of programs is no longer used, but may still be looked at.
 */
#ifndef REMUDA_LOCK_FLOW
#define REMUDA_LOCK_FLOW(d, f) ((void)(f))
#define REMUDA_UNLOCK_FLOW(d, f) ((void)(f))
#define REMUDA_PUBLISH(place, value) ((place) = (value))
#define REMUDA_OBSERVE(place) (place)
#define REMUDA_RETIRED(d) ((void)(d))
#endif

#define REMUDA_PROGRAMS 64 /* installed at once, at least: what a datapath owes */
#define REMUDA_FLOWS 4096  /* at once, at least */
#define REMUDA_FLOWS_MAX (1U << 20)
#define REMUDA_UPDATE_BYTES 13
#define REMUDA_UPDATES_MAX 127 /* libccp counts them by a signed byte */
#define REMUDA_VERSION 1       /* of the messages that CCP does not have */
#define REMUDA_NAME_BYTES 32
#define REMUDA_ALGORITHM_BYTES 16
#define REMUDA_CREATE_BYTES 96
#define REMUDA_MEASURE_BYTES (16 + 8 * REMUDA_REPORT_REGISTERS)
#define REMUDA_CWND_MIN_PKTS 2	    /* RFC 5681: below two segments ACKs are delayed */
#define REMUDA_RATE_MIN_SEGMENTS 10 /* a second: at a rate without ACKs nothing would correct it */

/* Flags of a SIGNALS. */
#define REMUDA_APP_LIMITED 1
#define REMUDA_IN_RECOVERY 2
#define REMUDA_CWND_FULL 4 /* the window held the sender back */
#define REMUDA_CWND_HALF 8 /* a flight used at least half of it */
#define REMUDA_UNDONE 16   /* the last recovery was spurious, and has been undone */
#define REMUDA_RESTARTED 32 /* the flow was idle, and its window is a restart window */

/* Whose a flow is. */
enum remuda_state {
	REMUDA_UNASKED = 0, /* no program yet: the caller's own control */
	REMUDA_OBEYS,	    /* the agent's */
	REMUDA_FELL_BACK,   /* the caller's own again */
};

/* What waits in a flow for its next ACK. */
#define REMUDA_PENDING_PROGRAM 1
#define REMUDA_PENDING_CWND 2
#define REMUDA_PENDING_RATE 4

/* What the caller does. None may be missing. `context` is remuda_init's, `flow` the flow's own. */
struct remuda_ops {
	u64 (*now_ns)(void *context); /* monotonic */
	/* One datagram to the agent, all of it or nothing. 0, or anything else: it did not go. */
	int (*send)(void *context, const u8 *message, u32 bytes);
	void (*set_cwnd)(void *context, void *flow, u64 cwnd_bytes);
	/* Bytes per second; 0: the caller paces as it likes. */
	void (*set_rate)(void *context, void *flow, u64 rate);
	/* From this ACK on, the caller controls the flow, from the window in force. */
	void (*fell_back)(void *context, void *flow);
	/* From this ACK on, the agent does. */
	void (*restored)(void *context, void *flow);
};

/* What a datapath can, of what not each can (datapath/wire/src/capability.rs). */
enum remuda_capability {
	REMUDA_CAN_SIGNAL = 0xff,   /* SIGNALS, its eight primitives */
	REMUDA_CAN_NATIVE = 0x100,  /* run algorithms of its host's own */
	REMUDA_CAN_PACE = 0x200,    /* enforce a rate */
	REMUDA_CAN_MARKS = 0x400,   /* count each ECN mark */
	REMUDA_CAN_PACKETS = 0x800, /* know each packet sent, acknowledged, lost */
	REMUDA_CAN_PENDING = 0x1000 /* say what the application has written */
};

struct remuda_config {
	char name[REMUDA_NAME_BYTES]; /* of the datapath, for a person */
	u32 id;			      /* of the datapath, in READY */
	u32 capabilities;	      /* of enum remuda_capability */
	u32 flows_max;		      /* 1 to REMUDA_FLOWS_MAX */
	u32 programs_max;	      /* 1 or more */
	u32 cwnd_pkts_max;	      /* REMUDA_CWND_MIN_PKTS or more */
	u32 attaches; /* the transport says when an agent comes and goes: none is probed for */
	u64 rate_bytes_per_sec_max;
	u64 heartbeat_timeout_ns; /* an agent silent for longer has lost its flows */
};

/* Who a flow is. Addresses as people write them, an IPv4 one in the first 4 bytes. */
struct remuda_flow_info {
	u8 local[16];
	u8 remote[16];
	u16 local_port; /* host order */
	u16 remote_port;
	u16 family; /* 4 or 6 */
	u16 ecn;    /* negotiated */
	u32 mark;
	u32 mss_bytes;
	u64 cgroup_id; /* 0: unknown, as below */
	u64 cookie;    /* the socket's SO_COOKIE */
	u64 cwnd_bytes;
	u64 ssthresh_bytes;
	u32 srtt_us;
	u32 rtt_min_us;
	char requested[REMUDA_ALGORITHM_BYTES]; /* the algorithm the flow asked for, or "" */
};

/* One ACK: what was measured at it, and what is in force. */
struct remuda_ack {
	struct remuda_primitives primitives;
	u64 cwnd_bytes;
	u64 rate; /* bytes per second; 0: none was set */
	u32 mss_bytes;
	u32 srtt_us;
	u32 rtt_min_us;
	u32 delivered_pkts; /* in the flow's life, modulo 2^32 */
	u32 lost_pkts;
	u32 signals; /* REMUDA_APP_LIMITED and so on */
};

/* A program as a flow knows it: the table may put another under its number. */
struct remuda_reference {
	struct remuda_program *program;
	u64 version;
	u32 uid;
	u32 padding;
};

struct remuda_flow {
	struct remuda_machine machine;
	struct remuda_reference running;
	struct remuda_reference next;
	struct remuda_flow_info info;
	void *context;
	u64 control[REMUDA_CONTROL_REGISTERS]; /* pending, where the mask has a bit */
	u64 cwnd_bytes;
	u64 rate;
	u32 control_mask;
	u32 pending;
	u32 sid;	/* generation and index; 0: free */
	u32 generation; /* of the last flow here */
	u32 announced;	/* the epoch in which the agent was told */
	u32 state;
	u32 signals; /* since the last report */
	u32 next_free;
};

struct remuda_counters {
	u64 messages;		     /* that took effect */
	u64 refused[REMUDA_REASONS]; /* by reason */
	u64 sent;
	u64 not_sent;
	u64 reports;
	u64 reports_lost;
	u64 flows_refused; /* the table was full */
	u64 programs_evicted;
	u64 fallbacks;
	u64 restores;
	u64 clamped; /* windows and rates beyond their bounds */
};

struct remuda_datapath {
	struct remuda_counters counters;
	struct remuda_config config;
	const struct remuda_ops *ops;
	void *context;
	struct remuda_flow *flows;
	struct remuda_program *programs;
	u64 versions;
	u64 heard_ns;	/* the agent's last word */
	u64 failing_ns; /* nothing could be sent since; 0: something could */
	u64 probed_ns;
	u32 beats;    /* the agent sends heartbeats: its silence means something */
	u32 detached; /* the transport says that there is no agent */
	u32 epoch;    /* of announcements */
	u32 free;     /* index of a free flow; flows_max: none */
	u32 index_bits;
	u32 stalled; /* the transport says that its agent does not read */
};

/* ---- To the agent ----------------------------------------------------------------------------*/

static inline u8 *remuda_put(u8 *at, u64 value, u32 bytes)
{
	while (bytes--) {
		*at++ = value & 0xff;
		value >>= 8;
	}
	return at;
}

/* On the wire windows and rates have 32 bits. */
static inline u8 *remuda_put_clamped(u8 *at, u64 value)
{
	return remuda_put(at, value < REMUDA_WIRE_MAX ? value : REMUDA_WIRE_MAX, 4);
}

/* A name up to the first byte that is not printable, padded with NULs. */
static inline u8 *remuda_put_name(u8 *at, const char *name, u32 length, u32 field)
{
	u32 i;

	for (i = 0; i < length && name[i] > ' ' && name[i] <= '~'; i++)
		at[i] = name[i];
	for (; i < field; i++)
		at[i] = 0;
	return at + field;
}

static inline u8 *remuda_begin(u8 *message, u32 type, u32 sid)
{
	remuda_put(message, type, 2);
	return remuda_put(message + 4, sid, 4);
}

static inline bool remuda_send(struct remuda_datapath *d, u8 *message, const u8 *end)
{
	u32 bytes = end - message;

	remuda_put(message + 2, bytes, 2);
	if (d->ops->send(d->context, message, bytes) == 0) {
		REMUDA_COUNT(d->counters.sent);
		if (d->failing_ns)
			d->failing_ns = 0;
		return true;
	}
	REMUDA_COUNT(d->counters.not_sent);
	if (!d->failing_ns)
		d->failing_ns = d->ops->now_ns(d->context) | 1;
	return false;
}

static inline bool remuda_hello(struct remuda_datapath *d)
{
	u8 message[64];
	u8 *at = remuda_begin(message, REMUDA_HELLO, 0);

	at = remuda_put(at, REMUDA_VERSION, 4);
	at = remuda_put(at, d->config.capabilities, 4);
	at = remuda_put(at, d->config.programs_max, 4);
	at = remuda_put(at, d->config.flows_max, 4);
	at = remuda_put_name(at, d->config.name, REMUDA_NAME_BYTES - 1, REMUDA_NAME_BYTES);
	return remuda_send(d, message, at);
}

/* At this an agent forgets every flow it had of us: announcing them anew must follow. */
static inline bool remuda_ready(struct remuda_datapath *d)
{
	u8 message[16];
	u8 *at = remuda_begin(message, REMUDA_READY, 0);

	at = remuda_put(at, d->config.id, 4);
	return remuda_send(d, message, at);
}

static inline u8 *remuda_put_address(u8 *at, const u8 *address, u32 family)
{
	u32 i;

	for (i = 0; i < 16; i++)
		at[i] = i < 4 || family == 6 ? address[i] : 0;
	return at + 16;
}

/* The first word of an IPv4 address, in host order; IPv6 has no place in a CREATE. */
static inline u32 remuda_v4(const u8 *a, u32 family)
{
	return family == 6 ? 0 : (u32)a[0] << 24 | (u32)a[1] << 16 | (u32)a[2] << 8 | a[3];
}

/* A FLOW and its CREATE. What an agent had told it before is not this one's. The epoch is that of
 * before they were sent: if it ends meanwhile, the flow is announced again.
 */
static inline bool remuda_announce(struct remuda_datapath *d, struct remuda_flow *f)
{
	const struct remuda_flow_info *info = &f->info;
	u32 epoch = REMUDA_OBSERVE(d->epoch);
	u8 message[REMUDA_CREATE_BYTES];
	u8 *at = remuda_begin(message, REMUDA_FLOW, f->sid);

	at = remuda_put(at, info->family, 2);
	at = remuda_put(at, info->ecn ? 1 : 0, 2);
	at = remuda_put_address(at, info->local, info->family);
	at = remuda_put_address(at, info->remote, info->family);
	at = remuda_put(at, info->local_port, 2);
	at = remuda_put(at, info->remote_port, 2);
	at = remuda_put(at, info->mark, 4);
	at = remuda_put(at, info->cgroup_id, 8);
	at = remuda_put_clamped(at, info->ssthresh_bytes);
	at = remuda_put(at, info->srtt_us, 4);
	at = remuda_put(at, info->rtt_min_us, 4);
	at = remuda_put_name(at, info->requested, REMUDA_ALGORITHM_BYTES - 1,
			     REMUDA_ALGORITHM_BYTES);
	at = remuda_put(at, info->cookie, 8);
	if (!remuda_send(d, message, at))
		return false;
	at = remuda_begin(message, REMUDA_CREATE, f->sid);
	at = remuda_put_clamped(at, info->cwnd_bytes);
	at = remuda_put(at, info->mss_bytes, 4);
	at = remuda_put(at, remuda_v4(info->local, info->family), 4);
	at = remuda_put(at, info->local_port, 4);
	at = remuda_put(at, remuda_v4(info->remote, info->family), 4);
	at = remuda_put(at, info->remote_port, 4);
	at = remuda_put_name(at, info->requested, REMUDA_ALGORITHM_BYTES - 1, 64);
	if (!remuda_send(d, message, at))
		return false;
	f->pending = 0;
	f->control_mask = 0;
	f->announced = epoch;
	return true;
}

/* Every live flow; who cannot be told now, is at its next ACK. */
static inline void remuda_announce_all(struct remuda_datapath *d)
{
	bool went = true;
	u32 i;

	for (i = 0; went && i < d->config.flows_max; i++) {
		struct remuda_flow *f = &d->flows[i];

		REMUDA_LOCK_FLOW(d, f);
		if (f->sid && f->announced != d->epoch)
			went = remuda_announce(d, f);
		REMUDA_UNLOCK_FLOW(d, f);
	}
}

static inline bool remuda_send_measure(struct remuda_datapath *d, u32 sid, u32 uid,
				       const u64 *fields, u32 count)
{
	u8 message[REMUDA_MEASURE_BYTES];
	u8 *at = remuda_begin(message, REMUDA_MEASURE, sid);

	at = remuda_put(at, uid, 4);
	at = remuda_put(at, count, 4);
	while (count--)
		at = remuda_put(at, *fields++, 8);
	return remuda_send(d, message, at);
}

static inline void remuda_send_signals(struct remuda_datapath *d, const struct remuda_flow *f,
				       const struct remuda_ack *ack, u64 now_ns)
{
	u32 mss = f->info.mss_bytes, signals = f->signals | ack->signals;
	u8 message[64];
	u8 *at = remuda_begin(message, REMUDA_SIGNALS, f->sid);

	at = remuda_put(at, remuda_div64(now_ns, REMUDA_NS_PER_US), 8);
	at = remuda_put(at, ack->srtt_us, 4);
	at = remuda_put(at, ack->rtt_min_us, 4);
	at = remuda_put(at, ack->delivered_pkts, 4);
	at = remuda_put(at, ack->lost_pkts, 4);
	at = remuda_put_clamped(at, remuda_div64(ack->cwnd_bytes, mss));
	at = remuda_put(at, mss, 4);
	at = remuda_put(at, signals, 4);
	remuda_send(d, message, at);
}

static inline void remuda_report(struct remuda_datapath *d, struct remuda_flow *f,
				 const struct remuda_program *p, const struct remuda_ack *ack,
				 u64 now_ns)
{
	bool told = f->announced == d->epoch;

	if (told && d->config.capabilities & REMUDA_CAN_SIGNAL)
		remuda_send_signals(d, f, ack, now_ns);
	if (told && remuda_send_measure(d, f->sid, p->uid, f->machine.r, p->fields))
		REMUDA_COUNT(d->counters.reports);
	else
		REMUDA_COUNT(d->counters.reports_lost);
	f->signals = 0;
}

/* The flow changes hands. */
static inline void remuda_hand_over(struct remuda_datapath *d, struct remuda_flow *f, u32 state,
				    u64 now_ns)
{
	bool back = state == REMUDA_OBEYS;
	u8 message[32];
	u8 *at = remuda_begin(message, REMUDA_STATE, f->sid);

	f->state = state;
	if (back) {
		REMUDA_COUNT(d->counters.restores);
	} else {
		REMUDA_COUNT(d->counters.fallbacks);
		/* A window that was right before the agent went is not when one is back. */
		f->pending &= REMUDA_PENDING_PROGRAM;
		if (!f->pending)
			f->control_mask = 0;
	}
	(back ? d->ops->restored : d->ops->fell_back)(d->context, f->context);
	if (f->announced != d->epoch)
		return;
	at = remuda_put(at, back ? 1 : 0, 4);
	at = remuda_put_clamped(at, f->info.cwnd_bytes);
	at = remuda_put(at, remuda_div64(now_ns, REMUDA_NS_PER_US), 8);
	remuda_send(d, message, at);
}

#endif
