/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The measurements of a datapath at an ACK, for the VM and for compiled programs. The includer
 * defines u64.
 */
#ifndef REMUDA_PRIMITIVES_H
#define REMUDA_PRIMITIVES_H

#define REMUDA_PRIMITIVES 15
#define REMUDA_RTT_NONE 0xffffffffU /* there is no RTT sample, as in libccp */

/* In libccp's order (read_reg() in machine.c), which is also the order on the wire. */
struct remuda_primitives {
	u64 bytes_acked;
	u64 bytes_misordered;
	u64 ecn_bytes;
	u64 ecn_packets;
	u64 lost_pkts_sample;
	u64 now_us;
	u64 packets_acked;
	u64 packets_misordered;
	u64 bytes_in_flight;
	u64 bytes_pending;
	u64 packets_in_flight;
	u64 rate_incoming; /* bytes per second, like all rates */
	u64 rate_outgoing;
	u64 rtt_sample_us; /* REMUDA_RTT_NONE: no sample */
	u64 was_timeout;
};

#endif
