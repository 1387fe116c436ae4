#include "triggers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"

#define LOOK_NS (TRIGGERS_LOOK_MS * 1000000ULL)
#define LOOK_SHARE 10 /* of the time between looks at most this part is spent looking */

/* ---- tracepoints ---------------------------------------------------------------------------- */

/* A hit that the filter keeps out of the trace doesn't ask. The caller frees *ret_filter. */
static struct error *make_spec(const struct tracepoint_spec *spec, const char *when,
			       struct tracepoint_spec *ret_trigger, char **ret_filter)
{
	if (spec->filter ? asprintf(ret_filter, "(%s) && (%s)", spec->filter, when) < 0 :
			   !(*ret_filter = strdup(when))) {
		*ret_filter = NULL;
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_trigger = (struct tracepoint_spec){ .location = spec->location,
						 .kind = spec->kind,
						 .wait = spec->wait,
						 .string_max = spec->string_max,
						 .floats = spec->floats,
						 .prototypes = spec->prototypes,
						 .disabled = spec->disabled,
						 .filter = *ret_filter,
						 .tracer = "count",
						 .is_trigger = true };
	return NULL;
}

struct error *triggers_add(struct session *session, const struct tracepoint_spec *spec,
			   const char *when)
{
	struct tracepoint_spec trigger;
	_cleanup_free_ char *filter = NULL;
	struct error *error = make_spec(spec, when, &trigger, &filter);

	if (!error)
		error = session_add(session, &trigger, NULL);
	return error;
}

struct error *triggers_add_as(struct session *session, const struct tracepoint_spec *spec,
			      const char *when, const struct name_list *names,
			      struct name_list *ret_made)
{
	struct tracepoint_spec trigger;
	struct name_list placed = { 0 };
	_cleanup_free_ char *filter = NULL;
	struct error *error = make_spec(spec, when, &trigger, &filter);

	if (!error)
		error = session_add_as(session, &trigger, names, ret_made, &placed);
	name_list_free(&placed);
	return error;
}

/* The two were added for one place by the same words. */
static bool is_trigger_of(const struct tracepoint_info *trigger, const struct tracepoint_info *info)
{
	return !info->is_trigger && info->address.v == trigger->address.v &&
	       info->location && trigger->location && !strcmp(info->location, trigger->location);
}

/* Is there a tracepoint that the trigger is for? *ret_on: is one of them switched on? */
static bool find_own(const struct session *session, const struct tracepoint_info *trigger,
		     bool *ret_on)
{
	bool found = false;

	*ret_on = false;
	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (!is_trigger_of(trigger, &info))
			continue;
		found = true;
		*ret_on |= info.enabled;
	}
	return found;
}

struct error *triggers_follow(struct session *session)
{
	struct error *error = NULL;

	/* from the last: a removal moves those behind it */
	for (size_t i = session_tracepoint_count(session); !error && i-- > 0;) {
		struct tracepoint_info info = session_tracepoint(session, i);
		size_t count;
		bool on;

		if (!info.is_trigger)
			continue;
		_cleanup_free_ char *name = strdup(info.name);
		if (!name)
			return error_new(ERROR_FAILED, "out of memory");
		if (!find_own(session, &info, &on))
			error = session_remove(session, name, &count);
		else if (on != info.enabled)
			error = session_switch(session, name, on, &count);
	}
	return error;
}

/* ---- counters ------------------------------------------------------------------------------- */

bool triggers_exist(const struct session *session)
{
	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		if (session_tracepoint(session, i).is_trigger)
			return true;
	}
	return false;
}

/* With exits, a call asks when it returns: its result and duration are known then. */
static uint64_t count_all(const struct session *session)
{
	uint64_t count = 0;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (info.is_trigger)
			count += info.has_exit ? info.times.calls : info.hits;
	}
	return count;
}

void triggers_begin(struct triggers *triggers, const struct session *session)
{
	triggers->seen = count_all(session);
}

bool triggers_look(struct triggers *triggers, const struct session *session)
{
	uint64_t now = now_ns();

	if (now < triggers->next_look)
		return false;
	uint64_t count = count_all(session), took = now_ns() - now;
	triggers->next_look =
		now + took + (took * LOOK_SHARE > LOOK_NS ? took * LOOK_SHARE : LOOK_NS);
	if (count > triggers->seen) /* less: one was removed */
		triggers->fresh += count - triggers->seen;
	bool is_new = count > triggers->seen;
	triggers->seen = count;
	return is_new && now >= triggers->next_due;
}

void triggers_tell(struct triggers *triggers, char *ret_text, size_t size)
{
	snprintf(ret_text, size, "%" PRIu64 " trigger%s", triggers->fresh,
		 triggers->fresh == 1 ? "" : "s");
	triggers->fresh = 0;
	triggers->next_due = now_ns() + triggers->every_ns;
}
