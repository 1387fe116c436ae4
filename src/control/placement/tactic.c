#include "tactic.h"

#include <assert.h>
#include <string.h>

/* ---- runs of instructions -------------------------------------------------------------------- */

static const struct body_insn *insn_of(const struct tactic_view *view, size_t index)
{
	return &view->body->insns.items[index];
}

static taddr address_of(const struct tactic_view *view, size_t index)
{
	return taddr_add(view->module->module->bias, (int64_t)insn_of(view, index)->at);
}

/* Why the instruction `distance` bytes after the site's first can't move along. */
static struct error *refuse_way(enum body_way way, uint64_t distance)
{
	static const char *const reasons[] = {
		[WAY_BRANCH] = "code may jump to the instruction %llu bytes after it",
		[WAY_RETURN] = "a call returns to the instruction %llu bytes after it",
		[WAY_UNKNOWN] = "the code %llu bytes after it is reached in an unknown way",
		[WAY_PARKED] = "a goroutine may be parked %llu bytes after it",
	};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	return error_new(ERROR_REFUSED, reasons[way], (unsigned long long)distance);
#pragma GCC diagnostic pop
}

/* Checks whether the instruction may be part of a new site, at its start or inside; `changed` is
 * the length of the site's jump. */
static struct error *check_insn(const struct tactic_view *view, size_t first, size_t index,
				size_t changed)
{
	const struct body_insn *insn = insn_of(view, index);
	uint64_t distance = insn->at - insn_of(view, first)->at;
	taddr at = address_of(view, index);

	if (index > first && insn->way != WAY_NONE &&
	    (insn->way != WAY_PARKED || distance < changed))
		return refuse_way(insn->way, distance);
	bool is_fixed = body_is_fixed(view->body, index);
	if (is_fixed && !distance)
		return error_new(ERROR_REFUSED,
				 "its instruction cannot be moved, or other code reads it as data");
	if (is_fixed)
		return error_new(ERROR_REFUSED,
				 "the instruction %llu bytes after it cannot be moved",
				 (unsigned long long)distance);
	if (view->planner->keeps_calls &&
	    (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT))
		return error_new(ERROR_REFUSED,
				 "the call %llu bytes after it would have to move, which the "
				 "process's shadow stack (CET) forbids",
				 (unsigned long long)distance);
	if (siteset_overlapping(view->planner, at, taddr_add(at, insn->length)))
		return error_new(ERROR_REFUSED, "another tracepoint needs the bytes %llu after it",
				 (unsigned long long)distance);
	return NULL;
}

struct error *run_gather(const struct tactic_view *view, size_t first, size_t need, size_t changed,
			 struct run *ret_run)
{
	struct run run = { .first = first };

	for (; run.length < need; run.count++) {
		size_t index = first + run.count;

		if (index >= view->body->insns.count)
			return error_new(ERROR_REFUSED,
					 "the function ends after %llu bytes, a jump needs %llu",
					 (unsigned long long)run.length, (unsigned long long)need);
		struct error *error = check_insn(view, first, index, changed);
		if (error)
			return error;
		run.length += insn_of(view, index)->length;
		if (run.length > DT_SITE_BYTES || run.count >= SITE_INSNS_MAX)
			return error_new(ERROR_REFUSED, "too many instructions would have to move");
	}
	*ret_run = run;
	return NULL;
}

static const struct tactic *find_tactic(const char *name)
{
	for (size_t i = 0; i < tactic_count; i++) {
		if (!strcmp(tactics[i].name, name))
			return &tactics[i];
	}
	assert(!"a tactic of the table");
	return NULL;
}

struct error *run_make_site(const struct tactic_view *view, const struct run *run,
			    const char *tactic, struct site **ret_site)
{
	struct site *site = calloc(1, sizeof(*site));

	assert(run->length && run->length <= DT_SITE_BYTES && run->count <= SITE_INSNS_MAX);
	if (!site)
		return error_new(ERROR_FAILED, "out of memory");
	site->module = view->module->module;
	site->group = view->planner->group;
	site->address = address_of(view, run->first);
	site->tactic = find_tactic(tactic);
	site->insn_count = run->count;
	site->length = run->length;
	for (size_t i = 0; i < run->count; i++)
		site->lengths[i] = insn_of(view, run->first + i)->length;
	/* with room for its probe: a site that no probe can join would be placed, too (H32) */
	if (!vec_reserve(&site->probes, 1) || !siteset_insert(view->planner, site)) {
		site_free(site);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_site = site;
	return NULL;
}

/* ---- jump ------------------------------------------------------------------------------------ */

/* The site that ends at instruction `first` and may grow; NULL: none. */
static struct site *growing_site(const struct tactic_view *view, size_t first)
{
	taddr at = address_of(view, first);
	struct site *before = siteset_before(view->planner, at);

	if (!before || before->emitted || before->group != view->planner->group || /* L2, L4 */
	    before->way != DIVERT_JUMP || !before->insn_count ||
	    before->address.v + before->length != at.v)
		return NULL;
	return before;
}

/* Grows the site before over the instruction, if code only falls through from its end to here. */
static bool try_grow(const struct tactic_view *view, struct site **ret_site)
{
	for (size_t first = view->index; insn_of(view, first)->way == WAY_NONE; first--) {
		struct site *site = growing_site(view, first);
		size_t length = insn_of(view, view->index)->at +
				insn_of(view, view->index)->length - insn_of(view, first)->at;
		size_t count = view->index - first + 1;
		struct error *error;

		for (size_t i = first; i <= view->index; i++) {
			error = check_insn(view, i, i, JUMP_LENGTH);
			error_free(error);
			if (error)
				return false;
		}
		if (!site)
			continue;
		if (site->length + length > DT_SITE_BYTES ||
		    site->insn_count + count > SITE_INSNS_MAX)
			return false;
		for (size_t i = 0; i < count; i++)
			site->lengths[site->insn_count++] = insn_of(view, first + i)->length;
		site->length += length;
		assert(siteset_fits(view->planner, site)); /* L1 */
		*ret_site = site;
		return true;
	}
	return false;
}

/* Makes the site after begin earlier, so that it covers the instruction. */
static bool try_grow_back(const struct tactic_view *view, struct site **ret_site)
{
	const struct body_insn *insn = insn_of(view, view->index);
	taddr end = taddr_add(address_of(view, view->index), insn->length);
	struct site *site = siteset_before(view->planner, end);

	if (view->index + 1 >= view->body->insns.count ||
	    insn_of(view, view->index + 1)->way != WAY_NONE)
		return false;
	if (!site || !taddr_equal(site->address, end) || site->emitted ||
	    site->group != view->planner->group || site->way != DIVERT_JUMP || site->slot_count ||
	    !site->insn_count || site->length + insn->length > DT_SITE_BYTES ||
	    site->insn_count >= SITE_INSNS_MAX)
		return false;
	struct error *error = check_insn(view, view->index, view->index, JUMP_LENGTH);
	error_free(error);
	if (error)
		return false;
	memmove(site->lengths + 1, site->lengths, site->insn_count * sizeof(site->lengths[0]));
	site->lengths[0] = insn->length;
	site->insn_count++;
	site->length += insn->length;
	site->address = address_of(view, view->index);
	siteset_note(view->planner, site);
	for (size_t i = 0; i < site->probes.count; i++)
		site->probes.items[i]->event.insn++;
	assert(siteset_fits(view->planner, site)); /* L1 */
	*ret_site = site;
	return true;
}

/* Does code come there from the instruction before it alone? Then a site may begin before. */
static bool falls_in(const struct tactic_view *view, size_t index)
{
	enum body_way way = insn_of(view, index)->way;

	return way == WAY_NONE || way == WAY_PARKED;
}

bool run_gather_back(const struct tactic_view *view, size_t changed, struct run *ret_run)
{
	for (size_t first = view->index; falls_in(view, first) && first > 0; first--) {
		size_t covered = insn_of(view, view->index)->at +
				 insn_of(view, view->index)->length - insn_of(view, first - 1)->at;
		struct error *error =
			run_gather(view, first - 1, covered > changed ? covered : changed, changed,
				   ret_run);

		error_free(error);
		if (!error)
			return true;
	}
	return false;
}

static struct error *try_jump(const struct tactic_view *view, struct site **ret_site)
{
	struct run run;
	struct error *error = run_gather(view, view->index, JUMP_LENGTH, JUMP_LENGTH, &run);

	if (error && error_kind(error) == ERROR_REFUSED) {
		if (try_grow(view, ret_site) || try_grow_back(view, ret_site)) {
			error_free(error);
			return NULL;
		}
		if (run_gather_back(view, JUMP_LENGTH, &run)) {
			error_free(error);
			error = NULL;
		}
	}
	return error ? error : run_make_site(view, &run, "jump", ret_site);
}

/* ---- short-jump ------------------------------------------------------------------------------ */

static struct error *try_short_jump(const struct tactic_view *view, struct site **ret_site)
{
	struct run run;
	struct site *host, *site;
	size_t slot;
	struct error *error;

	/* (H43) the slot would be an instruction where Go's runtime knows none */
	if (branch_targets_has_goroutines(view->module->branch_targets))
		return error_new(ERROR_REFUSED, "Go's runtime looks up where its threads are");
	error = run_gather(view, view->index, SHORT_JUMP_LENGTH, SHORT_JUMP_LENGTH, &run);
	if (error)
		return error;
	/* the search for a slot mustn't take these bytes */
	error = run_make_site(view, &run, "short-jump", &site);
	if (error)
		return error;
	site->way = DIVERT_SHORT;
	error = short_jump_take_slot(view, site->address, &host, &slot);
	if (error) {
		siteset_remove(view->planner, site);
		site_free(site);
		return error;
	}
	assert(host != site && !host->slot_host);
	site->slot_host = host;
	site->slot = slot;
	*ret_site = site;
	return NULL;
}

const struct tactic tactics[] = {
	{ "jump", try_jump, false },
	{ "short-jump", try_short_jump, false },
	{ "pun", tactic_pun_try, true },
	{ "trap", tactic_trap_try, true },
};
const size_t tactic_count = sizeof(tactics) / sizeof(tactics[0]);
