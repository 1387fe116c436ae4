#include "remote_map.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "shared/layout.h"
#include "control/base/vec.h"
#include "rlimits.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static bool is_error(int64_t result)
{
	return result < 0 && result >= -4095;
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

void remote_map_ahead(struct ahead *list, const struct remote_map_request *r, int fd_of)
{
	ahead_do(list, fd_of, SYS_mmap, r->at.v, r->size, (uint64_t)r->prot, (uint64_t)r->flags,
		 (uint64_t)(int64_t)r->fd, r->offset);
}

/* Maps one page of the request, with the target's limit on locked memory raised if need be. */
static struct error *map_page(struct remote *remote, struct proc *proc,
			      const struct remote_map_request *request, int64_t *ret_result)
{
	struct remote_map_request page = *request;
	struct rlimits limits = { 0 };

	page.size = DT_PAGE;
	if (request->flags & MAP_FIXED) {
		page.at = taddr_of(0);
		page.flags &= ~MAP_FIXED;
	}
	struct error *err = map_once(remote, &page, request->prot, ret_result);
	if (!err && *ret_result == -EAGAIN &&
	    rlimits_raise(proc->pid, RLIMIT_MEMLOCK, 1ULL << 40, &limits))
		err = map_once(remote, &page, request->prot, ret_result);
	rlimits_restore(&limits);
	return err;
}

/* Grows the unlocked page: where it is if no mapping may be replaced, else to its place, or to
 * wherever there is room. */
static struct error *grow_page(struct remote *remote, const struct remote_map_request *request,
			       taddr page, int64_t *ret_result)
{
	uint64_t flags = 0;

	if (request->flags & MAP_FIXED)
		flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	else if (!request->at.v)
		flags = MREMAP_MAYMOVE;
	return remote_do(remote, ret_result, SYS_mremap, page.v, DT_PAGE, request->size, flags,
			 request->at.v);
}

/* Maps one page, unlocks it, and grows it: what grows is unlocked as the page is, so it neither
 * counts against the limit nor is filled with pages. It has its protection from the start (H35): a
 * target under PR_SET_MDWE refuses to make memory executable later. Leaves nothing behind on
 * failure. */
static struct error *map_unlocked(struct remote *remote, struct proc *proc,
				  const struct remote_map_request *request, int64_t *ret_result)
{
	int64_t done = 0;
	struct error *err = map_page(remote, proc, request, ret_result);

	if (err || is_error(*ret_result))
		return err;
	taddr page = taddr_of((uint64_t)*ret_result);
	err = remote_do(remote, &done, SYS_munlock, page.v, DT_PAGE);
	if (!err && is_error(done))
		*ret_result = done;
	else if (!err)
		err = grow_page(remote, request, page, ret_result);
	if (!err && is_error(*ret_result))
		err = remote_map_remove(remote, page, DT_PAGE);
	return err;
}

struct error *remote_map_add(struct remote *remote, struct proc *proc,
			     const struct remote_map_request *request, taddr *ret_at)
{
	int64_t result = 0;
	struct error *err;

	assert(request->size && request->at.v % DT_PAGE == 0 && request->offset % DT_PAGE == 0);
	if (remote_locks_memory(remote)) {
		err = map_unlocked(remote, proc, request, &result);
	} else {
		err = map_once(remote, request, request->prot, &result);
		if (!err && result == -EAGAIN) /* MCL_FUTURE, and nothing is locked yet */
			err = map_unlocked(remote, proc, request, &result);
	}
	if (err)
		return err;
	if (is_error(result))
		return map_failed(proc, request, (int)-result);
	if (request->at.v && (uint64_t)result != request->at.v) {
		/* a kernel without MAP_FIXED_NOREPLACE takes the address for a hint */
		err = remote_map_remove(remote, taddr_of((uint64_t)result), request->size);
		return err ? err : map_failed(proc, request, EEXIST);
	}
	remote_note_mapped(remote);
	*ret_at = taddr_of((uint64_t)result);
	return NULL;
}

struct error *remote_map_once(struct stop *stop, const struct remote_map_request *request,
			      taddr *ret_at)
{
	struct remote *remote = NULL;
	taddr at = taddr_of(0);
	struct error *err = remote_begin(stop, &remote);

	if (err)
		return err;
	err = remote_map_add(remote, stop->proc, request, &at);
	struct error *end = remote_end(remote);
	if (err)
		error_free(end);
	else if (!end)
		*ret_at = at;
	return err ? err : end;
}

struct error *remote_map_remove(struct remote *remote, taddr at, uint64_t size)
{
	int64_t result;
	struct error *err = remote_do(remote, &result, SYS_munmap, at.v, size);

	if (!err && is_error(result))
		err = error_errno((int)-result, "cannot unmap memory of the target");
	return err;
}

struct error *remote_map_list_add(struct remote_map_list *list, taddr at, uint64_t size)
{
	const struct remote_map_range range = { at, size };

	return vec_push(list, range) ? NULL : error_new(ERROR_FAILED, "out of memory");
}

void remote_map_list_free(struct remote_map_list *list)
{
	vec_free(list);
}

static struct error *remove_some(struct remote *remote, const struct remote_map_range *ranges,
				 size_t count)
{
	struct ahead list = { 0 };

	for (size_t i = 0; i < count; i++)
		ahead_do(&list, -1, SYS_munmap, ranges[i].at.v, ranges[i].size);
	struct error *err = ahead_make(remote, &list);
	for (size_t i = 0; i < count && !err; i++)
		err = remote_map_remove(remote, ranges[i].at, ranges[i].size);
	return err;
}

struct error *remote_map_remove_all(struct remote *remote, const struct remote_map_list *list)
{
	struct error *err = NULL;

	for (size_t i = 0; i < list->count && !err; i += AHEAD_MAX)
		err = remove_some(remote, &list->items[i],
				  list->count - i < AHEAD_MAX ? list->count - i : AHEAD_MAX);
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
