/*
 * fencing_page.c - what the control page says to the agent of fences and thread blocks.
 */
#include <assert.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "fencing.h"

#define TID_OFFSET_MAX 0x2d0u /* in a thread block of glibc's */
#define ENDS_LOOKS 20 /* for the end of a thread */
#define ENDS_PAUSE_NS 100000

static bool has_glibc(const struct session *session)
{
	for (size_t i = 0; i < session->modules.count; i++) {
		if (!strcmp(session->modules.items[i]->name, "libc.so.6"))
			return true;
	}
	return false;
}

uint32_t fencing_flags(const struct session *session, unsigned closed)
{
	return (closed & FENCE_READ ? DT_NO_READ : 0) | (closed & FENCE_LIVE ? DT_NO_LIVE : 0) |
	       (closed & FENCE_NAME ? DT_NO_NAME : 0) |
	       (closed & FENCE_STACK ? DT_NO_ALTSTACK : 0) |
	       (closed & FENCE_LINES ? DT_NO_LINES : 0) |
	       (closed & FENCE_INFO ? DT_NO_INFO : 0) |
	       (closed & FENCE_RECORD ? DT_NO_SYSCALLS : 0) |
	       (has_glibc(session) ? DT_GLIBC : 0);
}

/* Where a thread block of glibc's or musl's has the tid; 0: nowhere. */
static uint32_t find_tid(const struct session *session, uint64_t block, uint32_t tid)
{
	static const uint32_t offsets[] = { TID_OFFSET_MAX, 0x30, 0x38 };
	uint64_t self = 0;
	uint32_t word = 0;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		_cleanup_error_ struct error *unreadable =
			mem_read(session->proc, taddr_of(block), &self, sizeof(self));
		if (!unreadable)
			unreadable = mem_read(session->proc, taddr_of(block + offsets[i]), &word,
					      sizeof(word));
		if (!unreadable && self == block && word == tid)
			return offsets[i];
	}
	return 0;
}

/* The thread's number in its own pid namespace; 0: it has ended. While all threads are held, a file
 * of /proc per thread would be most of the time that they are. */
static pid_t inner_tid(const struct proc *proc, pid_t tid)
{
	struct thread_status status = { 0 };

	if (!proc->nested)
		return tid;
	_cleanup_error_ struct error *ended = proc_status_read(proc->pid, tid, &status);
	return ended ? 0 : status.inner_tid;
}

/* Have these threads their tids there? One system call for all of them. */
static bool have_tids(const struct session *session, const struct fencing_block *threads,
		      size_t count, uint32_t offset)
{
	struct mem_piece pieces[MEM_PIECES_MAX];
	uint8_t blocks[MEM_PIECES_MAX][TID_OFFSET_MAX + sizeof(uint32_t)];

	assert(offset <= TID_OFFSET_MAX && count <= MEM_PIECES_MAX);
	/* a piece per thread, with all that is between: each piece costs as much as a small read */
	for (size_t i = 0; i < count; i++) {
		if (!threads[i].at)
			return false;
		pieces[i] = (struct mem_piece){ taddr_of(threads[i].at), blocks[i],
						offset + sizeof(uint32_t) };
	}
	if (!mem_read_many(session->proc, pieces, count))
		return false;
	for (size_t i = 0; i < count; i++) {
		uint64_t self;
		uint32_t tid;

		memcpy(&self, blocks[i], sizeof(self));
		memcpy(&tid, blocks[i] + offset, sizeof(tid));
		if (self != threads[i].at || tid != (uint32_t)threads[i].tid)
			return false;
	}
	return true;
}

/* Have all threads but the first their tids there? False: look at each. */
static bool all_have_tids(const struct session *session, const struct fencing_blocks *blocks,
			  uint32_t offset)
{
	size_t count;

	if (session->proc->nested || !offset)
		return false;
	for (size_t i = 1; i < blocks->count; i += count) {
		count = blocks->count - i < MEM_PIECES_MAX ? blocks->count - i : MEM_PIECES_MAX;
		if (!have_tids(session, &blocks->items[i], count, offset))
			return false;
	}
	return true;
}

struct error *fencing_note_blocks(const struct stop *stop, struct fencing_blocks *ret_blocks)
{
	for (size_t i = 0; i < stop_thread_count(stop); i++) {
		struct fencing_block block = { stop_thread_tid(stop, i),
					       stop_thread_block(stop, i) };

		if (!vec_push(ret_blocks, block))
			return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}

/* Of a thread that ends, the kernel clears the tid in its block some moments before /proc tells of
 * the end. */
static bool has_ended(pid_t tid)
{
	const struct timespec pause = { .tv_nsec = ENDS_PAUSE_NS };

	for (unsigned i = 0; i < ENDS_LOOKS; i++) {
		struct thread_stat stat;
		_cleanup_error_ struct error *gone = proc_status_read_stat(tid, tid, &stat);

		if (gone)
			return error_kind(gone) == ERROR_GONE;
		if (stat.state == 'Z' || stat.state == 'X')
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

uint32_t fencing_tid_offset(const struct session *session, const struct fencing_blocks *blocks,
			    bool held)
{
	uint32_t found = blocks->count ? find_tid(session, blocks->items[0].at,
						  (uint32_t)blocks->items[0].tid) :
					 0;

	if (all_have_tids(session, blocks, found))
		return found;
	found = 0;
	for (size_t i = 0; i < blocks->count; i++) {
		const struct fencing_block *block = &blocks->items[i];
		pid_t tid = inner_tid(session->proc, block->tid);

		if (!tid || !block->at)
			continue;
		uint32_t offset = find_tid(session, block->at, (uint32_t)tid);
		if (!offset && !held && has_ended(block->tid)) /* E5 */
			continue;
		if (!offset || (found && found != offset))
			return 0;
		found = offset;
	}
	return found;
}
