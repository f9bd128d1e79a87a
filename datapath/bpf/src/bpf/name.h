/* SPDX-License-Identifier: GPL-2.0 */
/* Names of algorithms. */
#ifndef REMUDA_NAME_H
#define REMUDA_NAME_H

#include "kernel_types.h"

static __always_inline void copy_name(char *to, const volatile char *from)
{
	for (int i = 0; i < TCP_CA_NAME_MAX; i++)
		to[i] = from[i];
}

/* Whether the socket runs an algorithm of that name. */
static __always_inline bool runs(struct sock *sk, const volatile char *wanted)
{
	char name[TCP_CA_NAME_MAX] = {};
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;

	if (!ops || bpf_probe_read_kernel_str(name, sizeof(name), ops->name) < 0)
		return false;
	for (int i = 0; i < TCP_CA_NAME_MAX; i++) {
		if (name[i] != wanted[i])
			return false;
		if (!name[i])
			break;
	}
	return true;
}

#endif
