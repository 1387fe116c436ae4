/*
 * tactic.h - the ways to divert a site. A table, tried in order; each can say no, with a reason, and leaves
 * nothing behind when it does.
 */
#ifndef DYNTRACE_PLAN_TACTIC_H
#define DYNTRACE_PLAN_TACTIC_H

#include "../code/decode.h"
#include "inbound.h"
#include "plan.h"

/* What a tactic looks at: addresses are the file's own. */
struct tactic_view {
	const struct symtab *symtab;
	const struct inbound *inbound;
	uint64_t address; /* of the site */
	uint64_t function_start, function_end; /* of the function that contains it */
};

struct tactic {
	const char *name;
	/* Fills in the site's moved instructions. */
	struct error *(*try)(const struct tactic_view *view, struct site *site);
};

extern const struct tactic tactics[];
extern const size_t tactic_count;

#endif
