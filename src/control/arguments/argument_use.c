#include "argument_use.h"

#include <stdlib.h>

#include "caller_evidence.h"
#include "use_search.h"
#include "use_table.h"

struct argument_uses {
	const struct symtab *symtab;
	struct use_search *plain; /* by the functions' code alone: what caller_evidence believes */
	struct use_search *full; /* by callers, too */
	struct use_table evidence; /* in `reads`: registers that aren't arguments */
};

static uint8_t find_evidence(void *context, uint64_t function, uint8_t wanted)
{
	struct argument_uses *uses = context;
	const struct use *known = use_table_find(&uses->evidence, function);
	struct use use = { .address = function };

	if (known)
		return known->reads & wanted;
	use.reads = caller_evidence(uses->symtab, uses->plain, function);
	use_table_add(&uses->evidence, &use);
	return use.reads & wanted;
}

struct argument_uses *argument_uses_new(const struct symtab *symtab)
{
	struct argument_uses *uses = calloc(1, sizeof(*uses));

	if (!uses)
		return NULL;
	uses->symtab = symtab;
	uses->plain = use_search_new(symtab, NULL, NULL);
	uses->full = use_search_new(symtab, find_evidence, uses);
	if (uses->plain && uses->full)
		return uses;
	argument_uses_free(uses);
	return NULL;
}

void argument_uses_free(struct argument_uses *uses)
{
	if (!uses)
		return;
	use_search_free(uses->plain);
	use_search_free(uses->full);
	use_table_free(&uses->evidence);
	free(uses);
}

uint8_t argument_uses_of(struct argument_uses *uses, uint64_t address)
{
	struct use use = use_search_function(uses->full, address);

	return use.reads | use.doubts;
}
