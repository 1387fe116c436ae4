#include "coverage.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "control/base/cleanup.h"
#include "control/placement/sigtrap_guards.h"
#include "control/placement/tactic.h"

#define PROGRAM_BASE 0x555555554000ULL
#define LIBRARY_BASE 0x7ffff7000000ULL

const char *coverage_tactic(size_t index)
{
	return index < tactic_count ? tactics[index].name : NULL;
}

void coverage_free(struct coverage_count *count)
{
	free(count->reasons);
	*count = (struct coverage_count){ 0 };
}

/* Replaces numbers: "the function ends after 2 bytes" and "after 3 bytes" are one reason. */
static void generalize(const char *text, char *to, size_t room)
{
	size_t used = 0;

	for (; *text && used + 1 < room; text++) {
		if (!isdigit((unsigned char)*text))
			to[used++] = *text;
		else if (!used || to[used - 1] != '#')
			to[used++] = '#';
	}
	to[used] = '\0';
}

static bool count_reason(struct coverage_count *count, const char *text, uint64_t address)
{
	struct {
		struct coverage_reason *items;
		size_t count, room;
	} list = { count->reasons, count->reason_count, count->reason_room };
	struct coverage_reason reason = { .count = 1, .example = address };
	bool added;

	generalize(text, reason.text, sizeof(reason.text));
	for (size_t i = 0; i < list.count; i++) {
		if (strcmp(list.items[i].text, reason.text))
			continue;
		list.items[i].count++;
		return true;
	}
	added = vec_push(&list, reason);
	count->reasons = list.items;
	count->reason_count = list.count;
	count->reason_room = list.room;
	return added;
}

static bool count_probe(struct coverage_count *count, struct probe *probe)
{
	bool counted = true;

	count->total++;
	if (probe->refusal) {
		count->refused++;
		counted = count_reason(count, error_text(probe->refusal),
				       probe->place.address.v - probe->place.module->bias.v);
		error_free(probe->refusal);
		probe->refusal = NULL;
		return counted;
	}
	assert(tactic_count <= COVERAGE_TACTICS_MAX);
	count->placed[probe->site->tactic - tactics]++;
	return true;
}

static int by_count(const void *a, const void *b)
{
	const struct coverage_reason *x = a, *y = b;

	return (x->count < y->count) - (x->count > y->count);
}

/* ---- planning -------------------------------------------------------------------------------- */

struct survey {
	struct planner *planner;
	struct module *module;
	VEC(struct probe) probes;
	VEC(struct probe *) order;
	VEC(uint64_t) starts; /* of functions, in the file */
	bool failed;
	struct coverage_count count;
};

static void survey_free(struct survey *survey)
{
	planner_destroy(survey->planner);
	vec_free(&survey->probes);
	vec_free(&survey->order);
	vec_free(&survey->starts);
	coverage_free(&survey->count);
}

static bool copy_maps(const struct maps *from, struct maps *to)
{
	for (size_t i = 0; i < from->count; i++) {
		struct mapping mapping = from->items[i];

		mapping.path = strdup(mapping.path);
		if (!mapping.path || !vec_push(to, mapping)) {
			free(mapping.path);
			return false;
		}
	}
	return true;
}

static struct error *find_functions(struct survey *survey);

/* Allows traps as in a process that permits them. A static program has no libc to watch. */
static struct error *may_trap(void *context, const struct module *module)
{
	if (module->is_executable && !symtab_has_loader(module->symtab))
		return error_new(ERROR_REFUSED,
				 "no libc whose signal masks could be watched");
	return sigtrap_guards_module(module);
}

static struct error *survey_begin(struct survey *survey, struct module *module,
				  const struct maps *maps)
{
	struct maps copy = { 0 };
	struct error *error = planner_create(NULL, &survey->planner);

	if (error)
		return error;
	survey->module = module;
	if (!copy_maps(maps, &copy)) {
		maps_free(&copy);
		return error_new(ERROR_FAILED, "out of memory");
	}
	planner_use_maps(survey->planner, copy);
	planner_allow_traps(survey->planner, may_trap, NULL);
	return find_functions(survey);
}

static bool survey_add(struct survey *survey, uint64_t address)
{
	struct probe probe = { .place = { .module = survey->module,
					  .symbol = symtab_at(survey->module->symtab, address),
					  .address = taddr_add(survey->module->bias,
							       (int64_t)address) },
			       .event = { .size = 8 } };

	return vec_push(&survey->probes, probe);
}

/* Plans the probes together, counts them, forgets them. */
static struct error *survey_plan(struct survey *survey, size_t first, size_t count)
{
	struct error *error;

	survey->order.count = 0;
	for (size_t i = first; i < first + count; i++) {
		if (!vec_push(&survey->order, &survey->probes.items[i]))
			return error_new(ERROR_FAILED, "out of memory");
	}
	error = planner_decide(survey->planner, survey->order.items, count);
	for (size_t i = first; i < first + count && !error; i++) {
		if (!count_probe(&survey->count, &survey->probes.items[i]))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	planner_clear(survey->planner);
	return error;
}

static struct coverage_count survey_end(struct survey *survey)
{
	struct coverage_count count = survey->count;

	if (count.reasons)
		qsort(count.reasons, count.reason_count, sizeof(*count.reasons), by_count);
	survey->count = (struct coverage_count){ 0 };
	return count;
}

/* ---- functions ------------------------------------------------------------------------------- */

static void note_start(void *context, uint64_t address)
{
	struct survey *survey = context;

	if (symtab_text(survey->module->symtab, address) && !vec_push(&survey->starts, address))
		survey->failed = true;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Lists every function with a name or an unwind table entry, once. */
static struct error *find_functions(struct survey *survey)
{
	size_t kept = 0;

	symtab_each_function_start(survey->module->symtab, note_start, survey);
	if (survey->failed)
		return error_new(ERROR_FAILED, "out of memory");
	if (survey->starts.count)
		qsort(survey->starts.items, survey->starts.count, sizeof(uint64_t), by_value);
	for (size_t i = 0; i < survey->starts.count; i++) {
		if (!kept || survey->starts.items[i] != survey->starts.items[kept - 1])
			survey->starts.items[kept++] = survey->starts.items[i];
	}
	survey->starts.count = kept;
	return NULL;
}

struct error *coverage_functions(struct module *module, const struct maps *maps,
				 struct coverage_count *ret_count)
{
	_cleanup_(survey_free) struct survey survey = { 0 };
	struct error *error = survey_begin(&survey, module, maps);

	for (size_t i = 0; !error && i < survey.starts.count; i++) {
		if (!survey_add(&survey, survey.starts.items[i]))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	if (!error)
		error = survey_plan(&survey, 0, survey.probes.count);
	if (error)
		return error;
	*ret_count = survey_end(&survey);
	return NULL;
}

/* The function's instructions as probes, up to the next function. */
static struct error *survey_list(struct survey *survey, size_t index)
{
	uint64_t start = survey->starts.items[index];
	uint64_t next =
		index + 1 < survey->starts.count ? survey->starts.items[index + 1] : UINT64_MAX;
	struct module_view *view;
	const struct body *body;
	struct error *error = function_view(survey->planner, survey->module, &view);

	survey->probes.count = 0;
	if (!error)
		error = function_body(survey->planner, view, NULL, start, &body);
	if (error && error_kind(error) == ERROR_REFUSED) { /* its end is unknown */
		error_free(error);
		return NULL;
	}
	if (error)
		return error;
	for (size_t i = 0; i < body->insns.count; i++) {
		uint64_t at = body->insns.items[i].at;

		if (at < start || at >= body->end || at >= next || body->insns.items[i].dead)
			continue;
		if (!survey_add(survey, at))
			return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}

struct error *coverage_instructions(struct module *module, const struct maps *maps, bool at_once,
				    struct coverage_count *ret_count)
{
	_cleanup_(survey_free) struct survey survey = { 0 };
	struct error *error = survey_begin(&survey, module, maps);

	for (size_t i = 0; !error && i < survey.starts.count; i++) {
		error = survey_list(&survey, i);
		for (size_t j = 0; j < survey.probes.count && !error && !at_once; j++)
			error = survey_plan(&survey, j, 1);
		if (!error && at_once)
			error = survey_plan(&survey, 0, survey.probes.count);
	}
	if (error)
		return error;
	*ret_count = survey_end(&survey);
	return NULL;
}

static struct error *plan_each(struct survey *survey,
			       void (*found)(void *context, const struct symbol *symbol,
					     uint64_t address, const char *tactic),
			       void *context)
{
	struct error *error;

	survey->order.count = 0;
	for (size_t i = 0; i < survey->probes.count; i++) {
		if (!vec_push(&survey->order, &survey->probes.items[i]))
			return error_new(ERROR_FAILED, "out of memory");
	}
	error = planner_decide(survey->planner, survey->order.items, survey->order.count);
	for (size_t i = 0; i < survey->probes.count && !error; i++) {
		struct probe *probe = &survey->probes.items[i];

		found(context, probe->place.symbol, probe->place.address.v - survey->module->bias.v,
		      probe->refusal ? NULL : site_tactic(probe->site));
		error_free(probe->refusal);
	}
	planner_clear(survey->planner);
	return error;
}

struct error *coverage_each(struct module *module, const struct maps *maps,
			    void (*found)(void *context, const struct symbol *symbol,
					  uint64_t address, const char *tactic),
			    void *context)
{
	_cleanup_(survey_free) struct survey survey = { 0 };
	struct error *error = survey_begin(&survey, module, maps);

	for (size_t i = 0; !error && i < survey.starts.count; i++) {
		error = survey_list(&survey, i);
		if (!error)
			error = plan_each(&survey, found, context);
	}
	return error;
}

/* ---- a file ---------------------------------------------------------------------------------- */

struct error *coverage_load(struct symtab *symtab, const char *name, bool is_library,
			    struct module *ret_module, struct maps *ret_maps)
{
	struct module module = {
		.symtab = symtab, .name = name, .path = "", .is_executable = !is_library
	};
	struct maps maps = { 0 };
	struct mapping mapping = { .prot = PROT_READ | PROT_EXEC, .inode = 1 };

	if (symtab_low(symtab) < DT_PAGE * 16)
		module.bias = taddr_of(is_library ? LIBRARY_BASE : PROGRAM_BASE);
	module.low = taddr_add(module.bias, (int64_t)symtab_low(symtab));
	module.high = taddr_add(module.bias, (int64_t)symtab_high(symtab));
	mapping.start = taddr_of(module.low.v & ~(DT_PAGE - 1));
	mapping.end = taddr_of(DT_ROUND_UP(module.high.v, DT_PAGE));
	mapping.path = strdup("");
	if (!mapping.path || !vec_push(&maps, mapping)) {
		free(mapping.path);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_module = module;
	*ret_maps = maps;
	return NULL;
}
