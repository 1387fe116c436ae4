/*
 * exits_check.c - which functions can have their exits recorded: checks of the whole process, then
 * of each function.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/exits/check/exit_body.h"
#include "control/exits/check/exit_check.h"
#include "control/proc/proc_status.h"
#include "control/placement/go_prologue.h"
#include "exits.h"
#include "control/session/state/session_state.h"

/* Unwind tables of one module, opened once. */
struct rules {
	const struct module *module;
	struct symtab *symtab;
	struct frame_rules *frames;
};

struct check {
	struct session *session;
	VEC(struct rules) rules;
};

static void check_free(struct check *check)
{
	for (size_t i = 0; i < check->rules.count; i++)
		frame_rules_close(check->rules.items[i].frames);
	vec_free(&check->rules);
}

static struct error *find_rules(struct check *check, struct module *module, struct rules *ret_rules)
{
	struct rules rules = { .module = module };

	for (size_t i = 0; i < check->rules.count; i++) {
		if (check->rules.items[i].module == module) {
			*ret_rules = check->rules.items[i];
			return NULL;
		}
	}
	struct error *error = module_symtab(check->session->proc, module, &rules.symtab);
	if (error)
		return error;
	rules.frames = frame_rules_open(rules.symtab);
	if (!vec_push(&check->rules, rules)) {
		frame_rules_close(rules.frames);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_rules = rules;
	return NULL;
}

/* ---- the process ----------------------------------------------------------------------------- */

bool exits_has_shadow_stack(const char *status)
{
	const char *line = strstr(status, "\nx86_Thread_features:");
	const char *end = line ? strchr(line + 1, '\n') : NULL;
	const char *word = line ? strstr(line, "shstk") : NULL;

	return word && (!end || word < end);
}

bool exits_shadow_stack_of(pid_t pid)
{
	_cleanup_close_ int fd = proc_status_open(pid, "status", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *status = fd < 0 ? NULL : proc_status_slurp(fd, NULL);

	return status && exits_has_shadow_stack(status);
}

static struct error *check_shadow_stack(const struct session *session)
{
	if (!exits_shadow_stack_of(session->proc->pid))
		return NULL;
	return error_new(
		ERROR_REFUSED,
		"the process has a shadow stack (CET), which forbids changed return addresses");
}

/* Does the process have an unwinder that can learn of stubs? */
static bool has_unwinder(const struct session *session)
{
	for (size_t i = 0; i < session->modules.count; i++) {
		struct module *module = session->modules.items[i];
		struct symtab *symtab;
		_cleanup_error_ struct error *error = module_symtab(session->proc, module, &symtab);

		if (!error && (exits_is_unwinder(symtab) || exits_hook_is_there(session, module)))
			return true;
	}
	return false;
}

/* Has the module an unwinder that has no name to find it by? Nothing tells of one in a static
 * program; in another it does harm if it's the only one. */
static bool is_unknown_unwinder(const struct session *session, const struct module *module,
				const struct symtab *symtab)
{
	uint64_t find;

	if (symtab_hidden_unwinder(symtab, &find))
		return !exits_hook_is_there(session, module);
	return module->is_executable && symtab_has_handlers(symtab) &&
	       symtab_is_stripped(symtab) && !exits_is_unwinder(symtab) &&
	       (!symtab_has_loader(symtab) || !has_unwinder(session));
}

/* Such an unwinder can't learn of stubs (H7). */
static struct error *check_unwinders(const struct session *session)
{
	for (size_t i = 0; i < session->modules.count; i++) {
		struct module *module = session->modules.items[i];
		struct symtab *symtab;
		_cleanup_error_ struct error *error = module_symtab(session->proc, module, &symtab);

		if (!error && is_unknown_unwinder(session, module, symtab))
			return error_new(ERROR_REFUSED,
					 "%s has exception tables, but its unwinder has no name "
					 "and can't learn of return stubs",
					 module->is_executable ? "the program" : module->name);
	}
	return NULL;
}

static struct error *check_process(const struct session *session)
{
	struct error *error = check_shadow_stack(session);

	return error ? error : check_unwinders(session);
}

/* ---- the functions --------------------------------------------------------------------------- */

static struct error *check_body(struct check *check, const struct rules *rules,
				const struct place *place, uint64_t address)
{
	const struct cfi_rows *rows;
	struct error *error = module_cfi(check->session->proc, place->module, &rows);

	if (!error && place->symbol &&
	    exit_body_touches_return(rules->symtab, rows, address, place->symbol->size))
		error = error_new(ERROR_REFUSED, "reads or changes its own return address");
	return error;
}

/* Its ends are found later (exits_late.c). */
static struct error *check_go(const struct symtab *symtab, const struct place *place)
{
	uint64_t address = place->address.v - place->module->bias.v;
	struct go_prologue prologue;

	if (!place->symbol || !go_prologue_keeps_goroutine(symtab, address))
		return error_new(ERROR_REFUSED, "it is not by Go's compiler, whose functions know "
						"their goroutine (Go 1.17 and later)");
	if (go_prologue_is_runtime(place->symbol) && !go_prologue_read(symtab, address, &prologue))
		return error_new(ERROR_REFUSED,
				 "a goroutine's stack may have no room left there");
	return NULL;
}

static struct error *check_function(struct check *check, const struct probe *probe)
{
	const struct place *place = &probe->place;
	struct rules rules = { 0 };

	assert(place->module && probe->event.exit);
	struct error *error = find_rules(check, place->module, &rules);

	if (error)
		return error;
	if (place->symbol && place->symbol->source == SOURCE_PLT)
		return error_new(ERROR_REFUSED,
				 "it is an entry of the linkage table (name the function itself)");
	if (probe->event.keep_red_zone) /* the stack has no room for red zone and stub */
		return error_new(ERROR_REFUSED,
				 "the unwind table has no function that starts there");
	if (probe->event.is_go)
		return check_go(rules.symtab, place);
	uint64_t address = place->address.v - place->module->bias.v;

	error = exit_check(rules.symtab, rules.frames, address,
			   place->symbol ? place->symbol->name : NULL);
	return error ? error : check_body(check, &rules, place, address);
}

/* Without exits nothing can tell which calls to record: none is. */
static struct error *record_none(struct tracepoint *tracepoint)
{
	struct value_ops *never = calloc(1, sizeof(*never));

	if (!never)
		return error_new(ERROR_FAILED, "out of memory");
	ops_const(never, 0);
	free(tracepoint->values.filter);
	tracepoint->values.filter = never;
	tracepoint->probe.event.filter = never;
	return NULL;
}

/* Reduces the tracepoint to entries, with the reason. Fails if the user named the function. */
static struct error *take_exit(struct tracepoint *tracepoint, struct error *reason)
{
	assert(!tracepoint->exit_refusal);
	if (error_kind(reason) != ERROR_REFUSED)
		return reason;
	if (!tracepoint->from_glob) {
		struct error *error = error_new(
			ERROR_REFUSED,
			"%s: exit not traced: %s; leave out -e to trace its entry",
			tracepoint->name, error_text(reason));
		error_free(reason);
		return error;
	}
	tracepoint->probe.event.exit = false;
	tracepoint->exit_refusal = reason;
	return tracepoint->probe.event.is_pair ? record_none(tracepoint) : NULL;
}

struct error *exits_check(struct session *session, const struct tracepoint_list *list)
{
	_cleanup_(check_free) struct check check = { .session = session };
	bool wanted = exits_wanted(list);
	_cleanup_error_ struct error *whole = wanted ? check_process(session) : NULL;
	/* the program itself also for exits_looks_near: OCaml's runtime is a part of it */
	struct error *error = exits_judge_callers(session, wanted);

	for (size_t i = 0; i < list->count && !error; i++) {
		struct tracepoint *tracepoint = list->items[i];

		if (!tracepoint->probe.site || !tracepoint->probe.event.exit)
			continue;
		struct error *reason = whole ? error_new(error_kind(whole), "%s", error_text(whole))
					     : check_function(&check, &tracepoint->probe);
		if (reason)
			error = take_exit(tracepoint, reason);
	}
	return error;
}

struct error *exits_check_ends(const struct tracepoint_list *list)
{
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		struct tracepoint *tracepoint = list->items[i];

		if (tracepoint->probe.event.exit && tracepoint->probe.event.is_go &&
		    tracepoint->late_refusal)
			error = take_exit(tracepoint, take_ptr(&tracepoint->late_refusal));
	}
	return error;
}
