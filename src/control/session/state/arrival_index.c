#include "arrival_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"

static const char *name_of(const struct waiting *waiting)
{
	return waiting->tracepoint->probe.place.name;
}

/* No name is before all names. */
static int compare_names(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

static int compare_waiting(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;
	int order = compare_names(name_of(x), name_of(y));

	return order ? order : (x->at > y->at) - (x->at < y->at);
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

struct error *arrival_index_make(const struct session *session, const struct request *request,
				 struct arrival_index *ret_index)
{
	*ret_index = (struct arrival_index){ .is_glob = request->location.is_glob };
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (tracepoint->request != request)
			continue;
		if (tracepoint->waits ?
			    !vec_push(&ret_index->waiting,
				      (struct waiting){ .tracepoint = tracepoint, .at = i }) :
			    !vec_push(&ret_index->placed, tracepoint->probe.place.address.v))
			return error_new(ERROR_FAILED, "out of memory");
		ret_index->nameless += tracepoint->waits && !tracepoint->probe.place.name;
	}
	if (ret_index->placed.count)
		qsort(ret_index->placed.items, ret_index->placed.count, sizeof(uint64_t),
		      compare_addresses);
	if (ret_index->waiting.count)
		qsort(ret_index->waiting.items, ret_index->waiting.count, sizeof(struct waiting),
		      compare_waiting);
	return NULL;
}

void arrival_index_free(struct arrival_index *index)
{
	vec_free(&index->placed);
	vec_free(&index->waiting);
}

bool arrival_index_has(const struct arrival_index *index, const struct place *place)
{
	uint64_t address = place->address.v;
	size_t n = sorted_count(index->placed.count, i, index->placed.items[i] < address);

	return n < index->placed.count && index->placed.items[n] == address;
}

/* The first of those from `start` on that have this name and aren't taken. */
static struct waiting *first_free(struct arrival_index *index, size_t start, const char *name)
{
	for (size_t i = start; i < index->waiting.count; i++) {
		struct waiting *waiting = &index->waiting.items[i];

		if (compare_names(name_of(waiting), name) != 0)
			return NULL;
		if (!waiting->is_taken)
			return waiting;
	}
	return NULL;
}

struct tracepoint *arrival_index_take(struct arrival_index *index, const struct place *place)
{
	assert(index->nameless <= index->waiting.count);
	size_t n = sorted_count(index->waiting.count, i,
				compare_names(name_of(&index->waiting.items[i]), place->name) < 0);
	struct waiting *named = first_free(index, n, place->name);
	/* A glob's placeholder stays until all places are there: settle() retires it. */
	bool for_any = index->nameless && !index->is_glob;
	struct waiting *any = for_any ? first_free(index, 0, NULL) : NULL;
	struct waiting *first = !any || (named && named->at < any->at) ? named : any;

	if (!first)
		return NULL;
	first->is_taken = true;
	return first->tracepoint;
}
