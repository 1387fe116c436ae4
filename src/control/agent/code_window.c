#include "code_window.h"

#include "control/remote/remote_map.h"

#include <assert.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Fills in the next entry of dt_control, before the window is mapped: a controller that takes over
 * finds it there (sweep.c). NULL: no code memory is left. */
static struct dt_window *note(struct agent *agent, taddr at, uint32_t pages)
{
	struct dt_control *control = agent->control;
	uint64_t offset = agent->window_next;

	if (control->window_count >= DT_WINDOWS_MAX || pages * DT_PAGE > DT_CODE_SIZE - offset)
		return NULL;
	struct dt_window *window = &control->windows[control->window_count];
	*window = (struct dt_window){ at.v, (uint32_t)(offset / DT_PAGE), pages };
	return window;
}

/* Counts the window, which is mapped now. */
static uint32_t confirm(struct agent *agent, const struct dt_window *window)
{
	struct dt_control *control = agent->control;

	__atomic_store_n(&control->window_count, control->window_count + 1, __ATOMIC_RELEASE);
	agent->window_next += window->pages * DT_PAGE;
	return window->offset * (uint32_t)DT_PAGE;
}

static struct remote_map_request request_of(const struct code_window *wanted, int there,
					    uint64_t offset)
{
	return (struct remote_map_request){ .at = wanted->at,
					    .size = wanted->pages * DT_PAGE,
					    .prot = PROT_READ | PROT_EXEC,
					    .flags = MAP_SHARED | MAP_FIXED_NOREPLACE,
					    .fd = there,
					    .offset = offset,
					    .what = "code memory" };
}

void code_window_ahead(struct ahead *list, const struct agent *agent, int there,
		       const struct agent_options *options)
{
	uint64_t offset = agent->window_next;

	for (size_t i = 0; i < options->window_count; i++) {
		uint64_t size = options->windows[i].pages * DT_PAGE;
		struct remote_map_request request =
			request_of(&options->windows[i], there, offset);

		/* map_one leaves these out, too */
		if (options->windows[i].offset || size > DT_CODE_SIZE - offset)
			continue;
		remote_map_ahead(list, &request, -1);
		offset += size;
	}
}

static struct error *map_one(struct remote *remote, struct agent *agent, int there,
			     struct code_window *wanted)
{
	struct dt_window *window = note(agent, wanted->at, wanted->pages);
	struct remote_map_request request = request_of(wanted, there, agent->window_next);
	taddr at;

	if (!window)
		return NULL;
	struct error *error = remote_map_add(remote, agent->proc, &request, &at);
	if (!error) {
		wanted->offset = confirm(agent, window);
		return NULL;
	}
	window->address = 0;
	if (error_kind(error) == ERROR_GONE)
		return error;
	error_free(error); /* the caller sees that wanted->offset is 0 */
	return NULL;
}

struct error *code_window_map_first(struct remote *remote, struct agent *agent, int there,
				    const struct agent_options *options)
{
	struct error *error = NULL;

	for (size_t i = 0; i < options->window_count && !error; i++) {
		if (!options->windows[i].offset)
			error = map_one(remote, agent, there, &options->windows[i]);
	}
	return error;
}

/* Address in the target of the last page of the code memfd before the next window. */
static taddr last_page(const struct agent *agent)
{
	const struct dt_control *control = agent->control;

	if (!control->window_count)
		return taddr_add(agent->control_at, DT_WINDOWS_OFFSET);
	const struct dt_window *last = &control->windows[control->window_count - 1];
	return taddr_of(last->address + (last->pages - 1) * DT_PAGE);
}

struct error *agent_map_window(struct stop *stop, struct agent *agent, taddr at, uint32_t pages,
			       uint32_t *ret_offset)
{
	struct remote *remote = NULL;
	struct error *err;

	assert(pages && at.v % DT_PAGE == 0);
	struct dt_window *window = note(agent, at, pages);
	if (!window)
		return error_new(ERROR_FAILED,
				 "no code memory is left for process %d (trace fewer functions, or "
				 "fewer values)",
				 agent->proc->pid);
	if ((err = remote_begin(stop, &remote)))
		return err;
	err = remote_map_extend(remote, stop->proc, last_page(agent), at, pages * DT_PAGE);
	struct error *end = remote_end(remote);
	if (err) {
		window->address = 0;
		error_free(end);
		return err;
	}
	*ret_offset = confirm(agent, window); /* it is mapped, whatever became of the thread */
	return end;
}
