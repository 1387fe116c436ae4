/*
 * beacon.c
 *
 * The kernel finds the word of a list's entry at a fixed distance. So the entries are in a page of
 * our own in front of each mapping of a control page. This list replaces the C library's, which is
 * for mutexes that processes share: dyntrace has none.
 */
#include "beacon.h"

#include <assert.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(DT_OWNER_DIED == FUTEX_OWNER_DIED, "the agent has no headers of the kernel");

static struct robust_list_head list;
static pid_t owner; /* the thread that the kernel knows the list of; 0: none */

static struct robust_list *entry_of(const struct dt_control *control)
{
	return (struct robust_list *)((uintptr_t)control - DT_PAGE);
}

void *beacon_reserve(size_t size)
{
	uint8_t *at = mmap(NULL, DT_PAGE + size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at + DT_PAGE;
}

void beacon_release(void *reserved, size_t size)
{
	munmap((uint8_t *)reserved - DT_PAGE, DT_PAGE + size);
}

/* A forked process has no list. */
static int announce(pid_t tid)
{
	if (owner == tid)
		return 0;
	list.list.next = &list.list;
	list.futex_offset = (long)(DT_PAGE + offsetof(struct dt_control, alive));
	list.list_op_pending = NULL;
	if (syscall(SYS_set_robust_list, &list, sizeof(list)))
		return -1;
	owner = tid;
	return 0;
}

void beacon_light(struct dt_control *control)
{
	struct robust_list *entry = entry_of(control);
	pid_t tid = (pid_t)syscall(SYS_gettid);

	if (announce(tid))
		return;
	assert(!entry->next && !control->alive);
	/* The kernel sets the bit only in a word that has the tid. */
	__atomic_store_n(&control->alive, (uint32_t)tid, __ATOMIC_SEQ_CST);
	entry->next = list.list.next;
	__atomic_store_n(&list.list.next, entry, __ATOMIC_SEQ_CST);
}

void beacon_put_out(struct dt_control *control)
{
	struct robust_list *entry = entry_of(control), *at = &list.list;

	if (!control->alive)
		return;
	while (owner && at->next != entry && at->next != &list.list)
		at = at->next;
	if (owner && at->next == entry)
		__atomic_store_n(&at->next, entry->next, __ATOMIC_SEQ_CST);
	entry->next = NULL;
	__atomic_store_n(&control->alive, DT_OWNER_DIED, __ATOMIC_SEQ_CST);
}
