/*
 * exits_hook.c - own probes by which unwinders learn of our code: return stubs, trampolines, the
 * agent.
 *
 * libgcc asks one function of its own, _Unwind_Find_FDE(pc, bases), for the table of each frame. An
 * own probe there answers for our code and lets all other questions pass
 * (codegen/x86_64/find_code.c, target/find.c). The hook calls nothing in the target and needs no
 * lock: it works in a library that was just mapped and isn't relocated yet, before any of its code
 * has run, and in processes whose threads never come to rest. Hooks are placed with the first
 * probes, in the same stop.
 *
 * When a session leaves its target it removes these probes last: as long as a call is inside, an
 * exception may pass through its stub.
 */
#include <assert.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "exits.h"
#include "control/session/own_probes/own_probes.h"

static const struct probe *find_hook(const struct session *session, const struct module *module)
{
	for (size_t i = 0; i < session->own_probes.count; i++) {
		const struct probe *probe = session->own_probes.items[i];

		if (probe->event.finds && probe->place.module == module)
			return probe;
	}
	return NULL;
}

bool exits_hook_is_there(const struct session *session, const struct module *module)
{
	const struct probe *hook = find_hook(session, module);

	return hook && hook->site &&
	       (hook->site->patch.state == PATCH_PLACED ||
		hook->site->patch.state == PATCH_PLANNED);
}

/* 0: libgcc's unwinder isn't in the file. LLVM's has the function, but doesn't ask it. */
static uint64_t find_function(const struct symtab *symtab)
{
	const struct symbol *find = symtab_find(symtab, "_Unwind_Find_FDE");
	uint64_t hidden;

	if (symtab_hidden_unwinder(symtab, &hidden))
		return hidden;
	return symtab_find(symtab, "_Unwind_RaiseException") && find &&
			       find->kind == SYMBOL_FUNCTION && !exits_is_llvm(symtab) ?
		       find->address :
		       0;
}

static struct error *add_hook(struct session *session, struct module *module)
{
	struct symtab *symtab;
	struct probe *probe;
	_cleanup_error_ struct error *unreadable = module_symtab(session->proc, module, &symtab);
	uint64_t find = unreadable ? 0 : find_function(symtab);

	if (!find)
		return NULL;
	assert(!find_hook(session, module));
	struct error *error = own_probes_add(&session->own_probes, module, find,
					     "_Unwind_Find_FDE", &probe);
	if (!error)
		probe->event.finds = true;
	return error;
}

static bool wants_exits(const struct session *session, const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->probe.event.exit)
			return true;
	}
	return session->exits->returns.v;
}

/* Without exits, only the program and libgcc_s are searched: reading all libraries would cost more
 * than a hook in one of them is worth. */
struct error *exits_hook_add(struct session *session, const struct tracepoint_list *list)
{
	bool all = wants_exits(session, list);
	struct error *error = NULL;

	for (size_t i = 0; i < session->modules.count && !error; i++) {
		struct module *module = session->modules.items[i];

		if ((all || module->is_executable || !strncmp(module->name, "libgcc_s.", 9)) &&
		    !find_hook(session, module) && !exits_is_announced(session, module))
			error = add_hook(session, module);
	}
	return error;
}
