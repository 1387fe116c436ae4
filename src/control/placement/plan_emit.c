/*
 * plan_emit.c - from decided sites to code and patches.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/codegen/shared_code.h"
#include "tactic.h"

#define SHARED_SIZES 8 /* of events, for whose routines there is room for certain */

static const uint8_t short_jump = 0xeb;
static const uint8_t trap_byte = 0xcc;

/* ---- memory ---------------------------------------------------------------------------------- */

static struct tramp describe(const struct site *site, struct tramp_event **events)
{
	struct tramp tramp = { .insn_count = site->insn_count, .events = events };

	assert(site->probes.count <= SITE_PROBES_MAX);
	for (size_t i = 0; i < site->probes.count; i++)
		events[tramp.event_count++] = &site->probes.items[i]->event;
	return tramp;
}

static int by_page(const void *a, const void *b)
{
	const struct plan_need *x = a, *y = b;

	return (x->low.v > y->low.v) - (x->low.v < y->low.v);
}

/* The pages of hops, neighbours joined. */
static bool need_hops(const struct planner *planner, struct plan_needs *needs)
{
	size_t kept = 0;

	for (size_t i = 0; i < planner->sites.count; i++) {
		const struct site *site = planner->sites.items[i];
		taddr low = taddr_of(site->hop.v & ~(DT_PAGE - 1));
		taddr high = taddr_of(DT_ROUND_UP(site->hop.v + HOP_LENGTH, DT_PAGE));

		if (site->way == DIVERT_PUN && !site->emitted && !site->hop_of &&
		    !vec_push(needs, (struct plan_need){ low, high, high.v - low.v, true }))
			return false;
	}
	if (needs->count)
		qsort(needs->items, needs->count, sizeof(*needs->items), by_page);
	for (size_t i = 0; i < needs->count; i++) {
		struct plan_need *last = kept ? &needs->items[kept - 1] : NULL;

		if (last && needs->items[i].low.v <= last->high.v) {
			if (needs->items[i].high.v > last->high.v)
				last->high = needs->items[i].high;
			last->bytes = last->high.v - last->low.v;
		} else {
			needs->items[kept++] = needs->items[i];
		}
	}
	needs->count = kept;
	return true;
}

static bool need_trampolines(const struct planner *planner, struct plan_needs *needs)
{
	for (size_t i = 0; i < planner->sites.count; i++) {
		const struct site *site = planner->sites.items[i];
		struct tramp_event *events[SITE_PROBES_MAX];
		struct tramp tramp = describe(site, events);

		if (site->emitted || !site->insn_count)
			continue;
		if (!needs->count || vec_last(needs)->fixed ||
		    !taddr_equal(vec_last(needs)->low, site->module->low)) {
			if (!vec_push(needs,
				      (struct plan_need){ site->module->low, site->module->high,
							  SHARED_SIZES * SHARED_ROOM, false }))
				return false;
		}
		vec_last(needs)->bytes += trampoline_room(&tramp) + 16;
	}
	return true;
}

/* Fixed needs come first: memory that can be anywhere keeps out of their way. */
struct error *planner_needs(const struct planner *planner, struct plan_needs *ret_needs)
{
	struct plan_needs needs = { 0 };

	if (!need_hops(planner, &needs) || !need_trampolines(planner, &needs)) {
		vec_free(&needs);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_needs = needs;
	return NULL;
}

/* ---- trampolines ----------------------------------------------------------------------------- */

/* Decodes the site's instructions from the file's bytes, at the addresses where they run. */
static struct error *decode_site(struct planner *planner, const struct site *site,
				 struct insn *insns, uint8_t *bytes)
{
	struct module_view *view;
	struct error *error = function_view(planner, site->module, &view);

	if (error)
		return error;
	uint64_t address = site->address.v - site->module->bias.v;
	const struct text_range *text = symtab_text(view->symtab, address);
	assert(text && site->length <= DT_SITE_BYTES);
	memcpy(bytes, text->bytes + (address - text->address), site->length);
	for (size_t i = 0, at = 0; i < site->insn_count; at += site->lengths[i++]) {
		if (!decode(bytes + at, site->lengths[i], taddr_add(site->address, (int64_t)at),
			    &insns[i]))
			return error_new(ERROR_REFUSED, "the bytes there are not an instruction");
	}
	return NULL;
}

/* Allocates memory within reach of the site and of its hop, if any. */
static bool alloc_piece(struct site *site, struct near_pool *pool, size_t room)
{
	taddr low = site->module->low, high = site->module->high;

	if (site->way == DIVERT_PUN) {
		/* at the latest the hop's own page; emission checks the moved operands' reach */
		low = site->address.v < site->hop.v ? site->address : site->hop;
		high = site->address.v < site->hop.v ? site->hop : site->address;
		if (near_pool_alloc(pool, site->module->low, site->module->high, (uint32_t)room,
				    &site->piece)) {
			if (emit_reaches(taddr_add(site->hop, HOP_LENGTH), site->piece.at))
				return true;
			near_pool_free(pool, site->piece);
		}
	}
	return near_pool_alloc_anywhere(pool, low, high, (uint32_t)room, &site->piece);
}

static void give_back(struct site *site, struct near_pool *pool)
{
	if (site->piece.size)
		near_pool_free(pool, site->piece);
	if (site->hop_of)
		site_take_hop(site->hop_of, site);
	if (site->hop_piece.size)
		near_pool_free(pool, site->hop_piece);
	site->piece.size = 0;
	site->hop_piece.size = 0;
}

/* Writes the part of the jump that lies in the site; a pun's last bytes are there already. */
static void fill_jump(struct site *site, taddr to)
{
	uint8_t jump[JUMP_LENGTH];
	struct emitter e;

	emit_init(&e, jump, sizeof(jump), site->address);
	emit_jmp_to(&e, to);
	assert(!emit_failed(&e)); /* near_pool_alloc: within reach of the module */
	memcpy(site->patch.patched, jump,
	       site->length < sizeof(jump) ? site->length : sizeof(jump));
}

static struct patch_jump jump_at(const struct near_piece *piece, taddr at, uint8_t *code)
{
	return (struct patch_jump){ code + piece->offset + (at.v - piece->at.v) + 1,
				    taddr_add(at, JUMP_LENGTH) };
}

/* Fills in the patch: the jump, then the original bytes. fill_slot adds the slots when all
 * trampolines are known. */
static void fill_patch(struct site *site, const struct tramp *tramp, uint8_t *code,
		       const uint8_t *original)
{
	struct patch_site *patch = &site->patch;
	size_t at = 0;

	*patch = (struct patch_site){ .address = site->address, .length = (uint8_t)site->length,
				      .group = site->group };
	memcpy(patch->original, original, site->length);
	memcpy(patch->patched, original, site->length);
	if (site->way == DIVERT_JUMP)
		fill_jump(site, site->piece.at);
	else if (site->way == DIVERT_PUN)
		fill_jump(site, site->hop);
	else if (site->way == DIVERT_TRAP)
		patch->patched[0] = trap_byte;
	for (size_t i = 0; i <= site->insn_count && site->way != DIVERT_NONE; i++) {
		assert(patch->move_count < PATCH_MOVES_MAX);
		patch->moves[patch->move_count++] =
			(struct patch_move){ (uint8_t)at, tramp->copies[i] };
		at += i < site->insn_count ? site->lengths[i] : 0;
	}
	patch->tramp_start = site->piece.at;
	patch->tramp_end = taddr_add(site->piece.at, site->piece.size);
	if (site->way == DIVERT_PUN)
		patch->waypoint = site->hop;
	if (site->hop_of)
		patch->hop = jump_at(&site->hop_piece, site->hop, code);
	patch->leads_on = tramp->back.v != 0;
	if (patch->leads_on)
		patch->back = jump_at(&site->piece, tramp->back, code);
	patch->state = PATCH_PLANNED;
}

/* Allocates hops before any trampoline: a hop has only its own place. */
static void reserve_hops(struct planner *planner, struct near_pool *pool)
{
	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i];

		if (site->hop_of)
			site_take_hop(site, site->hop_of);
		else if (site->way == DIVERT_PUN && !site->emitted && !site->hop_piece.size)
			near_pool_alloc_at(pool, site->hop, HOP_LENGTH, &site->hop_piece);
	}
}

bool planner_hop_is_taken(const struct planner *planner, struct near_pool *pool)
{
	for (size_t i = 0; i < planner->sites.count; i++) {
		const struct site *site = planner->sites.items[i];
		struct near_piece piece;

		if (site->way != DIVERT_PUN || site->emitted || site->hop_of ||
		    !near_pool_has(pool, site->hop))
			continue;
		if (!near_pool_alloc_at(pool, site->hop, HOP_LENGTH, &piece))
			return true;
		near_pool_free(pool, piece);
	}
	return false;
}

/* Writes the hop, before any jump leads to it. */
static struct error *emit_hop(struct site *site, uint8_t *code)
{
	struct emitter e;

	/* a shared hop is redirected when the site is placed (P8) */
	if (site->way != DIVERT_PUN || site->hop_of)
		return NULL;
	if (!site->hop_piece.size)
		return error_new(ERROR_REFUSED,
				 "no memory can be mapped where its jump leads");
	emit_init(&e, code + site->hop_piece.offset + (site->hop.v - site->hop_piece.at.v),
		  HOP_LENGTH, site->hop);
	emit_jmp_to(&e, site->piece.at);
	return emit_failed(&e) ? error_new(ERROR_REFUSED, "no free memory within 2 GB") : NULL;
}

/* Makes the routine of that kind, within reach of the module. False: no memory. */
static bool make_routine(const struct module *module, const struct tramp_env *env,
			 struct near_pool *pool, uint8_t *code, uint32_t kind)
{
	struct near_piece piece;
	size_t used = 0;

	if (near_pool_find_shared(pool, module->low, module->high, kind))
		return true;
	if (!near_pool_alloc(pool, module->low, module->high, SHARED_ROOM, &piece))
		return false;
	bool is_written = trampoline_emit_shared(env, kind, code + piece.offset, SHARED_ROOM,
						 piece.at, &used);
	near_pool_trim(pool, &piece, (uint32_t)used);
	if (is_written && near_pool_share(pool, kind, piece))
		return true;
	near_pool_free(pool, piece);
	return false;
}

/* Makes the routines that the site's events call, before its trampoline: so there are no gaps
 * between trampolines. */
static void make_routines(const struct site *site, const struct tramp *tramp,
			  const struct tramp_env *env, struct near_pool *pool, uint8_t *code)
{
	const struct module *module = site->module;

	for (size_t i = 0; i < tramp->event_count; i++) {
		const struct tramp_event *event = tramp->events[i];

		if (trampoline_can_share(event) &&
		    make_routine(module, env, pool, code, trampoline_shares(event)) && event->exit)
			make_routine(module, env, pool, code, SHARED_STUB);
	}
}

static taddr find_routine(const struct near_pool *pool, taddr start, taddr end, uint32_t kind)
{
	const struct near_shared *shared = near_pool_find_shared(pool, start, end, kind);

	return shared ? shared->piece.at : taddr_of(0);
}

/* Without a routine in reach, the trampoline has its code itself. */
static void choose_routines(const struct site *site, const struct tramp *tramp,
			    const struct near_pool *pool)
{
	taddr start = site->piece.at, end = taddr_add(start, site->piece.size);

	for (size_t i = 0; i < tramp->event_count; i++) {
		struct tramp_event *event = tramp->events[i];

		event->routine = event->taking = taddr_of(0);
		if (!trampoline_can_share(event))
			continue;
		if (event->exit)
			event->taking = find_routine(pool, start, end, SHARED_STUB);
		if (!event->exit || event->taking.v)
			event->routine =
				find_routine(pool, start, end, trampoline_shares(event));
	}
}

static struct error *emit_site(struct planner *planner, struct site *site,
			       const struct tramp_env *env, struct near_pool *pool, uint8_t *code)
{
	struct insn insns[TRAMP_INSNS_MAX];
	struct tramp_event *events[SITE_PROBES_MAX];
	uint8_t original[DT_SITE_BYTES];
	struct tramp tramp = describe(site, events);
	struct tramp_env own = *env;
	struct error *error = decode_site(planner, site, insns, original);

	if (error) {
		give_back(site, pool);
		return error;
	}
	tramp.insns = insns;
	for (size_t i = 0; i < tramp.event_count; i++)
		site->has_exit |= events[i]->exit;
	if (site->way != DIVERT_NONE) {
		size_t room = trampoline_room(&tramp);

		if (!site->probes.count)
			own.notes = NULL; /* --explain shows no slot hosts */
		make_routines(site, &tramp, env, pool, code);
		if (alloc_piece(site, pool, room)) {
			choose_routines(site, &tramp, pool);
			error = trampoline_emit(&tramp, &own, code + site->piece.offset, room,
						site->piece.at);
		} else {
			error = error_new(ERROR_REFUSED, "no free memory within 2 GB");
		}
		if (!error)
			near_pool_trim(pool, &site->piece, (uint32_t)tramp.size);
	}
	if (!error)
		error = emit_hop(site, code);
	if (error) {
		give_back(site, pool);
		return error;
	}
	fill_patch(site, &tramp, code, original);
	return NULL;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Writes the short jump, and the long jump in the slot. */
static void fill_slot(struct site *site)
{
	struct patch_site *host = &site->slot_host->patch;
	taddr slot = site_slot(site->slot_host, site->slot);
	int64_t distance = taddr_diff(slot, taddr_add(site->address, SHORT_JUMP_LENGTH));
	struct emitter e;

	assert(host->state == PATCH_PLANNED && site->slot < site->slot_host->slot_count); /* L2 */
	assert(slot.v + JUMP_LENGTH <= host->address.v + host->length);
	assert(distance == (int8_t)distance);
	emit_init(&e, host->patched + (slot.v - host->address.v), JUMP_LENGTH, slot);
	emit_jmp_to(&e, site->piece.at);
	assert(!emit_failed(&e)); /* near_pool_alloc: within reach of the module */
	site->patch.patched[0] = short_jump;
	site->patch.patched[1] = (uint8_t)distance;
	site->patch.after = host;
	site->patch.waypoint = slot;
}

/* ---- emission -------------------------------------------------------------------------------- */

/* Refuses all probes of the site; they may try another tactic. */
static void refuse_site(struct site *site, const struct error *reason)
{
	for (size_t i = 0; i < site->probes.count; i++) {
		struct probe *probe = site->probes.items[i];

		probe->site = NULL;
		probe->spent |= 1u << (site->tactic - tactics);
		probe->again = true;
		snprintf(probe->spent_why, sizeof(probe->spent_why), "%s", error_text(reason));
		probe->refusal = error_new(error_kind(reason), "%s", error_text(reason));
	}
	site->probes.count = 0;
}

/* Undoes groups (L4) with a failed site as a whole. No thread has been in their trampolines. */
static bool undo_refused(struct planner *planner, struct near_pool *pool)
{
	struct site_list local = { 0 }, *gone = planner->rooms[0] ? planner->rooms[0] : &local;
	size_t before = gone->count; /* there is room behind it (L5) */
	bool enough = true;

	for (size_t i = 0; i < planner->sites.count && enough; i++) {
		const struct site *site = planner->sites.items[i];

		if (!site->group || !site->refusal)
			continue;
		enough = regroup_undo(planner, site->group, error_text(site->refusal), gone);
		i = (size_t)-1; /* start over: the list has changed */
	}
	while (gone->count > before)
		planner_free_site(gone->items[--gone->count], pool);
	vec_free(&local);
	return enough;
}

bool planner_has_new_traps(const struct planner *planner)
{
	for (size_t i = 0; i < planner->sites.count; i++) {
		if (planner->sites.items[i]->way == DIVERT_TRAP &&
		    !planner->sites.items[i]->emitted)
			return true;
	}
	return false;
}

void planner_refuse_traps(struct planner *planner, const char *reason)
{
	_cleanup_error_ struct error *error = error_new(ERROR_REFUSED, "%s", reason);
	size_t kept = 0;

	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i];

		if (site->way == DIVERT_TRAP && !site->emitted) {
			refuse_site(site, error); /* for good: trap is the last tactic */
			site_free(site);
		} else {
			planner->sites.items[kept++] = site;
		}
	}
	planner->sites.count = kept;
}

/* Drops failed sites, and the sites that need their slots (L3). */
static void drop_refused(struct planner *planner, struct near_pool *pool)
{
	_cleanup_error_ struct error *reason =
		error_new(ERROR_REFUSED, "the code that its jump goes through cannot be changed");
	size_t kept = 0;

	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i];

		if (!site->refusal && site->slot_host && site->slot_host->refusal) {
			refuse_site(site, reason);
			give_back(site, pool);
			site->refusal = error_new(ERROR_REFUSED, "%s", error_text(reason));
		}
	}
	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i];

		if (site->refusal) {
			assert(!site->probes.count);
			site_free(site);
		} else {
			planner->sites.items[kept++] = site;
		}
	}
	planner->sites.count = kept;
}

struct error *planner_emit(struct planner *planner, const struct tramp_env *env,
			   struct near_pool *pool, uint8_t *code)
{
	reserve_hops(planner, pool);
	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i];

		if (site->emitted)
			continue;
		error_free(site->refusal);
		site->refusal = emit_site(planner, site, env, pool, code);
		if (site->refusal)
			refuse_site(site, site->refusal);
	}
	if (!undo_refused(planner, pool))
		return error_new(ERROR_FAILED, "out of memory");
	drop_refused(planner, pool);
	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i];

		if (!site->emitted && site->way == DIVERT_SHORT)
			fill_slot(site);
		site->emitted = true;
	}
	return NULL;
}

void planner_free_site(struct site *site, struct near_pool *pool)
{
	give_back(site, pool);
	site_free(site);
}
