/*
 * exits_unwind.c - announce the return stubs to the unwinders in the target.
 *
 * An unwinder is a module that defines _Unwind_RaiseException, and _Unwind_SetGR, which handlers
 * need: the sanitizers' runtimes define only the first, as an observer, and call the real one.
 * libgcc gets a hook (exits_hook.c). An unwinder that can't have a hook learns of the stubs by a
 * call at a safe point, before the first use of a stub: LLVM's libunwind takes one FDE,
 * __register_frame(fde), and libgcc a table, __register_frame_info(table, object), where the object
 * is memory for its own notes.
 *
 * An unwinder that can't learn of the stubs in any way, libunwind.so.8, does no harm where no
 * exception goes through it (exits_bound.c); else no exits are recorded.
 *
 * If an unwinder has no name and isn't libgcc's, no call can reach it, and no exits are recorded: a
 * throw would end the program (exits_check.c). An unwinder that is loaded later and can't have a
 * hook learns of the stubs at the next safe point: until then it sees no frame beyond the first
 * stub.
 */
#include <assert.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/remote/safepoint.h"
#include "exits.h"
#include "control/session/state/session_state.h"

#define REGISTER_TIMEOUT_MS 2000
#define WATCH_NS 50000000ULL

/* LLVM's libunwind has all of libgcc's names, too; most of these functions do nothing there. */
static const struct {
	const char *announce, *forget;
	bool takes_object, is_llvm;
} interfaces[] = {
	{ "__register_frame_info", "__deregister_frame_info", true, false },
	{ "__register_frame", "__deregister_frame", false, true },
};

static taddr find_function(const struct module *module, const struct symtab *symtab,
			   const char *name)
{
	const struct symbol *symbol = symtab_find(symtab, name);

	return symbol && symbol->kind == SYMBOL_FUNCTION
		       ? taddr_add(module->bias, (int64_t)symbol->address)
		       : taddr_of(0);
}

bool exits_is_llvm(const struct symtab *symtab)
{
	return symtab_find(symtab, "__unw_add_dynamic_fde") ||
	       symtab_find(symtab, "__unw_getcontext");
}

bool exits_is_unwinder(const struct symtab *symtab)
{
	return symtab_find(symtab, "_Unwind_RaiseException") &&
	       symtab_find(symtab, "_Unwind_SetGR");
}

static bool is_registered(const struct exits *exits, taddr forget)
{
	for (size_t i = 0; i < exits->unwinder_count; i++) {
		if (taddr_equal(exits->unwinders[i].forget, forget))
			return true;
	}
	return false;
}

static struct error *announce(struct session *session, struct stop *held, taddr function,
			      const struct exits_unwinder *unwinder, bool takes_object,
			      unsigned timeout_ms)
{
	struct exits *exits = session->exits;

	assert(exits->returns.v && exits->unwinder_count < DT_UNWINDERS_MAX);
	uint64_t object = exits->returns.v + offsetof(struct dt_returns, objects) +
			  exits->unwinder_count * sizeof(((struct dt_returns *)0)->objects[0]);
	const uint64_t args[3] = { unwinder->table.v, takes_object ? object : 0 };
	struct error *error = safepoint_call(session->proc, held, function, args, timeout_ms);

	if (error)
		return error;
	struct dt_control *control = session->agent->control;
	control->unwinders[exits->unwinder_count] =
		(struct dt_unwinder){ unwinder->forget.v, unwinder->table.v };
	exits->unwinders[exits->unwinder_count++] = *unwinder;
	control->unwinder_count = (uint32_t)exits->unwinder_count;
	return NULL;
}

/* Announces the stubs to the module, if it is an unwinder. */
static struct error *announce_to(struct session *session, struct stop *held,
				 const struct module *module, const struct symtab *symtab,
				 unsigned timeout_ms)
{
	struct exits *exits = session->exits;

	if (!exits_is_unwinder(symtab))
		return NULL;
	for (size_t i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++) {
		taddr function = find_function(module, symtab, interfaces[i].announce);
		size_t table = exits->table_at + (interfaces[i].takes_object ? 0 : exits->fde_at);
		struct exits_unwinder unwinder = { find_function(module, symtab,
								 interfaces[i].forget),
						   taddr_add(exits->window, (int64_t)table) };

		if (!function.v || !unwinder.forget.v ||
		    interfaces[i].is_llvm != exits_is_llvm(symtab))
			continue;
		if (is_registered(exits, unwinder.forget))
			return NULL;
		if (exits->unwinder_count < DT_UNWINDERS_MAX)
			return announce(session, held, function, &unwinder,
					interfaces[i].takes_object, timeout_ms);
	}
	if (!exits_is_bound(session, module, symtab))
		return NULL;
	return error_new(ERROR_REFUSED,
			 "exceptions go through the unwinder in %s, which can't learn of return "
			 "stubs: an exception would end the program (record entries only)",
			 module->name);
}

bool exits_is_announced(struct session *session, struct module *module)
{
	struct symtab *symtab;
	_cleanup_error_ struct error *unreadable = module_symtab(session->proc, module, &symtab);
	bool known = exits_hook_is_there(session, module);

	for (size_t i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]) && !unreadable && !known;
	     i++) {
		taddr forget = find_function(module, symtab, interfaces[i].forget);

		known = forget.v && is_registered(session->exits, forget);
	}
	return known;
}

static struct error *announce_to_all(struct session *session, struct stop *held,
				     unsigned timeout_ms)
{
	struct modules *modules = &session->modules;
	struct error *error = NULL;

	for (size_t i = 0; i < modules->count && !error; i++) {
		struct symtab *symtab;
		struct error *unreadable = module_symtab(session->proc, modules->items[i], &symtab);

		if (!unreadable && !exits_hook_is_there(session, modules->items[i]))
			error = announce_to(session, held, modules->items[i], symtab, timeout_ms);
		error_free(unreadable);
	}
	return error;
}

/* Drops unwinders that were unloaded: their functions can't be called any more. */
static void drop_unloaded(struct session *session)
{
	struct exits *exits = session->exits;
	size_t kept = 0;

	for (size_t i = 0; i < exits->unwinder_count; i++) {
		bool there = false;

		for (size_t j = 0; j < session->modules.count; j++) {
			const struct module *module = session->modules.items[j];

			there |=
				taddr_within(exits->unwinders[i].forget, module->low, module->high);
		}
		if (there)
			exits->unwinders[kept++] = exits->unwinders[i];
	}
	assert(kept <= exits->unwinder_count);
	exits->unwinder_count = kept;
	for (size_t i = 0; i < kept; i++)
		session->agent->control->unwinders[i] =
			(struct dt_unwinder){ exits->unwinders[i].forget.v,
					      exits->unwinders[i].table.v };
	session->agent->control->unwinder_count = (uint32_t)kept;
}

void exits_modules_changed(struct session *session)
{
	if (!session->exits->returns.v)
		return;
	drop_unloaded(session);
	exits_allow(session);
	session->exits->all_announced = false; /* exits_watch calls unwinders without a hook */
}

struct error *exits_register(struct session *session, struct stop *held)
{
	exits_allow(session);
	struct error *error = announce_to_all(session, held, REGISTER_TIMEOUT_MS);

	return error ? error_wrap(error, "function exits can't be recorded") : NULL;
}

void exits_watch(struct session *session, uint64_t now_ns)
{
	struct exits *exits = session->exits;

	if (!exits->returns.v || exits->all_announced || now_ns < exits->next_watch)
		return;
	exits->next_watch = now_ns + WATCH_NS;
	/* not in another program that the process has begun since */
	if (!session_has_code(session, session->proc))
		return;
	struct error *error = announce_to_all(session, NULL, 0);
	exits->all_announced = !error; /* on failure the next call tries again */
	error_free(error);
}

struct error *exits_unregister(struct session *session, struct proc *proc)
{
	struct error *error = NULL;

	for (size_t i = session->exits->unwinder_count; i > 0 && !error; i--) {
		const struct exits_unwinder *unwinder = &session->exits->unwinders[i - 1];
		const uint64_t args[3] = { unwinder->table.v };

		error = safepoint_call(proc, NULL, unwinder->forget, args, REGISTER_TIMEOUT_MS);
	}
	return error ? error_wrap(error, "its unwinder still knows the return stubs") : NULL;
}

taddr exits_from(struct session *session)
{
	struct module *program = session->modules.count ? session->modules.items[0] : NULL;
	struct symtab *symtab;
	_cleanup_error_ struct error *error =
		program ? module_symtab(session->proc, program, &symtab) : NULL;

	if (!program || error || !exits_is_unwinder(symtab))
		return taddr_of(0);
	return find_function(program, symtab, "main");
}
