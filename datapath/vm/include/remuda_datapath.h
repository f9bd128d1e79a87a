/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* A CCP datapath around the VM: programs, flows, messages in both directions, and fallback.
 *
 * The caller owns the memory and does all networking: this file decides, and the callbacks of
 * struct remuda_ops act. The file has no lock of its own. A caller with one thread needs none. A
 * caller with several threads must know (README.md, Serialisation):
 *
 *   - remuda_message, remuda_attach and remuda_detach run one at a time, and so do
 *     remuda_flow_start and remuda_flow_stop;
 *   - everything else is protected by the flow's lock, which this file takes (REMUDA_LOCK_FLOW);
 *   - ACKs read the table of programs while a message changes it: a retired entry
 *     (REMUDA_RETIRED) may be reused only after every ACK in progress has ended.
 *
 * Besides, the threads share counters and single words of time, where a lost write costs a count or
 * a probe. Callbacks run inside these functions, under the flow's lock where they are about a flow,
 * and must not call back into them.
 */
#ifndef REMUDA_DATAPATH_H
#define REMUDA_DATAPATH_H

#include "remuda_announce.h"

/* ---- The agent -------------------------------------------------------------------------------*/

static inline bool remuda_older(u64 then_ns, u64 now_ns, u64 limit_ns)
{
	return now_ns > then_ns && now_ns - then_ns > limit_ns;
}

/* Whether flows must fall back. An agent that has sent heartbeats is late when it is silent for too
 * long. Any agent is late when sending to it fails for as long. CCP's own agents send no
 * heartbeats, and may be silent for any time.
 */
static inline bool remuda_agent_is_late(const struct remuda_datapath *d, u64 now_ns)
{
	u64 limit_ns = d->config.heartbeat_timeout_ns;

	return d->detached || d->stalled ||
	       (d->beats && remuda_older(d->heard_ns, now_ns, limit_ns)) ||
	       (d->failing_ns && remuda_older(d->failing_ns, now_ns, limit_ns));
}

/* While the agent is late, sends a HELLO now and then. If that succeeds after sending had failed,
 * there is a new agent, and each flow is announced to it at its next ACK. An agent that was only
 * silent gets no READY, so it keeps its flows. For transports that do not report when an agent
 * comes.
 */
static inline void remuda_probe(struct remuda_datapath *d, u64 now_ns)
{
	bool gone = d->failing_ns;

	if (d->config.attaches || d->detached ||
	    !remuda_older(d->probed_ns, now_ns, d->config.heartbeat_timeout_ns))
		return;
	d->probed_ns = now_ns;
	if (remuda_hello(d) && gone && remuda_ready(d)) {
		d->beats = 0;
		REMUDA_PUBLISH(d->epoch, d->epoch + 1);
	}
}

/* Greets a new agent with HELLO and READY, and announces every live flow. The programs of the last
 * agent become stale: flows go on running them until a new program needs their place.
 */
static inline void remuda_welcome(struct remuda_datapath *d)
{
	bool went;
	u32 i;

	for (i = 0; i <= d->config.programs_max; i++)
		d->programs[i].stale = 1;
	/* The epoch begins after READY, so flows announced before it are announced again. */
	went = remuda_hello(d) && remuda_ready(d);
	REMUDA_PUBLISH(d->epoch, d->epoch + 1);
	if (went)
		remuda_announce_all(d);
}

/* Call this when an agent has connected: sends HELLO, READY and every live flow. */
REMUDA_API void remuda_attach(struct remuda_datapath *d)
{
	d->detached = 0;
	d->beats = 0;
	d->failing_ns = 0;
	remuda_welcome(d);
}

/* Call this when the agent has gone: each flow falls back at its next ACK. */
REMUDA_API void remuda_detach(struct remuda_datapath *d)
{
	d->detached = 1;
}

/* ---- From the agent --------------------------------------------------------------------------*/

/* Finds the program installed under a number. */
static inline bool remuda_program_find(const struct remuda_datapath *d, u32 uid,
				       struct remuda_reference *reference)
{
	u32 i;

	for (i = 0; i <= d->config.programs_max; i++) {
		struct remuda_program *p = &d->programs[i];
		u64 version = REMUDA_OBSERVE(p->version);

		if (version && p->uid == uid) {
			reference->program = p;
			reference->version = version;
			reference->uid = uid;
			return true;
		}
	}
	return false;
}

/* The program that a flow refers to, or its replacement under the same number; NULL if there is
 * none.
 */
static inline struct remuda_program *remuda_resolve(const struct remuda_datapath *d,
						    struct remuda_reference *reference)
{
	struct remuda_program *p = reference->program;

	if (p && REMUDA_OBSERVE(p->version) != reference->version &&
	    !remuda_program_find(d, reference->uid, reference)) {
		reference->program = NULL;
		reference->version = 0;
	}
	return reference->program;
}

/* Installs a program. One entry of the table is always free: the program is decoded there, and the
 * entry that it replaces becomes the free one. Installing the same program again changes nothing.
 */
static inline u32 remuda_install(struct remuda_datapath *d, const u8 *message, size_t bytes)
{
	const size_t head = offsetof(struct remuda_program, uid);
	struct remuda_program *p = d->programs, *spare = NULL, *known = NULL, *stale = NULL;
	u32 reason, at, installed = 0, i;

	for (i = 0; i <= d->config.programs_max; i++)
		if (!p[i].version)
			spare = &p[i];
	reason = remuda_decode(spare, message, bytes, &at);
	if (reason)
		return reason;
	for (i = 0; i <= d->config.programs_max; i++) {
		if (!p[i].version)
			continue;
		installed++;
		if (p[i].uid == spare->uid)
			known = &p[i];
		else if (p[i].stale)
			stale = &p[i];
	}
	if (known && !__builtin_memcmp(&known->uid, &spare->uid, sizeof(*known) - head)) {
		known->stale = 0;
		return REMUDA_OK;
	}
	if (!known && installed >= d->config.programs_max) {
		if (!stale)
			return REMUDA_PROGRAMS_FULL;
		REMUDA_COUNT(d->counters.programs_evicted);
		known = stale;
	}
	REMUDA_PUBLISH(spare->version, ++d->versions);
	if (known) {
		REMUDA_PUBLISH(known->version, 0);
		REMUDA_RETIRED(d);
	}
	return REMUDA_OK;
}

/* Checks the count of updates and each update, up to the end of the message. */
REMUDA_API u32 remuda_check_updates(const u8 *at, size_t bytes)
{
	u32 count;

	if (bytes < 4)
		return REMUDA_BAD_LENGTH;
	count = remuda_get32(at);
	if (count > REMUDA_UPDATES_MAX || count * REMUDA_UPDATE_BYTES != bytes - 4)
		return REMUDA_BAD_COUNT;
	for (at += 4; count--; at += REMUDA_UPDATE_BYTES) {
		u8 place = remuda_place(at[0], remuda_get32(at + 1));

		if (place == REMUDA_NOWHERE)
			return REMUDA_BAD_REGISTER;
		if (place < REMUDA_CONTROL || (place >= REMUDA_FLAG && place != REMUDA_CWND &&
					       place != REMUDA_RATE))
			return REMUDA_BAD_TARGET;
	}
	return REMUDA_OK;
}

/* Stores updates, which take effect at the flow's next ACK. */
static inline void remuda_stage(struct remuda_flow *f, const u8 *at)
{
	u32 count = remuda_get32(at);

	for (at += 4; count--; at += REMUDA_UPDATE_BYTES) {
		u8 place = remuda_place(at[0], remuda_get32(at + 1));
		u64 value = remuda_get64(at + 5);

		if (place == REMUDA_CWND) {
			f->pending |= REMUDA_PENDING_CWND;
			f->cwnd_bytes = value;
		} else if (place == REMUDA_RATE) {
			f->pending |= REMUDA_PENDING_RATE;
			f->rate = value;
		} else {
			f->control_mask |= 1U << (place - REMUDA_CONTROL);
			f->control[place - REMUDA_CONTROL] = value;
		}
	}
}

/* The live flow with this number, or NULL. A number is reused only after its generation wraps. */
REMUDA_API struct remuda_flow *remuda_flow_find(const struct remuda_datapath *d, u32 sid)
{
	u32 index = sid & ((1U << d->index_bits) - 1);

	if (!sid || index >= d->config.flows_max || d->flows[index].sid != sid)
		return NULL;
	return &d->flows[index];
}

/* Handles an UPDATE_FIELDS or a CHANGE_PROG. */
static inline u32 remuda_update(struct remuda_datapath *d, const u8 *message, size_t bytes,
				bool change)
{
	size_t head = REMUDA_HEADER_BYTES + (change ? 4 : 0);
	u32 reason, sid;
	struct remuda_reference next;
	struct remuda_flow *f;

	if (bytes < head)
		return REMUDA_BAD_LENGTH;
	reason = remuda_check_updates(message + head, bytes - head);
	if (reason)
		return reason;
	sid = remuda_get32(message + 4);
	f = remuda_flow_find(d, sid);
	if (!f)
		return REMUDA_NO_FLOW;
	if (change &&
	    !remuda_program_find(d, remuda_get32(message + REMUDA_HEADER_BYTES), &next))
		return REMUDA_NO_PROGRAM;
	REMUDA_LOCK_FLOW(d, f);
	if (f->sid != sid) { /* the flow has ended meanwhile */
		REMUDA_UNLOCK_FLOW(d, f);
		return REMUDA_NO_FLOW;
	}
	if (change) {
		f->next = next;
		f->pending |= REMUDA_PENDING_PROGRAM;
		f->control_mask = 0; /* updates for the old program */
	}
	remuda_stage(f, message + head);
	REMUDA_UNLOCK_FLOW(d, f);
	return REMUDA_OK;
}

static inline u32 remuda_take(struct remuda_datapath *d, const u8 *message, size_t bytes)
{
	u32 type, reason = remuda_open(message, bytes, &type);

	if (reason)
		return reason;
	if (type == REMUDA_INSTALL)
		return remuda_install(d, message, bytes);
	if (type == REMUDA_UPDATE_FIELDS || type == REMUDA_CHANGE_PROG)
		return remuda_update(d, message, bytes, type == REMUDA_CHANGE_PROG);
	if (type != REMUDA_HEARTBEAT && type != REMUDA_RESYNC)
		return REMUDA_BAD_TYPE;
	if (bytes != REMUDA_HEADER_BYTES)
		return REMUDA_BAD_LENGTH;
	if (type == REMUDA_HEARTBEAT)
		d->beats = 1;
	else
		remuda_welcome(d);
	return REMUDA_OK;
}

/* Handles one datagram of the agent, or refuses it as a whole. Returns enum remuda_reason. */
REMUDA_API u32 remuda_message(struct remuda_datapath *d, const u8 *message, size_t bytes)
{
	u32 reason = remuda_take(d, message, bytes);

	if (reason) {
		REMUDA_COUNT(d->counters.refused[reason]);
		return reason;
	}
	REMUDA_COUNT(d->counters.messages);
	d->heard_ns = d->ops->now_ns(d->context);
	d->failing_ns = 0;
	d->detached = 0;
	return REMUDA_OK;
}

/* ---- Flows -----------------------------------------------------------------------------------*/

/* Sets up a datapath. `flows` has config->flows_max entries, `programs` config->programs_max + 1,
 * all of them zero. Returns false if the configuration breaks a bound. Sends nothing before
 * remuda_attach().
 */
REMUDA_API bool remuda_init(struct remuda_datapath *d, const struct remuda_config *config,
			    const struct remuda_ops *ops, void *context,
			    struct remuda_flow *flows, struct remuda_program *programs)
{
	u32 i;

	if (!config->flows_max || config->flows_max > REMUDA_FLOWS_MAX || !config->programs_max ||
	    config->programs_max == (u32)-1 || config->cwnd_pkts_max < REMUDA_CWND_MIN_PKTS)
		return false;
	__builtin_memset(d, 0, sizeof(*d));
	d->config = *config;
	d->ops = ops;
	d->context = context;
	d->flows = flows;
	d->programs = programs;
	d->epoch = 1;
	while (1U << d->index_bits < config->flows_max)
		d->index_bits++;
	for (i = 0; i < config->flows_max; i++)
		flows[i].next_free = i + 1;
	return true;
}

/* Starts and announces a flow. Returns NULL if the table is full; the flow then runs without an
 * agent.
 */
REMUDA_API struct remuda_flow *remuda_flow_start(struct remuda_datapath *d, void *context,
						 const struct remuda_flow_info *info)
{
	u32 index = d->free, generation, next_free;
	struct remuda_flow *f;

	if (index == d->config.flows_max) {
		REMUDA_COUNT(d->counters.flows_refused);
		return NULL;
	}
	f = &d->flows[index];
	REMUDA_LOCK_FLOW(d, f);
	next_free = f->next_free;
	generation = (f->generation + 1) & (REMUDA_WIRE_MAX >> d->index_bits);
	if (!generation)
		generation = 1;
	__builtin_memset(f, 0, sizeof(*f));
	f->generation = generation;
	f->sid = generation << d->index_bits | index;
	f->context = context;
	f->info = *info;
	f->info.family = info->family == 6 ? 6 : 4;
	if (!f->info.mss_bytes)
		f->info.mss_bytes = 1;
	d->free = next_free;
	remuda_announce(d, f);
	REMUDA_UNLOCK_FLOW(d, f);
	return f;
}

/* Ends the flow, and frees its slot. */
REMUDA_API void remuda_flow_stop(struct remuda_datapath *d, struct remuda_flow *f)
{
	REMUDA_LOCK_FLOW(d, f);
	if (f->announced == d->epoch)
		remuda_send_measure(d, f->sid, 0, NULL, 0);
	f->sid = 0;
	f->next_free = d->free;
	d->free = f - d->flows;
	REMUDA_UNLOCK_FLOW(d, f);
}

static inline u64 remuda_bound(struct remuda_datapath *d, u64 value, u64 least, u64 most)
{
	u64 bounded = value < most ? value : most;

	if (bounded < least)
		bounded = least;
	if (bounded != value)
		REMUDA_COUNT(d->counters.clamped);
	return bounded;
}

static inline u64 remuda_set_cwnd(struct remuda_datapath *d, struct remuda_flow *f, u64 bytes)
{
	u64 mss = f->info.mss_bytes;

	bytes = remuda_bound(d, bytes, REMUDA_CWND_MIN_PKTS * mss, d->config.cwnd_pkts_max * mss);
	f->info.cwnd_bytes = bytes;
	d->ops->set_cwnd(d->context, f->context, bytes);
	return bytes;
}

static inline u64 remuda_set_rate(struct remuda_datapath *d, struct remuda_flow *f, u64 rate)
{
	u64 mss = f->info.mss_bytes;

	if (rate)
		rate = remuda_bound(d, rate, REMUDA_RATE_MIN_SEGMENTS * mss,
				    d->config.rate_bytes_per_sec_max);
	d->ops->set_rate(d->context, f->context, rate);
	return rate;
}

/* The program to run at this ACK; the registers of a new program are set first. NULL: the agent has
 * not named a program.
 */
static inline struct remuda_program *remuda_next_program(struct remuda_datapath *d,
							 struct remuda_flow *f, u64 now_ns)
{
	struct remuda_program *p;
	u64 version = f->running.version;

	if (f->pending & REMUDA_PENDING_PROGRAM) {
		f->pending &= ~REMUDA_PENDING_PROGRAM;
		if (remuda_resolve(d, &f->next)) {
			f->running = f->next;
			version = 0;
		} else {
			f->control_mask = 0; /* updates for that program */
		}
	}
	p = remuda_resolve(d, &f->running);
	if (p && f->running.version != version)
		remuda_define(p, &f->machine, now_ns);
	return p;
}

static inline void remuda_run_flow(struct remuda_datapath *d, struct remuda_flow *f,
				   const struct remuda_program *p, const struct remuda_ack *ack,
				   u64 now_ns)
{
	u64 cwnd_bytes = ack->cwnd_bytes, rate = ack->rate;
	u64 *r = f->machine.r;
	u32 ran, i;

	for (i = 0; f->control_mask; i++, f->control_mask >>= 1)
		if (f->control_mask & 1)
			r[REMUDA_CONTROL + i] = f->control[i];
	/* An order from before an idle time must not raise the restart window. */
	if (f->signals & REMUDA_RESTARTED && f->cwnd_bytes > cwnd_bytes)
		f->pending &= ~REMUDA_PENDING_CWND;
	if (f->pending & REMUDA_PENDING_CWND)
		cwnd_bytes = remuda_set_cwnd(d, f, f->cwnd_bytes);
	if (f->pending & REMUDA_PENDING_RATE)
		rate = remuda_set_rate(d, f, f->rate);
	f->pending = 0;
	ran = remuda_run(p, &f->machine, &ack->primitives, cwnd_bytes, rate, now_ns);
	if (ran & REMUDA_RAN_CWND)
		remuda_set_cwnd(d, f, r[REMUDA_CWND]);
	if (ran & REMUDA_RAN_RATE)
		remuda_set_rate(d, f, r[REMUDA_RATE]);
	if (ran & REMUDA_RAN_REPORT)
		remuda_report(d, f, p, ack, now_ns);
	remuda_settle(p, &f->machine);
}

static inline bool remuda_take_ack(struct remuda_datapath *d, struct remuda_flow *f,
				   const struct remuda_ack *ack)
{
	u64 now_ns = d->ops->now_ns(d->context);
	bool late = remuda_agent_is_late(d, now_ns);
	struct remuda_program *p = NULL;

	f->info.cwnd_bytes = ack->cwnd_bytes;
	f->info.mss_bytes = ack->mss_bytes ? ack->mss_bytes : 1;
	f->info.srtt_us = ack->srtt_us;
	f->info.rtt_min_us = ack->rtt_min_us;
	/* Loss recovery is reported as of this moment; the other flags, if they were set since the
	 * last report.
	 */
	f->signals |= ack->signals & ~REMUDA_IN_RECOVERY;
	if (late)
		remuda_probe(d, now_ns);
	else if (f->announced != d->epoch)
		remuda_announce(d, f);
	if (!late)
		p = remuda_next_program(d, f, now_ns);
	if (!p) {
		if (f->state == REMUDA_OBEYS)
			remuda_hand_over(d, f, REMUDA_FELL_BACK, now_ns);
		return false;
	}
	if (f->state == REMUDA_FELL_BACK)
		remuda_hand_over(d, f, REMUDA_OBEYS, now_ns);
	f->state = REMUDA_OBEYS;
	remuda_run_flow(d, f, p, ack, now_ns);
	return true;
}

/* Handles one ACK of a flow. True: the agent's program has run. False: the caller must run its own
 * control.
 */
REMUDA_API bool remuda_flow_ack(struct remuda_datapath *d, struct remuda_flow *f,
				const struct remuda_ack *ack)
{
	bool obeyed;

	REMUDA_LOCK_FLOW(d, f);
	obeyed = remuda_take_ack(d, f, ack);
	REMUDA_UNLOCK_FLOW(d, f);
	return obeyed;
}

/* Handles a retransmission timeout: without ACKs nothing else would notice that the agent is
 * silent.
 */
REMUDA_API void remuda_flow_timeout(struct remuda_datapath *d, struct remuda_flow *f)
{
	u64 now_ns = d->ops->now_ns(d->context);

	REMUDA_LOCK_FLOW(d, f);
	if (f->state == REMUDA_OBEYS && remuda_agent_is_late(d, now_ns))
		remuda_hand_over(d, f, REMUDA_FELL_BACK, now_ns);
	REMUDA_UNLOCK_FLOW(d, f);
}

#endif
