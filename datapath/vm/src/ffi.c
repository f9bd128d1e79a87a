/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Compiles the headers with external linkage, and exports their layout. ffi.rs mirrors the layout:
 * it compares sizes at compile time, offsets and numbers in a test.
 */
#define REMUDA_API
#include "remuda_datapath.h"
#include "remuda_reduction.h"

_Static_assert(sizeof(struct remuda_primitives) == 120, "ffi.rs");
_Static_assert(sizeof(struct remuda_program) == 6152, "ffi.rs");
_Static_assert(sizeof(struct remuda_machine) == 848, "ffi.rs");
_Static_assert(sizeof(struct remuda_config) == 72, "ffi.rs");
_Static_assert(sizeof(struct remuda_flow_info) == 104, "ffi.rs");
_Static_assert(sizeof(struct remuda_ack) == 160, "ffi.rs");
_Static_assert(sizeof(struct remuda_flow) == 1312, "ffi.rs");
_Static_assert(sizeof(struct remuda_counters) == 216, "ffi.rs");
_Static_assert(sizeof(struct remuda_ops) == 48, "ffi.rs");
_Static_assert(sizeof(struct remuda_datapath) == 376, "ffi.rs");
_Static_assert(sizeof(struct remuda_repair) == 80, "reduction.rs");

u64 remuda_repair_window(const struct remuda_repair *r);

u64 remuda_repair_window(const struct remuda_repair *r)
{
	return remuda_repair_cwnd(r);
}

const u64 remuda_layout[] = {
	offsetof(struct remuda_program, uid),
	offsetof(struct remuda_program, fields),
	offsetof(struct remuda_machine, r),
	offsetof(struct remuda_machine, time_zero_ns),
	offsetof(struct remuda_machine, spent),
	offsetof(struct remuda_primitives, was_timeout),
	offsetof(struct remuda_config, id),
	offsetof(struct remuda_config, cwnd_pkts_max),
	offsetof(struct remuda_config, heartbeat_timeout_ns),
	offsetof(struct remuda_flow_info, local_port),
	offsetof(struct remuda_flow_info, ecn),
	offsetof(struct remuda_flow_info, mss_bytes),
	offsetof(struct remuda_flow_info, ssthresh_bytes),
	offsetof(struct remuda_flow_info, requested),
	offsetof(struct remuda_ack, cwnd_bytes),
	offsetof(struct remuda_ack, mss_bytes),
	offsetof(struct remuda_ack, signals),
	offsetof(struct remuda_flow, sid),
	offsetof(struct remuda_flow, state),
	offsetof(struct remuda_counters, refused),
	offsetof(struct remuda_counters, sent),
	offsetof(struct remuda_counters, clamped),
	offsetof(struct remuda_datapath, config),
	offsetof(struct remuda_datapath, ops),
	offsetof(struct remuda_datapath, context),
	REMUDA_REPORT,
	REMUDA_CONTROL,
	REMUDA_FLAG,
	REMUDA_CWND,
	REMUDA_RATE,
	REMUDA_TEMPORARY,
	REMUDA_LOCAL,
	REMUDA_PRIMITIVE,
	REMUDA_REGISTERS,
	REMUDA_RAN_REPORT,
	REMUDA_RAN_CWND,
	REMUDA_RAN_RATE,
	REMUDA_REASONS,
	REMUDA_PROGRAMS_FULL,
	REMUDA_PROGRAMS,
	REMUDA_FLOWS,
	REMUDA_FLOWS_MAX,
	REMUDA_CWND_MIN_PKTS,
};

const u64 remuda_layout_count = sizeof(remuda_layout) / sizeof(remuda_layout[0]);
