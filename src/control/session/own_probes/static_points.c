#include "static_points.h"

#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "control/elf/sdt.h"
#include "control/elf/ust_events.h"

#define TOLD_MAX 256u /* notices per file and kind */
#define UST_LIBRARY "liblttng-ust.so" /* needed by every file with a provider */

/* ---- notices --------------------------------------------------------------------------------- */

static void tell(const struct session *session, enum session_notice notice, const char *provider,
		 const char *name, const struct module *module)
{
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "%s:%s in %s", provider, name, module->path) < 0)
		text = NULL;
	if (text)
		session_notify(session, notice, text);
}

static void tell_rest(const struct session *session, enum session_notice notice, size_t count,
		      const struct module *module)
{
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "%zu more in %s (dyntrace list-markers)", count, module->path) < 0)
		text = NULL;
	if (text && count)
		session_notify(session, notice, text);
}

/* One notice per marker, however many places it has. */
static void tell_markers(struct session *session, struct module *module)
{
	const struct markers *markers;
	size_t told = 0, rest = 0;
	struct error *error = module_markers(session->proc, module, &markers);

	if (error)
		markers = (error_free(error), NULL);
	for (size_t i = 0; markers && i < markers->count; i++) {
		const struct marker *marker = &markers->items[i], *before = i ? marker - 1 : NULL;

		if (before && strcmp(before->name, marker->name) == 0 &&
		    strcmp(before->provider, marker->provider) == 0)
			continue;
		if (told++ < TOLD_MAX)
			tell(session, SESSION_MARKER_LOADED, marker->provider, marker->name,
			     module);
		else
			rest++;
	}
	tell_rest(session, SESSION_MARKER_LOADED, rest, module);
}

static void tell_ust_events(struct session *session, struct module *module)
{
	const struct ust_events *events;
	struct error *error = module_ust_events(session->proc, module, &events);

	if (error) {
		error_free(error);
		return;
	}
	for (size_t i = 0; i < events->count && i < TOLD_MAX; i++)
		tell(session, SESSION_STATIC_LOADED, events->items[i].provider,
		     events->items[i].name, module);
	if (events->count > TOLD_MAX)
		tell_rest(session, SESSION_STATIC_LOADED, events->count - TOLD_MAX, module);
}

void static_points_tell(struct session *session)
{
	for (size_t i = 0; session->options.notify && i < session->modules.count; i++) {
		struct module *module = session->modules.items[i];

		if (!module->is_new || module->is_vdso)
			continue;
		module->is_new = false;
		tell_markers(session, module);
		tell_ust_events(session, module);
	}
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool is_ust_library(const struct module *module)
{
	return strncmp(module->name, UST_LIBRARY, strlen(UST_LIBRARY)) == 0;
}

static bool has_ust_library(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (is_ust_library(modules->items[i]))
			return true;
	}
	return false;
}

static void point_clear(struct static_point *point)
{
	free(point->name);
	free(point->arguments);
	free(point->module);
}

static struct error *add_point(struct static_points *points, const struct module *module,
			       const struct ust_event *event)
{
	struct static_point point = { .arguments = strdup(event->arguments),
				      .module = strdup(module->name),
				      .address = event->address + module->bias.v };

	if (asprintf(&point.name, "%s:%s", event->provider, event->name) < 0)
		point.name = NULL;
	if (point.name && point.arguments && point.module && vec_push(points, point))
		return NULL;
	point_clear(&point);
	return error_new(ERROR_FAILED, "out of memory");
}

struct error *static_points_list(struct session *session, struct static_points *ret_points)
{
	bool any = has_ust_library(&session->modules);
	struct static_points points = { 0 };
	struct error *error = NULL;

	for (size_t i = 0; any && i < session->modules.count && !error; i++) {
		struct module *module = session->modules.items[i];
		const struct ust_events *events;

		if (is_ust_library(module) || module->is_vdso)
			continue;
		struct error *unreadable = module_ust_events(session->proc, module, &events);
		if (unreadable) {
			error_free(unreadable);
			continue;
		}
		for (size_t k = 0; k < events->count && !error; k++)
			error = add_point(&points, module, &events->items[k]);
	}
	if (error) {
		static_points_free(&points);
		return error;
	}
	*ret_points = points;
	return NULL;
}

void static_points_free(struct static_points *points)
{
	for (size_t i = 0; i < points->count; i++)
		point_clear(&points->items[i]);
	vec_free(points);
}
