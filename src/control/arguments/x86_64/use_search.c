/*
 * The search follows all paths from the first instruction, with a state for each instruction: the
 * registers that some path to it hasn't overwritten, and where the stack pointer is. A path ends
 * when nothing is left to find out.
 *
 * A call is a search of its own, which says what the callee reads, and which registers it may
 * change: gcc knows which registers a local function leaves alone, and keeps values there; in the
 * others a caller finds nothing of its own any more. A search goes CALLS_DEEP calls deep. Each
 * level remembers its own answers, and uses those of levels below that weren't cut: so an answer
 * depends on the code alone, not on what was asked before.
 *
 * Jumps to other functions are calls that don't come back. A return ends a path only if the stack
 * pointer is proven to be where it was: a thunk that stores an address over its return address
 * jumps by its `ret`.
 */
#include "control/arguments/use_search.h"

#include <assert.h>
#include <stdlib.h>

#include "control/arguments/argument_use.h"
#include "control/arguments/import_use.h"
#include "control/arguments/kernel_use.h"
#include "control/arguments/known_values.h"
#include "control/arguments/register_effect.h"
#include "control/arguments/use_table.h"
#include "control/base/vec.h"

#define CALLS_DEEP 6u
#define STEPS_MAX 1500u /* instructions per function */
#define LAST_TWO 0x30u /* r8 and r9 */
#define SEEN_ROOM 2048u /* a power of two, more than STEPS_MAX: always one is free */

/* The state before an instruction. */
struct path {
	uint64_t at;
	struct stack_state stack;
	struct known_values known;
	uint8_t open; /* registers that aren't overwritten, nor known to be read */
	uint32_t search; /* in struct level.seen: that the entry belongs to */
};

struct level {
	struct use_table table;
	struct path *seen; /* by hash */
	uint32_t search; /* the number of the search that uses `seen` */
	VEC(struct path) paths; /* still to be followed */
};

struct use_search {
	const struct symtab *symtab;
	use_evidence *evidence;
	void *context;
	struct level levels[CALLS_DEEP + 1];
};

/* The search of one function. */
struct search {
	struct use_search *all;
	struct level *level;
	unsigned deeper; /* calls that may be followed */
	unsigned steps;
	bool is_loose; /* it may have followed jumps that nobody makes */
	bool is_first; /* before the first branch, with rax as the caller left it */
	uint64_t start, end; /* of the function's own code, by the unwind table */
	uint8_t saved; /* registers that lie side by side in memory by now, from there on: */
	int32_t save_area;
	int32_t slots[ARGUMENT_REGISTERS]; /* where on the stack each one was saved last, */
	uint8_t restored; /* and registers that are loaded from there again */
	struct use use;
};

struct use_search *use_search_new(const struct symtab *symtab, use_evidence *evidence,
				  void *context)
{
	struct use_search *all = calloc(1, sizeof(*all));

	assert(symtab);
	if (!all)
		return NULL;
	all->symtab = symtab;
	all->evidence = evidence;
	all->context = context;
	return all;
}

void use_search_free(struct use_search *all)
{
	for (size_t i = 0; all && i <= CALLS_DEEP; i++) {
		free(all->levels[i].seen);
		use_table_free(&all->levels[i].table);
		vec_free(&all->levels[i].paths);
	}
	free(all);
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* Nothing is known from here on (I22). */
static void give_up(struct search *search, const struct path *path)
{
	search->use.doubts |= path->open;
}

static void add_path(struct search *search, const struct path *path, uint64_t to)
{
	struct path next = *path;

	next.at = to;
	if (!vec_push(&search->level->paths, next))
		give_up(search, path);
}

static struct path *find_seen(const struct level *level, uint64_t at)
{
	size_t i = (size_t)(at * 0x9e3779b97f4a7c15ULL >> 32) & (SEEN_ROOM - 1);

	while (level->seen[i].search == level->search && level->seen[i].at != at)
		i = (i + 1) & (SEEN_ROOM - 1);
	return &level->seen[i];
}

/* Adds what is known already from other paths to the same instruction. False: nothing is new. */
static bool join(struct search *search, struct path *path)
{
	struct path *seen = find_seen(search->level, path->at);
	struct path before = *seen;

	if (before.search == search->level->search) {
		path->open |= before.open & (uint8_t)~search->use.reads;
		if (path->stack.rsp != before.stack.rsp)
			path->stack.rsp = STACK_UNKNOWN;
		if (path->stack.rbp != before.stack.rbp)
			path->stack.rbp = STACK_UNKNOWN;
		/* what this path knows, beyond what all know, doesn't count */
		struct known_values both = before.known;
		bool is_new = known_join(&both, &path->known);

		path->known = both;
		if (!is_new && !(path->open & ~before.open) &&
		    path->stack.rsp == before.stack.rsp && path->stack.rbp == before.stack.rbp)
			return false;
	}
	*seen = *path;
	seen->search = search->level->search;
	return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct use search_function(struct use_search *all, uint64_t address, unsigned deeper);

static struct use of_import(const struct import_use *import)
{
	return (struct use){ .reads = import->reads,
			     .doubts = import->doubts,
			     .clobbers = import->clobbers,
			     .results = import->results,
			     .returns = import->returns };
}

/* `deeper`: calls that may be followed in the callee; -1: none, not even this one. */
static struct use callee_use(struct use_search *all, const struct insn *insn, int deeper)
{
	struct import_use import = { .doubts = ARGUMENTS_ALL };
	struct use use;

	if (!insn->has_target)
		import = import_use_of(all->symtab, insn);
	else if (import_use_at(all->symtab, insn->target.v, &import))
		;
	else if (deeper < 0)
		return (struct use){ .doubts = ARGUMENTS_ALL, .is_cut = true };
	else {
		use = search_function(all, insn->target.v, (unsigned)deeper);
		/* it saves all registers, also those that aren't arguments of this call */
		if (use.is_variadic) {
			use.doubts |= use.reads;
			use.reads = 0;
		}
		return use;
	}
	return of_import(&import);
}

/* A path that can't be may lead out of the function, to whatever code is there. */
static bool is_own(const struct search *search, const struct insn *insn)
{
	return insn->pc.v - search->start < search->end - search->start;
}

static void call(struct search *search, struct path *path, const struct insn *insn)
{
	struct use use = { 0 };

	/* the function itself: what it reads is what this search finds */
	if (!insn->has_target || insn->target.v != search->use.address)
		use = callee_use(search->all, insn, (int)search->deeper - 1);
	search->use.reads |= use.reads & path->open;
	search->use.doubts |= use.doubts & path->open;
	if (is_own(search, insn))
		search->use.clobbers |= use.clobbers;
	search->use.is_cut |= use.is_cut;
	path->open &= (uint8_t)~use.clobbers;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* Goes on at all entries of the table that a jump reads (I25); false: it reads no known one. */
static bool jump_by_table(struct search *search, const struct path *path, const struct insn *insn)
{
	const struct symtab *symtab = search->all->symtab;
	struct jump_table table;
	uint64_t to;

	if (insn->flow != FLOW_JUMP_INDIRECT || !known_jump(&path->known, insn, &table))
		return false;
	for (uint32_t i = 0; i < table.count; i++) {
		if (!jump_table_target(symtab, &table, i, &to))
			return false;
	}
	search->is_loose |= table.is_loose;
	for (uint32_t i = 0; i < table.count; i++) {
		if (jump_table_target(symtab, &table, i, &to))
			add_path(search, path, to);
	}
	return true;
}

/* A system call takes as many arguments as its number has, or fewer: futex. */
static void enter_kernel(struct search *search, const struct path *path)
{
	uint64_t number = UINT64_MAX;

	known_number(&path->known, ZYDIS_REGISTER_RAX, &number);
	search->use.doubts |= kernel_use(number) & path->open;
}

/* Ends a path that leaves the function, by returning or by jumping. */
static void leave(struct search *search, struct path *path, const struct insn *insn)
{
	bool is_plain =
		insn->flow == FLOW_JUMP_INDIRECT ||
		(insn->zydis.mnemonic == ZYDIS_MNEMONIC_RET && !insn->zydis.operand_count_visible);

	if (jump_by_table(search, path, insn))
		return;
	if (path->stack.rsp != 0 || !is_plain) {
		give_up(search, path);
		return;
	}
	if (insn->flow == FLOW_JUMP_INDIRECT)
		call(search, path, insn);
	search->use.returns |= insn->flow == FLOW_RETURN && is_own(search, insn);
}

/* The first instructions of a variadic function save registers up to the last one; some ask for
 * vector registers. */
static void look_for_variadic(struct search *search, const struct insn *insn,
			      const struct register_effect *effect)
{
	if (effect->saves && effect->save_area != search->save_area) {
		search->save_area = effect->save_area;
		search->saved = 0;
	}
	search->saved |= effect->saves;
	if (effect->asks_vectors || (search->saved & LAST_TWO) == LAST_TWO)
		search->use.is_variadic = true;
	search->is_first = insn->flow == FLOW_NEXT && !effect->writes_rax;
}

/* A few functions save registers that others overwrite, and restore them: mcount. */
static void look_for_restored(struct search *search, const struct register_effect *effect)
{
	uint8_t saved = effect->saves | effect->pushes;

	if (saved)
		search->slots[__builtin_ctz(saved)] = effect->slot;
	if (effect->loads && search->slots[__builtin_ctz(effect->loads)] == effect->slot)
		search->restored |= effect->loads;
}

/* Does a jump lead to another function, as a call that needn't return here? */
static bool is_tail_call(const struct search *search, const struct path *path,
			 const struct insn *insn)
{
	uint64_t start, end;

	return path->stack.rsp == 0 && (insn->flow == FLOW_JUMP || insn->flow == FLOW_BRANCH) &&
	       insn->target.v != search->use.address &&
	       symtab_fde(search->all->symtab, insn->target.v, &start, &end) &&
	       start == insn->target.v;
}

/* Goes on behind the instruction; false: the path ends there. */
static bool step(struct search *search, struct path *path, const struct insn *insn)
{
	struct register_effect effect = register_effect_of(insn, &path->stack);
	struct path taken;

	if (is_own(search, insn))
		search->use.reads |= effect.reads & path->open;
	else
		search->use.doubts |= effect.reads & path->open;
	if (search->is_first)
		look_for_variadic(search, insn, &effect);
	look_for_restored(search, &effect);
	if (effect.is_opaque) {
		give_up(search, path);
		return false;
	}
	if (effect.enters_kernel)
		enter_kernel(search, path);
	path->open &= (uint8_t)~effect.writes;
	if (is_own(search, insn))
		search->use.clobbers |= effect.touches;
	taken = *path;
	known_step(&path->known, insn, &taken.known);
	if (is_tail_call(search, path, insn)) {
		struct path other = *path;

		call(search, &other, insn);
		path->at = insn->pc.v + insn->length;
		return insn->flow == FLOW_BRANCH;
	}
	switch (insn->flow) {
	case FLOW_CALL:
	case FLOW_CALL_INDIRECT:
		call(search, path, insn);
		break;
	case FLOW_RETURN:
	case FLOW_JUMP_INDIRECT:
		leave(search, path, insn);
		return false;
	case FLOW_BRANCH:
		add_path(search, &taken, insn->target.v);
		break;
	case FLOW_STOP:
		return false;
	default:
		break;
	}
	path->at = insn->flow == FLOW_JUMP ? insn->target.v : insn->pc.v + insn->length;
	return true;
}

static void follow(struct search *search, struct path path)
{
	struct insn insn;

	for (;;) {
		path.open &= (uint8_t)~search->use.reads;
		/* whether the function returns is asked without evidence only */
		if (!path.open && (search->use.returns || search->all->evidence))
			return;
		/* before it takes room among those that were seen: waiting paths may be many */
		if (search->steps >= STEPS_MAX) {
			give_up(search, &path);
			return;
		}
		if (!join(search, &path))
			return;
		search->steps++;
		if (!import_read_insn(search->all->symtab, path.at, &insn)) {
			give_up(search, &path);
			return;
		}
		if (!step(search, &path, &insn))
			return;
	}
}

static struct use search_function(struct use_search *all, uint64_t address, unsigned deeper)
{
	struct level *level = &all->levels[deeper];
	struct search search = { .all = all,
				 .level = level,
				 .deeper = deeper,
				 .is_first = true,
				 .use = { .address = address, .results = RESULT_REGISTERS } };
	struct path first = { .at = address, .open = ARGUMENTS_ALL };
	const struct use *known;
	uint8_t doubts;

	assert(deeper <= CALLS_DEEP);
	for (unsigned i = deeper + 1; i-- > 0;) {
		known = use_table_find(&all->levels[i].table, address);
		if (known && (i == deeper || !known->is_cut))
			return *known;
	}
	if (!level->seen)
		level->seen = calloc(SEEN_ROOM, sizeof(*level->seen));
	if (!level->seen || !address)
		return (struct use){ .doubts = ARGUMENTS_ALL };
	if (!symtab_fde(all->symtab, address, &search.start, &search.end)) {
		search.start = 0;
		search.end = UINT64_MAX;
	}
	level->search++;
	level->paths.count = 0;
	for (follow(&search, first); level->paths.count;)
		follow(&search, level->paths.items[--level->paths.count]);
	search.use.doubts &= (uint8_t)~search.use.reads;
	search.use.clobbers &= search.is_loose ? 0 : (uint8_t)~search.restored;
	doubts = search.use.doubts & (uint8_t)~arguments_up_to(search.use.reads);
	if (doubts && all->evidence)
		search.use.doubts &= (uint8_t)~all->evidence(all->context, address, doubts);
	use_table_add(&level->table, &search.use);
	return search.use;
}

struct use use_search_function(struct use_search *all, uint64_t address)
{
	return search_function(all, address, CALLS_DEEP);
}

struct use use_search_callee(struct use_search *all, const struct insn *insn)
{
	return callee_use(all, insn, (int)CALLS_DEEP - 1);
}
