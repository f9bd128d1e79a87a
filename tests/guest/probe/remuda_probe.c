// SPDX-License-Identifier: GPL-2.0
/* How long the calls of one kernel function take: loaded with function=NAME, it counts them until
 * it is unloaded, in its own parameters. With port=NUMBER only those whose first argument is a
 * socket of that local port: a flow's two ends lie in the same kernel.
 *
 * Where time is instructions (QEMU's -icount), so are the figures. What measuring itself adds to a
 * call is measured first, on a function that does nothing: overhead_ns.
 */
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <net/sock.h>

static char *function;
module_param(function, charp, 0444);
MODULE_PARM_DESC(function, "the kernel function to measure");

static ushort port;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "of the sockets to measure it for; 0: of all calls");

static unsigned long calls;
module_param(calls, ulong, 0444);
MODULE_PARM_DESC(calls, "how often it returned");

static unsigned long total_ns;
module_param(total_ns, ulong, 0444);
MODULE_PARM_DESC(total_ns, "between entry and return, of all calls, what measuring adds included");

static unsigned long overhead_ns;
module_param(overhead_ns, ulong, 0444);
MODULE_PARM_DESC(overhead_ns, "what measuring adds to a call");

#define CALIBRATION_CALLS 1000

static bool is_calibrated;

static int entered(struct kretprobe_instance *call, struct pt_regs *regs)
{
	const struct sock *sk = (const struct sock *)regs_get_kernel_argument(regs, 0);

	/* Not 0: its return is of no interest. */
	if (is_calibrated && port && sk->sk_num != port)
		return 1;
	*(u64 *)call->data = ktime_get_ns();
	return 0;
}

static int returned(struct kretprobe_instance *call, struct pt_regs *regs)
{
	total_ns += ktime_get_ns() - *(u64 *)call->data;
	calls++;
	return 0;
}

static struct kretprobe probe = {
	.entry_handler = entered,
	.handler = returned,
	.data_size = sizeof(u64),
	.maxactive = 64,
};

static noinline void nothing(void)
{
	barrier();
}

static int calibrate(void)
{
	int error, i;

	probe.kp.symbol_name = "remuda_probe:nothing";
	error = register_kretprobe(&probe);
	if (error)
		return error;
	for (i = 0; i < CALIBRATION_CALLS; i++)
		nothing();
	unregister_kretprobe(&probe);
	if (!calls)
		return -EIO;
	overhead_ns = total_ns / calls;
	calls = 0;
	total_ns = 0;
	/* Registering fills in what it finds. */
	memset(&probe.kp, 0, sizeof(probe.kp));
	is_calibrated = true;
	return 0;
}

static int __init probe_init(void)
{
	int error;

	if (!function)
		return -EINVAL;
	error = calibrate();
	if (error)
		return error;
	probe.kp.symbol_name = function;
	return register_kretprobe(&probe);
}

static void __exit probe_exit(void)
{
	unregister_kretprobe(&probe);
}

module_init(probe_init);
module_exit(probe_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("How long the calls of a kernel function take");
