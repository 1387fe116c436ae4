#include "lttng_unheard.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"

/* liblttng-ust hears of sessions from its own threads, some time after it was loaded. */
#define HEARD_MS 300
#define HEARD_STEP_MS 10

/* One word of entry and exit is enough: rules of a session may leave out the other on purpose. A
 * target that has ended tells nothing new. */
void lttng_unheard_look(const struct session *session, const struct tracepoint *tracepoint)
{
	const struct tramp_foreign *foreign = &tracepoint->probe.event.foreign;
	const taddr at[] = { foreign->enabled, foreign->exit_enabled };

	assert(tracepoint->lttng);
	for (size_t i = 0; i < 2; i++) {
		uint32_t enabled = 0;

		if (at[i].v)
			error_free(mem_read(session->proc, at[i], &enabled, sizeof(enabled)));
		tracepoint->lttng->heard |= enabled != 0;
	}
}

static bool is_unheard(const struct session *session, const struct tracepoint *tracepoint)
{
	if (!tracepoint_is(tracepoint, TRACER_LTTNG) || !tracepoint->lttng ||
	    tracepoint->request->lttng.enabled)
		return false;
	if (!tracepoint->lttng->heard)
		lttng_unheard_look(session, tracepoint);
	return !tracepoint->lttng->heard;
}

static size_t find_unheard(const struct session *session, const struct tracepoint_list *list,
			   const struct tracepoint **ret_first)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (!is_unheard(session, list->items[i]))
			continue;
		if (!count++)
			*ret_first = list->items[i];
	}
	return count;
}

/* "dyntrace:foo_entry", or with a star in place of the end where it must match several. */
static void name_pattern(const struct session *session, const struct tracepoint *tracepoint,
			 bool is_alone, char *ret_text, size_t size)
{
	bool has_exit = tracepoint->probe.event.exit;
	struct lttng_name name;

	if (!request_is_typed(tracepoint->request)) {
		const char *plain =
			lttng_tracer_plain_names[tracepoint->kind == TRACEPOINT_BARE ? 0 : 1];

		snprintf(ret_text, size, LTTNG_PLAIN_PROVIDER ":%s",
			 is_alone && !has_exit ? plain : "*");
		return;
	}
	const struct lttng_event event = lttng_tracer_event(session, tracepoint, 0);
	lttng_event_name(&event, &name);
	if (is_alone && has_exit && strlen(name.name) > strlen("entry"))
		strcpy(name.name + strlen(name.name) - strlen("entry"), "*");
	snprintf(ret_text, size, "%s:%s", name.provider, is_alone ? name.name : "*");
}

bool lttng_unheard_tell(const struct session *session, const struct tracepoint_list *list,
			char *ret_text, size_t size)
{
	const struct tracepoint *first = NULL;
	size_t count = find_unheard(session, list, &first);
	char pattern[2 * DT_BRIDGE_NAME + 4];

	for (unsigned waited = 0; count && waited < HEARD_MS && proc_is_alive(session->proc);
	     waited += HEARD_STEP_MS) {
		nanosleep(&(struct timespec){ .tv_nsec = HEARD_STEP_MS * 1000000L }, NULL);
		count = find_unheard(session, list, &first);
	}
	if (!count)
		return false;
	name_pattern(session, first, count == 1, pattern, sizeof(pattern));
	snprintf(ret_text, size,
		 "no started session of LTTng records %s yet (lttng enable-event --userspace '%s'; "
		 "lttng start)",
		 pattern, pattern);
	return true;
}
