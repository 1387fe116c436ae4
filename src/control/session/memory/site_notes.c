/*
 * site_notes.c - notes of placed sites in the control page. The length of a note is written last.
 */
#include "site_notes.h"

#include <assert.h>
#include <stdlib.h>

#include "control/session/own_probes/own_probes.h"

struct site_notes {
	uint32_t free; /* no free entry of dt_control.sites lies before this */
};

bool site_notes_create(struct session *session)
{
	session->site_notes = calloc(1, sizeof(*session->site_notes));
	return session->site_notes != NULL;
}

void site_notes_free(struct session *session)
{
	free(session->site_notes);
}

struct error *site_notes_add(struct session *session, struct site *site)
{
	struct dt_control *control = session->agent->control;
	site_notes_remove(session, site); /* a try that failed may have noted it */
	uint32_t index = session->site_notes->free;

	assert(site->patch.state == PATCH_PLANNED);
	assert(index <= control->site_count && control->site_count <= DT_SITES_MAX);
	assert(site->patch.length && site->patch.length <= DT_SITE_BYTES);

	while (index < control->site_count && control->sites[index].length)
		index++;
	if (index >= DT_SITES_MAX)
		return error_new(ERROR_FAILED, "more than %d places at once (name fewer)",
				 DT_SITES_MAX);
	struct dt_site *noted = &control->sites[index];
	noted->address = site->patch.address.v;
	own_probes_mark_last(site);
	noted->own = site->patch.is_guard ? DT_SITE_GUARD :
		     site->patch.is_last  ? DT_SITE_LAST :
					    own_probes_is_site(site);
	noted->check = dt_site_check(site->patch.patched, site->patch.length);
	__atomic_store_n(&noted->length, site->patch.length, __ATOMIC_RELEASE);
	if (index >= control->site_count)
		control->site_count = index + 1;
	site->noted = index + 1;
	session->site_notes->free = index + 1;
	return NULL;
}

void site_notes_remove(struct session *session, struct site *site)
{
	uint32_t index = site->noted - 1;

	if (!site->noted)
		return;
	assert(index < session->agent->control->site_count);
	assert(session->agent->control->sites[index].address == site->patch.address.v);
	__atomic_store_n(&session->agent->control->sites[index].length, 0, __ATOMIC_RELEASE);
	if (index < session->site_notes->free)
		session->site_notes->free = index;
	site->noted = 0;
}
