/*
 * agent.c - the order of an injection, and its end.
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
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "agent_elf.h"
#include "beacon.h"
#include "huge_pool.h"
#include "injection.h"
#include "control/remote/ahead.h"
#include "control/remote/syscall_gadget.h"
#include "pool_layout.h"
#include "control/remote/remote_map.h"
#include "code_window.h"

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
	error_free(injection_memfd_close(in));
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
	if ((err = remote_begin(in->stop, &in->remote)) || (err = injection_memfd_make_code(in)))
		return err;
	if (!options->base_at.v) /* windows need their places, the rest can be anywhere */
		err = code_window_map_first(in->remote, in->agent, in->code_there, options);
	if (err || (err = injection_map_base(in, options->base_at)) ||
	    (err = injection_map_ahead(in, options)) || (err = check_clock(in)) ||
	    (err = injection_map_parts(in)) ||
	    (err = options->share ? injection_memfd_share_pool(in, options->share) :
				    injection_memfd_make_pool(in)) ||
	    (err = code_window_map_first(in->remote, in->agent, in->code_there, options)) ||
	    (err = injection_map_pool(in, options->pool_at)) || (err = injection_map_state(in)))
		return err;
	fill_in(in, options);
	return (err = close_ahead(in, options)) ? err : injection_memfd_close(in);
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

void agent_free(struct agent *agent)
{
	if (!agent)
		return;
	if (agent->proc && agent->control && agent->proc->desk == injection_map_desk(agent))
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
