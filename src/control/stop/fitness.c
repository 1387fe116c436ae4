/*
 * fitness.c - find room for a remote call's frame.
 *
 * A borrowed thread runs on a frame of ours. The frame lies below the thread's own stack pointer
 * where the stack is known to be big: the process's main stack, or a stack that a thread library
 * made (guard page below, thread block above). Elsewhere (a coroutine's stack, a goroutine's) the
 * memory below may hold other data: then, on the main thread only, the frame takes the never used
 * lowest end of the main stack, or, where that was used once, the pages by which the kernel lets
 * the stack grow. A program's own mprotect divides the main stack: a guard page is no room, and
 * only the lowest part grows. A stack that has overflowed before has reached its limit for good.
 */
#include "fitness.h"

#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "control/base/cleanup.h"
#include "rseq.h"
#include "sigframe.h"

#define STACK_GAP (1ULL << 20) /* the kernel's stack_guard_gap */

static bool is_zero(struct proc *proc, uint64_t from, uint64_t to)
{
	uint64_t n = to - from;
	_cleanup_free_ uint8_t *bytes = malloc(n);
	struct error *err = bytes ? mem_read(proc, taddr_of(from), bytes, n) : NULL;

	error_free(err);
	return bytes && !err && !bytes[0] && !memcmp(bytes, bytes + 1, n - 1);
}

static const struct mapping *main_stack(const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++) {
		if (!strcmp(maps->items[i].path, "[stack]"))
			return &maps->items[i];
	}
	return NULL;
}

/* Did a thread library make this stack? Private, a guard directly below it, the thread block above
 * in the same mapping. */
static bool is_thread_stack(const struct maps *maps, const struct mapping *mapping,
			    const struct user_regs_struct *regs)
{
	const struct mapping *below = mapping - 1;

	return mapping > maps->items && taddr_equal(below->end, mapping->start) && !below->prot &&
	       !mapping->shared && (mapping->prot & PROT_WRITE) && regs->fs_base > regs->rsp &&
	       taddr_within(taddr_of(regs->fs_base), mapping->start, mapping->end);
}

/* The main stack's parts, which the program's mprotect has divided. */
struct main_parts {
	const struct mapping *low, *high; /* NULL: none */
	uint64_t grows_to;
};

/* How far down does the kernel let that part grow? */
static uint64_t find_limit(pid_t pid, const struct maps *maps, const struct main_parts *parts)
{
	uint64_t end = parts->high->end.v, below = 0;
	struct rlimit limit;

	if (prlimit(pid, RLIMIT_STACK, NULL, &limit))
		return parts->low->start.v;
	if (parts->low > maps->items)
		below = parts->low[-1].end.v + STACK_GAP;
	uint64_t lowest = limit.rlim_cur < end ? end - limit.rlim_cur : 0;
	return lowest > below ? lowest : below;
}

static struct main_parts find_parts(pid_t pid, const struct maps *maps)
{
	const struct mapping *stack = main_stack(maps);
	struct main_parts parts = { stack, stack, 0 };

	while (stack && parts.low > maps->items && taddr_equal(parts.low[-1].end, parts.low->start))
		parts.low--;
	if (stack)
		parts.grows_to = find_limit(pid, maps, &parts);
	return parts;
}

/* Can a frame be written from that part on down to the address? */
static bool has_room(const struct main_parts *parts, const struct mapping *part, uint64_t address)
{
	while (part > parts->low && part->prot & PROT_WRITE && part->start.v > address)
		part--;
	return part->prot & PROT_WRITE &&
	       (part->start.v <= address || parts->grows_to <= address);
}

/* The top of the room for a frame; 0: none. */
static uint64_t frame_top(struct stop *stop, size_t index, const struct maps *maps, uint64_t room)
{
	const struct held *held = &stop->threads.items[index];
	const struct mapping *mapping = maps_find(maps, taddr_of(held->regs.rsp));
	const struct main_parts parts = find_parts(stop->proc->pid, maps);
	uint64_t top = held->regs.rsp - FRAME_RED_ZONE;

	if (mapping && mapping >= parts.low && mapping <= parts.high)
		return has_room(&parts, mapping, top - room) ? top : 0;
	if (mapping && is_thread_stack(maps, mapping, &held->regs) && top - mapping->start.v > room)
		return top;
	if (!parts.low || held->tid != stop->proc->pid || !(parts.low->prot & PROT_WRITE))
		return 0;
	uint64_t start = parts.low->start.v;
	if (parts.low->end.v - start > 2 * room && is_zero(stop->proc, start, start + 2 * room))
		return start + room;
	return parts.grows_to <= start - room ? start : 0;
}

size_t fitness_read_xstate(pid_t tid, uint8_t *to)
{
	struct iovec area = { to, FRAME_XSTATE_MAX };

	if (ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &area) || area.iov_len < 512)
		return 0;
	return area.iov_len;
}

bool fitness_is_trapped(pid_t tid)
{
	siginfo_t stop;

	/* in a group-stop its report names the signal that stopped the process */
	return held_has_signal(tid, 1ULL << (SIGTRAP - 1)) &&
	       !ptrace(PTRACE_GETSIGINFO, tid, 0, &stop) && stop.si_signo == SIGTRAP;
}

bool fitness_check(struct stop *stop, size_t index, const struct maps *maps, uint64_t *ret_top)
{
	const struct held *held = &stop->threads.items[index];
	uint8_t xstate[FRAME_XSTATE_MAX];

	if (held->state != HELD_STOPPED || held->sharer || held->regs.cs != 0x33 ||
	    rseq_inside(stop, index, NULL))
		return false;
	uint64_t room = sigframe_room(fitness_read_xstate(held->tid, xstate));
	uint64_t top = frame_top(stop, index, maps, room);
	if (ret_top)
		*ret_top = top;
	return top != 0;
}

bool fitness_of(struct stop *stop, size_t index)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *err = maps_read(stop->proc, &maps);

	error_free(err);
	return !err && fitness_check(stop, index, &maps, NULL);
}
