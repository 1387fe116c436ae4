/*
 * locate_state.h - shared by the files locate*.c. Private to names/.
 */
#ifndef DYNTRACE_LOCATE_STATE_H
#define DYNTRACE_LOCATE_STATE_H

#include "control/base/quote.h"
#include "locate.h"

struct search {
	struct proc *proc;
	struct modules *modules;
	const struct location *location;
	bool want_function;
	struct places places;
	bool only_cold; /* locate_readable found no more than a piece that rarely runs */
};

struct unnamed_functions;

/* locate.c: adds a place at an address of the module's file; takes `name`. */
struct error *locate_add(struct search *search, struct module *module, const struct symbol *symbol,
			 uint64_t address, char *name);
/* locate.c: several functions have the name; `list` has a line per function, each after a newline,
 * escaped. */
struct error *locate_ambiguous(const struct search *search, size_t count,
			       const struct strbuf *list);
/* locate.c: the module's name for users. */
const char *locate_module_name(const struct search *search, const struct module *module);

/* locate_readable.c: C++ and Rust names as programmers write them, and functions of which only
 * clones are left. Nothing found: no place, no error. */
struct error *locate_readable(struct search *search, struct module *only);
/* locate_readable.c: the same among functions that the symbol tables don't name. */
struct error *locate_readable_unnamed(struct search *search, struct module *module,
				      const struct unnamed_functions *unnamed);
/* locate_readable.c: adds the clones of a function of that name. */
struct error *locate_clones(struct search *search, struct module *module,
			    const struct symtab *symtab, const struct symbol *function);
/* locate_readable.c: the error if only_cold is set, else NULL. */
struct error *locate_only_cold(const struct search *search);

/* locate_source.c: FILE:LINE. */
struct error *locate_line(struct search *search, struct module *only);
/* locate_source.c: inlined copies: of a symbol, in its own unit; NULL: of the name, anywhere. */
struct error *locate_inlined(struct search *search, struct module *only,
			     const struct symbol *symbol);

/* locate_unnamed.c: functions that the file's own symbol tables don't name (unnamed_functions.h).
 * Nothing found: no place, no error. */
struct error *locate_unnamed(struct search *search, struct module *only);
/* locate_unnamed.c: adds unnamed functions that the glob fits, at new addresses only. */
struct error *locate_unnamed_glob(struct search *search, struct module *module);

/* locate_marker.c: every place of PROVIDER:NAME. */
struct error *locate_marker(struct search *search, struct module *only);

/* locate_ifunc.c: the implementation that the process uses. */
struct error *locate_ifunc(struct search *search, struct module *module,
			   const struct symtab *symtab, const struct symbol *symbol);

#endif
