/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel types this datapath reads, and only the members it reads.
 *
 * CO-RE relocates every access against the running kernel's BTF, so neither a vmlinux.h in the
 * tree nor BTF on the builder is needed.
 */
#ifndef REMUDA_KERNEL_TYPES_H
#define REMUDA_KERNEL_TYPES_H

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0

#define AF_INET 2
#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_CA_NAME_MAX 16
#define TCP_BPF_IW 1001
#define TCP_FIN_WAIT1 4
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10
#define TCP_CLOSING 11
#define TCP_CLOSE 7
#define TCP_CONG_NON_RESTRICTED 1

/* enum tcp_ca_state, include/uapi/linux/tcp.h */
#define TCP_CA_CWR 2
#define TCP_CA_Recovery 3

/* enum tcp_chrono, include/net/tcp.h */
#define TCP_CHRONO_RWND_LIMITED 2

/* A bit of socket.flags, include/linux/net.h: the application waits for room to write. */
#define SOCK_NOSPACE 2
#define TCP_CA_Loss 4

/* enum tcp_ca_event, include/net/tcp.h */
#define CA_EVENT_TX_START 0

/* enum sk_pacing, include/net/sock.h */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

#define USEC_PER_SEC 1000000
#define NSEC_PER_USEC 1000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[3]; /* from the root on; the kernel's array is longer */
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct ns_common {
	unsigned int inum;
};

typedef struct {
	u32 val;
} kuid_t;

struct user_namespace {
	struct user_namespace *parent;
	int level;    /* 0: the initial one */
	kuid_t owner; /* who made it */
};

struct netns_ipv4 {
	u8 sysctl_tcp_slow_start_after_idle;
};

struct net {
	struct ns_common ns;
	u64 net_cookie; /* never used twice until the host restarts */
	struct user_namespace *user_ns;
	struct netns_ipv4 ipv4;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	s64 counter;
} atomic64_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct socket {
	unsigned long flags;
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket; /* 0 once the application has closed it */
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
	u32 sk_mark;
	kuid_t sk_uid;
	struct sock_cgroup_data sk_cgrp_data;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u32 icsk_rto; /* in jiffies */
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[13];
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_rack {
	u32 rtt_us; /* of the segment delivered last */
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 prior_cwnd; /* at the start of the recovery */
	u32 prr_out;    /* sent since then */
	u32 snd_ssthresh;
	u32 data_segs_out; /* in its life */
	u32 packets_out;
	u32 max_packets_out; /* the most in flight, over the period of is_cwnd_limited */
	u32 retrans_out;
	u32 lost_out;
	u32 sacked_out;
	u32 lost;
	u32 delivered;
	u32 delivered_ce;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 srtt_us; /* smoothed, times 8 */
	u32 lsndtime; /* when data was last sent, in jiffies */
	u32 write_seq;
	u32 snd_nxt;
	u32 snd_una;
	u32 snd_wnd; /* the peer's receive window, in bytes */
	u64 bytes_acked;
	u64 bytes_received;
	u8 ecn_flags;
	u8 chrono_type : 2; /* enum tcp_chrono */
	u8 is_cwnd_limited : 1;
	u8 rate_app_limited : 1;
	struct minmax rtt_min;
	struct tcp_rack rack;
};

struct rate_sample {
	s32 delivered;
	long interval_us;
	u32 snd_interval_us;
	u32 rcv_interval_us;
	long rtt_us;
	u32 acked_sacked;
	bool is_app_limited;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	unsigned int uid;
};

struct bpf_map;

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

/* The members that we set. libbpf matches them by name, so any order works; `name` is first because
 * the loader writes it at offset 0.
 */
struct tcp_congestion_ops {
	char name[TCP_CA_NAME_MAX];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*cwnd_event)(struct sock *sk, u32 event);
};

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;

#endif
