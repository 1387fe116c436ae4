/*
 * own_probes.c - notice when the target begins to filter its system calls or to handle them itself,
 * when a thread forbids itself the clock (H26), and when its loader changes its list of libraries
 * (N1).
 *
 * Under a filter, a system call of the agent could kill the target, so the agent makes none
 * (target/quiet.c). C programs set a filter by calling prctl or syscall of
 * their libc, whatever library does it for them: these two functions get a probe of ours. A filter
 * at NULL only asks whether the kernel has filters, as many programs do, and so does strict mode
 * with a flag (libseccomp). System calls of Go programs aren't noticed.
 *
 * With --follow-exec, functions that execute another program get a probe, too (follow_exec.c).
 */
#include <assert.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "control/base/cleanup.h"
#include "own_probes.h"
#include "library_notice.h"

#define SET_DISPATCH 59u /* PR_SET_SYSCALL_USER_DISPATCH */
#define DISPATCH_ON 1u

static const struct {
	const char *function;
	struct tramp_watch watches[TRAMP_WATCHES_MAX];
	size_t count;
	bool exec; /* every call counts; only with --follow-exec */
} watched[] = {
	{ .function = "prctl",
	  .watches = { { .args = { PR_SET_SECCOMP, SECCOMP_MODE_STRICT },
			 .count = 2,
			 .clock = true },
		       { .args = { PR_SET_TSC, PR_TSC_SIGSEGV }, .count = 2, .calls_stay = true },
		       { .args = { SET_DISPATCH, DISPATCH_ON }, .count = 2 },
		       { .args = { PR_SET_SECCOMP, SECCOMP_MODE_FILTER },
			 .count = 2,
			 .pointer = RDX } },
	  .count = 4 },
	{ .function = "syscall",
	  .watches = { { .args = { SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0 },
			 .count = 3,
			 .clock = true },
		       { .args = { SYS_seccomp, SECCOMP_SET_MODE_FILTER },
			 .count = 2,
			 .pointer = RCX },
		       { .args = { SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT },
			 .count = 3,
			 .clock = true },
		       { .args = { SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV },
			 .count = 3,
			 .calls_stay = true },
		       { .args = { SYS_prctl, SET_DISPATCH, DISPATCH_ON }, .count = 3 },
		       { .args = { SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER },
			 .count = 3,
			 .pointer = RCX } },
	  .count = 6 },
	{ .function = "execve", .exec = true },
	{ .function = "execveat", .exec = true },
	{ .function = "fexecve", .exec = true },
};

/* ---- lists ----------------------------------------------------------------------------------- */

struct error *own_probes_add(struct own_probes *list, struct module *module, uint64_t address,
			     const char *name, struct probe **ret_probe)
{
	assert(module && name);
	struct probe *probe = calloc(1, sizeof(*probe));

	if (!probe || !vec_push(list, probe)) {
		free(probe);
		return error_new(ERROR_FAILED, "out of memory");
	}
	probe->place.module = module;
	probe->place.address = taddr_add(module->bias, (int64_t)address);
	probe->place.name = (char *)name;
	probe->event.size = sizeof(uint64_t);
	*ret_probe = probe;
	return NULL;
}

struct error *own_probes_add_guard(struct own_probes *list, struct module *module, uint64_t address,
				   const char *name, bool hides)
{
	struct probe *probe;
	struct error *error = own_probes_add(list, module, address, name, &probe);

	if (error)
		return error;
	probe->event.guard = true;
	probe->event.hides = hides;
	return NULL;
}

void own_probes_free(struct own_probes *list)
{
	for (size_t i = 0; i < list->count; i++) {
		error_free(list->items[i]->refusal);
		free(list->items[i]);
	}
	vec_free(list);
}

/* ---- the session's probes -------------------------------------------------------------------- */

/* Is the module a libc, or a program, which may contain one? */
static bool may_have_libc(const struct module *module)
{
	return module->is_executable || !strncmp(module->name, "libc.", 5) ||
	       !strncmp(module->name, "libc-", 5) || !strncmp(module->name, "ld-musl", 7);
}

bool own_probes_has(const struct session *session, const struct module *module,
		    const struct symbol *symbol)
{
	for (size_t i = 0; i < session->own_probes.count; i++) {
		const struct place *place = &session->own_probes.items[i]->place;

		if (place->module == module && place->symbol == symbol)
			return true;
	}
	return false;
}

struct error *own_probes_add_at(struct session *session, struct module *module,
				const struct symbol *symbol, struct probe **ret_probe)
{
	assert(!own_probes_has(session, module, symbol));
	struct error *error = own_probes_add(&session->own_probes, module, symbol->address,
					     symbol->name, ret_probe);

	if (!error)
		(*ret_probe)->place.symbol = symbol;
	return error;
}

static struct error *watch_function(struct session *session, struct module *module,
				    const struct symbol *symbol, size_t index)
{
	struct probe *probe;
	struct error *error = own_probes_add_at(session, module, symbol, &probe);

	if (error)
		return error;
	assert(watched[index].count <= TRAMP_WATCHES_MAX);
	memcpy(probe->event.watches, watched[index].watches, sizeof(probe->event.watches));
	probe->event.watch_count = watched[index].count;
	probe->event.asks = watched[index].exec ? DT_ASK_EXEC : 0;
	session->sees_exec |= watched[index].exec;
	return NULL;
}

struct error *own_probes_create(struct session *session)
{
	struct error *error = NULL;

	for (size_t i = 0; i < session->modules.count && !error; i++) {
		struct module *module = session->modules.items[i];
		struct symtab *symtab;

		if (!may_have_libc(module))
			continue;
		_cleanup_error_ struct error *unreadable =
			module_symtab(session->proc, module, &symtab);
		for (size_t j = 0;
		     j < sizeof(watched) / sizeof(watched[0]) && !unreadable && !error; j++) {
			const struct symbol *symbol = symtab_find(symtab, watched[j].function);

			if (watched[j].exec && !session->options.follow_exec)
				continue;
			if (symbol && symbol->kind == SYMBOL_FUNCTION &&
			    !own_probes_has(session, module, symbol))
				error = watch_function(session, module, symbol, j);
		}
	}
	return error ? error : library_notice_add_probe(session);
}

bool own_probes_is_missing(const struct session *session)
{
	for (size_t i = 0; i < session->own_probes.count; i++) {
		if (!session->own_probes.items[i]->site && !session->own_probes.items[i]->refusal)
			return true;
	}
	return false;
}

bool own_probes_is_site(const struct site *site)
{
	for (size_t i = 0; i < site->probes.count; i++) {
		if (!tramp_event_is_own(&site->probes.items[i]->event))
			return false;
	}
	return true;
}

void own_probes_mark_last(struct site *site)
{
	bool finds = false, guards = false;

	for (size_t i = 0; i < site->probes.count; i++) {
		finds |= site->probes.items[i]->event.finds;
		guards |= site->probes.items[i]->event.hides;
	}
	/* sites that lead through this one go before it; one that leads through another can't be
	 * the last */
	site->patch.is_last = (finds || guards) && !site->slot_host;
	site->patch.is_guard = site->patch.is_last && !finds;
}
