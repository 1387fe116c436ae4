/*
 * agent.c - injection.
 *
 * A remote call creates the memfds in the target, because the target can map only descriptors of
 * its own. The controller fetches copies of them, and the target's are closed before the thread is
 * let go. Sealing comes between our mapping (writable, made first) and the target's (H25). Later
 * windows need no descriptor: remote_map_extend doubles an existing mapping, which is why one page
 * after the agent is mapped as a seed.
 *
 *	control_at  dt_control r--  |  agent r-- r-x r--  |  seed r-x  |  state rw-
 *	pool_at     pool rw-
 *
 * The state is private memory, which the kernel wipes in a forked child.
 *
 * One call reserves the first line, as a mapping of the code, and one call removes it. So whenever
 * the controller is killed, the next one can tell our mappings (sweep.c): those with the memfds'
 * names, and the state beside them.
 */
#include "agent.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "agent_elf.h"
#include "beacon.h"
#include "huge_pool.h"
#include "control/remote/ahead.h"
#include "control/remote/syscall_gadget.h"
#include "control/remote/pass_fd.h"
#include "control/remote/rlimits.h"
#include "pool_layout.h"
#include "control/remote/remote.h"
#include "control/remote/remote_map.h"
#include "code_window.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define AGENT_NOEXEC_SEAL 0x0008u /* MFD_NOEXEC_SEAL, Linux 6.3: forbids execve, not mmap */
#define AGENT_POOL_NAME "dyntrace-pool"
#define AGENT_DUMPS MADV_DONTDUMP
#define AGENT_WIPEONFORK 18 /* MADV_WIPEONFORK */
#define AGENT_FILL_STEP (4ULL << 20)

struct injection {
	struct stop *stop;
	struct proc *proc;
	struct remote *remote;
	struct agent *agent;
	const struct agent_elf *image;
	uint32_t small, big;
	int code_there, pool_there; /* the target's descriptors, -1: closed */
	bool no_seal; /* the kernel doesn't know AGENT_NOEXEC_SEAL */
	bool all_text; /* the whole base is executable at first */
};

/* ---- memfds ---------------------------------------------------------------------------------- */

static uint64_t memfd_flags(const struct injection *in)
{
	return MFD_CLOEXEC | MFD_ALLOW_SEALING | (in->no_seal ? 0 : AGENT_NOEXEC_SEAL);
}

static struct error *create_once(struct injection *in, taddr name, int64_t *ret_result)
{
	struct error *err =
		remote_do(in->remote, ret_result, SYS_memfd_create, name.v, memfd_flags(in));

	if (err || *ret_result != -EINVAL || in->no_seal)
		return err;
	in->no_seal = true;
	return remote_do(in->remote, ret_result, SYS_memfd_create, name.v, memfd_flags(in));
}

/* Creates a memfd in the target, even if the target has used up its descriptors. */
static struct error *create_there(struct injection *in, const char *name, int *ret_fd)
{
	struct rlimits limits = { 0 };
	int64_t result = 0;
	taddr at;
	struct error *err = remote_put(in->remote, name, strlen(name) + 1, &at);

	if (!err)
		err = create_once(in, at, &result);
	if (!err && result == -EMFILE && rlimits_raise(in->proc->pid, RLIMIT_NOFILE, 16, &limits)) {
		err = create_once(in, at, &result);
		rlimits_restore(&limits);
	}
	if (err)
		return err;
	if (result == -EMFILE)
		return error_new(
			ERROR_FAILED,
			"process %d has no free file descriptor: raise its limit (prlimit -n)",
			in->proc->pid);
	if (result < 0)
		return error_errno((int)-result, "cannot make memory to share with process %d",
				   in->proc->pid);
	*ret_fd = (int)result;
	return NULL;
}

/* Fetches a copy of the target's descriptor. Compares the two files, since the borrowed thread may
 * have a descriptor table of its own. */
static struct error *fetch(struct injection *in, int there, int *ret_fd)
{
	char path[96];
	struct stat mine, theirs;
	pid_t tid = remote_thread(in->remote);
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_getfd, in->proc->pidfd, there, 0);

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", in->proc->pid, tid, there);
	if (stat(path, &theirs))
		return error_errno(errno, "cannot share memory with process %d", in->proc->pid);
	if (fd >= 0 &&
	    (fstat(fd, &mine) || mine.st_ino != theirs.st_ino || mine.st_dev != theirs.st_dev)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return error_errno(errno, "cannot share memory with process %d", in->proc->pid);
	*ret_fd = take_fd(&fd);
	return NULL;
}

/* Sizes the memfd, maps it here (`at` NULL: anywhere), and only then seals it. */
static struct error *prepare_memfd(int fd, uint64_t size, int seals, void *at, void **ret_memory)
{
	if (ftruncate(fd, (off_t)size))
		return errno == EFBIG ?
			       error_new(ERROR_FAILED,
					 "shared memory of %" PRIu64 " KiB is larger than files may "
					 "be (raise the limit of dyntrace with 'ulimit -f')",
					 size >> 10) :
			       error_errno(errno, "cannot size the shared memory");
	void *memory = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd,
			    0);
	if (memory == MAP_FAILED)
		return error_errno(errno, "cannot map the shared memory here");
	madvise(memory, size, MADV_DONTFORK);
	if (fcntl(fd, F_ADD_SEALS, seals)) {
		int number = errno;

		if (!at)
			munmap(memory, size);
		return error_errno(number, "cannot seal the shared memory");
	}
	*ret_memory = memory;
	return NULL;
}

static struct error *make_code(struct injection *in)
{
	struct agent *agent = in->agent;
	struct stat stat;
	void *reserved, *memory;
	struct error *err;

	if ((err = create_there(in, "dyntrace-code", &in->code_there)) ||
	    (err = fetch(in, in->code_there, &agent->code_fd)))
		return err;
	reserved = beacon_reserve(DT_CODE_SIZE);
	if (!reserved)
		return error_errno(errno, "cannot map the shared memory here");
	err = prepare_memfd(agent->code_fd, DT_CODE_SIZE,
			    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL,
			    reserved, &memory);
	if (err) {
		beacon_release(reserved, DT_CODE_SIZE);
		return err;
	}
	agent->control = memory;
	agent->has_beacon = true;
	if (fstat(agent->code_fd, &stat))
		return error_errno(errno, "cannot look at the shared memory");
	agent->code_device = stat.st_dev;
	agent->code_inode = stat.st_ino;
	return NULL;
}

static struct error *make_pool(struct injection *in)
{
	struct agent *agent = in->agent;
	struct stat stat;
	void *memory, *reserved;
	struct error *err;

	if ((err = create_there(in, AGENT_POOL_NAME, &in->pool_there)) ||
	    (err = fetch(in, in->pool_there, &agent->pool_fd)))
		return err;
	reserved = huge_pool_reserve(agent->pool_size);
	err = prepare_memfd(agent->pool_fd, agent->pool_size,
			    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, reserved, &memory);
	if (err && reserved)
		munmap(reserved, agent->pool_size);
	if (err)
		return err;
	agent->pool = memory;
	if (fstat(agent->pool_fd, &stat))
		return error_errno(errno, "cannot look at the shared memory");
	agent->pool_device = stat.st_dev;
	agent->pool_inode = stat.st_ino;
	return NULL;
}

/* Passes the target a descriptor of another agent's pool. */
static struct error *share_pool(struct injection *in, const struct agent *other)
{
	struct agent *agent = in->agent;

	agent->pool_shared = true;
	agent->pool = other->pool;
	agent->pool_device = other->pool_device;
	agent->pool_inode = other->pool_inode;
	return pass_fd(in->remote, in->proc, other->pool_fd, &in->pool_there);
}

static struct error *close_there(struct injection *in)
{
	int *fds[] = { &in->code_there, &in->pool_there };
	struct error *err = NULL;

	for (size_t i = 0; i < 2 && !err; i++) {
		int64_t result;

		if (*fds[i] >= 0)
			err = remote_do(in->remote, &result, SYS_close, (uint64_t)*fds[i]);
		*fds[i] = -1;
	}
	return err;
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* A part of the base, with its own protection. */
static struct remote_map_request part_request(const struct injection *in, uint64_t from,
					      uint64_t to, int prot)
{
	return (struct remote_map_request){
		.at = taddr_add(in->agent->control_at, (int64_t)from),
		.size = to - from,
		.prot = prot,
		.flags = MAP_SHARED | MAP_FIXED,
		.fd = in->code_there,
		.offset = from,
		.what = "the agent",
	};
}

/* The parts of the base that aren't yet as they shall be: of one that is all text, those around the
 * agent's text; of another one, that text. */
static size_t list_parts(const struct injection *in, struct remote_map_request parts[2])
{
	uint64_t text = DT_AGENT_OFFSET + in->image->text_start;
	uint64_t behind = DT_AGENT_OFFSET + in->image->text_end;

	if (!in->all_text) {
		parts[0] = part_request(in, text, behind, PROT_READ | PROT_EXEC);
		return 1;
	}
	parts[0] = part_request(in, 0, text, PROT_READ);
	parts[1] = part_request(in, behind, DT_WINDOWS_OFFSET, PROT_READ);
	return 2;
}

static struct error *map_parts(struct injection *in)
{
	struct remote_map_request parts[2];
	size_t count = list_parts(in, parts);
	struct error *err = NULL;
	taddr at;

	for (size_t i = 0; i < count && !err; i++)
		err = remote_map_add(in->remote, in->proc, &parts[i], &at);
	return err;
}

static void note_base(struct injection *in)
{
	struct agent *agent = in->agent;

	agent->agent_at = taddr_add(agent->control_at, DT_AGENT_OFFSET);
	agent->slow_at = taddr_add(agent->agent_at, (int64_t)in->image->slow);
	agent->gather_at = taddr_add(agent->agent_at, (int64_t)in->image->gather);
	agent->trap_at = taddr_add(agent->agent_at, (int64_t)in->image->trap);
	agent->trap_return_at = taddr_add(agent->agent_at, (int64_t)in->image->trap_return);
	agent->call_op_at = taddr_add(agent->agent_at, (int64_t)in->image->call_op);
	agent->line_hit_at = taddr_add(agent->agent_at, (int64_t)in->image->line_hit);
	agent->fault_at = taddr_add(agent->agent_at, (int64_t)in->image->fault);
}

/* Maps the base, at least the seed of it executable. At a place of our choice that takes one call,
 * for all of it: executable memory is mapped so from the start (H35). */
static struct error *map_base(struct injection *in, taddr wanted)
{
	struct remote_map_request request = {
		.at = wanted,
		.size = AGENT_WHOLE_SIZE,
		.prot = PROT_READ | (wanted.v ? PROT_EXEC : 0),
		.flags = MAP_SHARED | (wanted.v ? MAP_FIXED_NOREPLACE : 0),
		.fd = in->code_there,
		.what = "the agent",
	};
	struct error *err = remote_map_add(in->remote, in->proc, &request, &in->agent->control_at);
	taddr at;

	if (err && wanted.v && error_kind(err) != ERROR_GONE) {
		error_free(err);
		return map_base(in, taddr_of(0));
	}
	if (err)
		return err;
	in->all_text = wanted.v != 0;
	note_base(in);
	request = part_request(in, DT_WINDOWS_OFFSET, AGENT_BASE_SIZE, PROT_READ | PROT_EXEC);
	return in->all_text ? NULL : remote_map_add(in->remote, in->proc, &request, &at);
}

/* A core dump reads shared memory to its last page, and so allocates what nobody has used (H41).
 * A dump that has it all is no failure. */
static struct error *leave_out_of_dumps(struct injection *in, taddr at, uint64_t size)
{
	int64_t result;

	return remote_do(in->remote, &result, SYS_madvise, at.v, size, AGENT_DUMPS);
}

static struct remote_map_request pool_request(const struct injection *in, taddr wanted)
{
	return (struct remote_map_request){
		.at = wanted,
		.size = in->agent->pool_size,
		.prot = PROT_READ | PROT_WRITE,
		.flags = MAP_SHARED | (wanted.v ? MAP_FIXED_NOREPLACE : 0),
		.fd = in->pool_there,
		.what = "event buffers",
	};
}

static struct error *map_pool(struct injection *in, taddr wanted)
{
	struct remote_map_request request = pool_request(in, wanted);
	struct error *err = remote_map_add(in->remote, in->proc, &request, &in->agent->pool_at);

	if (err && wanted.v && error_kind(err) != ERROR_GONE) {
		error_free(err);
		return map_pool(in, taddr_of(0));
	}
	return err ? err : leave_out_of_dumps(in, in->agent->pool_at, in->agent->pool_size);
}

/* All of the state but the page that children inherit (Q7). */
#define STATE_KEPT offsetof(struct dt_state, inherited)
static const uint64_t wiped[][2] = {
	{ 0, STATE_KEPT },
	{ STATE_KEPT + DT_PAGE, AGENT_STATE_SIZE - STATE_KEPT - DT_PAGE },
};
#define WIPED (sizeof(wiped) / sizeof(wiped[0]))

static struct error *wipe_in_children(struct injection *in)
{
	struct error *err = NULL;

	for (size_t i = 0; i < WIPED && !err; i++) {
		int64_t result = 0;

		err = remote_do(in->remote, &result, SYS_madvise,
				in->agent->state_at.v + wiped[i][0], wiped[i][1],
				AGENT_WIPEONFORK);
		if (!err && result)
			err = error_errno((int)-result, "cannot have the agent's memory wiped in "
							"forked children");
	}
	return err;
}

static struct remote_map_request state_request(const struct injection *in)
{
	return (struct remote_map_request){
		.at = taddr_add(in->agent->control_at, AGENT_BASE_SIZE),
		.size = AGENT_STATE_SIZE,
		.prot = PROT_READ | PROT_WRITE,
		.flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		.fd = -1,
		.what = "the agent's memory",
	};
}

static struct error *map_state(struct injection *in)
{
	struct remote_map_request request = state_request(in);
	struct dt_pool *pool = in->agent->pool;
	uint32_t pid = (uint32_t)in->proc->inner_pid;
	struct error *err = remote_map_add(in->remote, in->proc, &request, &in->agent->state_at);

	if (err || (err = wipe_in_children(in)))
		return err;
	while (!in->agent->process)
		in->agent->process = __atomic_add_fetch(&pool->processes, 1, __ATOMIC_RELAXED);
	err = mem_write(in->proc,
			taddr_add(in->agent->state_at, offsetof(struct dt_state, process)),
			&in->agent->process, sizeof(in->agent->process));
	return err ? err : mem_write(in->proc,
				     taddr_add(in->agent->state_at, offsetof(struct dt_state, pid)),
				     &pid, sizeof(pid));
}

/* ---- contents -------------------------------------------------------------------------------- */

static void fill_in_pool(struct injection *in)
{
	struct dt_pool *pool = in->agent->pool;

	pool->magic = DT_MAGIC;
	pool->version = DT_LAYOUT_VERSION;
	pool->small_count = in->small;
	pool->big_count = in->big;
	pool->small_free = (int32_t)in->small;
	pool->big_free = (int32_t)in->big;
}

void agent_fill_text(struct agent *agent, const struct agent_elf *image)
{
	agent_elf_place(image, agent->agent_at.v, (uint8_t *)agent->control + DT_AGENT_OFFSET);
}

static void fill_in(struct injection *in, const struct agent_options *options)
{
	struct agent *agent = in->agent;
	struct dt_control *control = agent->control;

	assert(in->image->size <= DT_AGENT_SIZE);
	if (!options->fill_later)
		agent_fill_text(agent, in->image);
	if (!agent->pool_shared)
		fill_in_pool(in);
	control->version = DT_LAYOUT_VERSION;
	control->flags = options->flags;
	control->fronts = in->all_text ? options->fronts_at.v : 0; /* chosen near base_at */
	control->returns = in->all_text ? options->returns_at.v : 0;
	control->pid = (uint32_t)in->proc->inner_pid;
	control->controller = (uint32_t)getpid();
	beacon_light(control);
	control->agent = agent->agent_at.v;
	control->state = agent->state_at.v;
	control->pool = agent->pool_at.v;
	control->pool_size = agent->pool_size;
	control->slow = agent->slow_at.v;
	control->gather = agent->gather_at.v;
	control->guard = agent->agent_at.v + in->image->guard;
	control->find = agent->agent_at.v + in->image->find;
	for (size_t i = 0; i < DT_READS; i++)
		control->reads[i] = agent->agent_at.v + in->image->reads[i];
	control->trap = agent->trap_at.v;
	control->front = agent->agent_at.v + in->image->front;
	control->small_count = in->small;
	control->big_count = in->big;
	control->chunks_offset = (uint32_t)dt_chunks_offset((uint64_t)in->small + in->big);
	/* last: a controller that finds the magic finds all other fields */
	__atomic_store_n(&control->magic, DT_MAGIC, __ATOMIC_RELEASE);
}

static void undo(struct injection *in)
{
	const struct agent *agent = in->agent;

	if (!in->remote)
		return;
	error_free(close_there(in));
	for (uint32_t i = 0; agent->control && i < agent->control->window_count; i++)
		error_free(remote_map_remove(in->remote,
					     taddr_of(agent->control->windows[i].address),
					     agent->control->windows[i].pages * DT_PAGE));
	if (agent->control_at.v)
		error_free(remote_map_remove(in->remote, agent->control_at, AGENT_WHOLE_SIZE));
	if (agent->pool_at.v)
		error_free(remote_map_remove(in->remote, agent->pool_at, agent->pool_size));
}

/* Every hit reads the TSC, which is a SIGSEGV after PR_SET_TSC (H26). */
static struct error *check_clock(struct injection *in)
{
	int state = 0;
	int64_t result = 0;
	taddr at = remote_room(in->remote);
	struct error *err = remote_do(in->remote, &result, SYS_prctl, PR_GET_TSC, at.v);

	if (!err && !result)
		err = mem_read(in->proc, at, &state, sizeof(state));
	if (!err && state == PR_TSC_SIGSEGV)
		err = error_new(
			ERROR_REFUSED,
			"process %d (%s) forbids itself to read the processor's clock "
			"(PR_SET_TSC), which every hit reads",
			in->proc->pid, in->proc->comm);
	return err;
}

/* The seed of windows, which holds no code of probes. */
static uint8_t *desk_of(const struct agent *agent)
{
	return (uint8_t *)agent->control + DT_WINDOWS_OFFSET;
}

/* Has the calls made that the rest of set_up asks for, in this order (ahead.h). */
static struct error *make_ahead(struct injection *in, const struct agent_options *options)
{
	uint64_t state_at = in->agent->control_at.v + AGENT_BASE_SIZE;
	struct remote_map_request request, parts[2];
	size_t part_count = list_parts(in, parts);
	struct ahead list = { 0 };
	taddr name;

	if (remote_locks_memory(in->remote)) /* each mapping takes more calls then */
		return NULL;
	ahead_set_desk(in->remote, desk_of(in->agent),
		       taddr_add(in->agent->control_at, DT_WINDOWS_OFFSET));
	ahead_do(&list, -1, SYS_prctl, PR_GET_TSC, remote_room(in->remote).v);
	for (size_t i = 0; i < part_count; i++)
		remote_map_ahead(&list, &parts[i], -1);
	if (options->share) /* a descriptor of another process's takes more */
		return ahead_make(in->remote, &list);
	struct error *err =
		remote_put(in->remote, AGENT_POOL_NAME, sizeof(AGENT_POOL_NAME), &name);
	if (err)
		return err;
	int pool = ahead_do(&list, -1, SYS_memfd_create, name.v, memfd_flags(in));
	code_window_ahead(&list, in->agent, in->code_there, options);
	request = pool_request(in, options->pool_at);
	remote_map_ahead(&list, &request, pool);
	if (options->pool_at.v) {
		ahead_do(&list, -1, SYS_madvise, options->pool_at.v, in->agent->pool_size,
			 AGENT_DUMPS);
		request = state_request(in);
		remote_map_ahead(&list, &request, -1);
		for (size_t i = 0; i < WIPED; i++)
			ahead_do(&list, -1, SYS_madvise, state_at + wiped[i][0], wiped[i][1],
				 AGENT_WIPEONFORK);
	}
	return ahead_make(in->remote, &list);
}

static struct error *close_ahead(struct injection *in, const struct agent_options *options)
{
	struct ahead list = { 0 };

	ahead_do(&list, -1, SYS_close, (uint64_t)in->code_there);
	ahead_do(&list, -1, SYS_close, (uint64_t)in->pool_there);
	for (size_t i = 0; in->all_text && options->next && i < options->next->count; i++)
		ahead_add(&list, options->next->calls[i].number, -1, options->next->calls[i].args);
	return ahead_make(in->remote, &list);
}

uint64_t agent_pool_size(uint64_t buffer_size)
{
	uint32_t small, big;

	/* the larger tables */
	pool_layout(buffer_size ? buffer_size : DT_POOL_DEFAULT, false, &small, &big);
	return pool_layout_size(small, big);
}

static struct error *set_up(struct injection *in, const struct agent_options *options)
{
	uint64_t size = options->pool_size ? options->pool_size : DT_POOL_DEFAULT;
	struct error *err;

	if (size < DT_POOL_MIN || size > DT_POOL_MAX)
		return error_new(ERROR_USAGE, "a buffer can have from %llu MiB to %llu MiB",
				 DT_POOL_MIN >> 20, DT_POOL_MAX >> 20);
	assert(!options->share || options->share->pool);
	pool_layout(size, options->flags & DT_OVERWRITE, &in->small, &in->big);
	if (options->share) {
		in->small = options->share->control->small_count;
		in->big = options->share->control->big_count;
	}
	in->agent->pool_size = pool_layout_size(in->small, in->big);
	if ((err = remote_begin(in->stop, &in->remote)) || (err = make_code(in)))
		return err;
	if (!options->base_at.v) /* windows need their places, the rest can be anywhere */
		err = code_window_map_first(in->remote, in->agent, in->code_there, options);
	if (err || (err = map_base(in, options->base_at)) || (err = make_ahead(in, options)) ||
	    (err = check_clock(in)) || (err = map_parts(in)) ||
	    (err = options->share ? share_pool(in, options->share) : make_pool(in)) ||
	    (err = code_window_map_first(in->remote, in->agent, in->code_there, options)) ||
	    (err = map_pool(in, options->pool_at)) || (err = map_state(in)))
		return err;
	fill_in(in, options);
	return (err = close_ahead(in, options)) ? err : close_there(in);
}

struct error *agent_prepare(struct proc *proc, const char *agent_path, struct agent_elf **ret_image)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	_cleanup_free_ struct agent_elf *image = calloc(1, sizeof(*image));
	struct syscall_gadgets gadgets;
	struct error *err =
		image ? maps_read(proc, &maps) : error_new(ERROR_FAILED, "out of memory");

	if (!err)
		/* fills the cache in `proc`: inside a stop the gadgets are only checked again */
		err = syscall_gadget_find(proc, &maps, &gadgets);
	if (!err)
		err = agent_elf_load(agent_path, DT_AGENT_SIZE, image);
	if (!err)
		*ret_image = take_ptr(&image);
	return err;
}

void agent_prepare_end(struct agent_elf *image)
{
	if (image)
		agent_elf_free(image);
	free(image);
}

taddr agent_find_place(const struct maps *maps)
{
	return huge_pool_find_gap(maps, AGENT_WHOLE_SIZE);
}

struct error *agent_inject(struct stop *stop, struct proc *proc,
			   const struct agent_options *options, struct agent **ret_agent)
{
	struct injection in = { .stop = stop, .proc = proc, .code_there = -1, .pool_there = -1 };

	assert(stop_thread_count(stop) && (options->image || options->agent_path));
	in.agent = calloc(1, sizeof(*in.agent));
	if (!in.agent)
		return error_new(ERROR_FAILED, "out of memory");
	in.agent->proc = proc;
	in.agent->code_fd = in.agent->pool_fd = -1;
	in.agent->window_next = AGENT_BASE_SIZE;
	in.agent->since = holders_now();
	struct agent_elf *own = NULL;
	struct error *err = options->image ? NULL : agent_prepare(proc, options->agent_path, &own);
	in.image = own ? own : options->image;
	if (!err)
		err = set_up(&in, options);
	if (err)
		undo(&in);
	struct error *end = remote_end(in.remote);
	if (err)
		error_free(end);
	else
		err = end;
	agent_prepare_end(own);
	if (err) {
		agent_free(in.agent);
		return error_wrap(err, "cannot put the agent into process %d", proc->pid);
	}
	*ret_agent = in.agent;
	return NULL;
}

static struct error *fill_range(struct agent *agent, uint64_t from, uint64_t to)
{
	int number = 0;

	for (uint64_t at = from; at < to && !agent->pool_shared && !number;
	     at += AGENT_FILL_STEP) {
		uint64_t left = to - at;

		/* A signal makes posix_fallocate fail and undo its work. */
		do
			number = posix_fallocate(
				agent->pool_fd, (off_t)at,
				(off_t)(left < AGENT_FILL_STEP ? left : AGENT_FILL_STEP));
		while (number == EINTR);
	}
	if (!number)
		return NULL;
	return error_errno(number, "cannot get %llu MiB of memory for event buffers",
			   (unsigned long long)agent->pool_size >> 20);
}

/* The range of the tallies that few traces need. */
#define TALLIES_FROM DT_ROUND_UP(offsetof(struct dt_pool, tallies[DT_EVENTS_FIRST]), DT_PAGE)
#define TALLIES_TO (offsetof(struct dt_pool, tallies[DT_EVENTS_MAX]) & ~(DT_PAGE - 1))

struct error *agent_fill_pool(struct agent *agent)
{
	if (!agent->pool_shared)
		huge_pool_collapse(agent->pool_fd, agent->pool, TALLIES_TO, agent->pool_size);
	struct error *error = fill_range(agent, 0, TALLIES_FROM);

	return error ? error : fill_range(agent, TALLIES_TO, agent->pool_size);
}

struct error *agent_fill_tallies(struct agent *agent, uint32_t count)
{
	if (count <= DT_EVENTS_FIRST || agent->tallies_filled)
		return NULL;
	struct error *error = fill_range(agent, TALLIES_FROM, TALLIES_TO);
	agent->tallies_filled = !error;
	return error;
}

/* ---- other shared memory --------------------------------------------------------------------- */

static struct error *share(struct injection *in, const char *name, uint64_t size, void **ret_here,
			   int *ret_fd, struct dt_share *ret_share)
{
	struct remote_map_request request = { .size = size,
					      .prot = PROT_READ | PROT_WRITE,
					      .flags = MAP_SHARED | MAP_NORESERVE,
					      .what = name };
	_cleanup_close_ int fd = -1;
	struct stat stat;
	void *memory = NULL;
	taddr at;
	struct error *err;

	if ((err = create_there(in, name, &in->pool_there)) ||
	    (err = fetch(in, in->pool_there, &fd)) ||
	    (err = prepare_memfd(fd, size, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, NULL,
				 &memory)))
		return err;
	request.fd = in->pool_there;
	err = fstat(fd, &stat) ? error_errno(errno, "cannot look at the shared memory") :
				 remote_map_add(in->remote, in->proc, &request, &at);
	if (!err && (err = leave_out_of_dumps(in, at, size)))
		error_free(remote_map_remove(in->remote, at, size));
	if (err) {
		munmap(memory, size);
		return err;
	}
	*ret_share = (struct dt_share){ at.v, size, stat.st_dev, stat.st_ino };
	*ret_here = memory;
	*ret_fd = take_fd(&fd) + 1;
	return NULL;
}

struct error *agent_share(struct stop *stop, struct agent *agent, const char *name, uint64_t size,
			  void **ret_here, taddr *ret_there, int *ret_fd)
{
	struct injection in = { .stop = stop, .proc = agent->proc, .agent = agent, .code_there = -1,
				.pool_there = -1 };
	struct dt_control *control = agent->control;
	uint32_t index = control->share_count;
	struct error *err;

	if (index >= DT_SHARES_MAX)
		return error_new(
			ERROR_FAILED,
			"cannot share more memory with process %d: detach from it first",
			agent->proc->pid);
	if ((err = remote_begin(stop, &in.remote)))
		return err;
	err = share(&in, name, size, &agent->shares[index], &agent->share_fds[index],
		    &control->shares[index]);
	error_free(close_there(&in));
	struct error *end = remote_end(in.remote);
	if (err || end) {
		if (err)
			error_free(end);
		return err ? err : end;
	}
	__atomic_store_n(&control->share_count, index + 1, __ATOMIC_RELEASE);
	*ret_here = agent->shares[index];
	*ret_there = taddr_of(control->shares[index].address);
	if (ret_fd)
		*ret_fd = agent->share_fds[index] - 1;
	return NULL;
}

void agent_free(struct agent *agent)
{
	if (!agent)
		return;
	if (agent->proc && agent->control && agent->proc->desk == desk_of(agent))
		ahead_forget_desk(agent->proc);
	for (uint32_t i = 0; i < DT_SHARES_MAX; i++) {
		if (agent->shares[i])
			munmap(agent->shares[i], agent->control->shares[i].size);
		if (agent->share_fds[i])
			close(agent->share_fds[i] - 1);
	}
	if (agent->has_beacon) {
		beacon_put_out(agent->control);
		beacon_release(agent->control, DT_CODE_SIZE);
	} else if (agent->control) {
		munmap(agent->control, DT_CODE_SIZE);
	}
	if (agent->pool && !agent->pool_shared)
		munmap(agent->pool, agent->pool_size);
	cleanup_close(&agent->code_fd);
	cleanup_close(&agent->pool_fd);
	free(agent);
}
