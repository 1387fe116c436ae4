/*
 * exits_hook.c - an unwinder that can't be called now learns of the return stubs all the same.
 *
 * libgcc asks one function of its own, _Unwind_Find_FDE(pc, bases), for the table of each frame. A probe of ours is put
 * there that answers for the stubs itself and lets all other questions pass (plan/find_code.c). Nothing in the target
 * is called for that, and no lock is needed: so it works in a library that was just mapped and isn't relocated
 * yet, before any of its code has run, and where no thread ever comes to rest.
 *
 * When the target is left these probes go last: as long as a call is inside, an exception may pass through its stub.
 */
#include <string.h>

#include "../base/cleanup.h"
#include "internal.h"

bool exits_hook_is_there(const struct session *session, const struct module *module)
{
	for (size_t i = 0; i < session->watches.count; i++) {
		const struct probe *probe = session->watches.items[i];

		if (probe->event.finds && probe->place.module == module)
			return probe->site && probe->site->patch.state == PATCH_PLACED;
	}
	return false;
}

static bool was_tried(const struct session *session, const struct module *module)
{
	for (size_t i = 0; i < session->watches.count; i++) {
		const struct probe *probe = session->watches.items[i];

		if (probe->event.finds && probe->place.module == module)
			return true;
	}
	return false;
}

static struct error *add_hook(struct session *session, struct module *module, bool *ret_added)
{
	struct symtab *symtab;
	struct probe *probe;
	_cleanup_error_ struct error *unreadable = module_symtab(session->proc, module, &symtab);
	const struct symbol *raise = unreadable ? NULL : symtab_find(symtab, "_Unwind_RaiseException");
	const struct symbol *find = raise ? symtab_find(symtab, "_Unwind_Find_FDE") : NULL;

	/* LLVM's has the function, but doesn't ask it. */
	if (!find || find->kind != SYMBOL_FUNCTION || exits_is_llvm(symtab) || was_tried(session, module))
		return NULL;
	struct error *error = watch_add(session, module, find, &probe);
	if (!error)
		probe->event.finds = *ret_added = true;
	return error;
}

struct error *exits_hook_all(struct session *session)
{
	const struct tracepoint_list none = { 0 };
	struct error *error = NULL;
	bool added = false;

	for (size_t i = 0; i < session->modules.count && !error; i++) {
		if (!exits_is_told(session, session->modules.items[i]))
			error = add_hook(session, session->modules.items[i], &added);
	}
	return error || !added ? error : place_list(session, &none, NULL);
}
