// SPDX-License-Identifier: GPL-2.0
/* /dev/ccpkp, for one agent at a time. read() returns as many whole messages as fit; write() takes
 * one or more; poll() reports whether there is something to read. portus' char transport
 * (portus::ipc::kp) expects this.
 *
 * Softirqs of all processors write records for the agent into one ordered queue, under one lock.
 * The queue's memory is allocated at load.
 */
#include <linux/fs.h>
#include <linux/kfifo.h>
#include <linux/log2.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include "remuda.h"

/* portus reads with a buffer of this size, and a record is never split. */
#define RECORD_BYTES_MAX 1024

static struct kfifo_rec_ptr_2 records;
static void *records_memory;
static DEFINE_SPINLOCK(records_lock); /* producers, and resets */
/* Guarded by records_lock: when the oldest waiting record came, or 0. */
static u64 unread_since_ns;
static DEFINE_MUTEX(read_mutex);
static DEFINE_MUTEX(message_mutex); /* messages, and open and close by the agent */
static DECLARE_WAIT_QUEUE_HEAD(readers);
static u8 *written; /* under message_mutex */
/* Bits of state */
#define IS_OPEN 0
#define HAS_LOST 1 /* a record did not fit */
static unsigned long state;
static atomic64_t opens, reads, writes;

int remuda_device_send(void *context, const u8 *message, u32 bytes)
{
	unsigned int queued;

	if (!test_bit(IS_OPEN, &state))
		return -ENOTCONN;
	spin_lock_bh(&records_lock);
	if (!unread_since_ns)
		WRITE_ONCE(unread_since_ns, ktime_get_ns());
	queued = kfifo_in(&records, message, bytes);
	spin_unlock_bh(&records_lock);
	if (!queued) {
		set_bit(HAS_LOST, &state);
		return -ENOSPC;
	}
	if (wq_has_sleeper(&readers))
		wake_up_interruptible_poll(&readers, EPOLLIN | EPOLLRDNORM);
	return 0;
}

/* Returns whether the agent has left a record unread for longer than the heartbeat limit, which
 * means that it hangs. This detects hung CCP agents too, which send no heartbeats. Called at each
 * ACK and timeout, without a lock.
 */
bool remuda_device_stalls(void)
{
	u64 since_ns = READ_ONCE(unread_since_ns), now_ns = ktime_get_ns();

	return since_ns && now_ns > since_ns && now_ns - since_ns > remuda_heartbeat_timeout_ns();
}

/* Under message_mutex: greets the agent, and announces every flow. A flow that finds the queue full
 * is announced at its next ACK.
 */
static void announce(void)
{
	remuda_flows_attach();
	clear_bit(HAS_LOST, &state);
}

/* A record that did not fit may have announced the beginning or end of a flow. So once the queue is
 * empty, all flows are announced again.
 */
static void note_read(void)
{
	spin_lock_bh(&records_lock);
	WRITE_ONCE(unread_since_ns, kfifo_is_empty(&records) ? 0 : ktime_get_ns());
	spin_unlock_bh(&records_lock);
	if (!test_bit(HAS_LOST, &state) || !kfifo_is_empty(&records))
		return;
	mutex_lock(&message_mutex);
	announce();
	mutex_unlock(&message_mutex);
}

static int device_open(struct inode *inode, struct file *file)
{
	if (test_and_set_bit(IS_OPEN, &state))
		return -EBUSY;
	atomic64_inc(&opens);
	mutex_lock(&message_mutex);
	spin_lock_bh(&records_lock);
	kfifo_reset(&records);
	unread_since_ns = 0;
	spin_unlock_bh(&records_lock);
	announce();
	mutex_unlock(&message_mutex);
	return nonseekable_open(inode, file);
}

static int device_release(struct inode *inode, struct file *file)
{
	mutex_lock(&message_mutex);
	remuda_flows_detach();
	mutex_unlock(&message_mutex);
	clear_bit(IS_OPEN, &state);
	return 0;
}

/* Copies as many whole records as fit; under read_mutex. */
static ssize_t read_records(char __user *to, size_t room)
{
	unsigned int bytes, copied;
	ssize_t done = 0;
	int error;

	while (!kfifo_is_empty(&records)) {
		bytes = kfifo_peek_len(&records);
		if (bytes > room - done)
			return done ? done : -EMSGSIZE;
		error = kfifo_to_user(&records, to + done, room - done, &copied);
		if (error)
			return done ? done : error;
		done += copied;
	}
	return done;
}

static ssize_t device_read(struct file *file, char __user *to, size_t room, loff_t *offset)
{
	ssize_t done;

	for (;;) {
		if (mutex_lock_interruptible(&read_mutex))
			return -ERESTARTSYS;
		done = read_records(to, room);
		mutex_unlock(&read_mutex);
		if (done < 0)
			return done;
		if (done)
			break;
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(readers, !kfifo_is_empty(&records)))
			return -ERESTARTSYS;
	}
	atomic64_inc(&reads);
	note_read();
	return done;
}

static int errno_of(u32 reason)
{
	switch (reason) {
	case REMUDA_OK:
	case REMUDA_NO_FLOW: /* the flow has ended meanwhile: not the agent's fault */
		return 0;
	case REMUDA_PROGRAMS_FULL:
		return -ENOSPC;
	case REMUDA_NO_PROGRAM:
		return -ENOENT;
	case REMUDA_BAD_TYPE:
		return -EOPNOTSUPP;
	case REMUDA_BAD_LENGTH:
		return -EMSGSIZE;
	default:
		return -EINVAL;
	}
}

/* Handles the messages one by one, up to the first bad one. */
static ssize_t take_messages(size_t bytes)
{
	size_t done = 0, length;
	int error;

	while (done < bytes) {
		length = bytes - done;
		if (length >= REMUDA_HEADER_BYTES)
			length = min_t(size_t, length, remuda_get16(written + done + 2));
		if (length < REMUDA_HEADER_BYTES)
			length = bytes - done; /* remuda_flows_message refuses and counts it */
		error = errno_of(remuda_flows_message(written + done, length));
		if (error)
			return done ? done : error;
		done += length;
		cond_resched(); /* a RESYNC visits every flow */
	}
	return done;
}

static ssize_t device_write(struct file *file, const char __user *from, size_t bytes,
			    loff_t *offset)
{
	ssize_t done;

	if (!bytes || bytes > REMUDA_WRITE_BYTES_MAX)
		return -EMSGSIZE;
	if (mutex_lock_interruptible(&message_mutex))
		return -ERESTARTSYS;
	if (copy_from_user(written, from, bytes))
		done = -EFAULT;
	else
		done = take_messages(bytes);
	mutex_unlock(&message_mutex);
	atomic64_inc(&writes);
	return done;
}

static __poll_t device_poll(struct file *file, poll_table *table)
{
	__poll_t ready = EPOLLOUT | EPOLLWRNORM;

	poll_wait(file, &readers, table);
	if (!kfifo_is_empty(&records))
		ready |= EPOLLIN | EPOLLRDNORM;
	return ready;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.read = device_read,
	.write = device_write,
	.poll = device_poll,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "ccpkp",
	.fops = &operations,
	.mode = 0600,
};

void remuda_device_show(struct seq_file *m)
{
	seq_printf(m, "agent %d\n", test_bit(IS_OPEN, &state));
	seq_printf(m, "opens %lld\n", (long long)atomic64_read(&opens));
	seq_printf(m, "reads %lld\n", (long long)atomic64_read(&reads));
	seq_printf(m, "writes %lld\n", (long long)atomic64_read(&writes));
}

int remuda_device_init(unsigned int records_kib)
{
	size_t bytes = roundup_pow_of_two(records_kib * 1024UL);
	int error = -ENOMEM;

	BUILD_BUG_ON(REMUDA_MEASURE_BYTES > RECORD_BYTES_MAX);
	records_memory = vzalloc(bytes);
	written = kvmalloc(REMUDA_WRITE_BYTES_MAX, GFP_KERNEL);
	if (!records_memory || !written)
		goto no_device;
	error = kfifo_init(&records, records_memory, bytes);
	if (!error)
		error = misc_register(&device);
	if (!error)
		return 0;
no_device:
	vfree(records_memory);
	kvfree(written);
	return error;
}

void remuda_device_exit(void)
{
	misc_deregister(&device);
	vfree(records_memory);
	kvfree(written);
}
