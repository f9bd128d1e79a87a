// SPDX-License-Identifier: GPL-2.0
/* Runs the datapath of datapath/vm in the kernel: allocates its tables and guards access to them.
 *
 * All memory is allocated when the module is loaded, because a flow may start in a softirq. ACKs
 * read programs without a lock: a replaced entry is reused only after a grace period. The device's
 * mutex makes messages come one at a time.
 */
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "remuda.h"

static struct remuda_datapath datapath;
static spinlock_t *flow_locks;
/* Protects the list of free flows, when flows start and end. */
static DEFINE_SPINLOCK(table_lock);
/* When the last program was retired; under the device's mutex. */
static unsigned long retired_at;
static bool has_retired;

void remuda_lock_flow(const struct remuda_datapath *d, const struct remuda_flow *f)
{
	spin_lock_bh(&flow_locks[f - d->flows]);
}

void remuda_unlock_flow(const struct remuda_datapath *d, const struct remuda_flow *f)
{
	spin_unlock_bh(&flow_locks[f - d->flows]);
}

void remuda_program_retired(void)
{
	retired_at = get_state_synchronize_rcu();
	has_retired = true;
}

struct remuda_flow *remuda_flows_start(struct sock *sk, const struct remuda_flow_info *info)
{
	struct remuda_flow *f;

	spin_lock_bh(&table_lock);
	f = remuda_flow_start(&datapath, sk, info);
	spin_unlock_bh(&table_lock);
	return f;
}

void remuda_flows_stop(struct remuda_flow *f)
{
	spin_lock_bh(&table_lock);
	remuda_flow_stop(&datapath, f);
	spin_unlock_bh(&table_lock);
}

/* Notes whether the agent stalls. Every ACK on every processor reads the flag, so write it only
 * when it changes.
 */
static void note_agent(void)
{
	u32 stalled = remuda_device_stalls();

	if (READ_ONCE(datapath.stalled) != stalled)
		WRITE_ONCE(datapath.stalled, stalled);
}

bool remuda_flows_ack(struct remuda_flow *f, const struct remuda_ack *ack)
{
	bool obeyed;

	note_agent();
	rcu_read_lock();
	obeyed = remuda_flow_ack(&datapath, f, ack);
	rcu_read_unlock();
	return obeyed;
}

void remuda_flows_timeout(struct remuda_flow *f)
{
	note_agent();
	remuda_flow_timeout(&datapath, f);
}

void remuda_flows_attach(void)
{
	remuda_attach(&datapath);
}

void remuda_flows_detach(void)
{
	remuda_detach(&datapath);
}

u32 remuda_flows_message(const u8 *message, size_t bytes)
{
	/* remuda_message() may decode the program into the entry that was retired last, so wait
	 * until no ACK reads that entry.
	 */
	if (has_retired && bytes >= 2 && remuda_get16(message) == REMUDA_INSTALL) {
		cond_synchronize_rcu(retired_at);
		has_retired = false;
	}
	return remuda_message(&datapath, message, bytes);
}

static void show(struct seq_file *m, const char *name, u64 *counter)
{
	seq_printf(m, "%s %lld\n", name, (long long)atomic64_read((atomic64_t *)counter));
}

void remuda_flows_show(struct seq_file *m)
{
	struct remuda_counters *c = &datapath.counters;
	u32 flows = 0, programs = 0, i;

	for (i = 0; i < datapath.config.flows_max; i++)
		flows += READ_ONCE(datapath.flows[i].sid) != 0;
	for (i = 0; i <= datapath.config.programs_max; i++)
		programs += READ_ONCE(datapath.programs[i].version) != 0;
	seq_printf(m, "flows %u\nflows_max %u\n", flows, datapath.config.flows_max);
	seq_printf(m, "programs %u\nprograms_max %u\n", programs, datapath.config.programs_max);
	show(m, "flows_refused", &c->flows_refused);
	show(m, "messages", &c->messages);
	for (i = 1; i < REMUDA_REASONS; i++)
		if (atomic64_read((atomic64_t *)&c->refused[i]))
			seq_printf(m, "refused_%u %lld\n", i,
				   (long long)atomic64_read((atomic64_t *)&c->refused[i]));
	show(m, "sent", &c->sent);
	show(m, "not_sent", &c->not_sent);
	show(m, "reports", &c->reports);
	show(m, "reports_lost", &c->reports_lost);
	show(m, "programs_evicted", &c->programs_evicted);
	show(m, "fallbacks", &c->fallbacks);
	show(m, "restores", &c->restores);
	show(m, "clamped", &c->clamped);
}

int remuda_flows_init(const struct remuda_config *config, const struct remuda_ops *ops)
{
	struct remuda_program *programs;
	struct remuda_flow *flows;
	u32 i;

	flows = kvcalloc(config->flows_max, sizeof(*flows), GFP_KERNEL);
	flow_locks = kvcalloc(config->flows_max, sizeof(*flow_locks), GFP_KERNEL);
	programs = kvcalloc(config->programs_max + 1, sizeof(*programs), GFP_KERNEL);
	if (!flows || !flow_locks || !programs)
		goto no_memory;
	for (i = 0; i < config->flows_max; i++)
		spin_lock_init(&flow_locks[i]);
	if (!remuda_init(&datapath, config, ops, NULL, flows, programs))
		goto no_memory; /* main.c has checked the bounds */
	/* No agent has the device open yet. */
	remuda_detach(&datapath);
	return 0;
no_memory:
	kvfree(flows);
	kvfree(flow_locks);
	kvfree(programs);
	return -ENOMEM;
}

void remuda_flows_exit(void)
{
	kvfree(datapath.flows);
	kvfree(datapath.programs);
	kvfree(flow_locks);
}
