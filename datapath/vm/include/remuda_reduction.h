/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Proportional rate reduction (RFC 6937): the window in force while losses are repaired. Pure
 * arithmetic, which the datapaths of Linux TCP (datapath/tcp/cwnd.h) and the simulator share. The
 * caller has u64.
 */
#ifndef REMUDA_REDUCTION_H
#define REMUDA_REDUCTION_H

/* A repair, as one ACK finds it. Windows and counts are in segments. */
struct remuda_repair {
	u64 wanted;	     /* the window that the agent or its program asks for */
	u64 ssthresh;	     /* the stack's threshold */
	u64 prior;	     /* the window when the repair began */
	u64 in_flight;	     /* after this ACK */
	u64 sent;	     /* since the repair began */
	u64 delivered;	     /* since the repair began, this ACK included */
	u64 delivered_now;   /* by this ACK */
	u64 gets_on;	     /* 1: this ACK acknowledges cumulatively, and finds no new loss */
	u64 age_ns;	     /* how long the repair takes so far */
	u64 srtt_ns;
};

/* Where the repair leads to. The agent answers a loss in far less than a quarter of a round trip.
 * Until then the goal is the stack's threshold: what is sent meanwhile into a full queue is lost,
 * and would be a second loss after the agent's reduction.
 */
static inline u64 remuda_repair_goal(const struct remuda_repair *r)
{
	if (r->wanted >= r->prior && r->age_ns < r->srtt_ns / 4 && r->ssthresh < r->wanted)
		return r->ssthresh;
	return r->wanted;
}

/* RFC 6937 with its slow start only while the repair gets on, as tcp_cwnd_reduction() in
 * net/ipv4/tcp_input.c: each delivery lets so much be sent that what is in flight equals the goal
 * in the end. Without it, a window cut below what is in flight silences the sender, and its
 * retransmissions, for a while.
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

/* The window for now. It is the one wanted as soon as nothing has to be held back. */
static inline u64 remuda_repair_cwnd(const struct remuda_repair *r)
{
	u64 goal = remuda_repair_goal(r), reduced = remuda_repair_reduced(r, goal);

	if (reduced < r->wanted || r->in_flight > goal)
		return reduced;
	return r->wanted;
}

#endif
