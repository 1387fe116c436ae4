/*
 * semaphores.c
 *
 * (M1) dt_control.semaphores says by how much we have raised each counter, from before it is raised
 *      until it has been lowered. The next controller lowers it by that much; a counter that was
 *      noted but not raised yet is 0 and stays 0.
 * (M2) A child has the counter as it was when the child was forked: it is lowered there by the most
 *      that we ever raised it.
 */
#include <assert.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/elf/sdt.h"
#include "semaphores.h"

static uint64_t semaphore_of(const struct tracepoint *tracepoint)
{
	const struct place *place = &tracepoint->probe.place;

	return place->marker && place->marker->semaphore ?
		       place->marker->semaphore + place->module->bias.v :
		       0;
}

/* The counter's entry; NULL: it has none, and with `make` there is no room for one. */
static struct dt_semaphore *find_entry(struct dt_control *control, uint64_t address, bool make)
{
	struct dt_semaphore *unused = NULL;

	assert(address && control->semaphore_count <= DT_SEMAPHORES_MAX);
	for (uint32_t i = 0; i < control->semaphore_count; i++) {
		struct dt_semaphore *entry = &control->semaphores[i];

		if (entry->address == address)
			return entry;
		if (!entry->address && !unused)
			unused = entry;
	}
	if (!make || (!unused && control->semaphore_count >= DT_SEMAPHORES_MAX))
		return NULL;
	if (!unused)
		unused = &control->semaphores[control->semaphore_count++];
	*unused = (struct dt_semaphore){ .address = address };
	return unused;
}

/* Adds to the counter in one process, without wrapping. */
static struct error *change_counter(struct proc *proc, uint64_t address, int32_t by)
{
	uint16_t value;
	struct error *error = mem_read(proc, taddr_of(address), &value, sizeof(value));
	int32_t sum = (int32_t)value + by;

	if (error)
		return error;
	value = (uint16_t)(sum < 0 ? 0 : sum > UINT16_MAX ? UINT16_MAX : sum);
	return mem_write(proc, taddr_of(address), &value, sizeof(value));
}

struct error *semaphores_raise(struct session *session, struct tracepoint *tracepoint)
{
	uint64_t address = semaphore_of(tracepoint);

	if (!address || tracepoint->raised || !tracepoint->probe.site)
		return NULL;
	struct dt_semaphore *entry = find_entry(session->agent->control, address, true);
	if (!entry)
		return error_new(ERROR_FAILED, "more than %u markers with semaphores (name fewer)",
				 DT_SEMAPHORES_MAX);
	entry->raised++; /* M1: before the counter itself */
	if (entry->peak < entry->raised)
		entry->peak = entry->raised;
	assert(entry->peak >= entry->raised); /* M2 */
	struct error *error = change_counter(session->proc, address, 1);
	if (error)
		entry->raised--;
	else
		tracepoint->raised = true;
	return error_wrap(error, "cannot raise the semaphore of marker '%s'", tracepoint->name);
}

void semaphores_raise_child(struct proc *child, const struct tracepoint *tracepoint)
{
	uint64_t address = semaphore_of(tracepoint);

	if (address)
		error_free(change_counter(child, address, 1)); /* lowered as M2 says */
}

void semaphores_lower(struct session *session, struct tracepoint *tracepoint)
{
	uint64_t address = semaphore_of(tracepoint);

	if (!tracepoint->raised)
		return;
	struct dt_semaphore *entry = find_entry(session->agent->control, address, false);
	assert(entry && entry->raised); /* M1 */
	error_free(change_counter(session->proc, address, -1));
	entry->raised--;
	tracepoint->raised = false;
}

void semaphores_forget(struct session *session, struct tracepoint *tracepoint)
{
	struct dt_semaphore *entry =
		tracepoint->raised ?
			find_entry(session->agent->control, semaphore_of(tracepoint), false) :
			NULL;

	assert(!tracepoint->raised || (entry && entry->raised)); /* M1 */
	if (entry && --entry->raised == 0)
		entry->address = 0;
	tracepoint->raised = false;
}

/* Does the file that is loaded there have such a counter? (H24) */
static bool file_confirms(struct proc *proc, struct modules *modules, uint64_t address)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = modules->items[i];
		const struct markers *markers;

		if (!taddr_within(taddr_of(address), module->low, module->high))
			continue;
		_cleanup_error_ struct error *error = module_markers(proc, module, &markers);
		for (size_t j = 0; !error && j < markers->count; j++) {
			if (markers->items[j].semaphore &&
			    markers->items[j].semaphore + module->bias.v == address)
				return true;
		}
	}
	return false;
}

void semaphores_lower_all(struct session *session, struct proc *proc)
{
	struct dt_control *control = session->agent->control;
	_cleanup_(modules_free) struct modules modules = { 0 };

	if (!control->semaphore_count || control->semaphore_count > DT_SEMAPHORES_MAX)
		return;
	_cleanup_error_ struct error *error = modules_of(proc, &modules);
	for (uint32_t i = 0; i < control->semaphore_count && !error; i++) {
		const struct dt_semaphore *entry = &control->semaphores[i];
		uint32_t by = proc == session->proc ? entry->raised : entry->peak;

		if (entry->address && by && by <= UINT16_MAX &&
		    file_confirms(proc, &modules, entry->address))
			error_free(change_counter(proc, entry->address, -(int32_t)by));
	}
	for (size_t i = 0; proc == session->proc && i < session->tracepoints.count; i++)
		session->tracepoints.items[i]->raised = false;
}
