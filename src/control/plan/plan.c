#include "plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"
#include "tactic.h"

/* What is known of a module, found once. */
struct module_view {
	struct module *module;
	struct symtab *symtab;
	struct inbound *inbound;
};

struct planner {
	struct proc *proc;
	VEC(struct module_view) views;
	VEC(struct site *) sites;
};

static void site_free(struct site *site)
{
	if (!site)
		return;
	vec_free(&site->probes);
	error_free(site->patch.error);
	free(site);
}

struct error *planner_create(struct proc *proc, struct planner **ret_planner)
{
	struct planner *planner = calloc(1, sizeof(*planner));

	if (!planner)
		return error_new(ERROR_FAILED, "out of memory");
	planner->proc = proc;
	*ret_planner = planner;
	return NULL;
}

void planner_destroy(struct planner *planner)
{
	if (!planner)
		return;
	for (size_t i = 0; i < planner->views.count; i++)
		inbound_free(planner->views.items[i].inbound);
	for (size_t i = 0; i < planner->sites.count; i++)
		site_free(planner->sites.items[i]);
	vec_free(&planner->views);
	vec_free(&planner->sites);
	free(planner);
}

const char *site_tactic(const struct site *site)
{
	return site->tactic->name;
}

size_t planner_site_count(const struct planner *planner)
{
	return planner->sites.count;
}

struct site *planner_site(const struct planner *planner, size_t index)
{
	return planner->sites.items[index];
}

static struct error *view_module(struct planner *planner, struct module *module, struct module_view *ret_view)
{
	struct module_view view = { .module = module };

	for (size_t i = 0; i < planner->views.count; i++) {
		if (planner->views.items[i].module == module) {
			*ret_view = planner->views.items[i];
			return NULL;
		}
	}
	struct error *error = module_symtab(planner->proc, module, &view.symtab);
	if (!error)
		error = inbound_scan(view.symtab, &view.inbound);
	if (error)
		return error;
	if (!vec_push(&planner->views, view)) {
		inbound_free(view.inbound);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_view = view;
	return NULL;
}

/* The function around an address of the file, by its symbol or its unwind table. */
static bool function_bounds(const struct module_view *view, const struct place *place, uint64_t address,
			    uint64_t *ret_start, uint64_t *ret_end)
{
	const struct symbol *symbol = place->symbol;

	if (symbol && symbol->size && address - symbol->address < symbol->size) {
		*ret_start = symbol->address;
		*ret_end = symbol->address + symbol->size;
		return true;
	}
	return symtab_fde(view->symtab, address, ret_start, ret_end);
}

/* "main+0x10", or "main" for its start. */
static void name_offset(char *name, size_t room, const char *function, uint64_t offset)
{
	if (offset)
		snprintf(name, room, "%s+%#llx", function, (unsigned long long)offset);
	else
		snprintf(name, room, "%s", function);
}

static struct error *not_a_start(const char *function, uint64_t before, uint64_t after)
{
	char first[128], second[128];

	name_offset(first, sizeof(first), function, before);
	name_offset(second, sizeof(second), function, after);
	return error_new(ERROR_REFUSED, "not the start of an instruction (the nearest are %s and %s)", first,
			 second);
}

/* NULL if the address begins an instruction of the function; else an error that names the nearest that do. */
static struct error *check_boundary(const struct tactic_view *view, const char *function)
{
	const struct text_range *text = symtab_text(view->symtab, view->function_start);
	uint64_t at = view->function_start;
	struct insn insn;

	while (text && at < view->address) {
		if (!decode_quick(text->bytes + (at - text->address), text->address + text->size - at,
				  taddr_of(at), &insn))
			return error_new(ERROR_REFUSED, "the code before it can't be decoded");
		if (at + insn.length > view->address)
			return not_a_start(function, at - view->function_start,
					   at + insn.length - view->function_start);
		at += insn.length;
	}
	return text ? NULL : error_new(ERROR_REFUSED, "it isn't in the program's code");
}

static struct error *try_tactics(const struct tactic_view *view, struct site *site)
{
	struct error *reason = NULL;

	for (size_t i = 0; i < tactic_count; i++) {
		error_free(reason);
		reason = tactics[i].try(view, site);
		if (!reason) {
			site->tactic = &tactics[i];
			return NULL;
		}
	}
	return reason;
}

static struct error *decide_site(struct planner *planner, const struct probe *probe, struct site *site)
{
	struct module_view module;
	struct tactic_view view = { 0 };
	const char *function = probe->place.symbol ? probe->place.symbol->name : "function";
	struct error *error = view_module(planner, probe->place.module, &module);

	if (error)
		return error;
	view.symtab = module.symtab;
	view.inbound = module.inbound;
	view.address = probe->place.address.v - module.module->bias.v;
	if (symtab_has_text_relocations(module.symtab))
		return error_new(ERROR_REFUSED, "its code is changed when it is loaded (text relocations)");
	if (!function_bounds(&module, &probe->place, view.address, &view.function_start, &view.function_end))
		return error_new(ERROR_REFUSED,
				 "no function is known there, so that instructions can't be told apart");
	error = check_boundary(&view, function);
	return error ? error : try_tactics(&view, site);
}

/* Which of the site's instructions begins there? Those behind the first are told by `site` alone. */
static bool find_insn(const struct site *site, taddr address, size_t *ret_index)
{
	taddr at = site->address;

	for (size_t i = 0; i < site->insn_count; i++) {
		if (taddr_equal(at, address)) {
			*ret_index = i;
			return true;
		}
		at = taddr_add(at, site->lengths[i]);
	}
	return false;
}

static struct error *join_site(struct site *site, struct probe *probe)
{
	if (!find_insn(site, probe->place.address, &probe->event.insn))
		return error_new(ERROR_REFUSED, "not the start of an instruction");
	if (site->probes.count >= SITE_PROBES_MAX)
		return error_new(ERROR_REFUSED, "more than %d tracepoints at one place", SITE_PROBES_MAX);
	if (!vec_push(&site->probes, probe))
		return error_new(ERROR_FAILED, "out of memory");
	probe->site = site;
	return NULL;
}

/* Only a call leads to the first instruction of a function, and that leaves nothing below the stack pointer. */
static bool is_function_start(struct planner *planner, const struct probe *probe)
{
	const struct place *place = &probe->place;
	uint64_t address = place->address.v - place->module->bias.v, start, end;
	struct module_view view;
	_cleanup_error_ struct error *error = view_module(planner, place->module, &view);

	return !error && symtab_fde(view.symtab, address, &start, &end) && start == address;
}

/* A site of its own for the probe. */
static struct error *open_site(struct planner *planner, struct probe *probe, struct site **ret_site)
{
	struct site *site = calloc(1, sizeof(*site));

	if (!site)
		return error_new(ERROR_FAILED, "out of memory");
	site->module = probe->place.module;
	site->address = probe->place.address;
	struct error *error = decide_site(planner, probe, site);
	if (!error)
		error = join_site(site, probe);
	if (!error && !vec_push(&planner->sites, site))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error) {
		probe->site = NULL;
		site_free(site);
		return error;
	}
	*ret_site = site;
	return NULL;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = (*(struct probe *const *)a)->place.address.v;
	uint64_t y = (*(struct probe *const *)b)->place.address.v;

	return (x > y) - (x < y);
}

struct error *planner_decide(struct planner *planner, struct probe **probes, size_t count)
{
	struct site *site = NULL; /* the one before, in address order */

	qsort(probes, count, sizeof(*probes), by_address);
	for (size_t i = 0; i < count; i++) {
		struct probe *probe = probes[i];
		bool inside = site && taddr_within(probe->place.address, site->address,
						   taddr_add(site->address, (int64_t)site->length));

		probe->event.keep_red_zone = !is_function_start(planner, probe);
		probe->refusal = inside ? join_site(site, probe) : open_site(planner, probe, &site);
		if (probe->refusal && error_kind(probe->refusal) != ERROR_REFUSED)
			return take_ptr(&probe->refusal);
	}
	return NULL;
}

struct error *planner_needs(const struct planner *planner, struct plan_needs *ret_needs)
{
	struct plan_needs needs = { 0 };

	for (size_t i = 0; i < planner->sites.count; i++) {
		const struct site *site = planner->sites.items[i];
		struct tramp_event *events[SITE_PROBES_MAX];
		struct tramp tramp = { .insn_count = site->insn_count, .events = events };

		for (size_t j = 0; j < site->probes.count; j++)
			events[tramp.event_count++] = &site->probes.items[j]->event;
		if (!needs.count || !taddr_equal(vec_last(&needs)->low, site->module->low)) {
			if (!vec_push(&needs, (struct plan_need){ site->module->low, site->module->high, 0 })) {
				vec_free(&needs);
				return error_new(ERROR_FAILED, "out of memory");
			}
		}
		vec_last(&needs)->bytes += trampoline_room(&tramp) + 16;
	}
	*ret_needs = needs;
	return NULL;
}

/* The site's instructions, decoded anew from the file's bytes where they run. */
static struct error *decode_site(struct planner *planner, const struct site *site, struct insn *insns,
				 uint8_t *bytes)
{
	struct module_view view;
	struct error *error = view_module(planner, site->module, &view);

	if (error)
		return error;
	uint64_t address = site->address.v - site->module->bias.v;
	const struct text_range *text = symtab_text(view.symtab, address);
	assert(text && site->length <= DT_SITE_BYTES);
	memcpy(bytes, text->bytes + (address - text->address), site->length);
	for (size_t i = 0, at = 0; i < site->insn_count; at += site->lengths[i++]) {
		if (!decode(bytes + at, site->lengths[i], taddr_add(site->address, (int64_t)at), &insns[i]))
			return error_new(ERROR_REFUSED, "the bytes there are no instruction");
	}
	return NULL;
}

/* What the site's bytes become: the jump, then what was there. */
static void fill_patch(struct site *site, const struct tramp *tramp, const uint8_t *original)
{
	struct patch_site *patch = &site->patch;
	struct emitter e;
	size_t at = 0;

	patch->address = site->address;
	patch->length = (uint8_t)site->length;
	memcpy(patch->original, original, site->length);
	memcpy(patch->patched, original, site->length);
	emit_init(&e, patch->patched, site->length, site->address);
	emit_jmp_to(&e, site->piece.at);
	assert(!emit_failed(&e)); /* near_pool_alloc gave what the module reaches */
	for (size_t i = 0; i <= site->insn_count; i++) {
		patch->moves[patch->move_count++] = (struct patch_move){ (uint8_t)at, tramp->copies[i] };
		at += i < site->insn_count ? site->lengths[i] : 0;
	}
	patch->tramp_start = site->piece.at;
	patch->tramp_end = taddr_add(site->piece.at, site->piece.size);
	patch->state = PATCH_PLANNED;
}

static struct error *emit_site(struct planner *planner, struct site *site, const struct tramp_env *env,
			       struct near_pool *pool, uint8_t *code)
{
	struct insn insns[TRAMP_INSNS_MAX];
	struct tramp_event *events[SITE_PROBES_MAX];
	uint8_t original[DT_SITE_BYTES];
	struct tramp tramp = { .insns = insns, .insn_count = site->insn_count, .events = events };
	struct error *error = decode_site(planner, site, insns, original);

	if (error)
		return error;
	for (size_t i = 0; i < site->probes.count; i++)
		events[tramp.event_count++] = &site->probes.items[i]->event;
	size_t room = trampoline_room(&tramp);
	if (!near_pool_alloc(pool, site->module->low, site->module->high, (uint32_t)room, &site->piece))
		return error_new(ERROR_REFUSED, "no memory is left within reach of it");
	error = trampoline_emit(&tramp, env, code + site->piece.offset, room, site->piece.at);
	if (error) {
		near_pool_free(pool, site->piece);
		site->piece.size = 0;
		return error;
	}
	near_pool_trim(pool, &site->piece, (uint32_t)tramp.size);
	fill_patch(site, &tramp, original);
	return NULL;
}

/* All probes of the site get the reason. */
static void refuse_site(struct site *site, const struct error *reason)
{
	for (size_t i = 0; i < site->probes.count; i++) {
		site->probes.items[i]->site = NULL;
		site->probes.items[i]->refusal = error_new(error_kind(reason), "%s", error_text(reason));
	}
}

struct error *planner_emit(struct planner *planner, const struct tramp_env *env, struct near_pool *pool,
			   uint8_t *code)
{
	size_t kept = 0;

	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i];
		_cleanup_error_ struct error *reason = emit_site(planner, site, env, pool, code);

		if (!reason) {
			planner->sites.items[kept++] = site;
			continue;
		}
		refuse_site(site, reason);
		site_free(site);
	}
	planner->sites.count = kept;
	return NULL;
}
