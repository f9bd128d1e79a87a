/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the files of the module share.
 *
 *   main.c    parameters, /proc/net/tcp_remuda, loading and unloading
 *   tcp.c     the tcp_congestion_ops: a socket's callbacks become calls of flows.c
 *   flows.c   the datapath of datapath/vm, with its tables and its locks
 *   device.c  /dev/ccpkp: records to the agent, messages from it
 *
 * Locks, in the order in which they are taken: the socket's (the stack's), the device's for
 * messages (a mutex, process context), the flow table's, a flow's, the device's for records. All
 * but the first two are spin locks that keep bottom halves out.
 */
#ifndef REMUDA_H
#define REMUDA_H

#include <linux/atomic.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct remuda_datapath;
struct remuda_flow;

void remuda_lock_flow(const struct remuda_datapath *d, const struct remuda_flow *f);
void remuda_unlock_flow(const struct remuda_datapath *d, const struct remuda_flow *f);
void remuda_program_retired(void);

/* Locking for datapath/vm: ACKs run in parallel with each other and with messages. */
#define REMUDA_LOCK_FLOW(d, f) remuda_lock_flow(d, f)
#define REMUDA_UNLOCK_FLOW(d, f) remuda_unlock_flow(d, f)
/* Pairs with REMUDA_OBSERVE: a reader that sees a program's version also sees the program. */
#define REMUDA_PUBLISH(place, value) smp_store_release(&(place), value)
/* Pairs with REMUDA_PUBLISH. */
#define REMUDA_OBSERVE(place) smp_load_acquire(&(place))
#define REMUDA_RETIRED(d) remuda_program_retired()
#define REMUDA_COUNT(counter) atomic64_inc((atomic64_t *)&(counter))

#include "remuda_datapath.h"

/* Large enough for the largest message (its length has 16 bits). */
#define REMUDA_WRITE_BYTES_MAX 65536

struct remuda_limits {
	u32 cwnd_pkts_max;
	u64 rate_bytes_per_sec_max;
};

extern struct remuda_limits remuda_limits;

/* main.c: from the module's parameters */
u64 remuda_heartbeat_timeout_ns(void);

/* flows.c */
struct seq_file;
struct sock;
int remuda_flows_init(const struct remuda_config *config, const struct remuda_ops *ops);
void remuda_flows_exit(void);
struct remuda_flow *remuda_flows_start(struct sock *sk, const struct remuda_flow_info *info);
void remuda_flows_stop(struct remuda_flow *f);
bool remuda_flows_ack(struct remuda_flow *f, const struct remuda_ack *ack);
void remuda_flows_timeout(struct remuda_flow *f);
void remuda_flows_attach(void);
void remuda_flows_detach(void);
u32 remuda_flows_message(const u8 *message, size_t bytes);
void remuda_flows_show(struct seq_file *m);

/* device.c */
int remuda_device_init(unsigned int records_kib);
void remuda_device_exit(void);
int remuda_device_send(void *context, const u8 *message, u32 bytes);
bool remuda_device_stalls(void);
void remuda_device_show(struct seq_file *m);

/* tcp.c */
extern const struct remuda_ops remuda_tcp_ops;
int remuda_tcp_init(void);
void remuda_tcp_exit(void);

#endif
