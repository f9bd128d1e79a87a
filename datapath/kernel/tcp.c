// SPDX-License-Identifier: GPL-2.0
/* A tcp_congestion_ops named "ccp". At every ACK the VM runs the flow's program on the socket's
 * primitives, and the program's window and rate become the socket's. The BPF datapath does the same
 * from the same headers (datapath/tcp), with compiled programs instead of the VM.
 */
#include <linux/module.h>
#include <linux/sock_diag.h>
#include <linux/version.h>
#include <net/tcp.h>
#include "remuda.h"

#define REMUDA_CA_STATE(sk) (inet_csk(sk)->icsk_ca_state)
#define REMUDA_IS_CWND_LIMITED(tp) ((tp)->is_cwnd_limited)
#define REMUDA_CHRONO(tp) ((tp)->chrono_type)
#define REMUDA_RESTARTS_AFTER_IDLE(sk)                                                             \
	READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle)
#define REMUDA_CWND_PKTS_MAX remuda_limits.cwnd_pkts_max
#define REMUDA_RATE_MAX remuda_limits.rate_bytes_per_sec_max

#include "cwnd.h"
#include "idle.h"
#include "primitives.h"
#include "reno.h"

/* The socket's private words. */
struct remuda_socket {
	struct remuda_flow *flow; /* NULL: the table was full, or the socket listens */
	struct remuda_tcp tcp;
	bool fell_back; /* set by the callback of that name during this ACK or timeout */
};

/* ---- Callbacks of the datapath ---------------------------------------------------------------*/

static u64 now_ns(void *context)
{
	return ktime_get_ns();
}

static void want_window(void *context, void *flow, u64 cwnd_bytes)
{
	struct sock *sk = flow;
	struct remuda_socket *s = inet_csk_ca(sk);

	want_cwnd(&s->tcp, tcp_sk(sk), cwnd_bytes);
}

static void want_rate(void *context, void *flow, u64 rate)
{
	struct sock *sk = flow;
	struct remuda_socket *s = inet_csk_ca(sk);

	s->tcp.paced = rate != 0;
	if (rate)
		pace_at(sk, rate);
}

static void fell_back(void *context, void *flow)
{
	struct remuda_socket *s = inet_csk_ca((struct sock *)flow);

	s->fell_back = true;
	s->tcp.paced = 0;
	leave_to_stack(&s->tcp);
}

static void restored(void *context, void *flow)
{
}

const struct remuda_ops remuda_tcp_ops = {
	.now_ns = now_ns,
	.send = remuda_device_send,
	.set_cwnd = want_window,
	.set_rate = want_rate,
	.fell_back = fell_back,
	.restored = restored,
};

/* ---- Callbacks of the stack ------------------------------------------------------------------*/

static void note_path(struct remuda_flow_info *info, const struct tcp_sock *tp)
{
	info->mss_bytes = tp->mss_cache;
	info->cwnd_bytes = (u64)tp->snd_cwnd * tp->mss_cache;
	info->ssthresh_bytes = tp->snd_ssthresh < TCP_INFINITE_SSTHRESH ?
				       (u64)tp->snd_ssthresh * tp->mss_cache :
				       0;
	info->srtt_us = tp->srtt_us >> 3;
	info->rtt_min_us = tcp_min_rtt(tp);
}

static u64 cgroup_of(struct sock *sk)
{
#ifdef CONFIG_SOCK_CGROUP_DATA
	return cgroup_id(sock_cgroup_ptr(&sk->sk_cgrp_data));
#else
	return 0;
#endif
}

/* The socket's SO_COOKIE. */
static u64 cookie_of(struct sock *sk)
{
	u32 cookie[2];

	sock_diag_save_cookie(sk, cookie);
	return (u64)cookie[1] << 32 | cookie[0];
}

static void describe(struct remuda_flow_info *info, struct sock *sk)
{
	memset(info, 0, sizeof(*info));
	info->family = 4;
	memcpy(info->local, &sk->sk_rcv_saddr, sizeof(sk->sk_rcv_saddr));
	memcpy(info->remote, &sk->sk_daddr, sizeof(sk->sk_daddr));
#if IS_ENABLED(CONFIG_IPV6)
	/* A socket of a dual-stack listener has mapped IPv6 addresses, and also the IPv4 ones. */
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		info->family = 6;
		memcpy(info->local, &sk->sk_v6_rcv_saddr, sizeof(info->local));
		memcpy(info->remote, &sk->sk_v6_daddr, sizeof(info->remote));
	}
#endif
	info->local_port = sk->sk_num;
	info->remote_port = ntohs(sk->sk_dport);
	info->ecn = tcp_sk(sk)->ecn_flags;
	info->mark = sk->sk_mark;
	info->cgroup_id = cgroup_of(sk);
	info->cookie = cookie_of(sk);
	note_path(info, tcp_sk(sk));
}

/* Runs in a softirq for a passive open, in process context for setsockopt(). */
static void ccp_init(struct sock *sk)
{
	struct remuda_socket *s = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct remuda_flow_info info;

	BUILD_BUG_ON(sizeof(*s) > ICSK_CA_PRIV_SIZE);
	memset(s, 0, sizeof(*s));
	note_totals(&s->tcp, tp);
	s->tcp.cwnd_pkts = tp->snd_cwnd;
	s->tcp.cwnd_set_pkts = tp->snd_cwnd;
	describe(&info, sk);
	s->flow = remuda_flows_start(sk, &info);
}

/* Also called for listeners, whose private words are zero. */
static void ccp_release(struct sock *sk)
{
	struct remuda_socket *s = inet_csk_ca(sk);

	if (s->flow)
		remuda_flows_stop(s->flow);
	s->flow = NULL;
}

/* Handles an ACK. Returns whether the agent's program has run. */
static bool obey(struct sock *sk, const struct rate_sample *rs)
{
	struct remuda_socket *s = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct remuda_ack ack = {};

	note_cwnd(&s->tcp, tp);
	load_primitives(&s->tcp, tp, rs, &ack.primitives);
	ack.cwnd_bytes = (u64)s->tcp.cwnd_pkts * tp->mss_cache;
	ack.rate = s->tcp.paced ? sk->sk_pacing_rate : 0;
	ack.mss_bytes = tp->mss_cache;
	ack.srtt_us = tp->srtt_us >> 3;
	ack.rtt_min_us = tcp_min_rtt(tp);
	ack.delivered_pkts = tp->delivered;
	ack.lost_pkts = tp->lost;
	ack.signals = take_report_flags(&s->tcp, sk);
	if (!remuda_flows_ack(s->flow, &ack))
		return false;
	settle_cwnd(&s->tcp, sk, &ack.primitives, rs->acked_sacked);
	if (!s->tcp.paced)
		pace_by_window(sk);
	return true;
}

static void on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct remuda_socket *s = inet_csk_ca(sk);

	s->tcp.now_ns = ktime_get_ns();
	if (s->flow && obey(sk, rs))
		return;
	if (s->fell_back)
		begin_reno(sk);
	s->fell_back = false;
	run_reno(sk, rs);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
static void ccp_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}
#else
static void ccp_cong_control(struct sock *sk, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}
#endif

static void ccp_set_state(struct sock *sk, u8 state)
{
	struct remuda_socket *s = inet_csk_ca(sk);

	if (state == TCP_CA_Loss) {
		s->tcp.timed_out = 1;
		if (s->flow)
			remuda_flows_timeout(s->flow);
		/* No begin_reno() here: the stack has set the window, and ssthresh by
		 * ccp_ssthresh().
		 */
		s->fell_back = false;
	} else if (state == TCP_CA_Recovery || state == TCP_CA_CWR) {
		begin_reduction(&s->tcp, ktime_get_ns());
	}
}

static u32 ccp_ssthresh(struct sock *sk)
{
	return max_t(u32, tcp_sk(sk)->snd_cwnd >> 1, CWND_MIN_PKTS);
}

static u32 ccp_undo_cwnd(struct sock *sk)
{
	struct remuda_socket *s = inet_csk_ca(sk);

	return undone_cwnd(&s->tcp, tcp_sk(sk));
}

static void ccp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct remuda_socket *s = inet_csk_ca(sk);

	if (event == CA_EVENT_TX_START)
		note_transmission(&s->tcp, sk, tcp_jiffies32);
}

static struct tcp_congestion_ops ccp __read_mostly = {
	.name = "ccp",
	.owner = THIS_MODULE,
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = ccp_init,
	.release = ccp_release,
	.ssthresh = ccp_ssthresh,
	.set_state = ccp_set_state,
	.cong_control = ccp_cong_control,
	.undo_cwnd = ccp_undo_cwnd,
	.cwnd_event = ccp_cwnd_event,
};

int remuda_tcp_init(void)
{
	return tcp_register_congestion_control(&ccp);
}

void remuda_tcp_exit(void)
{
	tcp_unregister_congestion_control(&ccp);
}
