/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The structures of a datapath, and its messages to the agent. Include remuda_datapath.h instead.
 */
#ifndef REMUDA_ANNOUNCE_H
#define REMUDA_ANNOUNCE_H

#include "remuda_vm.h"

/* How counters count; a caller that handles ACKs in parallel may need per-CPU or atomic counters.
 */
#ifndef REMUDA_COUNT
#define REMUDA_COUNT(counter) ((counter)++)
#endif

/* A caller that handles flows, messages and ACKs in parallel (README.md, Serialisation) defines
 * these: a lock for each flow; how one side writes a word so that the others see it whole; and a
 * hook for when an entry of the program table is no longer used but may still be read.
 */
#ifndef REMUDA_LOCK_FLOW
#define REMUDA_LOCK_FLOW(d, f) ((void)(f))
#define REMUDA_UNLOCK_FLOW(d, f) ((void)(f))
#define REMUDA_PUBLISH(place, value) ((place) = (value))
#define REMUDA_OBSERVE(place) (place)
#define REMUDA_RETIRED(d) ((void)(d))
#endif

#define REMUDA_PROGRAMS 64 /* installed at once; a datapath should have room for these */
#define REMUDA_FLOWS 4096  /* at once; the default */
#define REMUDA_FLOWS_MAX (1U << 20)
#define REMUDA_UPDATE_BYTES 13
#define REMUDA_UPDATES_MAX 127 /* libccp counts them in a signed byte */
#define REMUDA_VERSION 1       /* of Remuda's own messages */
#define REMUDA_NAME_BYTES 32
#define REMUDA_ALGORITHM_BYTES 16
#define REMUDA_CREATE_BYTES 96
#define REMUDA_MEASURE_BYTES (16 + 8 * REMUDA_REPORT_REGISTERS)
#define REMUDA_CWND_MIN_PKTS 2	    /* RFC 5681: a single segment waits for a delayed ACK */
#define REMUDA_RATE_MIN_SEGMENTS 10 /* a second: slower, too few ACKs would come to correct it */

/* Flags of a SIGNALS. */
#define REMUDA_APP_LIMITED 1
#define REMUDA_IN_RECOVERY 2
#define REMUDA_CWND_FULL 4  /* the window limited the sender */
#define REMUDA_CWND_HALF 8  /* a flight used at least half of the window */
#define REMUDA_UNDONE 16    /* the last recovery was spurious, and has been undone */
#define REMUDA_RESTARTED 32 /* the flow was idle, and its window is a restart window */
#define REMUDA_RWND_LIMITED 64	  /* the peer's receive window held the sender back */
#define REMUDA_SNDBUF_LIMITED 128 /* a full send buffer held the application back */

/* Which side controls a flow. */
enum remuda_state {
	REMUDA_UNASKED = 0, /* no program yet: the caller controls it */
	REMUDA_OBEYS,	    /* the agent controls it */
	REMUDA_FELL_BACK,   /* the caller controls it again */
};

/* Orders that a flow carries out at its next ACK. */
#define REMUDA_PENDING_PROGRAM 1
#define REMUDA_PENDING_CWND 2
#define REMUDA_PENDING_RATE 4

/* The caller's functions; all must be given. `context` is that of remuda_init(), `flow` that of
 * remuda_flow_start().
 */
struct remuda_ops {
	u64 (*now_ns)(void *context); /* monotonic */
	/* Sends one datagram to the agent, whole or not at all. Returns 0 if it was sent. */
	int (*send)(void *context, const u8 *message, u32 bytes);
	void (*set_cwnd)(void *context, void *flow, u64 cwnd_bytes);
	/* In bytes per second; 0: there is no rate to keep. */
	void (*set_rate)(void *context, void *flow, u64 rate);
	/* From this ACK on the caller controls the flow, starting with the window in force. */
	void (*fell_back)(void *context, void *flow);
	/* From this ACK on the agent controls the flow again. */
	void (*restored)(void *context, void *flow);
};

/* What a datapath can do, where datapaths differ (datapath/wire/src/capability.rs). */
enum remuda_capability {
	REMUDA_CAN_SIGNAL = 0xff,   /* the eight primitives of SIGNALS */
	REMUDA_CAN_NATIVE = 0x100,  /* run the host's own algorithms */
	REMUDA_CAN_PACE = 0x200,    /* enforce a rate */
	REMUDA_CAN_MARKS = 0x400,   /* count each ECN mark */
	REMUDA_CAN_PACKETS = 0x800, /* know each packet sent, acknowledged, lost */
	REMUDA_CAN_PENDING = 0x1000 /* measure what the application has written */
};

struct remuda_config {
	char name[REMUDA_NAME_BYTES]; /* of the datapath, for display */
	u32 id;			      /* of the datapath, in READY */
	u32 capabilities;	      /* bits of enum remuda_capability */
	u32 flows_max;		      /* 1 to REMUDA_FLOWS_MAX */
	u32 programs_max;	      /* 1 or more */
	u32 cwnd_pkts_max;	      /* REMUDA_CWND_MIN_PKTS or more */
	u32 attaches; /* 1: the transport reports when an agent comes and goes, so probes are off */
	u64 rate_bytes_per_sec_max;
	u64 heartbeat_timeout_ns; /* if the agent is silent for longer, flows fall back */
};

/* A flow at its start. Addresses are in network order, an IPv4 address in the first 4 bytes. */
struct remuda_flow_info {
	u8 local[16];
	u8 remote[16];
	u16 local_port; /* host order */
	u16 remote_port;
	u16 family; /* 4 or 6 */
	u16 ecn;    /* 1: negotiated */
	u32 mark;
	u32 mss_bytes;
	u64 cgroup_id; /* 0: unknown; so in all fields below */
	u64 cookie;    /* the socket's SO_COOKIE */
	u64 cwnd_bytes;
	u64 ssthresh_bytes;
	u32 srtt_us;
	u32 rtt_min_us;
	char requested[REMUDA_ALGORITHM_BYTES]; /* the algorithm that the flow requested, or "" */
};

/* One ACK: what was measured, and what is in force. */
struct remuda_ack {
	struct remuda_primitives primitives;
	u64 cwnd_bytes;
	u64 rate; /* bytes per second; 0: none was set */
	u32 mss_bytes;
	u32 srtt_us;
	u32 rtt_min_us;
	u32 delivered_pkts; /* since the flow began, modulo 2^32 */
	u32 lost_pkts;
	u32 signals; /* bits: REMUDA_APP_LIMITED to REMUDA_CWND_HALF */
};

/* A flow's pointer to a program. The version shows whether the table has replaced the program
 * since.
 */
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
	u64 control[REMUDA_CONTROL_REGISTERS]; /* new values, where control_mask has a bit */
	u64 cwnd_bytes;
	u64 rate;
	u32 control_mask;
	u32 pending;
	u32 sid;	/* generation and index; 0: free */
	u32 generation; /* of the last flow in this slot */
	u32 announced;	/* the epoch in which it was announced */
	u32 state;
	u32 signals; /* since the last report */
	u32 next_free;
};

struct remuda_counters {
	u64 messages;		     /* handled; they took effect */
	u64 refused[REMUDA_REASONS]; /* by reason */
	u64 sent;
	u64 not_sent;
	u64 reports;
	u64 reports_lost;
	u64 flows_refused; /* because the table was full */
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
	u64 heard_ns;	/* when the agent's last message came */
	u64 failing_ns; /* since when sending fails; 0: it works */
	u64 probed_ns;
	u32 beats;    /* 1: the agent sends heartbeats, so its silence counts */
	u32 detached; /* 1: the transport reports that there is no agent */
	u32 epoch;    /* of announcements */
	u32 free;     /* index of a free slot; flows_max: none is free */
	u32 index_bits;
	u32 stalled; /* 1: the transport reports that the agent does not read */
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

/* Windows and rates have 32 bits on the wire. */
static inline u8 *remuda_put_clamped(u8 *at, u64 value)
{
	return remuda_put(at, value < REMUDA_WIRE_MAX ? value : REMUDA_WIRE_MAX, 4);
}

/* Writes a name up to the first byte that is not printable, padded with NULs. */
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

/* At a READY the agent forgets all flows of this datapath, so announcing them must follow. */
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

/* An IPv4 address in host order; 0 for IPv6, because CREATE has no room for it. */
static inline u32 remuda_v4(const u8 *a, u32 family)
{
	return family == 6 ? 0 : (u32)a[0] << 24 | (u32)a[1] << 16 | (u32)a[2] << 8 | a[3];
}

/* Sends a FLOW and its CREATE. Drops orders of a former agent. The epoch is read before sending: if
 * it ends meanwhile, the flow is announced again.
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

/* Announces every live flow. A flow that cannot be announced now is announced at its next ACK. */
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
	if (told && remuda_send_measure(d, f->sid, p->uid, f->machine.r, p->fields)) {
		REMUDA_COUNT(d->counters.reports);
		f->signals = 0;
		return;
	}
	/* The signals go with the next report: the agent must hear of a restart. */
	REMUDA_COUNT(d->counters.reports_lost);
}

/* Changes which side controls the flow, and reports that to the agent. */
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
		/* A window ordered before the agent went is out of date when an agent is back. */
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
