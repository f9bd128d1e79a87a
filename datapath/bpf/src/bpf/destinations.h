/* SPDX-License-Identifier: GPL-2.0 */
/* How a flow to a remembered destination begins: with an initial window, and with a program that
 * measures the flow.
 *
 * The destination is looked up when the socket starts to run our algorithm. For a socket that gets
 * our algorithm by name, by cgroup or as the default, that is before its first data packet. Reno
 * sets the window until the agent gives the flow a program; until then, the remembered program only
 * measures.
 */
#ifndef REMUDA_DESTINATIONS_H
#define REMUDA_DESTINATIONS_H

#include "fallback.h"
#include "maps.h"
#include "pacing.h"

/* Writes the remote address as a key. An IPv4 address becomes a mapped IPv6 address
 * (::ffff:0:0/96).
 */
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

/* Does nothing for a flow that has already sent data, because its window already reflects its path;
 * nor when the agent is silent, because its programs may be gone. A window of one segment means
 * that the handshake lost packets (RFC 5681 section 3.1), so that window stays.
 */
static __always_inline void begin_as_remembered(struct sock *sk, u64 now_ns)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct remuda_remembered *remembered;
	struct remuda_destination to;
	struct remuda_shared *s;

	if (tp->data_segs_out || agent_is_late(now_ns))
		return;
	look_at_remote(&to, sk);
	remembered = bpf_map_lookup_elem(&remuda_destinations, &to);
	if (!remembered)
		return;
	PRIV(sk)[PRIV_FIRST_PROGRAM] = remembered->program;
	if (remembered->initial_cwnd_pkts && tp->snd_cwnd > 1)
		set_cwnd_pkts(tp, remembered->initial_cwnd_pkts);
	s = shared();
	if (s)
		__sync_fetch_and_add(&s->remembered, 1);
}

#endif
