/*
 * old_probes.c - continue where a killed controller ended.
 *
 * The old probes stay in the target, and record into the old pool, which nobody reads. A new site
 * replaces the old ones whose bytes it needs, in one stop (patch.h, P7): the old sites become part
 * of its group. So every hit is recorded once, by an old or a new probe. When all tracepoints are
 * placed again, the other old probes are removed, the old pool is read to the trace, and its memory
 * is unmapped (takeover.c). The new session writes to the same trace, under new event ids.
 *
 * (J1) An old site that shares bytes with a new one, or slots with such a site, is removed in the
 *      stop that places the new one.
 * (J2) No thread comes out of an old trampoline inside the bytes that a new site changes. Where
 *      that could happen, all old probes are removed first.
 *
 * Threads in old trampolines, and calls that will return to old stubs, are waited for at the end,
 * as in every detach.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/session/own_probes/fronts.h"
#include "control/base/cleanup.h"
#include "control/agent/sweep.h"
#include "takeover_state.h"

#define FIRST_GROUP (1u << 30) /* beyond the planner's own */

struct old_probes {
	struct session *dead;
	struct reader_resume *resume; /* per thread: how much of it the trace has */
	struct takeover done; /* the result, if yield() ended the takeover early */
	unsigned last_group;
};

/* ---- beginning ------------------------------------------------------------------------------- */

/* Can the old probes stay? Not with a handler of a signal, a hook in an unwinder, threads and
 * memory of tracers that call foreign code, or a change that the kill interrupted. */
static bool is_plain(const struct session *dead)
{
	const struct dt_control *control = dead->agent->control;
	bool descriptors = true;
	bool half = control->window_count < DT_WINDOWS_MAX &&
		    control->windows[control->window_count].address;
	_cleanup_error_ struct error *error = sweep_look_descriptors(dead->proc, &descriptors);

	for (size_t i = 0; i < dead->found.count; i++)
		half |= dead->found.items[i].is_last && !dead->found.items[i].is_guard;
	return !error && !descriptors && !half && !control->traps && !control->calls &&
	       !fronts_any(dead, dead->proc) &&
	       !(control->flags & (DT_BRIDGED | DT_ENDED));
}

bool takeover_waits(const struct session *session)
{
	return session->old_probes != NULL;
}

static void old_probes_drop(struct old_probes *old_probes)
{
	session_destroy(old_probes->dead);
	free(old_probes->resume);
	free(old_probes);
}

static void old_probes_free(struct session *session)
{
	if (session->old_probes)
		old_probes_drop(take_ptr(&session->old_probes));
	if (session->reopened)
		error_free(writer_suspend(take_ptr(&session->reopened)));
	old_counts_destroy(session);
}

static void forget_trace(struct session *session)
{
	event_types_free(&session->own_types);
	if (session->reopened)
		error_free(writer_suspend(take_ptr(&session->reopened)));
}

/* Copies event types as the trace notes them, without names. */
static bool copy_types(const struct event_types *from, struct event_types *to)
{
	for (size_t i = 0; i < from->count; i++) {
		struct event_type type = from->items[i];

		type.fields = calloc(type.field_count + 1, sizeof(*type.fields));
		if (!type.fields || !vec_push(to, type)) {
			free(type.fields);
			return false;
		}
		memcpy(type.fields, from->items[i].fields, type.field_count * sizeof(*type.fields));
	}
	return true;
}

static struct error *open_trace(struct session *session, struct trace_dir *dir,
				struct old_probes *old_probes)
{
	struct session *dead = old_probes->dead;
	struct agent *agent = dead->agent;
	struct error *error =
		mem_read(session->proc, agent->pool_at, agent->pool, sizeof(*agent->pool));

	if (!error && !dir)
		return agent->control->output[0] ?
			       error_new(ERROR_FAILED, "its trace is unknown") :
			       NULL;
	if (!error)
		error = takeover_reopen(dead, dir, dead->types, old_probes->resume,
					&session->reopened);
	if (!error && !copy_types(dead->types, session->types))
		error = error_new(ERROR_FAILED, "out of memory");
	return error;
}

/* *ret_old is untouched if the old probes can't stay. */
static struct error *find_plain(struct session *session, struct trace_dir *dir,
				struct old_probes **ret_old)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *error = maps_read(session->proc, &maps);
	const struct mapping *code = error ? NULL : takeover_next(&maps, NULL);
	struct session_options options = { 0 };

	if (error || !code || takeover_next(&maps, code))
		return error;
	struct old_probes *old_probes = calloc(1, sizeof(*old_probes));
	if (old_probes)
		old_probes->resume = calloc(DT_THREADS_MAX, sizeof(*old_probes->resume));
	if (!old_probes || !old_probes->resume) {
		free(old_probes);
		return error_new(ERROR_FAILED, "out of memory");
	}
	old_probes->last_group = FIRST_GROUP;
	error = takeover_create_dead(session->proc, &options, &old_probes->dead);
	if (!error)
		error = takeover_find(old_probes->dead, &maps, code);
	if (!error && !takeover_is_half(old_probes->dead))
		error = fronts_end_loads(old_probes->dead);
	if (!error && !takeover_is_half(old_probes->dead) && is_plain(old_probes->dead)) {
		_cleanup_error_ struct error *unknown = open_trace(session, dir, old_probes);

		if (!unknown) {
			*ret_old = old_probes;
			return NULL;
		}
		forget_trace(session);
	}
	old_probes_drop(old_probes);
	return error;
}

static void see_nothing(void *context, const struct packet_seen *packet)
{
	(void)context;
	(void)packet;
}

static const struct session_guest heir; /* below */

struct error *takeover_inherit(struct session *session, struct trace_dir *dir, bool comes_back,
			       struct takeover *ret_takeover, bool *ret_waits)
{
	assert(!session->begun && !session->old_probes);
	struct takeover takeover = { 0 };
	struct error *error = NULL;

	session_invite(session, &heir);
	if (!old_counts_create(session))
		return error_new(ERROR_FAILED, "out of memory");
	if (comes_back)
		error = find_plain(session, dir, &session->old_probes);
	if (!error && !session->old_probes)
		error = takeover_clean_to(session->proc, dir, dir != NULL, &session->options.limits,
					  session->old_counts, &takeover);
	if (error)
		return error;
	if (!session->old_probes && takeover.has_trace && dir) {
		_cleanup_error_ struct error *unknown = writer_reopen_in(
			dir, &takeover.part, session->types, see_nothing, NULL, &session->reopened);
		if (unknown)
			forget_trace(session);
	}
	*ret_takeover = takeover;
	*ret_waits = session->old_probes != NULL;
	return NULL;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Reads the old pool into the trace, within its limits. */
static struct error *read_old_events(struct session *session, struct takeover *takeover)
{
	struct old_probes *old_probes = session->old_probes;
	struct error *error = writer_limit_before(session->reopened, session->writer,
						  &session->options.limits);

	if (!error)
		error = takeover_read(old_probes->dead, session->reopened, old_probes->resume,
				      takeover);
	if (!error)
		error = writer_complete(session->reopened);
	if (session->writer) { /* also after a failure: files may have gone and come */
		struct error *unnoted = writer_note_before(session->writer, session->reopened);

		if (error)
			error_free(unnoted);
		else
			error = unnoted;
	}
	return error;
}

/* Removes the remaining old probes, and reads their events. */
static struct error *finish(struct session *session, struct takeover *takeover)
{
	struct old_probes *old_probes = session->old_probes;
	struct session *dead = old_probes->dead;

	takeover->found = true;
	takeover->has_trace = session->reopened;
	struct error *error = takeover_undo(dead, takeover);
	old_counts_move(dead->old_counts, session->old_counts);
	if (!error && session->reopened)
		error = read_old_events(session, takeover);
	if (error)
		snprintf(takeover->unsaved, sizeof(takeover->unsaved), "%s", error_text(error));
	if (!error || takeover->events)
		snprintf(takeover->trace, sizeof(takeover->trace), "%s",
			 dead->agent->control->output);
	/* The session's types begin with the dead controller's (open_trace). */
	for (size_t i = 0; session->reopened && i < dead->types->count; i++)
		session->types->items[i].lost = dead->types->items[i].lost;
	session_destroy(take_ptr(&old_probes->dead));
	return error;
}

struct error *takeover_settle(struct session *session, struct takeover *ret_takeover)
{
	struct old_probes *old_probes = session->old_probes;
	struct error *error = NULL;

	*ret_takeover = (struct takeover){ 0 };
	if (!old_probes)
		return NULL;
	*ret_takeover = old_probes->done;
	if (old_probes->dead)
		error = finish(session, ret_takeover);
	old_probes_drop(take_ptr(&session->old_probes));
	return error;
}

void takeover_give_counts(struct session *session)
{
	if (session->old_counts)
		old_counts_give(session);
}

/* Ends the takeover early, because of J2. */
static struct error *yield(struct session *session)
{
	struct old_probes *old_probes = session->old_probes;

	return old_probes && old_probes->dead ? finish(session, &old_probes->done) : NULL;
}

/* ---- sites ----------------------------------------------------------------------------------- */

/* The first old site that ends behind `from`; NULL: none. Old sites are sorted and don't
 * overlap. */
static struct patch_site *first_ending_behind(const struct session *dead, uint64_t from)
{
	const struct patch_site *sites = dead->found.items;
	size_t n = sorted_count(dead->found.count, i,
				sites[i].address.v + sites[i].length <= from);

	return n < dead->found.count ? &dead->found.items[n] : NULL;
}

struct groups {
	struct session *dead;
	struct patch_site **new;
	size_t count;
};

/* Makes one group of two. */
static void unite(const struct groups *groups, unsigned from, unsigned to)
{
	for (size_t i = 0; i < groups->count && from != to; i++) {
		if (groups->new[i]->group == from)
			groups->new[i]->group = to;
	}
	for (size_t i = 0; i < groups->dead->found.count && from != to; i++) {
		if (groups->dead->found.items[i].group == from)
			groups->dead->found.items[i].group = to;
	}
}

/* Does the old trampoline lead into the bytes of the new site (J2)? */
static bool comes_out_inside(const struct patch_site *old, const struct patch_site *new)
{
	uint64_t end = old->address.v + old->length;

	return end > new->address.v && end < new->address.v + new->length;
}

/* Adds old sites that share bytes with the new one to its group (J1). False: J2 doesn't hold. */
static bool join_site(struct old_probes *old_probes, const struct groups *groups,
		      struct patch_site *new)
{
	const struct session *dead = old_probes->dead;
	struct patch_site *old = first_ending_behind(dead, new->address.v);

	for (; old && old < dead->found.items + dead->found.count &&
	       old->address.v < new->address.v + new->length;
	     old++) {
		if (old->state != PATCH_PLACED)
			continue;
		if (comes_out_inside(old, new))
			return false;
		if (!new->group)
			new->group = ++old_probes->last_group;
		if (old->group)
			unite(groups, old->group, new->group);
		old->group = new->group;
		assert(old->group && !comes_out_inside(old, new)); /* J1, J2 */
	}
	return true;
}

/* Puts old sites that lead through each other's bytes into one group (J1). */
static void join_slots(const struct groups *groups)
{
	bool again = true;

	while (again) {
		again = false;
		for (size_t i = 0; i < groups->dead->found.count; i++) {
			struct patch_site *site = &groups->dead->found.items[i];
			struct patch_site *host = (struct patch_site *)site->after;

			if (!host || host->group == site->group || site->state != PATCH_PLACED)
				continue;
			again = true;
			if (host->group && site->group)
				unite(groups, site->group, host->group);
			else if (host->group)
				site->group = host->group;
			else
				host->group = site->group;
		}
	}
}

static bool join_all(struct old_probes *old_probes, const struct groups *groups)
{
	for (size_t i = 0; i < old_probes->dead->found.count; i++)
		old_probes->dead->found.items[i].group = 0;
	for (size_t i = 0; i < groups->count; i++) {
		if (groups->new[i]->state == PATCH_PLANNED &&
		    !join_site(old_probes, groups, groups->new[i]))
			return false;
	}
	join_slots(groups);
	return true;
}

static struct error *old_probes_join(struct session *session, struct patch_site ***patches,
				     size_t *count)
{
	struct old_probes *old_probes = session->old_probes;

	if (!old_probes || !old_probes->dead)
		return NULL;
	struct groups groups = { old_probes->dead, *patches, *count };
	if (!join_all(old_probes, &groups))
		return yield(session);
	struct patch_site **all =
		reallocarray(*patches, *count + old_probes->dead->found.count + 1, sizeof(*all));
	if (!all)
		return error_new(ERROR_FAILED, "out of memory");
	*patches = all;
	for (size_t i = 0; i < old_probes->dead->found.count; i++) {
		if (old_probes->dead->found.items[i].group &&
		    old_probes->dead->found.items[i].state == PATCH_PLACED)
			all[(*count)++] = &old_probes->dead->found.items[i];
	}
	return NULL;
}

static void end(struct session *session, struct session_summary *summary)
{
	struct takeover takeover;

	(void)summary;
	error_free(takeover_settle(session, &takeover));
	takeover_give_counts(session);
}

static const struct session_guest heir = {
	.join = old_probes_join,
	.end = end,
	.free = old_probes_free,
};
