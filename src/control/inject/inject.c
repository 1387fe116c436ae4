/*
 * inject.c
 *
 * The whole code memfd is mapped once, r--, with the agent's text made r-x: control page and agent are at
 * fixed places in it. Windows near modules are duplicates of parts of that mapping (mremap with an old
 * size of 0), so that the descriptor isn't needed again: it is closed before the thread goes on.
 */
#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../base/cleanup.h"
#include "image.h"
#include "pool_layout.h"
#include "remote.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define CODE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#define POOL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static void cleanup_remote(struct remote **remote)
{
	error_free(remote_end(*remote));
}

static void cleanup_image(struct image *image)
{
	image_free(image);
}

static bool is_errno(int64_t result)
{
	return result < 0 && result > -4096;
}

/* ---- limits of the target (H17) --------------------------------------------------------------- */

struct raised {
	int resource;
	struct rlimit old;
	bool is;
};

/* Lifts a limit of the target for a moment; true if that is worth another try. */
static bool limit_lift(struct proc *proc, int resource, rlim_t more, struct raised *raised)
{
	struct rlimit lifted;

	if (raised->is || prlimit(proc->pid, resource, NULL, &raised->old))
		return false;
	raised->resource = resource;
	lifted = raised->old;
	lifted.rlim_cur = lifted.rlim_cur > RLIM_INFINITY - more ? RLIM_INFINITY : lifted.rlim_cur + more;
	if (lifted.rlim_cur > lifted.rlim_max)
		lifted.rlim_max = lifted.rlim_cur;
	raised->is = !prlimit(proc->pid, resource, &lifted, NULL);
	return raised->is;
}

static void limit_restore(struct proc *proc, struct raised *raised)
{
	if (raised->is)
		prlimit(proc->pid, raised->resource, &raised->old, NULL);
	raised->is = false;
}

/* ---- memfds ----------------------------------------------------------------------------------- */

static struct error *memfd_make(struct remote *remote, const char *name, int64_t *ret_fd)
{
	taddr at;
	struct error *error = remote_put(remote, name, strlen(name) + 1, &at);

	if (!error)
		error = remote_do(remote, ret_fd, SYS_memfd_create, at.v,
				  MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (!error && *ret_fd == -EINVAL) /* before Linux 6.3 */
		error = remote_do(remote, ret_fd, SYS_memfd_create, at.v, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return error;
}

/* A memfd of the target's, and our descriptor of it. */
static struct error *memfd_create_in(struct remote *remote, struct proc *proc, const char *name,
				     int64_t *ret_theirs, int *ret_ours)
{
	struct raised raised = { 0 };
	int64_t theirs = -1;
	struct error *error = memfd_make(remote, name, &theirs);

	if (!error && theirs == -EMFILE && limit_lift(proc, RLIMIT_NOFILE, 4, &raised))
		error = memfd_make(remote, name, &theirs);
	limit_restore(proc, &raised);
	if (error)
		return error;
	if (is_errno(theirs))
		return error_errno((int)-theirs, "the target cannot create memory to share");
	int ours = (int)syscall(SYS_pidfd_getfd, proc->pidfd, (int)theirs, 0);
	if (ours < 0) {
		int number = errno;
		int64_t ignored;

		error_free(remote_do(remote, &ignored, SYS_close, (uint64_t)theirs));
		return error_errno(number, "cannot share memory with the target");
	}
	*ret_theirs = theirs;
	*ret_ours = ours;
	return NULL;
}

/* Sized and mapped here, then sealed: what the target must not write it can't make writable from then on. */
static struct error *memfd_set_up(int fd, uint64_t size, int seals, void **ret_mapping)
{
	if (ftruncate(fd, (off_t)size))
		return error_errno(errno, "cannot size the shared memory");
	void *mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapping == MAP_FAILED)
		return error_errno(errno, "cannot map the shared memory");
	*ret_mapping = mapping;
	if (fcntl(fd, F_ADD_SEALS, seals))
		return error_errno(errno, "cannot seal the shared memory");
	return NULL;
}

/* ---- mappings in the target ------------------------------------------------------------------- */

struct map_request {
	const char *what;
	uint64_t size;
	int prot, flags;
	int64_t fd;
};

static struct error *map_once(struct remote *remote, const struct map_request *map, int64_t *ret_at)
{
	return remote_do(remote, ret_at, SYS_mmap, 0, map->size, (uint64_t)map->prot, (uint64_t)map->flags,
			 (uint64_t)map->fd, 0);
}

static struct error *map_in(struct remote *remote, struct proc *proc, const struct map_request *map,
			    taddr *ret_at)
{
	struct raised raised = { 0 };
	int64_t at = 0;
	struct error *error = map_once(remote, map, &at);

	/* mlockall(MCL_FUTURE) counts every mapping against RLIMIT_MEMLOCK. */
	if (!error && at == -EAGAIN && limit_lift(proc, RLIMIT_MEMLOCK, map->size, &raised))
		error = map_once(remote, map, &at);
	if (!error && at == -ENOMEM && limit_lift(proc, RLIMIT_AS, map->size, &raised))
		error = map_once(remote, map, &at);
	limit_restore(proc, &raised);
	if (error)
		return error;
	if (is_errno(at))
		return error_errno((int)-at, "cannot map %llu KiB for %s in the target",
				   (unsigned long long)map->size / 1024, map->what);
	*ret_at = taddr_of((uint64_t)at);
	return NULL;
}

static struct error *do_or_fail(struct remote *remote, const char *what, long number, const uint64_t args[6])
{
	int64_t result = 0;
	struct error *error = remote_call(remote, number, args, &result);

	if (error)
		return error;
	return is_errno(result) ? error_errno((int)-result, "cannot %s in the target", what) : NULL;
}

static void unmap_in(struct remote *remote, taddr at, uint64_t size)
{
	int64_t ignored;

	if (at.v)
		error_free(remote_do(remote, &ignored, SYS_munmap, at.v, size));
}

static void unmap_everything(struct remote *remote, const struct agent *agent)
{
	for (uint32_t i = 0; agent->control && i < agent->control->window_count; i++) {
		const struct dt_window *window = &agent->control->windows[i];

		unmap_in(remote, taddr_of(window->address), window->pages * DT_PAGE);
	}
	unmap_in(remote, agent->control_at, DT_CODE_SIZE);
	unmap_in(remote, agent->pool_at, agent->pool_size);
	unmap_in(remote, agent->state_at, sizeof(struct dt_state));
}

static struct error *map_code(struct remote *remote, struct agent *agent, const struct image *image, int64_t fd)
{
	struct map_request map = { "its code", DT_CODE_SIZE, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd };
	struct error *error = map_in(remote, agent->proc, &map, &agent->control_at);

	agent->agent_at = taddr_add(agent->control_at, DT_AGENT_OFFSET);
	agent->slow_at = taddr_add(agent->agent_at, (int64_t)image->slow);
	for (size_t i = 0; i < image->text_count && !error; i++) {
		uint64_t start = agent->agent_at.v + image->text[i].start;
		uint64_t end = agent->agent_at.v + image->text[i].end;

		error = do_or_fail(remote, "make the agent executable", SYS_mprotect,
				   (const uint64_t[6]){ start, end - start, PROT_READ | PROT_EXEC });
	}
	return error;
}

static struct error *map_pool_and_state(struct remote *remote, struct agent *agent, int64_t pool_fd)
{
	struct map_request pool = { "events", agent->pool_size, PROT_READ | PROT_WRITE, MAP_SHARED, pool_fd };
	struct map_request state = { "threads", sizeof(struct dt_state), PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1 };
	uint32_t pid = (uint32_t)agent->proc->inner_pid;
	struct error *error = map_in(remote, agent->proc, &pool, &agent->pool_at);

	if (!error)
		error = map_in(remote, agent->proc, &state, &agent->state_at);
	if (!error)
		error = do_or_fail(remote, "prepare for fork", SYS_madvise,
				   (const uint64_t[6]){ agent->state_at.v, sizeof(struct dt_state),
							MADV_WIPEONFORK });
	if (!error)
		error = mem_write(agent->proc, taddr_add(agent->state_at, offsetof(struct dt_state, pid)), &pid,
				  sizeof(pid));
	return error;
}

/* ---- what the controller writes --------------------------------------------------------------- */

static void fill_pool(struct dt_pool *pool, uint32_t small, uint32_t big)
{
	pool->magic = DT_MAGIC;
	pool->version = DT_LAYOUT_VERSION;
	pool->small_count = small;
	pool->big_count = big;
	pool->small_free = (int32_t)small;
	pool->big_free = (int32_t)big;
}

static void fill_control(struct agent *agent, const struct inject_options *options)
{
	struct dt_control *control = agent->control;

	control->version = DT_LAYOUT_VERSION;
	control->flags = options->flags;
	control->pid = (uint32_t)agent->proc->inner_pid;
	control->controller = (uint32_t)getpid();
	control->agent = agent->agent_at.v;
	control->state = agent->state_at.v;
	control->pool = agent->pool_at.v;
	control->pool_size = agent->pool_size;
	control->slow = agent->slow_at.v;
	control->small_count = agent->pool->small_count;
	control->big_count = agent->pool->big_count;
	control->chunks_offset =
		(uint32_t)dt_chunks_offset((uint64_t)control->small_count + control->big_count);
	control->magic = DT_MAGIC;
}

static struct error *note_identity(struct agent *agent)
{
	struct stat code, pool;

	if (fstat(agent->code_fd, &code) || fstat(agent->pool_fd, &pool))
		return error_errno(errno, "cannot look at the shared memory");
	agent->code_device = code.st_dev;
	agent->code_inode = code.st_ino;
	agent->pool_device = pool.st_dev;
	agent->pool_inode = pool.st_ino;
	return NULL;
}

/* ---- the whole -------------------------------------------------------------------------------- */

static struct error *share_memory(struct remote *remote, struct agent *agent, const struct inject_options *options,
				  int64_t *code_fd, int64_t *pool_fd)
{
	uint32_t small, big;
	void *mapping = NULL;
	struct error *error = memfd_create_in(remote, agent->proc, "dyntrace-code", code_fd, &agent->code_fd);

	if (!error)
		error = memfd_set_up(agent->code_fd, DT_CODE_SIZE, CODE_SEALS, &mapping);
	agent->control = mapping;
	if (!error)
		error = memfd_create_in(remote, agent->proc, "dyntrace-pool", pool_fd, &agent->pool_fd);
	pool_layout(options->pool_size, &small, &big, &agent->pool_size);
	mapping = NULL;
	if (!error)
		error = memfd_set_up(agent->pool_fd, agent->pool_size, POOL_SEALS, &mapping);
	agent->pool = mapping;
	if (!error)
		fill_pool(agent->pool, small, big);
	return error ? error : note_identity(agent);
}

static struct error *inject_with(struct remote *remote, struct agent *agent, const struct inject_options *options,
				 const struct image *image)
{
	int64_t code_fd = -1, pool_fd = -1, ignored;
	struct error *error = share_memory(remote, agent, options, &code_fd, &pool_fd);

	if (!error)
		error = map_code(remote, agent, image, code_fd);
	if (!error)
		error = map_pool_and_state(remote, agent, pool_fd);
	if (!error) {
		memcpy((uint8_t *)agent->control + DT_AGENT_OFFSET, image->bytes, image->size);
		fill_control(agent, options);
	}
	if (error)
		unmap_everything(remote, agent);
	if (code_fd >= 0)
		error_free(remote_do(remote, &ignored, SYS_close, (uint64_t)code_fd));
	if (pool_fd >= 0)
		error_free(remote_do(remote, &ignored, SYS_close, (uint64_t)pool_fd));
	return error;
}

struct error *inject_agent(struct stop *stop, struct proc *proc, const struct inject_options *options,
			   struct agent **ret_agent)
{
	_cleanup_(cleanup_remote) struct remote *remote = NULL;
	_cleanup_(cleanup_image) struct image image = { 0 };
	struct agent *agent = calloc(1, sizeof(*agent));
	struct error *error = agent ? image_load(options->agent_path, &image) :
				      error_new(ERROR_FAILED, "out of memory");

	if (error) {
		free(agent);
		return error;
	}
	*agent = (struct agent){ .proc = proc, .code_fd = -1, .pool_fd = -1, .window_next = DT_WINDOWS_OFFSET };
	error = remote_begin(stop, &remote);
	if (!error)
		error = inject_with(remote, agent, options, &image);
	if (error) {
		agent_free(agent);
		return error;
	}
	*ret_agent = agent;
	return NULL;
}

struct error *inject_fill_pool(struct agent *agent)
{
	if (!fallocate(agent->pool_fd, 0, 0, (off_t)agent->pool_size) || errno == EOPNOTSUPP)
		return NULL;
	return error_errno(errno, "no memory for a buffer of %llu MiB (--buffer-size sets it)",
			   (unsigned long long)agent->pool_size >> 20);
}

static struct error *map_window(struct remote *remote, const struct agent *agent, taddr at, uint64_t size)
{
	uint64_t from = agent->control_at.v + agent->window_next;
	int64_t got = 0;
	/* Taken with nothing in it first: mremap itself would unmap what is there. */
	struct error *error = remote_do(remote, &got, SYS_mmap, at.v, size, PROT_NONE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
					(uint64_t)-1, 0);

	if (error)
		return error;
	if (is_errno(got) || (uint64_t)got != at.v)
		return error_new(ERROR_FAILED, "cannot map code at %#llx in the target: %s",
				 (unsigned long long)at.v, is_errno(got) ? strerror((int)-got) : "taken");
	error = do_or_fail(remote, "map code near a module", SYS_mremap,
			   (const uint64_t[6]){ from, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, at.v });
	if (!error)
		error = do_or_fail(remote, "make code executable", SYS_mprotect,
				   (const uint64_t[6]){ at.v, size, PROT_READ | PROT_EXEC });
	if (error)
		unmap_in(remote, at, size);
	return error;
}

struct error *inject_window(struct stop *stop, struct agent *agent, taddr at, uint32_t pages,
			    uint32_t *ret_offset)
{
	_cleanup_(cleanup_remote) struct remote *remote = NULL;
	struct dt_control *control = agent->control;
	uint64_t size = pages * DT_PAGE;

	if (control->window_count >= DT_WINDOWS_MAX || agent->window_next + size > DT_CODE_SIZE)
		return error_new(ERROR_FAILED, "no code memory is left: use fewer tracepoints");
	struct error *error = remote_begin(stop, &remote);
	if (!error)
		error = map_window(remote, agent, at, size);
	if (error)
		return error;
	control->windows[control->window_count] =
		(struct dt_window){ at.v, (uint32_t)(agent->window_next / DT_PAGE), pages };
	control->window_count++;
	*ret_offset = (uint32_t)agent->window_next;
	agent->window_next += size;
	return NULL;
}

struct error *inject_remove(struct stop *stop, struct agent *agent)
{
	_cleanup_(cleanup_remote) struct remote *remote = NULL;
	struct error *error = remote_begin(stop, &remote);

	if (!error)
		unmap_everything(remote, agent);
	return error;
}

void agent_free(struct agent *agent)
{
	if (!agent)
		return;
	if (agent->control)
		munmap(agent->control, DT_CODE_SIZE);
	if (agent->pool)
		munmap(agent->pool, agent->pool_size);
	if (agent->code_fd >= 0)
		close(agent->code_fd);
	if (agent->pool_fd >= 0)
		close(agent->pool_fd);
	free(agent);
}
