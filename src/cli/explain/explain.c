/*
 * explain.c - generate the code of one probe and disassemble it.
 *
 * The trampoline is generated as for a real trace, for memory that is free in the target now, but
 * stays in dyntrace. The addresses of the control page, slots and pool are made up.
 */
#include "explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/code/decode.h"
#include "control/dwarf/debug.h"
#include "control/placement/plan.h"
#include "control/placement/sigtrap_guards.h"
#include "options/commands.h"

#define BYTES_SHOWN 11 /* width of the column; longer instructions exceed it */
#define EXAMPLE_BASE 0x7ffff0000000ULL

struct explanation {
	struct proc *proc;
	struct maps maps;
	struct modules modules;
	struct location location;
	struct places places;
	struct planner *planner;
	struct near_pool *pool;
	uint8_t *code;
	uint64_t code_size;
	struct emit_notes notes;
	struct probe probe;
};

static void drop_memory(struct explanation *x)
{
	if (x->pool)
		near_pool_destroy(x->pool);
	x->pool = NULL;
	free(take_ptr(&x->code));
	x->code_size = 0;
}

static void explanation_free(struct explanation *x)
{
	error_free(x->probe.refusal);
	planner_destroy(x->planner);
	drop_memory(x);
	vec_free(&x->notes);
	places_free(&x->places);
	location_clear(&x->location);
	modules_free(&x->modules);
	maps_free(&x->maps);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void print_line(taddr at, const uint8_t *bytes, size_t length, const char *text,
		       const char *comment)
{
	cli_print("  %12llx  ", (unsigned long long)at.v);
	for (size_t i = 0; i < length; i++)
		cli_print("%02x ", bytes[i]);
	for (size_t i = length; i < BYTES_SHOWN; i++)
		cli_print("   ");
	if (comment && *comment)
		cli_print(" %-44s ; %s\n", text, comment);
	else
		cli_print(" %s\n", text);
}

/* The text of the last note up to the offset; NULL: data. */
static const char *comment_at(const struct emit_notes *notes, size_t offset)
{
	const char *text = "";

	for (size_t i = 0; notes && i < notes->count && notes->items[i].at <= offset; i++)
		text = notes->items[i].text;
	return text;
}

static void print_code(taddr at, const uint8_t *bytes, size_t size, const struct emit_notes *notes)
{
	for (size_t offset = 0; offset < size;) {
		const char *comment = comment_at(notes, offset);
		struct insn insn;
		char text[128];

		if (!comment) { /* data words of the trampoline */
			size_t length = size - offset < 8 ? size - offset : 8;

			print_line(taddr_add(at, (int64_t)offset), bytes + offset, length, "(data)",
				   NULL);
			offset += length;
			continue;
		}
		if (!decode(bytes + offset, size - offset, taddr_add(at, (int64_t)offset), &insn)) {
			print_line(taddr_add(at, (int64_t)offset), bytes + offset, 1,
				   "(not an instruction)", NULL);
			offset++;
			continue;
		}
		decode_format(&insn, text, sizeof(text));
		print_line(insn.pc, insn.bytes, insn.length, text, comment);
		offset += insn.length;
	}
}

/* ---- planning -------------------------------------------------------------------------------- */

static struct error *find_place(struct explanation *x, const char *location)
{
	struct error *error = location_parse(location, &x->location);

	if (!error)
		error = maps_read(x->proc, &x->maps);
	if (!error)
		error = modules_read(x->proc, &x->maps, &x->modules);
	if (!error)
		error = locate(x->proc, &x->modules, &x->location, false, &x->places);
	if (!error && x->places.count != 1)
		error = error_new(ERROR_USAGE,
				  "--explain: takes one place, '%s' has %zu (give an address, such as 0x%llx)",
				  location, x->places.count,
				  (unsigned long long)x->places.items[0].address.v);
	return error;
}

static struct error *may_trap(void *context, const struct module *module)
{
	struct explanation *x = context;
	struct guard_list guards = { 0 };
	struct error *error = sigtrap_guards_module(module);

	if (!error)
		error = sigtrap_guards_find(x->planner, &x->modules, &guards);
	vec_free(&guards);
	return error;
}

/* Allocates own memory instead of code windows in the target. */
static struct error *take_memory(struct explanation *x)
{
	struct plan_needs needs = { 0 };
	struct error *error = planner_needs(x->planner, &needs);
	uint64_t used = 0;

	for (size_t i = 0; i < needs.count; i++)
		x->code_size += DT_ROUND_UP(needs.items[i].bytes, DT_PAGE) + DT_PAGE;
	x->code = calloc(1, x->code_size + 1);
	x->pool = near_pool_create();
	if (!error && (!x->code || !x->pool))
		error = error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < needs.count && !error; i++) {
		uint64_t size = DT_ROUND_UP(needs.items[i].bytes, DT_PAGE);
		taddr at = needs.items[i].low;

		if (!needs.items[i].fixed)
			error = near_find_gap(&x->maps, needs.items[i].low, needs.items[i].high,
					      size, &at);
		if (!error && !near_pool_add(x->pool, at, used, size))
			error = error_new(ERROR_FAILED, "out of memory");
		used += size;
	}
	vec_free(&needs);
	return error;
}

/* Decides how to place the probe and emits its code, unless it is refused. If the tactic fails to
 * emit, probe.again is set and the caller tries the other tactics. */
static struct error *decide_and_write(struct explanation *x)
{
	struct probe *probes[] = { &x->probe };
	const struct tramp_env env = { .control = taddr_of(EXAMPLE_BASE),
				       .slots = taddr_of(EXAMPLE_BASE + (16 << 20)),
				       .pool = taddr_of(EXAMPLE_BASE + (32 << 20)),
				       .notes = &x->notes };
	struct error *error = planner_decide(x->planner, probes, 1);

	if (error || x->probe.refusal)
		return error;
	error = take_memory(x);
	return error ? error : planner_emit(x->planner, &env, x->pool, x->code);
}

static struct error *plan(struct explanation *x)
{
	struct error *error = planner_create(x->proc, &x->planner);

	x->probe.place = x->places.items[0];
	x->probe.event.size = 8;
	if (!error)
		planner_allow_traps(x->planner, may_trap, x);
	if (!error)
		error = decide_and_write(x);
	while (!error && x->probe.again) {
		drop_memory(x);
		error = decide_and_write(x);
	}
	return error;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void print_refusal(struct explanation *x)
{
	struct tactic_reasons_list list = { 0 };
	struct error *error = planner_explain(x->planner, &x->probe.place, &list);

	cli_print("refused:\n");
	for (size_t i = 0; i < list.count; i++)
		cli_print("  %-10s %s\n", list.items[i].tactic,
		       x->probe.spent >> i & 1 ? x->probe.spent_why : list.items[i].reason);
	if (error)
		cli_print("  %s\n", error_text(error));
	error_free(error);
	vec_free(&list);
}

static const char *describe_way(const struct site *site)
{
	static const char *const ways[] = {
		[DIVERT_JUMP] = "a jump of five bytes to the trampoline",
		[DIVERT_SHORT] =
			"a short jump to five unused bytes nearby, and from there to the trampoline",
		[DIVERT_PUN] =
			"a jump that shares its last bytes with the code after it, to a page mapped at its target",
		[DIVERT_NONE] = "padding that holds jumps of other sites",
		[DIVERT_TRAP] = "one byte, int3: a signal on each hit, where nothing else fits",
	};

	return ways[site->way];
}

static void print_rest(taddr at, const uint8_t *bytes, size_t size)
{
	if (size)
		print_line(at, bytes, size, "(never runs)", NULL);
}

/* Prints the jump, the slots, and the rest of the code that moved away. */
static void print_after(const struct site *site)
{
	static const size_t lengths[] = { [DIVERT_JUMP] = 5,
					  [DIVERT_SHORT] = 2,
					  [DIVERT_PUN] = 0,
					  [DIVERT_NONE] = 0,
					  [DIVERT_TRAP] = 1 };
	const struct patch_site *patch = &site->patch;
	size_t code = lengths[site->way] + site->slot_count * 5;
	char text[64];

	if (site->way == DIVERT_PUN) {
		snprintf(text, sizeof(text), "jmp 0x%llX", (unsigned long long)site->hop.v);
		print_line(patch->address, patch->patched, patch->length, text,
			   "its other bytes stay as they are");
		return;
	}
	print_code(patch->address, patch->patched, code, NULL);
	print_rest(taddr_add(patch->address, (int64_t)code), patch->patched + code,
		   patch->length - code);
}

static void print_sites(const struct explanation *x)
{
	for (size_t i = 0; i < planner_site_count(x->planner); i++) {
		const struct site *site = planner_site(x->planner, i);
		const struct patch_site *patch = &site->patch;

		if (site != x->probe.site)
			cli_print("\nsite that holds the second jump:\n");
		else
			cli_print("\ntactic: %s (%s)\n", site_tactic(site), describe_way(site));
		cli_print("before:\n");
		print_code(patch->address, patch->original, patch->length, NULL);
		cli_print("after:\n");
		print_after(site);
	}
}

static void print_trampoline(const struct explanation *x)
{
	const struct site *site = x->probe.site;

	cli_print("\ntrampoline, %u bytes:\n", site->piece.size);
	print_code(site->piece.at, x->code + site->piece.offset, site->piece.size, &x->notes);
}

/* Tells what an entry records where nothing else is known about the function's arguments. */
static void print_arguments(const struct explanation *x)
{
	const struct place *place = &x->probe.place;
	uint64_t address = place->address.v - place->module->bias.v;
	struct debug *debug = NULL;
	struct debug_function function;
	_cleanup_error_ struct error *error = module_debug(x->proc, place->module, &debug);
	uint8_t read;

	if (error || !place->symbol || place->symbol->address != address ||
	    (debug && debug_function_at(debug, address, &function)))
		return;
	read = module_argument_uses(x->proc, place->module, address);
	cli_print("without debug information, its code may read of the argument registers:%s",
		  read ? "" : " none");
	for (unsigned i = 0; read >> i; i++) {
		if (read >> i & 1)
			cli_print(" arg%u", i);
	}
	cli_print("\n");
}

struct error *explain_location(struct proc *proc, const char *location)
{
	_cleanup_(explanation_free) struct explanation x = { .proc = proc };
	struct error *error = find_place(&x, location);

	if (!error)
		error = plan(&x);
	if (error)
		return error;
	cli_print("%s at 0x%llx, in %s\n", x.probe.place.name,
	       (unsigned long long)x.probe.place.address.v,
	       module_called(proc, x.probe.place.module));
	if (x.probe.refusal) {
		print_refusal(&x);
		return NULL;
	}
	print_arguments(&x);
	print_sites(&x);
	print_trampoline(&x);
	return NULL;
}
