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

/* RFC 6928's initial window: a path takes it unpaced, and a peer has room for it. */
#define IW_STANDARD_PKTS 10

/* The window, in segments, as far as the peer's receive window takes it. A peer that takes less
 * than the standard window is the stack's own concern.
 */
static __always_inline u32 within_peer_window(const struct tcp_sock *tp, u32 pkts)
{
	u32 mss = tp->mss_cache, takes;

	if (!mss || pkts <= IW_STANDARD_PKTS)
		return pkts;
	takes = tp->snd_wnd / mss;
	if (takes < IW_STANDARD_PKTS)
		takes = IW_STANDARD_PKTS;
	return pkts < takes ? pkts : takes;
}

/* Paces a window above the standard one until its first ACK, as the stack paces a slow start: at
 * twice the window per round trip. The stack sends the first ten segments at once all the same.
 * pace_by_window() ends it at that ACK, unless an algorithm or the application paces the socket.
 */
static __always_inline void pace_first_window(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 srtt_us = tp->srtt_us >> 3;

	if (srtt_us && tp->snd_cwnd > IW_STANDARD_PKTS)
		pace_at(sk, (u64)tp->snd_cwnd * tp->mss_cache * PACING_SS_PERCENT / 100 *
				    USEC_PER_SEC / srtt_us);
}

/* Writes the remote address as a key of that network namespace. An IPv4 address becomes a mapped
 * IPv6 address (::ffff:0:0/96).
 */
static __always_inline void look_at_remote(struct remuda_destination *to, struct sock *sk,
					   u64 netns)
{
	struct sock_common *c = &sk->__sk_common;

	to->prefix_bits = REMUDA_NETNS_BITS + REMUDA_ADDRESS_BITS;
	to->netns[0] = (u32)netns;
	to->netns[1] = netns >> 32;
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
 *
 * What flows of the socket's own network namespace have taught goes first. What is known in the
 * agent's own namespace holds for the namespaces of this host too, but not for those that users
 * have made. An initial window is an operator's or a learned one, so it is the same for both.
 */
static __always_inline void begin_as_remembered(struct sock *sk, u32 sid, u64 now_ns)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct remuda_remembered *own, *host = 0;
	u32 index = slot_index(sid), program = 0, initial_cwnd_pkts = 0;
	struct remuda_flow_info *info = bpf_map_lookup_elem(&remuda_infos, &index);
	struct remuda_destination to;
	struct remuda_shared *s;

	if (!info || tp->data_segs_out || agent_is_late(now_ns))
		return;
	look_at_remote(&to, sk, info->owner.netns);
	own = bpf_map_lookup_elem(&remuda_destinations, &to);
	if (info->owner.netns && info->owner.is_of_host) {
		to.netns[0] = 0;
		to.netns[1] = 0;
		host = bpf_map_lookup_elem(&remuda_destinations, &to);
	}
	if (!own && !host)
		return;
	if (host) {
		program = host->program;
		initial_cwnd_pkts = host->initial_cwnd_pkts;
	}
	if (own && own->program)
		program = own->program;
	if (own && !initial_cwnd_pkts)
		initial_cwnd_pkts = own->initial_cwnd_pkts;
	PRIV(sk)[PRIV_FIRST_PROGRAM] = program;
	if (initial_cwnd_pkts && tp->snd_cwnd > 1) {
		set_cwnd_pkts(tp, within_peer_window(tp, initial_cwnd_pkts));
		pace_first_window(sk);
	}
	s = shared();
	if (s)
		__sync_fetch_and_add(&s->remembered, 1);
}

#endif
