/*
 * The memory, one region so that everything is in reach:
 *
 *	code of exits | stubs | the loop | functions, with and without a jump |
 *	the routine of trampolines without an exit | trampolines
 *	struct dt_returns
 *
 * Each trampoline has a stub of its own, bound beforehand as the agent would bind it, and the
 * slot of this thread has room for all events: no slow path is taken.
 */
#include "control/trampoline/hit_timing.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/code/decode.h"
#include "control/codegen/shared_code.h"
#include "control/exits/code/exit_stub.h"
#include "control/trampoline/trampoline.h"
#include "shared/layout.h"

#define FUNCTIONS 512u
#define FUNCTION_SIZE 256u /* bytes */
#define TRAMP_ROOM 1536u
#define CALLS 1024u /* per round */
#define ROUNDS 7
#define EVENT_SIZE 24u
#define POOL_SIZE (256u << 10) /* events aren't always written to the same lines */
#define ROW_SHIFT 12 /* of two rows of counts */
#define TABLE_BITS 14u
#define STUBS_AT 4096u
#define LOOP_AT (STUBS_AT + (FUNCTIONS + 1) * DT_STUB_SIZE)
#define LOOP_ROOM 64u
#define FUNCTIONS_AT DT_ROUND_UP(LOOP_AT + LOOP_ROOM, 4096)
#define TRAMPS_AT (FUNCTIONS_AT + 3 * FUNCTIONS * FUNCTION_SIZE)
#define CODE_SIZE DT_ROUND_UP(TRAMPS_AT + 2 * FUNCTIONS * TRAMP_ROOM, 4096)
#define REGION_SIZE (CODE_SIZE + sizeof(struct dt_returns) + 4096)
#define HWCAP2_FSGSBASE_BIT 2u

const unsigned hit_timing_spreads[HIT_TIMING_SPREADS] = { 1, 8, 64, FUNCTIONS };

/* Kinds of functions. */
enum { PLAIN, BARE, PAIR, KINDS };

struct hooked {
	struct tramp_event event;
	uint64_t *word; /* its switch */
};

struct world {
	uint8_t *region, *code; /* where code runs; where it is written */
	struct dt_control *control;
	struct dt_state *state;
	struct dt_returns *returns;
	struct dt_slot *slot;
	uint8_t *pool, *cells;
	struct tramp_env env;
	uint64_t back; /* the loop's return address */
	size_t used; /* bytes of code */
	taddr routine; /* of events without an exit */
	uint32_t id, pool_at;
	struct hooked (*hooked)[FUNCTIONS]; /* BARE and PAIR */
	void *calls[KINDS][CALLS];
};

static __thread uint32_t own_tid = 1;

/* ---- memory ---------------------------------------------------------------------------------- */

static void *map(size_t size, int protection)
{
	void *at = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void unmap(void *at, size_t size)
{
	if (at)
		munmap(at, size);
}

/* Two views of the code: memory that can be written and executed may be forbidden (H35). */
static bool map_code(struct world *w)
{
	_cleanup_close_ int fd = memfd_create("dyntrace-timing", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)CODE_SIZE))
		return false;
	void *code = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (code == MAP_FAILED)
		return false;
	w->code = code;
	w->region = map(REGION_SIZE, PROT_NONE);
	if (!w->region || mmap(w->region, CODE_SIZE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED,
			       fd, 0) == MAP_FAILED)
		return false;
	w->returns = (struct dt_returns *)(w->region + CODE_SIZE);
	return !mprotect(w->returns, REGION_SIZE - CODE_SIZE, PROT_READ | PROT_WRITE);
}

static bool map_all(struct world *w)
{
	w->control = map(sizeof(*w->control), PROT_READ | PROT_WRITE);
	w->state = map(sizeof(*w->state), PROT_READ | PROT_WRITE);
	w->pool = map(POOL_SIZE, PROT_READ | PROT_WRITE);
	w->cells = map(2u << ROW_SHIFT, PROT_READ | PROT_WRITE);
	w->hooked = calloc(KINDS, sizeof(*w->hooked));
	return w->control && w->state && w->pool && w->cells && w->hooked && map_code(w);
}

static void free_world(struct world *w)
{
	unmap(w->control, sizeof(*w->control));
	unmap(w->state, sizeof(*w->state));
	unmap(w->pool, POOL_SIZE);
	unmap(w->cells, 2u << ROW_SHIFT);
	unmap(w->code, CODE_SIZE);
	unmap(w->region, REGION_SIZE);
	free(w->hooked);
}

/* ---- code ------------------------------------------------------------------------------------ */

static taddr runs_at(const struct world *w, size_t offset)
{
	return taddr_of((uint64_t)w->region + offset);
}

/* void loop(void **calls, void **end): calls all of them. */
static bool write_loop(struct world *w)
{
	struct label again = { 0 };
	struct emitter e;

	emit_init(&e, w->code + LOOP_AT, LOOP_ROOM, runs_at(w, LOOP_AT));
	emit_push(&e, RBX);
	emit_push(&e, RBP);
	emit_push(&e, RBP); /* aligns the stack */
	emit_mov(&e, RBX, RDI);
	emit_mov(&e, RBP, RSI);
	emit_bind(&e, &again);
	emit_call_mem(&e, mem_at(RBX, 0));
	w->back = emit_pc(&e).v;
	emit_add_imm(&e, RBX, sizeof(void *));
	emit_alu(&e, ALU_CMP, RBX, RBP);
	emit_jcc(&e, CC_NE, &again);
	emit_pop(&e, RBP);
	emit_pop(&e, RBP);
	emit_pop(&e, RBX);
	emit_ret(&e);
	return !emit_failed(&e);
}

/* Writes the slow path that nobody takes: the hit is lost. */
static bool write_slow(struct world *w)
{
	struct emitter e;

	emit_init(&e, w->code + EXIT_CODE_ROOM, 16, runs_at(w, EXIT_CODE_ROOM));
	emit_mov_imm(&e, RCX, 0);
	emit_ret(&e);
	w->control->slow = runs_at(w, EXIT_CODE_ROOM).v;
	return !emit_failed(&e);
}

static size_t function_at(int kind, unsigned index)
{
	return FUNCTIONS_AT + ((size_t)kind * FUNCTIONS + index) * FUNCTION_SIZE;
}

/* Writes a function: five bytes that a jump can replace, and code as functions have it, with
 * branches and chains of dependent instructions. */
static bool write_function(struct world *w, int kind, unsigned index)
{
	struct emitter e;

	emit_init(&e, w->code + function_at(kind, index), FUNCTION_SIZE,
		  runs_at(w, function_at(kind, index)));
	emit_mov_imm(&e, RAX, 1);
	while (e.size < FUNCTION_SIZE - 24) {
		struct label next = { 0 };

		emit_lea(&e, R8, mem_at(R8, 1));
		emit_lea(&e, R9, mem_at(R9, 1));
		emit_lea(&e, R10, mem_at(R10, 1));
		emit_jmp_short(&e, &next);
		emit_bind(&e, &next);
		emit_nop(&e);
	}
	emit_ret(&e);
	return !emit_failed(&e);
}

/* Binds stub index + 1, as the agent does (returns.h). */
static void bind_stub(struct world *w, const struct tramp_event *event, unsigned index,
		      uint32_t hint)
{
	uint64_t slot = (uint64_t)w->slot - (uint64_t)w->state->slots;
	uint32_t stub = index + 1;

	w->returns->slots[stub] = (struct dt_return_slot){
		.ra = w->back,
		.body = event->off.v,
		.exit = w->env.exit.v,
		.hint = (uint32_t)(offsetof(struct dt_returns, heap) +
				   offsetof(struct dt_return_table, hints)) +
			hint * (uint32_t)sizeof(uint32_t),
		.thread = (uint16_t)(slot / 8),
		.use = -1,
		.next = stub,
		.id = event->id,
		.tail = stub,
		.length = 1,
	};
}

/* Takes an id whose hint no other one has. */
static uint32_t take_id(struct world *w, uint32_t stub, uint32_t *ret_hint)
{
	struct dt_return_table *table = (struct dt_return_table *)w->returns->heap;

	do {
		w->id += 2;
		*ret_hint = dt_return_index(w->back, w->id, TABLE_BITS);
	} while (table->hints[*ret_hint]);
	table->hints[*ret_hint] = stub;
	return w->id;
}

static bool write_trampoline(struct world *w, int kind, unsigned index)
{
	size_t at = function_at(kind, index), room;
	struct hooked *hooked = &w->hooked[kind][index];
	struct tramp_event *event = &hooked->event, *events[] = { event };
	struct insn insn;
	uint32_t hint = 0;

	*event = (struct tramp_event){
		.id = kind == PAIR ? take_id(w, index + 1, &hint) : 2 * index + 2,
		.size = EVENT_SIZE,
		.fields = { { .source = SOURCE_REGISTER, .reg = RDI, .offset = 8 },
			    { .source = SOURCE_REGISTER, .reg = RSI, .offset = 16 } },
		.field_count = 2,
		.exit = kind == PAIR,
		.routine = kind == PAIR ? taddr_of(0) : w->routine,
		.demoted = { .cell = taddr_of((uint64_t)(w->cells + index * sizeof(uint64_t))),
			     .row_shift = ROW_SHIFT,
			     .row_mask = 1 },
	};
	if (!decode(w->code + at, FUNCTION_SIZE, runs_at(w, at), &insn))
		return false;
	struct tramp tramp = {
		.insns = &insn, .insn_count = 1, .events = events, .event_count = 1
	};
	room = trampoline_room(&tramp);
	if (w->used + room > CODE_SIZE)
		return false;
	taddr start = runs_at(w, w->used);
	_cleanup_error_ struct error *error =
		trampoline_emit(&tramp, &w->env, w->code + w->used, room, start);
	if (error)
		return false;
	hooked->word = (uint64_t *)(w->code + w->used + event->switch_offset);
	w->used = DT_ROUND_UP(w->used + tramp.size, 16);
	if (kind == PAIR)
		bind_stub(w, event, index, hint);
	struct emitter e;
	emit_init(&e, w->code + at, insn.length, runs_at(w, at));
	emit_jmp_to(&e, start);
	return !emit_failed(&e);
}

/* Writes the routine that trampolines of events without an exit call. */
static bool write_routine(struct world *w)
{
	size_t size;

	w->routine = runs_at(w, w->used);
	if (!shared_emit(&w->env, EVENT_SIZE, w->code + w->used, SHARED_ROOM, w->routine, &size))
		return false;
	w->used = DT_ROUND_UP(w->used + size, 16);
	return true;
}

static uint64_t fs_base(void)
{
	uint64_t base;

	__asm__("rdfsbase %0" : "=r"(base));
	return base;
}

/* Gives this thread a slot, with a table of stubs and guesses that are right. */
static void make_slot(struct world *w)
{
	struct dt_return_table *table = (struct dt_return_table *)w->returns->heap;
	uint32_t at = (uint32_t)dt_hash(fs_base());

	table->bits = TABLE_BITS;
	w->state->pid = (uint32_t)getpid();
	w->slot = (struct dt_slot *)((uint8_t *)w->state->slots + at);
	*w->slot = (struct dt_slot){ .key = ~fs_base(),
				     .tid = own_tid,
				     .tid_offset = (uint64_t)&own_tid - fs_base(),
				     .returns = (uint32_t)offsetof(struct dt_returns, heap) |
						TABLE_BITS };
	uint64_t here = (uint64_t)__builtin_frame_address(0) >> DT_NEAR_SHIFT;
	for (int i = -1; i <= 1; i++)
		w->state->near[(here + (uint64_t)i) & (DT_NEAR_COUNT - 1)] = at;
}

static bool build(struct world *w)
{
	size_t size;

	if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE_BIT) || !map_all(w))
		return false;
	_Static_assert(FUNCTIONS * sizeof(uint64_t) <= 1u << ROW_SHIFT, "cells");
	memset(w->pool, 1, POOL_SIZE); /* first touches are no hit's */
	w->used = TRAMPS_AT;
	w->env = (struct tramp_env){ .control = taddr_of((uint64_t)w->control),
				     .slots = taddr_of((uint64_t)w->state->slots),
				     .pool = taddr_of((uint64_t)w->pool),
				     .returns = taddr_of((uint64_t)w->returns),
				     .stubs = runs_at(w, STUBS_AT),
				     .exit = runs_at(w, 0),
				     .ns_multiplier = 1ULL << 32 };
	make_slot(w);
	if (!exit_emit_code(&w->env, w->code, EXIT_CODE_ROOM, w->env.exit, &size) ||
	    !exit_emit_stubs(&w->env, 0, FUNCTIONS + 1, w->code + STUBS_AT) || !write_slow(w) ||
	    !write_loop(w) || !write_routine(w))
		return false;
	for (int kind = PLAIN; kind < KINDS; kind++) {
		for (unsigned i = 0; i < FUNCTIONS; i++) {
			if (!write_function(w, kind, i) ||
			    (kind != PLAIN && !write_trampoline(w, kind, i)))
				return false;
		}
	}
	return true;
}

/* ---- time ------------------------------------------------------------------------------------ */

static void set_switches(struct world *w, int kind, unsigned count, enum tramp_switch position)
{
	for (unsigned i = 0; i < count; i++) {
		const struct tramp_event *event = &w->hooked[kind][i].event;

		*w->hooked[kind][i].word = position == SWITCH_ON	? event->on.v :
					   position == SWITCH_COUNTED ? event->counted.v :
									event->off.v;
	}
}

/* Makes the calls. ns per call; less than 0: an event is missing. */
static double run(struct world *w, int kind, uint32_t bytes)
{
	void (*loop)(void **calls, void **end) = NULL;
	uint64_t at = (uint64_t)w->region + LOOP_AT;
	uint32_t needed = CALLS * 2 * EVENT_SIZE;

	memcpy(&loop, &at, sizeof(loop));
	if (w->pool_at + needed > POOL_SIZE)
		w->pool_at = 0;
	w->slot->reserve = w->pool_at;
	w->slot->limit = w->pool_at + needed;
	w->slot->last = __rdtsc();
	uint64_t begin = now_ns();
	loop(w->calls[kind], w->calls[kind] + CALLS);
	uint64_t ns = now_ns() - begin;
	if (w->slot->reserve != w->pool_at + CALLS * bytes)
		return -1;
	w->pool_at += CALLS * bytes;
	return (double)ns / CALLS;
}

/* A random order, the same for all kinds and in every process. */
static void shuffle(struct world *w, unsigned spread)
{
	uint32_t random = 1;

	for (unsigned i = 0; i < CALLS; i++) {
		random = random * 1664525u + 1013904223u;
		for (int kind = PLAIN; kind < KINDS; kind++)
			w->calls[kind][i] =
				w->region + function_at(kind, (random >> 16) % spread);
	}
}

static bool time_spread(struct world *w, unsigned spread, struct hit_timing *ret)
{
	static const struct {
		int kind;
		enum tramp_switch position;
		uint32_t bytes;
	} runs[] = { { PLAIN, SWITCH_ON, 0 },
		     { BARE, SWITCH_ON, EVENT_SIZE },
		     { PAIR, SWITCH_ON, EVENT_SIZE + EXIT_EVENT_SIZE },
		     { PAIR, SWITCH_COUNTED, 0 },
		     { PAIR, SWITCH_OFF, 0 } };
	double least[sizeof(runs) / sizeof(runs[0])] = { 0 };

	shuffle(w, spread);
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
			if (runs[i].kind != PLAIN)
				set_switches(w, runs[i].kind, spread, runs[i].position);
			double ns = run(w, runs[i].kind, runs[i].bytes);
			if (ns < 0)
				return false;
			if (!round || ns < least[i])
				least[i] = ns;
		}
	}
	*ret = (struct hit_timing){ .bare = least[1] - least[0],
				    .pair = least[2] - least[0],
				    .counted = least[3] - least[0],
				    .off = least[4] - least[0] };
	return true;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* More functions make no hit cheaper. Where calls without a hit get slower than those with one, by
 * how code happens to lie in caches and predictors, a difference of the two tells nothing. */
void hit_timing_level(struct hit_timing timings[HIT_TIMING_SPREADS])
{
	for (size_t i = 1; i < HIT_TIMING_SPREADS; i++) {
		timings[i].bare = larger(timings[i].bare, timings[i - 1].bare);
		timings[i].pair = larger(timings[i].pair, timings[i - 1].pair);
		timings[i].counted = larger(timings[i].counted, timings[i - 1].counted);
		timings[i].off = larger(timings[i].off, timings[i - 1].off);
	}
}

bool hit_timing_measure(struct hit_timing ret_timings[HIT_TIMING_SPREADS])
{
	struct hit_timing timings[HIT_TIMING_SPREADS];
	_cleanup_(cleanup_free) struct world *w = calloc(1, sizeof(*w));
	bool done = w && build(w);

	for (size_t i = 0; i < HIT_TIMING_SPREADS && done; i++)
		done = time_spread(w, hit_timing_spreads[i], &timings[i]);
	if (w)
		free_world(w);
	if (!done)
		return false;
	hit_timing_level(timings);
	memcpy(ret_timings, timings, sizeof(timings));
	return true;
}
