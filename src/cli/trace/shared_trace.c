#include "shared_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/ctf/read/trace_copy.h"
#include "old_trace.h"

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void shared_trace_sort_names(struct name_list *names)
{
	if (names->count)
		qsort(names->items, names->count, sizeof(*names->items), by_text);
}

bool shared_trace_has_name(const struct name_list *sorted, const char *name)
{
	return sorted->count &&
	       bsearch(&name, sorted->items, sorted->count, sizeof(*sorted->items), by_text);
}

/* trace_copy.wants; types whose name can't be looked up are left out */
static uint64_t *count_ours(void *context, const struct layout_event *type)
{
	static uint64_t unused;
	const struct shared_trace *shared = context;
	_cleanup_free_ char *stem = strndup(type->name, type->stem);

	return stem && !shared_trace_has_name(shared->others, stem) ? &unused : NULL;
}

/* trace_copy.drops */
static size_t drop_nothing(void *context, const struct layout_event *type)
{
	(void)context;
	(void)type;
	return 0;
}

struct error *shared_trace_copy(struct shared_trace *shared, const char *from, const char *to)
{
	struct trace_copy copy = { .from = from,
				   .to = to,
				   .until = shared->until ? shared->until : __rdtsc(),
				   .wants = count_ours,
				   .drops = drop_nothing,
				   .context = shared,
				   .lost = shared->lost };
	struct error *error = trace_copy(&copy);

	shared->events = copy.events;
	shared->bytes = copy.bytes;
	return error_wrap(error, "cannot copy the events from '%s'", from);
}

void shared_trace_remove(const char *path)
{
	_cleanup_free_ char *notes = NULL;

	/* a controller that was killed leaves its notes for the next one (ctf/reopen.c) */
	if (asprintf(&notes, "%s/.events", path) >= 0)
		unlink(notes);
	old_trace_remove(path);
}

struct error *shared_trace_clean(struct shared_trace *shared, const char *path)
{
	_cleanup_free_ char *part = NULL;

	if (asprintf(&part, "%s.part-%d", path, getpid()) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = shared_trace_copy(shared, path, part);
	if (!error && renameat2(AT_FDCWD, part, AT_FDCWD, path, RENAME_EXCHANGE))
		error = error_errno(errno, "cannot rename '%s'", part);
	shared_trace_remove(part);
	return error;
}
