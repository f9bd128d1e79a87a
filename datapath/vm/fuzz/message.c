/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* libFuzzer: any bytes as messages to a datapath, between flows that start, run and stop.
 *
 * The input is a sequence of steps, a byte each that says what, and its operands. Every message is
 * handed over in memory of its own length, so that a read beyond it is seen.
 */
#include <stdlib.h>
#include <string.h>
#include "remuda_datapath.h"

#define FLOWS 5
#define PROGRAMS 3
#define CWND_PKTS_MAX 1000
#define RATE_MAX 1000000000
#define MESSAGE_BYTES 512 /* no message of a datapath is longer */

struct input {
	const u8 *at;
	size_t left;
};

static struct remuda_datapath datapath;
static struct remuda_flow flows[FLOWS];
static struct remuda_program programs[PROGRAMS + 1];
static u64 clock_ns;
static u32 deaf;

/* Valid messages to begin with. */
#define WORD(w) (w) & 0xff, (w) >> 8 & 0xff, 0, 0
#define RECORD(op, rk, r, ak, a, bk, b) op, rk, WORD(r), ak, WORD(a), bk, WORD(b)
static const u8 install[] = {
	2, 0, 228, 0, WORD(0), WORD(1), WORD(2), WORD(11),
	WORD(3), WORD(2), WORD(5), WORD(3), /* two events */
	WORD(8), WORD(1), WORD(9), WORD(2),
	RECORD(2, 2, 0, 5, 0, 1, 7),	     /* def: volatile Report.0 */
	RECORD(2, 2, 0, 6, 1, 1, 8),	     /* Report.1 */
	RECORD(2, 2, 0, 8, 3, 1, 9),	     /* volatile control */
	RECORD(6, 7, 0, 2, 3, 0, 3),	     /* tmp := Micros > control */
	RECORD(1, 2, 0, 2, 0, 7, 0),	     /* flag := tmp */
	RECORD(1, 2, 3, 2, 3, 1, 0),	     /* Micros := 0 */
	RECORD(5, 6, 1, 1, 9, 4, 13),	     /* Report.1 := ewma 9 rtt */
	RECORD(1, 2, 1, 2, 1, 1, 1),	     /* fall through */
	RECORD(1, 2, 0, 2, 0, 1, 1),	     /* when true */
	RECORD(12, 2, 4, 4, 0, 0, 3),	     /* Cwnd := acked * control */
	RECORD(1, 2, 2, 2, 2, 1, 1),	     /* report */
};
static const u8 change[] = { 4, 0, 29, 0, WORD(0), WORD(1), WORD(1), 8, WORD(3), 5, 0, 0, 0,
			     0, 0, 0, 0 };
static const u8 update[] = { 3, 0, 38, 0, WORD(0), WORD(2), 2, WORD(4), 1, 2, 3, 4, 5, 6, 7, 8,
			     2, WORD(5), 0, 0, 0, 1, 0, 0, 0, 0 };
static const u8 resync[] = { 9, 0, 8, 0, WORD(0) };
static const u8 beat[] = { 8, 0, 8, 0, WORD(0) };
static const struct {
	const u8 *bytes;
	size_t length;
} seeds[] = {
	{ install, sizeof(install) }, { install, sizeof(install) }, { change, sizeof(change) },
	{ change, sizeof(change) },   { update, sizeof(update) },   { resync, sizeof(resync) },
	{ beat, sizeof(beat) },	      { beat, 0 },
};

static void require(bool holds)
{
	if (!holds)
		abort();
}

static u8 take(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static u64 take_word(struct input *in)
{
	u8 bits = take(in);
	u64 value = take(in) | (u64)take(in) << 8;

	return value << (bits & 63);
}

static u64 now_ns(void *context)
{
	(void)context;
	return clock_ns;
}

static int to_agent(void *context, const u8 *message, u32 bytes)
{
	u32 type = remuda_get16(message);

	(void)context;
	require(bytes >= REMUDA_HEADER_BYTES && bytes <= MESSAGE_BYTES);
	require(remuda_get16(message + 2) == bytes);
	require(type <= REMUDA_STATE && type != REMUDA_INSTALL && type != REMUDA_UPDATE_FIELDS &&
		type != REMUDA_CHANGE_PROG && type != REMUDA_HEARTBEAT && type != REMUDA_RESYNC);
	if (type == REMUDA_MEASURE)
		require(16 + 8 * remuda_get32(message + 12) == bytes);
	return deaf;
}

static void set_cwnd(void *context, void *flow, u64 cwnd_bytes)
{
	u64 mss = flows[(size_t)flow].info.mss_bytes;

	(void)context;
	require(cwnd_bytes >= REMUDA_CWND_MIN_PKTS * mss && cwnd_bytes <= CWND_PKTS_MAX * mss);
}

static void set_rate(void *context, void *flow, u64 rate)
{
	u64 mss = flows[(size_t)flow].info.mss_bytes, least = REMUDA_RATE_MIN_SEGMENTS * mss;

	(void)context;
	require(!rate || (rate >= least && (rate <= RATE_MAX || rate == least)));
}

static void change_hands(void *context, void *flow)
{
	(void)context, (void)flow;
}

/* The index is the flow's context, and start() gives out the lowest bits of a sid. */
static void start(struct input *in)
{
	struct remuda_flow_info info = { .family = take(in), .mss_bytes = take_word(in) };
	struct remuda_flow *flow;
	size_t index = datapath.free;

	memset(info.requested, take(in), sizeof(info.requested));
	memset(info.remote, take(in), sizeof(info.remote));
	info.cwnd_bytes = take_word(in);
	flow = remuda_flow_start(&datapath, (void *)index, &info);
	require(flow ? flow == &flows[index] : index == FLOWS);
}

static void ack(struct input *in, struct remuda_flow *flow)
{
	struct remuda_ack ack = { .cwnd_bytes = take_word(in), .rate = take_word(in) };
	u8 primitive = take(in) % REMUDA_PRIMITIVES;
	bool obeyed;

	((u64 *)&ack.primitives)[primitive] = take_word(in);
	ack.primitives.rtt_sample_us = take_word(in);
	ack.mss_bytes = take_word(in);
	ack.signals = take(in);
	obeyed = remuda_flow_ack(&datapath, flow, &ack);
	require(obeyed == (flow->state == REMUDA_OBEYS));
	require(!flow->machine.r[REMUDA_ZERO]);
}

static void message(struct input *in, u8 step)
{
	struct remuda_counters before = datapath.counters;
	size_t seed = take(in) % (sizeof(seeds) / sizeof(seeds[0]));
	size_t more = take(in), length = seeds[seed].length, i;
	u8 *bytes, mutations = take(in) & 7;
	u32 reason;

	if (more > in->left)
		more = in->left;
	if (step & 0x20)
		more = 0;
	bytes = malloc(length + more);
	require(bytes || !(length + more));
	if (length)
		memcpy(bytes, seeds[seed].bytes, length);
	for (i = 0; i < more; i++)
		bytes[length + i] = take(in);
	length += more;
	while (length && mutations--) {
		u8 at = take(in);

		bytes[at % length] = take(in);
	}
	if (step & 0x40 && length >= REMUDA_HEADER_BYTES) {
		bytes[2] = length & 0xff;
		bytes[3] = length >> 8;
	}
	if (step & 0x80 && length >= REMUDA_HEADER_BYTES)
		remuda_put(bytes + 4, flows[step % FLOWS].sid, 4);
	reason = remuda_message(&datapath, bytes, length);
	require(reason < REMUDA_REASONS);
	require(datapath.counters.messages == before.messages + !reason);
	require(datapath.counters.refused[reason] == before.refused[reason] + !!reason);
	free(bytes);
}

static void step_once(struct input *in)
{
	u8 step = take(in);
	struct remuda_flow *flow = &flows[(step >> 3) % FLOWS];

	switch (step & 7) {
	case 0:
		start(in);
		break;
	case 1:
		if (flow->sid && !(take(in) & 3))
			remuda_flow_stop(&datapath, flow);
		break;
	case 2:
	case 3:
		if (flow->sid)
			ack(in, flow);
		break;
	case 4:
		clock_ns += take_word(in);
		deaf = take(in) & 1;
		break;
	case 5:
		if (step & 8)
			remuda_attach(&datapath);
		else
			remuda_detach(&datapath);
		break;
	default:
		message(in, step);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static const struct remuda_ops ops = {
		now_ns, to_agent, set_cwnd, set_rate, change_hands, change_hands,
	};
	static const struct remuda_config config = {
		.name = "fuzz",
		.capabilities = REMUDA_CAN_SIGNAL,
		.flows_max = FLOWS,
		.programs_max = PROGRAMS,
		.cwnd_pkts_max = CWND_PKTS_MAX,
		.rate_bytes_per_sec_max = RATE_MAX,
		.heartbeat_timeout_ns = 500000000,
	};
	struct input in = { data, size };
	u32 i;

	memset(flows, 0, sizeof(flows));
	memset(programs, 0, sizeof(programs));
	clock_ns = 1;
	deaf = 0;
	require(remuda_init(&datapath, &config, &ops, NULL, flows, programs));
	while (in.left)
		step_once(&in);
	for (i = 0; i < FLOWS; i++)
		if (flows[i].sid)
			remuda_flow_stop(&datapath, &flows[i]);
	for (i = 0; i < FLOWS; i++)
		require(remuda_flow_start(&datapath, (void *)(size_t)datapath.free,
					  &(struct remuda_flow_info){ .family = 4 }));
	return 0;
}
