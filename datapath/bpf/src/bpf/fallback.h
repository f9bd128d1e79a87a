/* SPDX-License-Identifier: GPL-2.0 */
/* Without an agent, a flow runs Reno (../../../tcp/reno.h).
 *
 * A flow runs Reno when the agent's heartbeat is too old, when the agent has ended (the kernel then
 * empties the jump table), and before the agent has given the flow a program. The heartbeat is
 * checked at every ACK and at every retransmission timeout. Each transition into or out of fallback
 * sends one event.
 */
#ifndef REMUDA_FALLBACK_H
#define REMUDA_FALLBACK_H

#include "maps.h"
#include "reno.h"

static __always_inline bool agent_is_late(u64 now_ns)
{
	struct remuda_shared *s = shared();
	u64 beat;

	if (!s)
		return true;
	beat = s->heartbeat_ns;
	return now_ns > beat && now_ns - beat > config.heartbeat_timeout_ns;
}

static __always_inline void note_fallback(struct sock *sk, u64 now_ns)
{
	struct remuda_slot *slot = slot_of(PRIV(sk)[PRIV_SID]);
	struct remuda_shared *s = shared();

	PRIV(sk)[PRIV_FALLBACK] = 1;
	if (!PRIV(sk)[PRIV_SID])
		return;
	if (slot)
		slot->in_fallback = 1;
	if (s)
		__sync_fetch_and_add(&s->fallbacks, 1);
	emit(sk, REMUDA_FELL_BACK, now_ns);
}

static __always_inline void enter_fallback(struct sock *sk, u64 now_ns)
{
	begin_reno(sk);
	note_fallback(sk, now_ns);
}

/* Around a retransmission timeout no ACK arrives, so the timeout itself must check the heartbeat.
 * The stack has already set the window, and ssthresh from our callback, so Reno need not begin
 * anew.
 */
static __always_inline void timed_out_without_agent(struct sock *sk, u64 now_ns)
{
	if (!PRIV(sk)[PRIV_FALLBACK] && PRIV(sk)[PRIV_PROGRAM] && agent_is_late(now_ns))
		note_fallback(sk, now_ns);
}

static __always_inline void leave_fallback(struct sock *sk, u64 now_ns)
{
	struct remuda_slot *slot = slot_of(PRIV(sk)[PRIV_SID]);
	struct remuda_shared *s = shared();

	PRIV(sk)[PRIV_FALLBACK] = 0;
	if (slot)
		slot->in_fallback = 0;
	if (s)
		__sync_fetch_and_add(&s->restores, 1);
	emit(sk, REMUDA_RESTORED, now_ns);
}

#endif
