// SPDX-License-Identifier: GPL-2.0
/*
 * One fault of each kind that a debug kernel is to find, to see that it does: the one that the
 * parameter "fault" names is committed when the module is loaded. For virtual machines alone.
 */
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *fault;
module_param(fault, charp, 0);
MODULE_PARM_DESC(fault, "the name of the fault");

/* Read and written as if others did so, too: else the compiler leaves out what is wrong. */
static int sixteen = 16;
static int seen;
static int table[8];
static DEFINE_MUTEX(outer);
static DEFINE_MUTEX(inner);
static DEFINE_SPINLOCK(lock);
static int __rcu *shared;

static void write_behind_the_end(void)
{
	char *memory = kmalloc(16, GFP_KERNEL);

	if (memory)
		WRITE_ONCE(memory[READ_ONCE(sixteen)], 1);
	kfree(memory);
}

static void read_after_free(void)
{
	char *memory = kmalloc(16, GFP_KERNEL);

	kfree(memory);
	if (memory)
		WRITE_ONCE(seen, READ_ONCE(memory[READ_ONCE(sixteen) - 1]));
}

static void index_behind_the_end(void)
{
	WRITE_ONCE(seen, table[READ_ONCE(sixteen)]);
}

static void shift_too_far(void)
{
	WRITE_ONCE(seen, 1 << (2 * READ_ONCE(sixteen)));
}

static void lose_memory(void)
{
	char *memory = kmalloc(16, GFP_KERNEL);

	if (memory)
		WRITE_ONCE(memory[0], 1);
}

static void sleep_under_a_spinlock(void)
{
	spin_lock(&lock);
	might_sleep();
	spin_unlock(&lock);
}

static void ask_for_the_processor(void)
{
	WRITE_ONCE(seen, smp_processor_id());
}

static void lock_in_both_orders(void)
{
	mutex_lock(&outer);
	mutex_lock(&inner);
	mutex_unlock(&inner);
	mutex_unlock(&outer);
	mutex_lock(&inner);
	mutex_lock(&outer);
	mutex_unlock(&outer);
	mutex_unlock(&inner);
}

static void lock_once(struct tasklet_struct *unused)
{
	spin_lock(&lock);
	spin_unlock(&lock);
}

static DECLARE_TASKLET(softirq, lock_once);

static void lock_as_softirqs_do(void)
{
	tasklet_schedule(&softirq);
	tasklet_kill(&softirq);
	/* A softirq may come here, and wait for this lock for ever. */
	lock_once(NULL);
}

static void look_without_rcu(void)
{
	WRITE_ONCE(seen, !rcu_dereference(shared));
}

static const struct {
	const char *name;
	void (*commit)(void);
} faults[] = {
	{ "write-behind-the-end", write_behind_the_end },
	{ "read-after-free", read_after_free },
	{ "index-behind-the-end", index_behind_the_end },
	{ "shift-too-far", shift_too_far },
	{ "lose-memory", lose_memory },
	{ "sleep-under-a-spinlock", sleep_under_a_spinlock },
	{ "ask-for-the-processor", ask_for_the_processor },
	{ "lock-in-both-orders", lock_in_both_orders },
	{ "lock-as-softirqs-do", lock_as_softirqs_do },
	{ "look-without-rcu", look_without_rcu },
};

static int __init faults_init(void)
{
	size_t i;

	for (i = 0; fault && i < ARRAY_SIZE(faults); i++) {
		if (!strcmp(fault, faults[i].name)) {
			faults[i].commit();
			return 0;
		}
	}
	return -EINVAL;
}

static void __exit faults_exit(void)
{
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_DESCRIPTION("Faults for detectors to find");
MODULE_LICENSE("GPL");
