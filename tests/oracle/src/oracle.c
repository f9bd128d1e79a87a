/* libccp's own files as one translation unit, unmodified, driven by a clock that is a parameter.
 *
 * One flow in one datapath, begun anew for every case. Time is in microseconds: libccp subtracts
 * what a program assigns to Micros from its clock, and means microseconds by it.
 */
#include <stdint.h>
#include <string.h>

#include "serialize.c"
#include "ccp_priv.c"
#include "machine.c"
#include "ccp.c"

/* One more than fit: libccp fills all slots but the last. */
#define ORACLE_PROGRAMS 9
#define ORACLE_CONNECTIONS 2
#define ORACLE_FALLBACK_US (1ull << 62)

/* What oracle.rs reads */
#define ORACLE_REPORT 32
#define ORACLE_CONTROL 32

static u64 oracle_now_us;
static struct ccp_datapath oracle_dp;
static struct ccp_connection oracle_connections[ORACLE_CONNECTIONS];
static struct ccp_connection *oracle_flow;
static struct MeasureMsg oracle_report;
static u64 oracle_reports;

static void oracle_set_cwnd(struct ccp_connection *conn, u32 cwnd)
{
	(void)conn;
	(void)cwnd;
}

static void oracle_set_rate(struct ccp_connection *conn, u32 rate)
{
	(void)conn;
	(void)rate;
}

static int oracle_send(struct ccp_datapath *dp, char *msg, int bytes)
{
	struct CcpMsgHeader header;

	(void)dp;
	memcpy(&header, msg, sizeof(header));
	if (header.Type == MEASURE) {
		memcpy(&oracle_report, msg + sizeof(header), bytes - sizeof(header));
		oracle_reports++;
	}
	return 0;
}

static u64 oracle_now(void)
{
	return oracle_now_us;
}

static u64 oracle_since(u64 then)
{
	return oracle_now_us - then;
}

static u64 oracle_after(u64 us)
{
	return oracle_now_us + us;
}

/* A fresh datapath with a fresh flow; 0, or libccp's error. */
int remuda_oracle_begin(void)
{
	struct ccp_datapath_info info = { .init_cwnd = 14480, .mss = 1448 };
	int error;

	if (oracle_flow) {
		free_ccp_priv_state(oracle_flow);
		ccp_free(&oracle_dp);
		oracle_flow = NULL;
	}
	memset(oracle_connections, 0, sizeof(oracle_connections));
	memset(&oracle_dp, 0, sizeof(oracle_dp));
	oracle_dp.set_cwnd = oracle_set_cwnd;
	oracle_dp.set_rate_abs = oracle_set_rate;
	oracle_dp.send_msg = oracle_send;
	oracle_dp.now = oracle_now;
	oracle_dp.since_usecs = oracle_since;
	oracle_dp.after_usecs = oracle_after;
	oracle_dp.max_connections = ORACLE_CONNECTIONS;
	oracle_dp.ccp_active_connections = oracle_connections;
	oracle_dp.fto_us = ORACLE_FALLBACK_US;
	oracle_dp.max_programs = ORACLE_PROGRAMS;
	oracle_now_us = 0; /* Ack.now counts from here */
	error = ccp_init(&oracle_dp, 1);
	if (error)
		return error;
	oracle_flow = ccp_connection_start(&oracle_dp, NULL, &info);
	return oracle_flow && get_ccp_priv_state(oracle_flow)->sent_create ? 0 : -1;
}

/* A message of the agent; 0, or what libccp answered. */
int remuda_oracle_message(char *msg, int bytes)
{
	return ccp_read_msg(&oracle_dp, msg, bytes);
}

static u64 *oracle_put(u64 *to, const u64 *from, size_t words)
{
	memcpy(to, from, words * sizeof(*to));
	return to + words;
}

/* One ACK. `in`: the time, window, rate and 15 primitives. `out`: reports sent, fields of the last
 * one, then every register. Returns what ccp_invoke() did.
 */
int remuda_oracle_step(const u64 *in, u64 *out)
{
	struct ccp_primitives *p = &oracle_flow->prims;
	const u64 *primitive = in + 3;
	struct register_file *r;
	int result;

	oracle_now_us = in[0];
	p->snd_cwnd = in[1];
	p->snd_rate = in[2];
	p->bytes_acked = primitive[ACK_BYTES_ACKED];
	p->bytes_misordered = primitive[ACK_BYTES_MISORDERED];
	p->ecn_bytes = primitive[ACK_ECN_BYTES];
	p->ecn_packets = primitive[ACK_ECN_PACKETS];
	p->lost_pkts_sample = primitive[ACK_LOST_PKTS_SAMPLE];
	p->packets_acked = primitive[ACK_PACKETS_ACKED];
	p->packets_misordered = primitive[ACK_PACKETS_MISORDERED];
	p->bytes_in_flight = primitive[FLOW_BYTES_IN_FLIGHT];
	p->bytes_pending = primitive[FLOW_BYTES_PENDING];
	p->packets_in_flight = primitive[FLOW_PACKETS_IN_FLIGHT];
	p->rate_incoming = primitive[FLOW_RATE_INCOMING];
	p->rate_outgoing = primitive[FLOW_RATE_OUTGOING];
	p->rtt_sample_us = primitive[FLOW_RTT_SAMPLE_US];
	p->was_timeout = primitive[FLOW_WAS_TIMEOUT];
	memset(&oracle_report, 0, sizeof(oracle_report));
	oracle_reports = 0;
	result = ccp_invoke(oracle_flow);
	r = &get_ccp_priv_state(oracle_flow)->registers;
	*out++ = oracle_reports;
	*out++ = oracle_report.num_fields;
	/* the wire packs them without regard to alignment */
	memcpy(out, (char *)&oracle_report + 8, ORACLE_REPORT * sizeof(u64));
	out += ORACLE_REPORT;
	out = oracle_put(out, r->report_registers, ORACLE_REPORT);
	out = oracle_put(out, r->control_registers, ORACLE_CONTROL);
	out = oracle_put(out, r->impl_registers, MAX_IMPLICIT_REG);
	out = oracle_put(out, r->tmp_registers, MAX_TMP_REG);
	oracle_put(out, r->local_registers, MAX_LOCAL_REG);
	return result;
}
