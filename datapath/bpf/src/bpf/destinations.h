/* SPDX-License-Identifier: GPL-2.0 */
/* How a flow begins whose destination the agent remembers: with an initial window, and with the
 * program that will measure it.
 *
 * It is looked up when the flow comes to us, which is before its first data packet for every flow
 * that is ours from its handshake on: by name, by cgroup, or as the default. The agent decides on
 * its window all the same, from its first words on; until then Reno does, and the program only
 * measures.
 */
#ifndef REMUDA_DESTINATIONS_H
#define REMUDA_DESTINATIONS_H

#include "fallback.h"
#include "maps.h"
#include "pacing.h"

/* Of IPv6, as ::ffff:0:0/96 has all of IPv4. */
static __always_inline void look_at_remote(struct remuda_destination *to, struct sock *sk)
{
	struct sock_common *c = &sk->__sk_common;

	to->prefix_bits = REMUDA_ADDRESS_BITS;
	if (c->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++)
			to->address[i] = c->skc_v6_daddr.in6_u.u6_addr32[i];
		return;
	}
	to->address[0] = 0;
	to->address[1] = 0;
	to->address[2] = bpf_htonl(0xffff);
	to->address[3] = c->skc_daddr;
}

/* Not of a flow that has sent something: its window is what its path has made of it. Nor, as a
 * program that is gone cannot be entered, on the word of an agent that is. A window of one segment
 * says that the handshake lost packets (RFC 5681 section 3.1), and stays.
 */
static __always_inline void begin_as_remembered(struct sock *sk, u64 now_ns)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct remuda_beginning *beginning;
	struct remuda_destination to;
	struct remuda_shared *s;

	if (tp->data_segs_out || agent_is_late(now_ns))
		return;
	look_at_remote(&to, sk);
	beginning = bpf_map_lookup_elem(&remuda_destinations, &to);
	if (!beginning)
		return;
	PRIV(sk)[PRIV_BORN] = beginning->program;
	if (beginning->initial_cwnd_pkts && tp->snd_cwnd > 1)
		set_cwnd_pkts(tp, beginning->initial_cwnd_pkts);
	s = shared();
	if (s)
		__sync_fetch_and_add(&s->remembered, 1);
}

#endif
