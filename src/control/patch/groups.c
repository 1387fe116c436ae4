#include "groups.h"

#include <assert.h>
#include <stdlib.h>

#include "shared/sorted.h"

static int by_group(const void *a, const void *b)
{
	const struct group_member *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

struct error *groups_begin(struct groups *groups, struct patch_site *const *sites, size_t count)
{
	groups->items = calloc(count + 1, sizeof(*groups->items));
	groups->count = 0;
	if (!groups->items)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < count; i++) {
		if (sites[i]->group)
			groups->items[groups->count++] =
				(struct group_member){ sites[i]->group, i };
	}
	qsort(groups->items, groups->count, sizeof(*groups->items), by_group);
	return NULL;
}

void groups_end(struct groups *groups)
{
	free(groups->items);
	*groups = (struct groups){ 0 };
}

struct group_range groups_find(const struct groups *groups, unsigned group)
{
	assert(group);
	return (struct group_range){
		.first = sorted_count(groups->count, i, groups->items[i].group < group),
		.end = sorted_count(groups->count, i, groups->items[i].group <= group),
	};
}
