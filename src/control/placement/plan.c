#include "plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/base/interrupt.h"
#include "go_prologue.h"
#include "tactic.h"

struct error *planner_create(struct proc *proc, struct planner **ret_planner)
{
	struct planner *planner = calloc(1, sizeof(*planner));

	if (!planner)
		return error_new(ERROR_FAILED, "out of memory");
	planner->proc = proc;
	*ret_planner = planner;
	return NULL;
}

void planner_keep_calls(struct planner *planner)
{
	planner->keeps_calls = true;
}

void planner_clear(struct planner *planner)
{
	for (size_t i = 0; i < planner->sites.count; i++)
		site_free(planner->sites.items[i]);
	planner->sites.count = 0;
	for (size_t i = 0; i < planner->superseded.count; i++)
		site_free(planner->superseded.items[i]);
	planner->superseded.count = 0;
}

void planner_destroy(struct planner *planner)
{
	if (!planner)
		return;
	for (size_t i = 0; i < planner->views.count; i++) {
		branch_cache_put(planner->views.items[i]->branch_targets);
		free(planner->views.items[i]);
	}
	planner_clear(planner);
	vec_free(&planner->views);
	vec_free(&planner->sites);
	vec_free(&planner->superseded);
	body_free(&planner->body);
	body_free(&planner->near);
	maps_free(&planner->maps);
	vec_free(&planner->hop_stacks);
	free(planner->hop_bits);
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
	assert(index < planner->sites.count);
	return planner->sites.items[index];
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
	return error_new(ERROR_REFUSED,
			 "not the start of an instruction (the nearest are %s and %s)", first,
			 second);
}

/* The index of the instruction that begins at the address; else an error that names the nearest. */
static struct error *find_insn(const struct body *body, uint64_t address, const char *function,
			       size_t *ret_index)
{
	size_t index;

	if (!body->text)
		return error_new(ERROR_REFUSED, "not in the program's code");
	if (!body_find(body, address, &index))
		return error_new(ERROR_REFUSED, "the code before it cannot be decoded");
	const struct body_insn *insn = &body->insns.items[index];
	if (insn->at != address)
		return not_a_start(function, insn->at - body->start,
				   insn->at + insn->length - body->start);
	*ret_index = index;
	return NULL;
}

/* Collects the facts that tactics need about a place; the error says why none can help. */
static struct error *view_place(struct planner *planner, const struct place *place,
				struct tactic_view *ret_view)
{
	uint64_t address = place->address.v - place->module->bias.v;
	struct tactic_view view = { .planner = planner };
	struct module_view *module;
	struct error *error = function_view(planner, place->module, &module);

	if (error)
		return error;
	view.module = module;
	if (symtab_has_text_relocations(module->symtab))
		return error_new(ERROR_REFUSED,
				 "the loader changes its code (text relocations)");
	error = function_body(planner, module, place->symbol, address, &view.body);
	if (!error)
		error = find_insn(view.body, address,
				  place->symbol ? place->symbol->name : "function", &view.index);
	if (error)
		return error;
	if (branch_targets_is_sequence(module->branch_targets, address, address + JUMP_LENGTH))
		return error_new(ERROR_REFUSED, "inside a restartable sequence (rseq)");
	*ret_view = view;
	return NULL;
}

void planner_forbid_trap(struct probe *probe)
{
	for (size_t i = 0; i < tactic_count; i++) {
		if (!strcmp(tactics[i].name, "trap"))
			probe->spent |= 1u << i;
	}
	snprintf(probe->spent_why, sizeof(probe->spent_why), "not for ends of functions");
}

static bool is_spent(const struct tactic_view *view, size_t tactic)
{
	return view->probe && (view->probe->spent >> tactic & 1);
}

/* Tries the tactics in order; the error has the reason of each. */
static struct error *try_tactics(const struct tactic_view *view, bool late, struct site **ret_site)
{
	struct error *reasons = NULL;

	for (size_t i = 0; i < tactic_count; i++) {
		if (tactics[i].is_late && !late)
			continue;
		struct error *error =
			is_spent(view, i) ? error_new(ERROR_REFUSED, "%s", view->probe->spent_why) :
					    tactics[i].try(view, ret_site);
		if (!error || error_kind(error) != ERROR_REFUSED) {
			error_free(reasons);
			return error;
		}
		if (!reasons) {
			reasons = error;
			continue;
		}
		error = error_wrap(error, "%s; %s", error_text(reasons), tactics[i].name);
		error_free(reasons);
		reasons = error;
	}
	return reasons;
}

/* The index of the site's instruction that begins there. */
static bool find_in_site(const struct site *site, taddr address, size_t *ret_index)
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

static bool comes_before(const struct probe *a, const struct probe *b)
{
	if (a->event.insn != b->event.insn)
		return a->event.insn < b->event.insn;
	return tramp_event_comes_first(&a->event) && !tramp_event_comes_first(&b->event);
}

static struct error *join_site(struct site *site, struct probe *probe)
{
	assert(!site->emitted && !probe->site); /* L2 */
	if (!find_in_site(site, probe->place.address, &probe->event.insn))
		return error_new(ERROR_REFUSED, "not the start of an instruction");
	if (site->probes.count >= SITE_PROBES_MAX)
		return error_new(ERROR_REFUSED, "more than %d tracepoints at one place",
				 SITE_PROBES_MAX);
	if (!vec_push(&site->probes, probe))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = site->probes.count - 1; i && comes_before(probe, site->probes.items[i - 1]);
	     i--) {
		site->probes.items[i] = site->probes.items[i - 1];
		site->probes.items[i - 1] = probe;
	}
	probe->site = site;
	return NULL;
}

/* A function's first instruction is reached by calls only, and a caller keeps nothing below the
 * stack pointer (red zone). */
static bool is_function_start(struct planner *planner, const struct probe *probe)
{
	const struct place *place = &probe->place;
	uint64_t address = place->address.v - place->module->bias.v, start, end;
	struct module_view *view;
	_cleanup_error_ struct error *error = function_view(planner, place->module, &view);

	if (error)
		return false;
	if (symtab_is_go(view->symtab)) /* which has no such tables */
		return place->symbol && place->symbol->address == address &&
		       place->symbol->kind == SYMBOL_FUNCTION;
	return symtab_fde(view->symtab, address, &start, &end) && start == address;
}

/* Makes a site for the probe, or grows one. */
static struct error *open_site(struct planner *planner, struct probe *probe, bool late)
{
	struct tactic_view view;
	struct site *site;
	struct error *error = view_place(planner, &probe->place, &view);

	view.probe = probe;
	if (!error)
		error = try_tactics(&view, late, &site);
	return error ? error : join_site(site, probe);
}

/* The site that moves the instruction there already, if probes can still join it. */
static struct site *site_around(const struct planner *planner, taddr address)
{
	struct site *site = siteset_before(planner, address);
	size_t index;

	return site && !site->emitted && find_in_site(site, address, &index) ? site : NULL;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = (*(struct probe *const *)a)->place.address.v;
	uint64_t y = (*(struct probe *const *)b)->place.address.v;

	return (x > y) - (x < y);
}

void planner_own_file(struct planner *planner, uint64_t device, uint64_t inode)
{
	planner->own_device = device;
	planner->own_inode = inode;
}

static void leave_out_own(const struct planner *planner, struct maps *maps)
{
	size_t kept = 0;

	for (size_t i = 0; i < maps->count; i++) {
		struct mapping *mapping = &maps->items[i];

		if (planner->own_inode && mapping->inode == planner->own_inode &&
		    mapping->device == planner->own_device)
			free(mapping->path);
		else
			maps->items[kept++] = *mapping;
	}
	maps->count = kept;
}

static struct error *read_maps(struct planner *planner)
{
	struct maps maps = { 0 };
	struct error *error = NULL;

	if (!planner->proc)
		return NULL;
	error = maps_read(planner->proc, &maps);
	if (error)
		return error;
	leave_out_own(planner, &maps);
	maps_free(&planner->maps);
	planner->maps = maps;
	planner->hop_stacks.count = 0;
	return NULL;
}

/* Also of a probe that joins another one's site. */
static struct error *check_room(struct planner *planner, const struct probe *probe)
{
	const struct place *place = &probe->place;
	struct module_view *view;

	if (!place->symbol)
		return NULL;
	struct error *error = function_view(planner, place->module, &view);
	struct go_hit hit = { .address = place->address.v - place->module->bias.v,
			      .gathers = probe->event.program != NULL,
			      .checks = probe->event.check_length != 0 };
	if (!error && go_prologue_has_no_room(view->symtab, place->symbol, &hit))
		error = error_new(ERROR_REFUSED, "a goroutine's stack may have no room left there");
	return error;
}

static struct error *plan_probe(struct planner *planner, struct probe *probe, bool late)
{
	struct site *site = site_around(planner, probe->place.address);
	struct error *error = check_room(planner, probe);

	if (error)
		return error;
	probe->again = false;
	/* where a function is left, nothing below the stack pointer is in use any more */
	probe->event.keep_red_zone = !probe->event.leaves && !is_function_start(planner, probe);
	return site ? join_site(site, probe) : open_site(planner, probe, late);
}

/*
 * The first round tries tactics that need no bytes but their own; the second also the late tactics.
 * In the last round late tactics may rely on bytes of probes that found no place before.
 */
#define ROUNDS 3

static struct error *decide_round(struct planner *planner, struct probe **probes, size_t count,
				  int round)
{
	for (size_t i = 0; i < count; i++) {
		struct probe *probe = probes[i];

		if (probe->site)
			continue;
		struct error *interrupted = interrupt_check();
		if (interrupted)
			return interrupted;
		error_free(probe->refusal);
		probe->refusal = plan_probe(planner, probe, round > 0);
		if (probe->refusal && error_kind(probe->refusal) != ERROR_REFUSED)
			return take_ptr(&probe->refusal);
	}
	return NULL;
}

bool plan_is_wanted(const struct planner *planner, taddr start, taddr end)
{
	size_t n = sorted_count(planner->wanted.count, i,
				planner->wanted.items[i]->place.address.v < start.v);

	return n < planner->wanted.count && planner->wanted.items[n]->place.address.v < end.v;
}

struct error *plan_all(struct planner *planner, struct probe **probes, size_t count)
{
	struct error *error = NULL;

	assert(!planner->wanted.count); /* not entered twice: the wanted list is borrowed */
	qsort(probes, count, sizeof(*probes), by_address);
	for (int round = 0; round < ROUNDS && !error; round++) {
		planner->wanted.items = probes;
		planner->wanted.count = round < ROUNDS - 1 ? count : 0;
		error = decide_round(planner, probes, count, round);
	}
	planner->wanted.count = 0;
	return error;
}

static struct error *decide(struct planner *planner, struct probe **probes, size_t count)
{
	struct error *error = plan_all(planner, probes, count);

	return error ? error : regroup_decide(planner, probes, count);
}

static bool has_emitted(const struct planner *planner)
{
	for (size_t i = 0; i < planner->sites.count; i++) {
		if (planner->sites.items[i]->emitted)
			return true;
	}
	return false;
}

struct error *planner_decide(struct planner *planner, struct probe **probes, size_t count)
{
	struct error *error = read_maps(planner);

	if (!error && planner->may_trap && has_emitted(planner)) {
		planner->redirects = REDIRECTS_UNKNOWN;
		planner->avoids_traps = true; /* (L6) */
		error = decide(planner, probes, count);
		planner->avoids_traps = false;
	}
	return error ? error : decide(planner, probes, count);
}

void planner_use_maps(struct planner *planner, struct maps maps)
{
	maps_free(&planner->maps);
	planner->maps = maps;
}

/* Tries one tactic on an empty plan. */
static struct error *try_alone(struct planner *planner, const struct place *place,
			       const struct tactic *tactic)
{
	struct planner alone = { .proc = planner->proc,
				 .maps = planner->maps,
				 .may_trap = planner->may_trap,
				 .may_trap_context = planner->may_trap_context };
	struct tactic_view view;
	struct site *site;
	struct error *error = view_place(planner, place, &view);

	if (error)
		return error;
	view.planner = &alone;
	error = tactic->try(&view, &site);
	for (size_t i = 0; i < alone.sites.count; i++)
		site_free(alone.sites.items[i]);
	vec_free(&alone.sites);
	free(alone.hop_bits);
	body_free(&alone.near);
	return error;
}

struct error *planner_explain(struct planner *planner, const struct place *place,
			      struct tactic_reasons_list *ret_list)
{
	struct tactic_reasons_list list = { 0 };
	struct error *error = read_maps(planner);

	for (size_t i = 0; i < tactic_count && !error; i++) {
		struct tactic_reason item = { .tactic = tactics[i].name };
		struct error *reason = try_alone(planner, place, &tactics[i]);

		if (reason)
			snprintf(item.reason, sizeof(item.reason), "%s", error_text(reason));
		error_free(reason);
		if (!vec_push(&list, item))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	if (error) {
		vec_free(&list);
		return error;
	}
	*ret_list = list;
	return NULL;
}
