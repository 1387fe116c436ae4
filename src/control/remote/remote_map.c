#include "remote_map.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "shared/layout.h"
#include "control/proc/proc_status.h"
#include "rlimits.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static bool is_error(int64_t result)
{
	return result < 0 && result >= -4095;
}

static bool locks_memory(const struct proc *proc)
{
	struct thread_status status;
	pid_t tid = proc_status_live_thread(proc->pid);
	struct error *err = proc_status_read(proc->pid, tid, &status);

	error_free(err);
	return !err && status.locked;
}

static struct error *map_failed(const struct proc *proc, const struct remote_map_request *request,
				int number)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	if (number == EEXIST)
		return error_new(ERROR_FAILED,
				 "address 0x%" PRIx64 " of process %d isn't free for %s",
				 request->at.v, proc->pid, request->what);
	if (number == ENOMEM && !prlimit(proc->pid, RLIMIT_AS, NULL, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY)
		return error_new(ERROR_FAILED,
				 "process %d may use no more than %" PRIu64 " MiB of address space "
				 "(RLIMIT_AS), too little for %" PRIu64
				 " KiB of %s: raise its limit or use a "
				 "smaller buffer",
				 proc->pid, (uint64_t)limit.rlim_cur >> 20, request->size >> 10,
				 request->what);
	if (number == EAGAIN)
		return error_new(
			ERROR_FAILED,
			"process %d locks its memory (mlockall) and RLIMIT_MEMLOCK leaves no room "
			"for %s: run as root, or raise its limit",
			proc->pid, request->what);
	return error_errno(number, "cannot map %s into process %d", request->what, proc->pid);
}

static struct error *map_once(struct remote *remote, const struct remote_map_request *r, int prot,
			      int64_t *ret_result)
{
	return remote_do(remote, ret_result, SYS_mmap, r->at.v, r->size, (uint64_t)prot,
			 (uint64_t)r->flags, (uint64_t)(int64_t)r->fd, r->offset);
}

/* Maps without access first, so that the kernel makes no page; then unlocks; then sets the wanted
 * protection. */
static struct error *map_unlocked(struct remote *remote, struct proc *proc,
				  const struct remote_map_request *request, int64_t *ret_result)
{
	struct rlimits limits = { 0 };
	int64_t done;
	struct error *err = map_once(remote, request, PROT_NONE, ret_result);

	if (!err && *ret_result == -EAGAIN &&
	    rlimits_raise(proc->pid, RLIMIT_MEMLOCK, 1ULL << 40, &limits))
		err = map_once(remote, request, PROT_NONE, ret_result);
	if (!err && !is_error(*ret_result))
		err = remote_do(remote, &done, SYS_munlock, (uint64_t)*ret_result, request->size);
	rlimits_restore(&limits);
	if (!err && !is_error(*ret_result))
		err = remote_do(remote, &done, SYS_mprotect, (uint64_t)*ret_result, request->size,
				(uint64_t)request->prot);
	return err;
}

struct error *remote_map_add(struct remote *remote, struct proc *proc,
			     const struct remote_map_request *request, taddr *ret_at)
{
	int64_t result = 0;
	struct error *err;

	assert(request->size && request->at.v % DT_PAGE == 0 && request->offset % DT_PAGE == 0);
	if (locks_memory(proc))
		err = map_unlocked(remote, proc, request, &result);
	else
		err = map_once(remote, request, request->prot, &result);
	if (err)
		return err;
	if (is_error(result))
		return map_failed(proc, request, (int)-result);
	if (request->at.v && (uint64_t)result != request->at.v) {
		/* a kernel without MAP_FIXED_NOREPLACE takes the address for a hint */
		err = remote_map_remove(remote, taddr_of((uint64_t)result), request->size);
		return err ? err : map_failed(proc, request, EEXIST);
	}
	*ret_at = taddr_of((uint64_t)result);
	return NULL;
}

struct error *remote_map_remove(struct remote *remote, taddr at, uint64_t size)
{
	int64_t result;
	struct error *err = remote_do(remote, &result, SYS_munmap, at.v, size);

	if (!err && is_error(result))
		err = error_errno((int)-result, "cannot unmap memory of the target");
	return err;
}

/* Moves the doubled view to its place, and unmaps the page before it. */
static struct error *move_view(struct remote *remote, taddr view, taddr to, uint64_t size)
{
	int64_t result;
	struct error *err = remote_do(remote, &result, SYS_mremap, view.v + DT_PAGE, size, size,
				      MREMAP_MAYMOVE | MREMAP_FIXED, to.v);

	if (!err && is_error(result))
		err = error_errno((int)-result, "cannot map code memory into the target");
	if (!err)
		return remote_map_remove(remote, view, DT_PAGE);
	error_free(remote_map_remove(remote, view, DT_PAGE + size));
	return err;
}

struct error *remote_map_extend(struct remote *remote, struct proc *proc, taddr from, taddr to,
				uint64_t size)
{
	struct remote_map_request reserve = {
		.at = to,
		.size = size,
		.prot = PROT_NONE,
		.flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		.fd = -1,
		.what = "code memory",
	};
	int64_t view;
	struct error *err = remote_map_add(remote, proc, &reserve, &to);

	if (err)
		return err;
	/* an old size of 0 doubles a shared mapping instead of moving it */
	err = remote_do(remote, &view, SYS_mremap, from.v, 0, DT_PAGE + size, MREMAP_MAYMOVE);
	if (!err && is_error(view))
		err = error_errno((int)-view, "cannot map code memory into process %d", proc->pid);
	if (!err)
		err = move_view(remote, taddr_of((uint64_t)view), to, size);
	if (err)
		error_free(remote_map_remove(remote, to, size));
	return err;
}
