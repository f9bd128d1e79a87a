/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* libFuzzer: a program out of the input, and ACKs; all registers compared with an interpreter of
 * the wire's records, which shares nothing with the VM.
 */
#include <stdlib.h>
#include <string.h>
#include "remuda_vm.h"

#define DEFINES_MAX 8
#define RECORDS_MAX 60
#define EVENTS_MAX 8
#define ACKS_MAX 16
#define MAX ((u64)-1)

struct input {
	const u8 *at;
	size_t left;
};

struct operand {
	u8 kind;
	u32 index;
};

struct record {
	u8 op;
	struct operand result, left, right;
};

struct program {
	u32 events, defines, records;
	u32 spans[EVENTS_MAX][4];
	struct record record[DEFINES_MAX + RECORDS_MAX];
};

/* Registers by kind; both kinds of report, and of control registers, are one. */
struct slow {
	u64 report[32], control[32], implicit[6], temporary[8], local[8], primitive[15];
	u64 time_zero_ns, now_ns;
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

static u64 take_value(struct input *in)
{
	u8 shape = take(in);

	switch (shape & 3) {
	case 0:
		return shape >> 2;
	case 1:
		return (u64)1 << (shape >> 2);
	case 2:
		return MAX - (shape >> 2);
	}
	return ((u64)take(in) | (u64)take(in) << 8) << (shape >> 2);
}

/* Few registers, so that instructions meet each other's. */
static struct operand take_register(struct input *in, bool is_result)
{
	static const u8 kinds[8] = { 0, 2, 2, 3, 5, 6, 7, 7 };
	u8 byte = take(in);
	struct operand o = { kinds[byte & 7], byte >> 3 & 3 };

	if (o.kind == REMUDA_KIND_IMPLICIT)
		o.index = byte >> 3 & 7;
	if (o.index > 5)
		o.index = 0;
	if (!is_result && byte >> 6 == 1) {
		o.kind = REMUDA_KIND_CONSTANT;
		o.index = take_value(in);
	}
	if (!is_result && byte >> 6 == 2) {
		o.kind = REMUDA_KIND_PRIMITIVE;
		o.index = byte & 7;
	}
	return o;
}

static struct record take_record(struct input *in, const struct record *last)
{
	struct record r;

	r.op = take(in) % REMUDA_OPS;
	if (r.op == REMUDA_DEF)
		r.op = REMUDA_BIND;
	r.result = take_register(in, true);
	r.left = take_register(in, false);
	r.right = take_register(in, false);
	/* What compilers do most: assign what was just computed. */
	if (r.op == REMUDA_BIND && take(in) & 1)
		r.right = last->result;
	if (r.result.kind == REMUDA_KIND_IMPLICIT && r.result.index == 3)
		r.op = REMUDA_BIND;
	if (r.op == REMUDA_DIV && r.right.kind == REMUDA_KIND_CONSTANT && !r.right.index)
		r.right.index = 1;
	if (r.op == REMUDA_EWMA && r.left.kind == REMUDA_KIND_CONSTANT)
		r.left.index %= 11;
	return r;
}

static void take_program(struct input *in, struct program *p)
{
	u32 shape = take(in), i, k;

	p->events = 1 + (shape & 7) % EVENTS_MAX;
	p->defines = 1 + (shape >> 3 & 7);
	p->records = p->defines + 1 + take(in) % (RECORDS_MAX - 1);
	for (i = 0; i < p->defines; i++) {
		static const u8 kinds[4] = { 5, 6, 0, 8 };
		u8 byte = i ? take(in) : 0;

		p->record[i] = (struct record){ .op = REMUDA_DEF };
		p->record[i].left = (struct operand){ kinds[byte & 3], byte >> 2 & 3 };
		p->record[i].right = (struct operand){ REMUDA_KIND_CONSTANT, take_value(in) };
		if (byte >> 4 == 15)
			p->record[i].right.index = REMUDA_INFINITY;
	}
	for (; i < p->records; i++)
		p->record[i] = take_record(in, &p->record[i - 1]);
	for (i = 0; i < p->events; i++) {
		for (k = 0; k < 4; k += 2) {
			u32 body = p->records - p->defines, start = take(in) % (body + 1);

			p->spans[i][k] = p->defines + start;
			p->spans[i][k + 1] = take(in) % (body - start + 1);
		}
	}
}

static u8 *put32(u8 *at, u32 value)
{
	memcpy(at, &value, 4);
	return at + 4;
}

static u8 *put_operand(u8 *at, struct operand o)
{
	*at++ = o.kind;
	return put32(at, o.index);
}

static size_t encode(const struct program *p, u8 *message)
{
	u8 *at = message + 8;
	u32 i;

	at = put32(at, 1);
	at = put32(at, p->events);
	at = put32(at, p->records);
	for (i = 0; i < p->events * 4; i++)
		at = put32(at, p->spans[i / 4][i % 4]);
	for (i = 0; i < p->records; i++) {
		*at++ = p->record[i].op;
		at = put_operand(at, p->record[i].result);
		at = put_operand(at, p->record[i].left);
		at = put_operand(at, p->record[i].right);
	}
	put32(message, REMUDA_INSTALL | (u32)(at - message) << 16);
	put32(message + 4, 0);
	return at - message;
}

static u64 *slow_register(struct slow *s, struct operand o)
{
	switch (o.kind) {
	case 0:
	case 8:
		return &s->control[o.index];
	case 2:
		return &s->implicit[o.index];
	case 3:
		return &s->local[o.index];
	case 4:
		return &s->primitive[o.index];
	case 5:
	case 6:
		return &s->report[o.index];
	}
	require(o.kind == 7);
	return &s->temporary[o.index];
}

static u64 slow_read(struct slow *s, struct operand o)
{
	return o.kind == REMUDA_KIND_CONSTANT ? o.index : *slow_register(s, o);
}

static u32 slow_dif(u32 left, u32 right)
{
	return right > left ? right - left : 0xffffffffU - left + right;
}

static u64 slow_op(u8 op, u64 a, u64 b, u64 old)
{
	unsigned __int128 wide;

	switch (op) {
	case 0:
		wide = (unsigned __int128)a + b;
		return wide > MAX ? MAX : wide;
	case 3:
		return b ? a / b : MAX;
	case 4:
		return a == b;
	case 5:
		a = a > 10 ? 10 : a;
		return old ? (old * a + b * (10 - a)) / 10 : b;
	case 6:
		return a > b;
	case 7:
		return a ? b : old;
	case 8:
		return a < b;
	case 9:
		return a > b ? a : b;
	case 10:
		if (!a || !b)
			return a ? a : b;
		return slow_dif(b, a) < slow_dif(a, b) ? (u32)a : (u32)b;
	case 11:
		return a < b ? a : b;
	case 12:
		wide = (unsigned __int128)a * b;
		return wide > MAX ? MAX : wide;
	case 13:
		return a ? old : b;
	case 14:
		return a > b ? a - b : 0;
	}
	require(op == 1);
	return b;
}

static void slow_span(struct slow *s, const struct program *p, const u32 *span)
{
	u32 i;

	for (i = span[0]; i < span[0] + span[1]; i++) {
		const struct record *r = &p->record[i];
		u64 *result = slow_register(s, r->result);

		*result = slow_op(r->op, slow_read(s, r->left), slow_read(s, r->right), *result);
		if (result == &s->implicit[3])
			s->time_zero_ns = s->now_ns - *result * 1000;
	}
}

static void slow_define(struct slow *s, const struct program *p, bool only_volatile)
{
	u32 i;

	for (i = 0; i < p->defines; i++) {
		const struct record *r = &p->record[i];
		u32 value = r->right.index == REMUDA_INFINITY ? 0xffffffffU : r->right.index;

		if (!only_volatile || r->left.kind == 5 || r->left.kind == 8)
			*slow_register(s, r->left) = value;
	}
}

static void slow_run(struct slow *s, const struct program *p, u64 cwnd, u64 rate)
{
	u64 *implicit = s->implicit;
	u32 i;

	implicit[0] = implicit[1] = implicit[2] = 0;
	implicit[3] = (s->now_ns - s->time_zero_ns) / 1000;
	implicit[4] = cwnd;
	implicit[5] = rate;
	for (i = 0; i < p->events; i++) {
		slow_span(s, p, p->spans[i]);
		if (!implicit[0])
			continue;
		slow_span(s, p, p->spans[i] + 2);
		if (implicit[0] && !implicit[1])
			break;
	}
}

static void require_same(const struct remuda_machine *m, const struct slow *s)
{
	const u64 *r = m->r;

	require(!memcmp(r + REMUDA_REPORT, s->report, sizeof(s->report)));
	require(!memcmp(r + REMUDA_CONTROL, s->control, sizeof(s->control)));
	require(!memcmp(r + REMUDA_FLAG, s->implicit, sizeof(s->implicit)));
	require(!memcmp(r + REMUDA_TEMPORARY, s->temporary, sizeof(s->temporary)));
	require(!memcmp(r + REMUDA_LOCAL, s->local, sizeof(s->local)));
	require(!memcmp(r + REMUDA_PRIMITIVE, s->primitive, sizeof(s->primitive)));
	require(!r[REMUDA_ZERO] && m->time_zero_ns == s->time_zero_ns);
}

static void ack(struct input *in, const struct program *wire, const struct remuda_program *p,
		struct remuda_machine *m, struct slow *s)
{
	u64 cwnd = take_value(in), rate = take_value(in), was[6];
	struct remuda_primitives primitives;
	u32 ran, i;

	s->now_ns += take_value(in);
	for (i = 0; i < 8; i++)
		s->primitive[i] = take_value(in);
	memcpy(&primitives, s->primitive, sizeof(primitives));
	ran = remuda_run(p, m, &primitives, cwnd, rate, s->now_ns);
	slow_run(s, wire, cwnd, rate);
	memcpy(was, s->implicit, sizeof(was));
	require(!!(ran & REMUDA_RAN_CWND) == (was[4] && was[4] != cwnd));
	require(!!(ran & REMUDA_RAN_RATE) == (was[5] && was[5] != rate));
	require(!!(ran & REMUDA_RAN_REPORT) == !!was[2]);
	if (was[2]) {
		require(!memcmp(m->r, s->report, p->fields * sizeof(u64)));
		slow_define(s, wire, true);
	}
	/* Who reads no register in between leaves settling to the next run. */
	if (take(in) & 1) {
		remuda_settle(p, m);
		require_same(m, s);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct remuda_program decoded;
	static struct program wire;
	struct remuda_machine machine = { { 0 }, 0, 0 };
	struct slow slow = { .now_ns = 1 };
	struct input in = { data, size };
	u8 message[20 + 16 * (EVENTS_MAX + DEFINES_MAX + RECORDS_MAX)], *exact;
	u32 acks = ACKS_MAX, at, reason;
	size_t bytes;

	take_program(&in, &wire);
	bytes = encode(&wire, message);
	exact = malloc(bytes);
	require(exact);
	memcpy(exact, message, bytes);
	reason = remuda_decode(&decoded, exact, bytes, &at);
	free(exact);
	require(!reason);
	remuda_define(&decoded, &machine, slow.now_ns);
	slow.time_zero_ns = slow.now_ns;
	slow_define(&slow, &wire, false);
	require_same(&machine, &slow);
	while (in.left && acks--)
		ack(&in, &wire, &decoded, &machine, &slow);
	remuda_settle(&decoded, &machine);
	require_same(&machine, &slow);
	return 0;
}
