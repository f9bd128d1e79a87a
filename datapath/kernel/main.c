// SPDX-License-Identifier: GPL-2.0
/* tcp_remuda: Linux TCP as a CCP datapath. Module parameters, /proc/net/tcp_remuda, loading and
 * unloading.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <net/net_namespace.h>
#include "remuda.h"

static unsigned int flows = REMUDA_FLOWS;
module_param(flows, uint, 0444);
MODULE_PARM_DESC(flows, "flows at once, 64 to 1048576; further ones run Reno (1.4 kB each)");

static unsigned int programs = 128;
module_param(programs, uint, 0444);
MODULE_PARM_DESC(programs, "programs at once, 64 to 65536 (6 kB each)");

static unsigned int records_kib = 1024;
module_param(records_kib, uint, 0444);
MODULE_PARM_DESC(records_kib, "room for records to the agent, KiB, 64 to 65536");

static unsigned int heartbeat_timeout_ms = 150;
module_param(heartbeat_timeout_ms, uint, 0444);
MODULE_PARM_DESC(heartbeat_timeout_ms, "flows of an agent silent so long fall back, 100 to 60000");

static unsigned int cwnd_pkts_max = 100000;
module_param(cwnd_pkts_max, uint, 0444);
MODULE_PARM_DESC(cwnd_pkts_max, "largest window, segments, 2 or more");

static unsigned int rate_mbit_per_sec_max = 100000;
module_param(rate_mbit_per_sec_max, uint, 0444);
MODULE_PARM_DESC(rate_mbit_per_sec_max, "largest pacing rate, Mbit/s, 1 or more");

#define BYTES_PER_MBIT 125000

struct remuda_limits remuda_limits __read_mostly;

u64 remuda_heartbeat_timeout_ns(void)
{
	return (u64)heartbeat_timeout_ms * NSEC_PER_MSEC;
}

static int refuse(const char *name, unsigned int value, unsigned int least, unsigned int most)
{
	if (value >= least && value <= most)
		return 0;
	pr_err("%s=%u: it must lie in %u to %u\n", name, value, least, most);
	return -EINVAL;
}

static int check_parameters(void)
{
	return refuse("flows", flows, 64, REMUDA_FLOWS_MAX) ?:
	       refuse("programs", programs, REMUDA_PROGRAMS, 65536) ?:
	       refuse("records_kib", records_kib, 64, 65536) ?:
	       refuse("heartbeat_timeout_ms", heartbeat_timeout_ms, 100, 60000) ?:
	       refuse("cwnd_pkts_max", cwnd_pkts_max, REMUDA_CWND_MIN_PKTS, UINT_MAX) ?:
	       refuse("rate_mbit_per_sec_max", rate_mbit_per_sec_max, 1, UINT_MAX);
}

static int show(struct seq_file *m, void *nothing)
{
	remuda_device_show(m);
	remuda_flows_show(m);
	return 0;
}

static const char proc_name[] = "tcp_remuda";

static int __init remuda_module_init(void)
{
	struct remuda_config config = {
		.name = "linux-module",
		.capabilities = REMUDA_CAN_SIGNAL | REMUDA_CAN_PACE | REMUDA_CAN_MARKS |
				REMUDA_CAN_PACKETS | REMUDA_CAN_PENDING,
		.attaches = 1,
		.flows_max = flows,
		.programs_max = programs,
		.cwnd_pkts_max = cwnd_pkts_max,
		.rate_bytes_per_sec_max = (u64)rate_mbit_per_sec_max * BYTES_PER_MBIT,
		.heartbeat_timeout_ns = remuda_heartbeat_timeout_ns(),
	};
	int error = check_parameters();

	if (error)
		return error;
	remuda_limits.cwnd_pkts_max = cwnd_pkts_max;
	remuda_limits.rate_bytes_per_sec_max = config.rate_bytes_per_sec_max;
	error = remuda_flows_init(&config, &remuda_tcp_ops);
	if (error)
		return error;
	error = remuda_device_init(records_kib);
	if (error)
		goto no_device;
	error = -ENOMEM;
	if (!proc_create_single(proc_name, 0444, init_net.proc_net, show))
		goto no_proc;
	error = remuda_tcp_init();
	if (error)
		goto no_tcp;
	pr_info("%u flows, %u programs\n", flows, programs);
	return 0;
no_tcp:
	remove_proc_entry(proc_name, init_net.proc_net);
no_proc:
	remuda_device_exit();
no_device:
	remuda_flows_exit();
	return error;
}

static void __exit remuda_module_exit(void)
{
	remuda_tcp_exit();
	remove_proc_entry(proc_name, init_net.proc_net);
	remuda_device_exit();
	remuda_flows_exit();
}

module_init(remuda_module_init);
module_exit(remuda_module_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Linux TCP as a datapath of the congestion-control plane");
MODULE_VERSION("0.1.0");
