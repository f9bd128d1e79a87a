/* SPDX-License-Identifier: GPL-2.0 */
/* The window of a flow that sends again after an idle time.
 *
 * RFC 5681 section 4.1: the old window would leave as one burst, although the state of the path is
 * no longer known. The stack does not reduce the window of an algorithm that has cong_control
 * (tcp_slow_start_after_idle_check()), so this file does what tcp_cwnd_restart() does, and obeys
 * the same sysctl. A paced flow sends no burst and keeps its window.
 *
 * Differs from the stack in two ways. The restart window is RFC 6928's ten segments even if the
 * route has its own initcwnd. The first TSO segment still leaves under the old window.
 */
#ifndef REMUDA_TCP_IDLE_H
#define REMUDA_TCP_IDLE_H

#include "pacing.h"
#include "remuda_tcp.h"

#define RESTART_CWND_PKTS 10 /* TCP_INIT_CWND */
#define HALVINGS_MAX 31

/* As tcp_cwnd_restart(): halves the window for every timeout that the flow was idle. */
static __always_inline u32 restarted_cwnd(u32 cwnd, u32 idle, u32 timeout)
{
	u32 restart = cwnd < RESTART_CWND_PKTS ? cwnd : RESTART_CWND_PKTS;
	u32 halvings = (idle - 1) / timeout;

	cwnd >>= halvings > HALVINGS_MAX ? HALVINGS_MAX : halvings;
	return cwnd > restart ? cwnd : restart;
}

/* Called when the stack begins to send with nothing in flight (CA_EVENT_TX_START). Times are in
 * jiffies.
 */
static __always_inline void note_transmission(struct remuda_tcp *t, struct sock *sk, u32 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 timeout = inet_csk(sk)->icsk_rto, idle = now - tp->lsndtime, cwnd = tp->snd_cwnd;

	if (t->paced || tp->packets_out || !tp->data_segs_out || !timeout || idle <= timeout ||
	    (s32)idle < 0 || !REMUDA_RESTARTS_AFTER_IDLE(sk))
		return;
	/* tcp_current_ssthresh() */
	if (tp->snd_ssthresh < cwnd / 4 * 3)
		tp->snd_ssthresh = cwnd / 4 * 3;
	set_cwnd_pkts(tp, restarted_cwnd(cwnd, idle, timeout));
	if (t->cwnd_set_pkts)
		t->cwnd_set_pkts = tp->snd_cwnd;
	t->cwnd_pkts = tp->snd_cwnd;
	t->report_flags |= REPORT_RESTARTED;
}

#endif
