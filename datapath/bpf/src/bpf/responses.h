/* SPDX-License-Identifier: GPL-2.0 */
/* Measures responses: what a server sends between two requests of its peer.
 *
 * A response begins when the stack sends with nothing in flight (CA_EVENT_TX_START) and the peer
 * has sent bytes since the last response began. It is complete when everything that the application
 * has queued is acknowledged. If the application then queues more before the peer has sent
 * anything, the response goes on, and the time for which the application had nothing to send counts
 * too. So a response is reported when the next one begins, or when the socket closes.
 *
 * With nothing in flight, the first byte leaves as soon as it is queued, unless the socket waits
 * for a full segment (TCP_CORK, Nagle). While a flow runs one of the kernel's own algorithms,
 * nobody measures its responses.
 */
#ifndef REMUDA_RESPONSES_H
#define REMUDA_RESPONSES_H

#include "maps.h"

/* States of PRIV_RESPONSE: whether an acknowledgement can complete a response. */
#define RESPONSE_NONE 0
#define RESPONSE_RUNS 1

/* A FIN takes a sequence number, which is no byte of the response. */
static __always_inline bool has_sent_fin(struct sock *sk)
{
	u8 state = sk->__sk_common.skc_state;

	return state == TCP_FIN_WAIT1 || state == TCP_CLOSING || state == TCP_LAST_ACK;
}

/* A response goes into the ring of lifecycle events, so that the agent sees it before the end of
 * its flow; but only while half of the ring is free, so that responses push out no such event.
 */
static __always_inline void report_response(struct remuda_flow *f)
{
	struct remuda_response *r = &f->response;
	struct remuda_shared *s;

	if (!r->bytes)
		return;
	r->event.kind = REMUDA_RESPONSE;
	r->event.sid = f->sid;
	if (bpf_ringbuf_query(&remuda_events, BPF_RB_AVAIL_DATA) > REMUDA_EVENTS_BYTES / 2 ||
	    bpf_ringbuf_output(&remuda_events, r, sizeof(*r), 0)) {
		s = shared();
		if (s)
			__sync_fetch_and_add(&s->lost_reports, 1);
	}
	r->bytes = 0;
}

/* The stack begins to send with nothing in flight. */
static __always_inline void begin_response(struct remuda_flow *f, struct sock *sk, u64 now_ns)
{
	struct remuda_response *r = &f->response;
	struct remuda_response_start *start = &f->response_start;
	struct tcp_sock *tp = tcp_sk(sk);
	bool goes_on = r->number &&
		       (PRIV(sk)[PRIV_RESPONSE] || start->received_bytes == tp->bytes_received);

	PRIV(sk)[PRIV_RESPONSE] = RESPONSE_RUNS;
	if (goes_on)
		return;
	report_response(f);
	/* A flow that was adopted has sent responses that nobody counted. */
	r->number += tp->data_segs_out && !r->number ? 2 : 1;
	r->started_ns = now_ns;
	r->started_cwnd_pkts = tp->snd_cwnd;
	r->rwnd_bytes = tp->snd_wnd;
	start->acked_bytes = tp->bytes_acked;
	start->received_bytes = tp->bytes_received;
	start->lost_pkts = tp->lost;
}

/* Called at every ACK. */
static __always_inline void end_response(struct sock *sk, u64 now_ns)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct remuda_response *r;
	struct remuda_flow *f;

	if (!PRIV(sk)[PRIV_RESPONSE] || tp->snd_una != tp->write_seq)
		return;
	f = bpf_sk_storage_get(&remuda_flows, sk, 0, 0);
	if (!f)
		return;
	PRIV(sk)[PRIV_RESPONSE] = RESPONSE_NONE;
	r = &f->response;
	r->event.now_ns = now_ns;
	r->event.cwnd_pkts = tp->snd_cwnd;
	r->event.mss_bytes = tp->mss_cache;
	r->bytes = tp->bytes_acked - f->response_start.acked_bytes - has_sent_fin(sk);
	r->srtt_us = tp->srtt_us >> 3;
	r->rtt_min_us = tp->rtt_min.s[0].v;
	r->lost_pkts = tp->lost - f->response_start.lost_pkts;
}

#endif
