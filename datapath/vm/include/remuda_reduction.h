/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Proportional rate reduction (RFC 6937): the window in force while lost segments are
 * retransmitted. Pure arithmetic, shared by the datapaths of Linux TCP (datapath/tcp/cwnd.h) and
 * the simulator. The includer defines u64.
 */
#ifndef REMUDA_REDUCTION_H
#define REMUDA_REDUCTION_H

/* The state of loss recovery at one ACK. Windows and counts are in segments. */
struct remuda_repair {
	u64 wanted;	     /* the window that the agent or its program asks for */
	u64 ssthresh;	     /* the stack's slow-start threshold */
	u64 prior;	     /* the window when recovery began */
	u64 in_flight;	     /* after this ACK */
	u64 sent;	     /* since recovery began */
	u64 delivered;	     /* since recovery began, including by this ACK */
	u64 delivered_now;   /* by this ACK */
	u64 gets_on;	     /* 1: this ACK acknowledges cumulatively and reveals no new loss */
	u64 age_ns;	     /* time since recovery began */
	u64 srtt_ns;
};

/* The window to reach at the end of recovery. The agent answers a loss in far less than a quarter
 * of a round trip. Until then the goal is the stack's threshold: segments sent into a full queue
 * meanwhile would be lost, and count as a second loss after the agent's reduction.
 */
static inline u64 remuda_repair_goal(const struct remuda_repair *r)
{
	if (r->wanted >= r->prior && r->age_ns < r->srtt_ns / 4 && r->ssthresh < r->wanted)
		return r->ssthresh;
	return r->wanted;
}

/* RFC 6937, with its slow start only while recovery makes progress, as in tcp_cwnd_reduction() in
 * net/ipv4/tcp_input.c. Each delivery allows so many segments to be sent that in the end the goal
 * is in flight. Without this, a window cut below what is in flight would stop the sender and its
 * retransmissions for a while.
 */
static inline u64 remuda_repair_reduced(const struct remuda_repair *r, u64 goal)
{
	u64 allowed, send = 0;

	if (r->in_flight > goal) {
		u64 prior = r->prior ? r->prior : goal ? goal : 1;

		allowed = (goal * r->delivered + prior - 1) / prior;
		if (allowed > r->sent)
			send = allowed - r->sent;
	} else {
		allowed = r->delivered > r->sent ? r->delivered - r->sent : 0;
		if (allowed < r->delivered_now)
			allowed = r->delivered_now;
		allowed += r->gets_on;
		send = goal - r->in_flight;
		if (send > allowed)
			send = allowed;
	}
	if (!r->sent && !send)
		send = 1; /* the fast retransmission */
	return r->in_flight + send;
}

/* The window at this ACK. It is the wanted window as soon as nothing has to be held back. */
static inline u64 remuda_repair_cwnd(const struct remuda_repair *r)
{
	u64 goal = remuda_repair_goal(r), reduced = remuda_repair_reduced(r, goal);

	if (reduced < r->wanted || r->in_flight > goal)
		return reduced;
	return r->wanted;
}

#endif
