/*
 * exits_bound.c - do the target's exceptions go through this unwinder?
 *
 * Libraries may bring an unwinder that nobody calls: libtcmalloc.so.4 needs libunwind.so.8, while
 * exceptions go to libgcc_s. Two things tell who is called:
 *
 * - the words that the loader has bound already: none may lead into the unwinder;
 * - the loader's search order, for words that it binds at the first call or in libraries that come
 *   later: another unwinder must be ahead, and be there from the start, so that it is ahead for
 *   everybody.
 *
 * What can't be read counts as bound. Not seen: a library that is loaded with RTLD_DEEPBIND, so has
 * an order of its own, and that hasn't thrown yet.
 */
#include "control/base/cleanup.h"
#include "control/modules/bindings.h"
#include "control/session/own_probes/library_notice.h"
#include "exits.h"

/* Only these leave frames. The others look at a walk, or walk without leaving. */
static const char *const leaving[] = { "_Unwind_RaiseException", "_Unwind_Resume",
				       "_Unwind_Resume_or_Rethrow", "_Unwind_ForcedUnwind" };

/* Can other modules be bound to it? Not to the program: its symbols needn't be exported. */
static bool offers_unwinder(struct session *session, struct module *module)
{
	struct symtab *symtab;

	if (!module || module->is_executable)
		return false;
	_cleanup_error_ struct error *unreadable = module_symtab(session->proc, module, &symtab);
	return !unreadable && exits_is_unwinder(symtab) &&
	       symtab_find(symtab, "_Unwind_RaiseException")->global;
}

/* Is another unwinder ahead of it in the search order? */
static bool is_behind(struct session *session, const struct module *unwinder)
{
	struct load_order order;
	bool known = load_order_read(session->proc, &session->modules,
				     library_notice_r_debug(session), &order);
	bool behind = false, listed = false;

	for (size_t i = 0; known && i < order.all.count && !listed; i++) {
		const struct load_order_item *item = &order.all.items[i];

		listed = item->module == unwinder;
		behind |= !listed && item->from_start && offers_unwinder(session, item->module);
	}
	load_order_free(&order);
	return listed && behind; /* not listed: it is in another namespace (dlmopen) */
}

bool exits_is_bound(struct session *session, const struct module *unwinder,
		    const struct symtab *symtab)
{
	/* A module with handlers may have the unwinder for itself: then no word tells. */
	return unwinder->is_executable || symtab_has_handlers(symtab) ||
	       bound_words_lead_into(session->proc, &session->modules, unwinder, leaving,
				     sizeof(leaving) / sizeof(leaving[0])) ||
	       !is_behind(session, unwinder);
}
