/* SPDX-License-Identifier: GPL-2.0 */
/* Which sockets become flows: slots, and who may have how many of them.
 *
 * Any user of the host may ask for our name, so a user has at most a share of the slots that other
 * users leave, and a cgroup too. A first user thus always leaves slots for the next one. Root has
 * no quota. A socket that is refused runs the kernel's algorithm `config.native`.
 */
#ifndef REMUDA_ADMISSION_H
#define REMUDA_ADMISSION_H

#include "maps.h"
#include "name.h"

/* The level of the cgroups that have a quota, counted from the root: a service, a user's slice or a
 * container. A user can make cgroups of its own only below.
 */
#define QUOTA_LEVEL 2
/* The share that is no bound, in percent */
#define NO_QUOTA 100
/* The deepest nesting of user namespaces, include/linux/user_namespace.h */
#define USER_NAMESPACES_MAX 33
/* An account in this state is about to be deleted and takes no further slots. */
#define ACCOUNT_ENDS (1U << 31)
/* How often an account that ends meanwhile is looked up again. */
#define ACCOUNT_TRIES 8

enum remuda_account_kind {
	REMUDA_OF_USER = 1,
	REMUDA_OF_CGROUP = 2,
};

/* The user that a socket counts for. A user can have many uids inside a user namespace that it has
 * made, so sockets of a network namespace of that user namespace count for the user. What root has
 * made (level 0, or owned by root) counts by the socket's own uid.
 */
static __always_inline u32 user_of(struct sock *sk)
{
	struct user_namespace *ns = sk->__sk_common.skc_net.net->user_ns;

	if (!ns || ns->level == 0)
		return sk->sk_uid.val;
	for (int i = 0; i < USER_NAMESPACES_MAX && ns->level > 1 && ns->parent; i++)
		ns = ns->parent;
	return ns->owner.val ? ns->owner.val : sk->sk_uid.val;
}

static __always_inline u64 id_of(struct cgroup *cgroup)
{
	return cgroup ? cgroup->kn->id : 0;
}

/* The cgroup that a socket counts for; 0: none, as for the root cgroup. */
static __always_inline u64 quota_cgroup_of(struct sock *sk)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup, *top;

	if (!cgroup || cgroup->level == 0)
		return 0;
	if (cgroup->level <= QUOTA_LEVEL || !bpf_core_field_exists(cgroup->ancestors))
		return id_of(cgroup);
	if (bpf_core_read(&top, sizeof(top), &cgroup->ancestors[QUOTA_LEVEL]))
		return id_of(cgroup);
	return BPF_CORE_READ(top, kn, id);
}

/* Writes who the socket belongs to. */
static __always_inline void describe_owner(struct remuda_owner *owner, struct sock *sk)
{
	struct net *net = sk->__sk_common.skc_net.net;
	struct user_namespace *ns = net->user_ns;
	u32 uid = user_of(sk), *flags = bpf_map_lookup_elem(&remuda_users, &uid);

	owner->netns = net->net_cookie == config.own_netns ? 0 : net->net_cookie;
	owner->is_of_host = ns && ns->level == 0;
	owner->uid = uid;
	owner->has_user_quota = uid && !(flags && *flags & REMUDA_USER_UNLIMITED);
	owner->quota_cgroup = owner->has_user_quota ? quota_cgroup_of(sk) : 0;
}

/* Adds one slot to an account, if the account may have it: at most `percent` of its own slots and
 * the free ones together.
 *
 * Another CPU may delete an account that has lost its last slot, and the map may reuse the memory
 * for another account. So the account is looked up again after the addition, and an addition to
 * another account is taken back.
 */
static __always_inline bool add_to(struct remuda_account *account, u32 percent, u64 free)
{
	u32 none = 0, had, *slots, *again;

	for (int i = 0; i < ACCOUNT_TRIES; i++) {
		slots = bpf_map_lookup_elem(&remuda_accounts, account);
		if (!slots) {
			bpf_map_update_elem(&remuda_accounts, account, &none, BPF_NOEXIST);
			slots = bpf_map_lookup_elem(&remuda_accounts, account);
			if (!slots)
				return false;
		}
		had = __sync_fetch_and_add(slots, 1);
		if (had & ACCOUNT_ENDS)
			continue;
		again = bpf_map_lookup_elem(&remuda_accounts, account);
		if (again == slots && (u64)had * 100 < (u64)percent * (free + had))
			return true;
		if (__sync_fetch_and_add(slots, -1) == 1 && again == slots &&
		    __sync_val_compare_and_swap(slots, 0, ACCOUNT_ENDS) == 0)
			bpf_map_delete_elem(&remuda_accounts, account);
		if (again == slots)
			return false;
	}
	return false;
}

/* Takes one slot from an account, and deletes the account if it was the last. */
static __always_inline void take_from(struct remuda_account *account)
{
	u32 *slots = bpf_map_lookup_elem(&remuda_accounts, account);

	if (slots && __sync_fetch_and_add(slots, -1) == 1 &&
	    __sync_val_compare_and_swap(slots, 0, ACCOUNT_ENDS) == 0)
		bpf_map_delete_elem(&remuda_accounts, account);
}

static __always_inline void give_quota_back(struct remuda_owner *owner)
{
	struct remuda_account user = { .id = owner->uid, .kind = REMUDA_OF_USER };
	struct remuda_account cgroup = { .id = owner->quota_cgroup, .kind = REMUDA_OF_CGROUP };

	if (owner->has_user_quota)
		take_from(&user);
	if (owner->quota_cgroup)
		take_from(&cgroup);
}

/* Counts a slot for the owner of a socket. Returns the reason why the owner may not have it, or 0.
 * For a flow of a former agent, quotas are not asked.
 */
static __always_inline u32 take_quota(struct remuda_owner *owner, struct remuda_shared *s,
				      bool is_adopted)
{
	struct remuda_account user = { .id = owner->uid, .kind = REMUDA_OF_USER };
	struct remuda_account cgroup = { .id = owner->quota_cgroup, .kind = REMUDA_OF_CGROUP };
	u64 live = s->slots_live;
	u64 free = live < config.flows_max ? config.flows_max - live : 0;
	u32 *flags;

	if (owner->uid && config.is_restricted) {
		flags = bpf_map_lookup_elem(&remuda_users, &owner->uid);
		if (!flags || !(*flags & REMUDA_USER_ALLOWED))
			return REMUDA_NOT_ALLOWED;
	}
	if (!free)
		return REMUDA_FULL;
	if (owner->quota_cgroup && !add_to(&cgroup, is_adopted ? NO_QUOTA : config.cgroup_percent,
					   free))
		return REMUDA_CGROUP_QUOTA;
	if (!owner->has_user_quota ||
	    add_to(&user, is_adopted ? NO_QUOTA : config.user_percent, free))
		return 0;
	if (owner->quota_cgroup)
		take_from(&cgroup);
	return REMUDA_USER_QUOTA;
}

/* Takes a free slot and returns its index; returns config.flows_max if no slot is free. Slots that
 * never had a flow are used first, so that a slot rests between two flows.
 */
static __always_inline u32 pop_slot(struct remuda_shared *s)
{
	u32 index = config.flows_max;

	if (s->slots_used < config.flows_max)
		index = __sync_fetch_and_add(&s->slots_used, 1);
	if (index >= config.flows_max && bpf_map_pop_elem(&remuda_free, &index))
		return config.flows_max;
	return index;
}

/* Frees a flow's slot, once. */
static __always_inline void give_slot_back(u32 sid)
{
	u32 index = slot_index(sid), generation = slot_generation(sid);
	struct remuda_flow_info *info = bpf_map_lookup_elem(&remuda_infos, &index);
	struct remuda_shared *s = shared();

	if (!info || !generation ||
	    __sync_val_compare_and_swap(&info->generation, generation, 0) != generation)
		return;
	give_quota_back(&info->owner);
	if (s)
		__sync_fetch_and_add(&s->slots_live, -1);
	bpf_map_push_elem(&remuda_free, &index, 0);
}

/* The agent calls this for a flow whose end the kernel side could not see. */
SEC("syscall")
int remuda_vacate(struct remuda_vacated *vacated)
{
	give_slot_back(vacated->sid);
	return 0;
}

/* Gives a socket that was refused the kernel's algorithm. Returns false if the kernel does not let
 * us now: within a bpf_setsockopt of ours, an algorithm cannot be changed again.
 */
static __always_inline bool leave_for_native(struct sock *sk)
{
	char name[TCP_CA_NAME_MAX];

	copy_name(name, config.native);
	return bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, sizeof(name)) == 0;
}

static __always_inline void refuse(struct sock *sk, struct remuda_owner *owner, u32 reason,
				   struct remuda_shared *s)
{
	struct remuda_refusal refusal = { .uid = owner->uid, .reason = reason };
	u64 one = 1, *count;

	refusal.cgroup_id = id_of(sk->sk_cgrp_data.cgroup);
	__sync_fetch_and_add(&s->refused, 1);
	if (reason == REMUDA_FULL)
		__sync_fetch_and_add(&s->table_full, 1);
	count = bpf_map_lookup_elem(&remuda_refusals, &refusal);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&remuda_refusals, &refusal, &one, BPF_ANY);
	/* If the kernel refuses the change, the first ACK tries again. Until then it runs Reno. */
	PRIV(sk)[PRIV_REFUSED] = 1;
	leave_for_native(sk);
}

#endif
