/*
 * injection_map.c - the mappings of an injection: the base with its parts, the pool, the state.
 *
 * Each mapping is one call in the target. Where their places are known, all calls are made ahead,
 * in the order in which the functions here ask for them, from the same requests.
 */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent_elf.h"
#include "code_window.h"
#include "injection.h"
#include "control/remote/ahead.h"
#include "control/remote/remote_map.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define AGENT_DUMPS MADV_DONTDUMP
#define AGENT_WIPEONFORK 18 /* MADV_WIPEONFORK */

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

struct error *injection_map_parts(struct injection *in)
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

struct error *injection_map_base(struct injection *in, taddr wanted)
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
		return injection_map_base(in, taddr_of(0));
	}
	if (err)
		return err;
	in->all_text = wanted.v != 0;
	note_base(in);
	request = part_request(in, DT_WINDOWS_OFFSET, AGENT_BASE_SIZE, PROT_READ | PROT_EXEC);
	return in->all_text ? NULL : remote_map_add(in->remote, in->proc, &request, &at);
}

struct error *injection_map_leave_out(struct injection *in, taddr at, uint64_t size)
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

struct error *injection_map_pool(struct injection *in, taddr wanted)
{
	struct remote_map_request request = pool_request(in, wanted);
	struct error *err = remote_map_add(in->remote, in->proc, &request, &in->agent->pool_at);

	if (err && wanted.v && error_kind(err) != ERROR_GONE) {
		error_free(err);
		return injection_map_pool(in, taddr_of(0));
	}
	return err ? err : injection_map_leave_out(in, in->agent->pool_at, in->agent->pool_size);
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

struct error *injection_map_state(struct injection *in)
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

uint8_t *injection_map_desk(const struct agent *agent)
{
	return (uint8_t *)agent->control + DT_WINDOWS_OFFSET;
}

struct error *injection_map_ahead(struct injection *in, const struct agent_options *options)
{
	uint64_t state_at = in->agent->control_at.v + AGENT_BASE_SIZE;
	struct remote_map_request request, parts[2];
	size_t part_count = list_parts(in, parts);
	struct ahead list = { 0 };
	taddr name;

	if (remote_locks_memory(in->remote)) /* each mapping takes more calls then */
		return NULL;
	ahead_set_desk(in->remote, injection_map_desk(in->agent),
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
	int pool = ahead_do(&list, -1, SYS_memfd_create, name.v, injection_memfd_flags(in));
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
