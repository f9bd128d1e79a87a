/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The VM of CCP datapath programs. It checks and decodes an INSTALL message once, and runs the
 * program at every ACK. remuda_datapath.h has the datapath around it (flows, messages, fallback).
 *
 * The VM uses no libc, allocation, floating point, recursion, lock or state of its own. It is for a
 * Linux module, a simulator and a QUIC stack, with gcc and clang, on 64-bit machines. The messages
 * are those of datapath/wire; README.md defines the semantics.
 *
 * Differs from libccp: a message is checked whole before it takes effect; and where libccp reads
 * out of bounds, stops half way or never ends, this VM has a defined result.
 */
#ifndef REMUDA_VM_H
#define REMUDA_VM_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#define remuda_div64(a, b) div64_u64(a, b)
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#define remuda_div64(a, b) ((a) / (b))
#ifndef REMUDA_HAVE_TYPES
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#endif
#endif

#include "remuda_primitives.h"

/* Linkage of the functions that callers use. */
#ifndef REMUDA_API
#define REMUDA_API static inline
#endif

/* ---- Limits and the wire ---------------------------------------------------------------------*/

#define REMUDA_HEADER_BYTES 8
#define REMUDA_MESSAGE_BYTES_MAX 32678 /* libccp's BIGGEST_MSG_SIZE */
#define REMUDA_RECORD_BYTES 16	       /* of an event or an instruction */
#define REMUDA_INSTALL_BYTES 20	       /* header, uid, two counts */
#define REMUDA_EVENTS_MAX 255
#define REMUDA_INSTRUCTIONS_MAX 255
#define REMUDA_REPORT_REGISTERS 32
#define REMUDA_CONTROL_REGISTERS 32
#define REMUDA_INFINITY 0x3fffffff /* as an initial value, means 2^32-1 (libccp) */
#define REMUDA_VALUE_MAX ((u64)-1)
#define REMUDA_WIRE_MAX 0xffffffffU
#define REMUDA_EWMA_TENTHS 10
#define REMUDA_NS_PER_US 1000

enum remuda_type {
	REMUDA_CREATE = 0,
	REMUDA_MEASURE,
	REMUDA_INSTALL,
	REMUDA_UPDATE_FIELDS,
	REMUDA_CHANGE_PROG,
	REMUDA_READY,
	REMUDA_HELLO,
	REMUDA_FLOW,
	REMUDA_HEARTBEAT,
	REMUDA_RESYNC,
	REMUDA_SIGNALS,
	REMUDA_STATE,
};

/* Why a message was refused. 0: it took effect. */
enum remuda_reason {
	REMUDA_OK = 0,
	REMUDA_BAD_LENGTH,   /* too short, too long, or not as in the header */
	REMUDA_BAD_TYPE,     /* not a type for a datapath */
	REMUDA_BAD_COUNT,    /* over its limit, or not fitting the length */
	REMUDA_BAD_REGISTER, /* no such kind, or an index out of range */
	REMUDA_BAD_TARGET,   /* a register that may not be written here */
	REMUDA_BAD_INITIAL,  /* an initial value that is not a constant */
	REMUDA_BAD_OPCODE,
	REMUDA_BAD_EVENT,     /* an event with absent instructions */
	REMUDA_BAD_MICROS,    /* Micros can only be assigned */
	REMUDA_BAD_DIVISION,  /* by the constant 0 */
	REMUDA_BAD_EWMA,      /* a constant weight above ten tenths */
	REMUDA_NO_FIELDS,     /* a report without fields would end the flow */
	REMUDA_MANY_FIELDS,   /* more fields than there are report registers */
	REMUDA_NO_PROGRAM,    /* the program is not installed */
	REMUDA_NO_FLOW,	      /* the flow never existed, or has ended */
	REMUDA_PROGRAMS_FULL,
	REMUDA_REASONS,
};

/* The kinds of registers on the wire. */
enum remuda_kind {
	REMUDA_KIND_CONTROL = 0,
	REMUDA_KIND_CONSTANT,
	REMUDA_KIND_IMPLICIT,
	REMUDA_KIND_LOCAL,
	REMUDA_KIND_PRIMITIVE,
	REMUDA_KIND_REPORT_VOLATILE,
	REMUDA_KIND_REPORT,
	REMUDA_KIND_TEMPORARY,
	REMUDA_KIND_CONTROL_VOLATILE,
	REMUDA_KINDS,
};

/* Operations, numbered as on the wire. There 2 is DEF, which does not occur in decoded code; here 2
 * is an assignment to Micros.
 */
enum remuda_op {
	REMUDA_ADD = 0,
	REMUDA_BIND,
	REMUDA_RESTART,
	REMUDA_DEF = REMUDA_RESTART,
	REMUDA_DIV,
	REMUDA_EQUIV,
	REMUDA_EWMA,
	REMUDA_GT,
	REMUDA_IF,
	REMUDA_LT,
	REMUDA_MAX,
	REMUDA_MAX_WRAP,
	REMUDA_MIN,
	REMUDA_MUL,
	REMUDA_NOT_IF,
	REMUDA_SUB,
	REMUDA_OPS,
};

/* Positions of registers in a machine. */
enum remuda_place {
	REMUDA_REPORT = 0, /* first, because reports are sent from here */
	REMUDA_CONTROL = REMUDA_REPORT + REMUDA_REPORT_REGISTERS,
	REMUDA_FLAG = REMUDA_CONTROL + REMUDA_CONTROL_REGISTERS, /* the implicit registers */
	REMUDA_FALLTHROUGH,
	REMUDA_WANTS_REPORT,
	REMUDA_MICROS,
	REMUDA_CWND,
	REMUDA_RATE,
	REMUDA_ZERO, /* always 0: the register of a constant operand */
	REMUDA_SINK, /* never read: the copy of an instruction without a copy */
	REMUDA_TEMPORARY,
	REMUDA_LOCAL = REMUDA_TEMPORARY + 8,
	REMUDA_PRIMITIVE = REMUDA_LOCAL + 8,
	REMUDA_REGISTERS = REMUDA_PRIMITIVE + 16,
	REMUDA_NOWHERE = 0xff,
};

/* ---- Programs and machines -------------------------------------------------------------------*/

/* result := (left + left_constant) op (right + right_constant), and copy := result. Either a
 * register or its constant is 0, so an operand needs no branch. The copy saves the assignment that
 * usually follows an instruction.
 */
struct remuda_instruction {
	u32 left_constant;
	u32 right_constant;
	u8 op;
	u8 result;
	u8 copy;
	u8 left;
	u8 right;
	u8 padding[3];
};

/* Each span starts at its first instruction; its end is one past the last. */
struct remuda_event {
	u8 condition;
	u8 condition_end;
	u8 body;
	u8 body_end;
};

struct remuda_initial {
	u32 value;
	u8 place;
	u8 padding[3];
};

/* A decoded program; about 6 KiB. */
struct remuda_program {
	u64 version; /* unique in a datapath's table; 0: a free entry */
	u32 stale;   /* 1: of a former agent, so it may be replaced */
	u32 uid;     /* the agent's number; all from here on is from the message */
	u32 fields;  /* number of fields in a report */
	u8 n_events;
	u8 n_code;
	u8 n_initial;
	u8 n_volatile_report;
	u8 n_volatile_control;
	struct remuda_event events[REMUDA_EVENTS_MAX];
	struct remuda_initial initial[REMUDA_REPORT_REGISTERS + REMUDA_CONTROL_REGISTERS];
	struct remuda_initial volatile_report[REMUDA_REPORT_REGISTERS];
	struct remuda_initial volatile_control[REMUDA_CONTROL_REGISTERS];
	struct remuda_instruction code[REMUDA_INSTRUCTIONS_MAX];
};

/* The registers of one flow. All zero is a new flow. */
struct remuda_machine {
	u64 r[REMUDA_REGISTERS];
	u64 time_zero_ns; /* Micros counts from here */
	u64 spent;	  /* 1: a report was made, so volatile registers must be reset */
};

/* The result of a run, in bits. */
#define REMUDA_RAN_REPORT 1
#define REMUDA_RAN_CWND 2 /* the program asks for another window */
#define REMUDA_RAN_RATE 4

static inline u16 remuda_get16(const u8 *at)
{
	return at[0] | at[1] << 8;
}

static inline u32 remuda_get32(const u8 *at)
{
	return remuda_get16(at) | (u32)remuda_get16(at + 2) << 16;
}

static inline u64 remuda_get64(const u8 *at)
{
	return remuda_get32(at) | (u64)remuda_get32(at + 4) << 32;
}

/* The position of a register given as on the wire; REMUDA_NOWHERE for constants and for registers
 * that do not exist.
 */
static inline u8 remuda_place(u8 kind, u32 index)
{
	static const u8 places[REMUDA_KINDS][2] = {
		[REMUDA_KIND_CONTROL] = { REMUDA_CONTROL, REMUDA_CONTROL_REGISTERS },
		[REMUDA_KIND_IMPLICIT] = { REMUDA_FLAG, 6 },
		[REMUDA_KIND_LOCAL] = { REMUDA_LOCAL, 8 },
		[REMUDA_KIND_PRIMITIVE] = { REMUDA_PRIMITIVE, REMUDA_PRIMITIVES },
		[REMUDA_KIND_REPORT_VOLATILE] = { REMUDA_REPORT, REMUDA_REPORT_REGISTERS },
		[REMUDA_KIND_REPORT] = { REMUDA_REPORT, REMUDA_REPORT_REGISTERS },
		[REMUDA_KIND_TEMPORARY] = { REMUDA_TEMPORARY, 8 },
		[REMUDA_KIND_CONTROL_VOLATILE] = { REMUDA_CONTROL, REMUDA_CONTROL_REGISTERS },
	};

	if (kind >= REMUDA_KINDS || index >= places[kind][1])
		return REMUDA_NOWHERE;
	return places[kind][0] + index;
}

/* Decodes a register kind and an index, 5 bytes, as an operand. */
static inline bool remuda_operand(const u8 *at, u8 *place, u32 *constant)
{
	u32 index = remuda_get32(at + 1);

	if (at[0] == REMUDA_KIND_CONSTANT) {
		*place = REMUDA_ZERO;
		*constant = index;
		return true;
	}
	*constant = 0;
	*place = remuda_place(at[0], index);
	return *place != REMUDA_NOWHERE;
}

/* Sets the entry of a register in a list, or adds one: the last definition counts. */
static inline void remuda_list(struct remuda_initial *list, u8 *count, u8 place, u32 value)
{
	u32 i;

	for (i = 0; i < *count && list[i].place != place; i++)
		;
	if (i == *count)
		(*count)++;
	list[i].place = place;
	list[i].value = value;
}

static inline u32 remuda_read_define(struct remuda_program *p, const u8 *record)
{
	u8 kind = record[6], place = remuda_place(kind, remuda_get32(record + 7));
	u32 value = remuda_get32(record + 12);

	if (place == REMUDA_NOWHERE)
		return REMUDA_BAD_REGISTER;
	if (place >= REMUDA_FLAG)
		return REMUDA_BAD_TARGET;
	if (record[11] != REMUDA_KIND_CONSTANT)
		return REMUDA_BAD_INITIAL;
	if (value == REMUDA_INFINITY)
		value = REMUDA_WIRE_MAX;
	remuda_list(p->initial, &p->n_initial, place, value);
	if (kind == REMUDA_KIND_REPORT_VOLATILE)
		remuda_list(p->volatile_report, &p->n_volatile_report, place, value);
	if (kind == REMUDA_KIND_CONTROL_VOLATILE)
		remuda_list(p->volatile_control, &p->n_volatile_control, place, value);
	if (place < REMUDA_CONTROL)
		p->fields++;
	return REMUDA_OK;
}

static inline u32 remuda_read_instruction(struct remuda_instruction *i, const u8 *record)
{
	i->op = record[0];
	i->copy = REMUDA_SINK;
	i->result = remuda_place(record[1], remuda_get32(record + 2));
	if (i->op >= REMUDA_OPS || i->op == REMUDA_DEF)
		return REMUDA_BAD_OPCODE;
	if (i->result == REMUDA_NOWHERE ||
	    !remuda_operand(record + 6, &i->left, &i->left_constant) ||
	    !remuda_operand(record + 11, &i->right, &i->right_constant))
		return REMUDA_BAD_REGISTER;
	if (i->result >= REMUDA_PRIMITIVE)
		return REMUDA_BAD_TARGET;
	if (i->result == REMUDA_MICROS && i->op != REMUDA_BIND)
		return REMUDA_BAD_MICROS;
	if (i->op == REMUDA_DIV && i->right == REMUDA_ZERO && !i->right_constant)
		return REMUDA_BAD_DIVISION;
	if (i->op == REMUDA_EWMA && i->left_constant > REMUDA_EWMA_TENTHS)
		return REMUDA_BAD_EWMA;
	if (i->result == REMUDA_MICROS)
		i->op = REMUDA_RESTART;
	return REMUDA_OK;
}

/* Marks of an instruction before it is decoded. */
#define REMUDA_USED 1	  /* an event contains it */
#define REMUDA_BOUNDARY 2 /* a span of an event starts or ends here */

static inline bool remuda_mark(u8 *marks, const u8 *span, u32 instructions, u8 mark)
{
	u32 start = remuda_get32(span), count = remuda_get32(span + 4);

	if (start > instructions || count > instructions - start)
		return false;
	if (count) {
		marks[start] |= REMUDA_BOUNDARY;
		marks[start + count] |= REMUDA_BOUNDARY;
	}
	while (count--)
		marks[start++] |= mark;
	return true;
}

/* Decodes the instructions that events contain. An assignment of the result just computed is merged
 * into the instruction that computes it, unless a span begins or ends between the two. On return,
 * `marks` has the position in the code of each record.
 */
static inline u32 remuda_read_code(struct remuda_program *p, const u8 *records, u32 count,
				   u8 *marks, u32 *at)
{
	struct remuda_instruction *last = NULL, *next;
	u32 reason, i;

	for (i = 0; i < count; i++) {
		u8 mark = marks[i];

		marks[i] = p->n_code;
		if (mark & REMUDA_BOUNDARY)
			last = NULL;
		if (!(mark & REMUDA_USED))
			continue;
		*at = i;
		next = &p->code[p->n_code];
		reason = remuda_read_instruction(next, records + i * REMUDA_RECORD_BYTES);
		if (reason)
			return reason;
		if (next->result == REMUDA_WANTS_REPORT && !p->fields)
			return REMUDA_NO_FIELDS;
		if (last && next->op == REMUDA_BIND && next->right == last->result) {
			last->copy = next->result;
			last = NULL;
			continue;
		}
		last = next;
		p->n_code++;
	}
	marks[count] = p->n_code;
	return REMUDA_OK;
}

static inline void remuda_read_span(u8 *span, const u8 *wire, const u8 *places)
{
	u32 start = remuda_get32(wire), count = remuda_get32(wire + 4);

	if (!count)
		return; /* {0, 0} */
	span[0] = places[start];
	span[1] = places[start + count];
}

/* Checks the header of a message. */
static inline u32 remuda_open(const u8 *message, size_t bytes, u32 *type)
{
	if (bytes < REMUDA_HEADER_BYTES || bytes > REMUDA_MESSAGE_BYTES_MAX ||
	    remuda_get16(message + 2) != bytes)
		return REMUDA_BAD_LENGTH;
	*type = remuda_get16(message);
	return REMUDA_OK;
}

/* Decodes a whole INSTALL. On refusal the content of `p` is undefined, and `at` is the faulty
 * record, counted over events and instructions.
 */
REMUDA_API u32 remuda_decode(struct remuda_program *p, const u8 *message, size_t bytes, u32 *at)
{
	u8 marks[REMUDA_INSTRUCTIONS_MAX + 1] = { 0 };
	const u8 *spans = message + REMUDA_INSTALL_BYTES, *records;
	u32 type, events, count, head, i, reason;

	*at = 0;
	reason = remuda_open(message, bytes, &type);
	if (reason)
		return reason;
	if (type != REMUDA_INSTALL)
		return REMUDA_BAD_TYPE;
	if (bytes < REMUDA_INSTALL_BYTES)
		return REMUDA_BAD_LENGTH;
	events = remuda_get32(message + 12);
	count = remuda_get32(message + 16);
	if (events > REMUDA_EVENTS_MAX || count > REMUDA_INSTRUCTIONS_MAX ||
	    (events + count) * REMUDA_RECORD_BYTES != bytes - REMUDA_INSTALL_BYTES)
		return REMUDA_BAD_COUNT;
	__builtin_memset(p, 0, sizeof(*p));
	p->uid = remuda_get32(message + 8);
	p->n_events = events;
	records = spans + events * REMUDA_RECORD_BYTES;
	for (i = 0; i < events; i++) {
		const u8 *span = spans + i * REMUDA_RECORD_BYTES;

		*at = i;
		if (!remuda_mark(marks, span, count, REMUDA_USED) ||
		    !remuda_mark(marks, span + 8, count, REMUDA_USED))
			return REMUDA_BAD_EVENT;
	}
	for (head = 0; head < count && records[head * REMUDA_RECORD_BYTES] == REMUDA_DEF; head++) {
		*at = events + head;
		reason = remuda_read_define(p, records + head * REMUDA_RECORD_BYTES);
		if (reason)
			return reason;
	}
	reason = remuda_read_code(p, records, count, marks, at);
	*at += events;
	if (reason)
		return reason;
	if (p->fields > REMUDA_REPORT_REGISTERS)
		return REMUDA_MANY_FIELDS;
	for (i = 0; i < events; i++) {
		const u8 *span = spans + i * REMUDA_RECORD_BYTES;

		remuda_read_span(&p->events[i].condition, span, marks);
		remuda_read_span(&p->events[i].body, span + 8, marks);
	}
	return REMUDA_OK;
}

/* ---- Running ---------------------------------------------------------------------------------*/

static inline void remuda_set_all(u64 *r, const struct remuda_initial *list, u32 count)
{
	while (count--) {
		r[list->place] = list->value;
		list++;
	}
}

/* Resets the volatile registers after a report. The next run does this too; call it when the fields
 * have been read.
 */
REMUDA_API void remuda_settle(const struct remuda_program *p, struct remuda_machine *m)
{
	if (m->spent)
		remuda_set_all(m->r, p->volatile_report, p->n_volatile_report);
	m->spent = 0;
}

/* Starts `p` for a flow. Registers without an initial value keep their values, as in libccp. Call
 * remuda_settle() with the last program before.
 */
REMUDA_API void remuda_define(const struct remuda_program *p, struct remuda_machine *m, u64 now_ns)
{
	remuda_set_all(m->r, p->initial, p->n_initial);
	m->time_zero_ns = now_ns;
	m->spent = 0;
}

/* The weighted average of an old value and a new one; the new one if the old is 0. It wraps, as in
 * libccp.
 */
static inline u64 remuda_ewma(u64 weight, u64 old, u64 sample)
{
	if (!old)
		return sample;
	if (weight > REMUDA_EWMA_TENTHS)
		weight = REMUDA_EWMA_TENTHS;
	return remuda_div64(old * weight + sample * (REMUDA_EWMA_TENTHS - weight),
			    REMUDA_EWMA_TENTHS);
}

/* libccp's dif32(): the distance from `from` to `to`, one less when it wraps. */
static inline u32 remuda_distance(u32 from, u32 to)
{
	return to > from ? to - from : to - from - 1;
}

/* libccp's mymax64_wrap(): the later of two 32-bit numbers; 0 means that there is no number yet. */
static inline u64 remuda_max_wrap(u64 left, u64 right)
{
	if (!left)
		return right;
	if (!right)
		return left;
	return remuda_distance(right, left) < remuda_distance(left, right) ? (u32)left : (u32)right;
}

static inline void remuda_execute(struct remuda_machine *m, const struct remuda_instruction *i,
				  const struct remuda_instruction *end, u64 now_ns)
{
	u64 *r = m->r;

	for (; i != end; i++) {
		u64 left = r[i->left] + i->left_constant;
		u64 right = r[i->right] + i->right_constant;
		u64 value = right;

		switch (i->op) {
		case REMUDA_ADD:
			if (__builtin_add_overflow(left, right, &value))
				value = REMUDA_VALUE_MAX;
			break;
		case REMUDA_BIND:
			break;
		case REMUDA_RESTART:
			m->time_zero_ns = now_ns - right * REMUDA_NS_PER_US;
			break;
		case REMUDA_DIV:
			value = right ? remuda_div64(left, right) : REMUDA_VALUE_MAX;
			break;
		case REMUDA_EQUIV:
			value = left == right;
			break;
		case REMUDA_EWMA:
			value = remuda_ewma(left, r[i->result], right);
			break;
		case REMUDA_GT:
			value = left > right;
			break;
		case REMUDA_IF:
			value = left ? right : r[i->result];
			break;
		case REMUDA_LT:
			value = left < right;
			break;
		case REMUDA_MAX:
			value = left > right ? left : right;
			break;
		case REMUDA_MAX_WRAP:
			value = remuda_max_wrap(left, right);
			break;
		case REMUDA_MIN:
			value = left < right ? left : right;
			break;
		case REMUDA_MUL:
			if (__builtin_mul_overflow(left, right, &value))
				value = REMUDA_VALUE_MAX;
			break;
		case REMUDA_NOT_IF:
			value = left ? r[i->result] : right;
			break;
		case REMUDA_SUB:
			value = left > right ? left - right : 0;
			break;
		}
		r[i->result] = value;
		r[i->copy] = value;
	}
}

/* Runs the program at one ACK. `cwnd_bytes` and `rate` (bytes per second; 0: none was set) are the
 * values in force, which the program can read. Returns REMUDA_RAN_*: with CWND or RATE, that
 * register has what the program asks for; with REPORT, the first `fields` registers are the report,
 * until the next run.
 */
REMUDA_API u32 remuda_run(const struct remuda_program *p, struct remuda_machine *m,
			  const struct remuda_primitives *primitives, u64 cwnd_bytes, u64 rate,
			  u64 now_ns)
{
	const struct remuda_event *event = p->events, *end = event + p->n_events;
	u64 *r = m->r;
	u32 ran = 0;

	remuda_settle(p, m);
	__builtin_memcpy(&r[REMUDA_PRIMITIVE], primitives, sizeof(*primitives));
	r[REMUDA_FLAG] = 0;
	r[REMUDA_FALLTHROUGH] = 0;
	r[REMUDA_WANTS_REPORT] = 0;
	r[REMUDA_MICROS] = remuda_div64(now_ns - m->time_zero_ns, REMUDA_NS_PER_US);
	r[REMUDA_CWND] = cwnd_bytes;
	r[REMUDA_RATE] = rate;
	for (; event != end; event++) {
		remuda_execute(m, p->code + event->condition, p->code + event->condition_end,
			       now_ns);
		if (!r[REMUDA_FLAG])
			continue;
		remuda_execute(m, p->code + event->body, p->code + event->body_end, now_ns);
		/* The body may have written the flag; once set, fall-through stays set. */
		if (r[REMUDA_FLAG] && !r[REMUDA_FALLTHROUGH])
			break;
	}
	if (r[REMUDA_CWND] && r[REMUDA_CWND] != cwnd_bytes)
		ran |= REMUDA_RAN_CWND;
	if (r[REMUDA_RATE] && r[REMUDA_RATE] != rate)
		ran |= REMUDA_RAN_RATE;
	if (r[REMUDA_WANTS_REPORT]) {
		ran |= REMUDA_RAN_REPORT;
		remuda_set_all(r, p->volatile_control, p->n_volatile_control);
		m->spent = 1;
	}
	return ran;
}

#endif
