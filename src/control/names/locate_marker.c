/*
 * locate_marker.c - PROVIDER:NAME to the places of static markers.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "locate_state.h"
#include "control/elf/sdt.h"
#include "control/elf/ust_events.h"
#include "spell.h"

/* Adds one place per site; sites of one name become NAME, NAME-2... */
static struct error *add_matches(struct search *search, struct module *module,
				 const struct markers *markers)
{
	const struct location *location = search->location;

	for (size_t i = 0; i < markers->count; i++) {
		const struct marker *marker = &markers->items[i];
		char *name;

		if (fnmatch(location->provider, marker->provider, 0) != 0 ||
		    fnmatch(location->symbol, marker->name, 0) != 0)
			continue;
		if (asprintf(&name, "%s:%s", marker->provider, marker->name) < 0)
			name = NULL;
		struct error *error =
			locate_add(search, module, symtab_at(module->symtab, marker->address),
				   marker->address, name);
		if (error)
			return error;
		search->places.items[search->places.count - 1].marker = marker;
	}
	return NULL;
}

static void offer_markers(struct spell_near *near, const char *name, const struct markers *markers)
{
	for (size_t i = 0; i < markers->count; i++) {
		if (i == 0 || strcmp(markers->items[i].name, markers->items[i - 1].name) != 0)
			spell_offer(near, name, markers->items[i].name);
	}
}

/* Is it a static tracepoint of LTTng, which only LTTng records? */
static bool is_of_lttng(const struct search *search, struct module *module)
{
	const struct location *location = search->location;
	const struct ust_events *events;
	struct error *error = module->is_vdso ? NULL :
						module_ust_events(search->proc, module, &events);

	if (error || module->is_vdso)
		return (error_free(error), false);
	for (size_t i = 0; i < events->count; i++) {
		if (fnmatch(location->provider, events->items[i].provider, 0) == 0 &&
		    fnmatch(location->symbol, events->items[i].name, 0) == 0)
			return true;
	}
	return false;
}

static struct error *not_found(const struct search *search, const struct module *only)
{
	_cleanup_(strbuf_free) struct strbuf hint = { 0 };
	struct spell_near near = { .count = 0 };

	for (size_t i = 0; i < search->modules->count; i++) {
		struct module *module = search->modules->items[i];

		if (only && module != only)
			continue;
		if (is_of_lttng(search, module))
			return error_new(
				ERROR_FAILED,
				"'%s:%s' is a static tracepoint of LTTng, not a marker (lttng enable-event --userspace '%s:%s')",
				search->location->provider, search->location->symbol,
				search->location->provider, search->location->symbol);
		if (module->markers)
			offer_markers(&near, search->location->symbol, module->markers);
	}
	spell_print(&near, &hint);
	return error_new(ERROR_FAILED, "no marker '%s:%s' in %s%s%s", search->location->provider,
			 search->location->symbol,
			 locate_module_name(search, only ? only : search->modules->items[0]),
			 only ? "" : " or its libraries", hint.length ? hint.text : "");
}

struct error *locate_marker(struct search *search, struct module *only)
{
	for (size_t i = 0; i < search->modules->count; i++) {
		struct module *module = search->modules->items[i];
		const struct markers *markers;

		if ((only && module != only) || module->is_vdso)
			continue;
		struct error *error = module_markers(search->proc, module, &markers);
		if (error && (only || error_kind(error) == ERROR_GONE))
			return error;
		if (!error)
			error = add_matches(search, module, markers);
		else
			error = (error_free(error), NULL);
		if (error)
			return error;
	}
	return search->places.count ? NULL : not_found(search, only);
}
