#include "loading.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/placement/go_prologue.h"
#include "wide.h"

bool loading_create(struct session *session)
{
	session->loading = calloc(1, sizeof(*session->loading));
	return session->loading != NULL;
}

void loading_free(struct session *session)
{
	if (!session->loading)
		return;
	vec_free(&session->loading->looked_at);
	free(session->loading);
}

size_t loading_gate(struct session *session, const struct tracepoint *tracepoint)
{
	struct module *module = tracepoint->probe.place.module;

	assert(module);
	struct loading_module found = { module->device, module->inode, true };

	for (size_t i = 0; i < session->loading->looked_at.count; i++) {
		const struct loading_module *known = &session->loading->looked_at.items[i];

		if (known->device == found.device && known->inode == found.inode)
			return known->is_wide ? 0 : 1;
	}
	if (!module->is_vdso)
		/* on failure the module counts as wide */
		error_free(wide_look(session->proc, module, &found.is_wide));
	vec_push(&session->loading->looked_at, found);
	return found.is_wide ? 0 : 1;
}

/* (H4) Memory of others lies below a goroutine's stack: nothing tells that a function overflows. */
static struct error *check_stack(struct session *session, const struct tracepoint *tracepoint)
{
	const struct place *place = &tracepoint->probe.place;
	struct symtab *symtab;

	if (!place->module || place->module->is_vdso)
		return NULL;
	struct error *error = module_symtab(session->proc, place->module, &symtab);
	if (!error && go_prologue_is_go_code(symtab, place->address.v - place->module->bias.v))
		error = error_new(
			ERROR_REFUSED,
			"tracer '%s' can't be used in Go code: stacks of goroutines have no "
			"room for the called functions",
			tracepoint->tracer->name);
	return error;
}

/* Code that may run with the loader's or the allocator's locks held can't call functions that take
 * these locks. */
struct error *loading_check_place(struct session *session, const struct tracepoint *tracepoint)
{
	const struct place *place = &tracepoint->probe.place;
	const char *name = place->module ? place->module->name : "";
	bool is_entry = place->symbol && place->symbol->global &&
			place->address.v == place->module->bias.v + place->symbol->address;

	if (!strncmp(name, "ld-linux", strlen("ld-linux")) ||
	    !strncmp(name, "ld-musl", strlen("ld-musl")))
		return error_new(
			ERROR_REFUSED,
			"tracer '%s' can't be used in the loader: the called functions need the "
			"loader's locks",
			tracepoint->tracer->name);
	if (!strcmp(name, "libc.so.6") && !is_entry)
		return error_new(
			ERROR_REFUSED,
			"tracer '%s' can be used in libc only at the start of functions that it "
			"exports: elsewhere locks may be held that the called functions need",
			tracepoint->tracer->name);
	if (!strncmp(name, "liblttng-ust", strlen("liblttng-ust")) ||
	    !strncmp(name, "libdyntrace-", strlen("libdyntrace-")))
		return error_new(ERROR_REFUSED, "tracer '%s' can't trace itself",
				 tracepoint->tracer->name);
	return check_stack(session, tracepoint);
}
