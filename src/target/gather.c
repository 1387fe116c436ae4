/*
 * gather.c - runs the program of an event (src/shared/program.h).
 *
 * The first operation that stores begins the event (event_room.c), so that an event that a
 * condition turns away costs no room and no clock.
 */
#include "gather.h"

#include "target/signals/loads.h"

#include "shared/arithmetic.h"

/* the windows take a fifth of the stack */
#pragma GCC diagnostic ignored "-Wframe-larger-than="

#define RSP 4
#define RSI 6

uint32_t gather_room(const struct gather *g, uint32_t wanted)
{
	uint32_t room = g->program->size_max - g->at;

	return wanted < room ? wanted : room;
}

/* ---- the stack of numbers -------------------------------------------------------------------- */

static void push(struct gather *g, uint64_t value)
{
	if (g->top < DT_PROGRAM_STACK)
		g->stack[g->top++] = value;
	else
		g->over = true;
}

static uint64_t pop(struct gather *g)
{
	if (g->top)
		return g->stack[--g->top];
	g->over = true;
	return 0;
}

static uint64_t load(struct gather *g, uint64_t address, uint32_t size, bool is_signed)
{
	uint64_t value = 0;

	if (size > 8 || read_cache_read_all(g, address, &value, size) != size) {
		g->failed = true;
		return 0;
	}
	return dt_bits(value, 0, size * 8, is_signed);
}

/* A long double, as a double. */
static uint64_t load_x87(struct gather *g, uint64_t address)
{
	uint64_t words[2] = { 0, 0 };

	if (read_cache_read_all(g, address, words, 10) != 10)
		g->failed = true;
	return dt_real_from_x87(words[0], (uint16_t)words[1]);
}

static uint64_t cpu_number(void)
{
	uint32_t aux;

	__asm__ volatile("rdtscp" : "=c"(aux) : : "eax", "edx");
	return aux & 0xfff; /* as Linux sets it: node << 12 | cpu */
}

static uint64_t own_tid(const struct gather *g)
{
	uint32_t pid, tid = thread_block_tid(g->control);

	if (agent_begin_call(g->control, &pid)) {
		tid = sys_gettid();
		agent_end_call(g->control, pid);
	}
	return tid;
}

static uint64_t own_pid(const struct gather *g)
{
	uint32_t before, pid = agent_state(g->control)->pid;

	if (agent_begin_call(g->control, &before)) {
		pid = sys_getpid();
		agent_end_call(g->control, before);
	}
	return pid;
}

static uint64_t count_hits(const struct gather *g, const struct dt_op *op)
{
	struct dt_counter *counter = &agent_pool(g->control)->counters[op->c % DT_COUNTERS_MAX];

	return __atomic_add_fetch(&counter->hits, op->b, __ATOMIC_RELAXED);
}

/* Adds one, unless the counter has reached `most`. */
static bool take_one(uint64_t *counter, uint64_t most)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED) < most &&
	       __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED) < most;
}

static bool run_limit(struct gather *g, const struct dt_op *op)
{
	struct dt_counter *counter = &agent_pool(g->control)->counters[op->c % DT_COUNTERS_MAX];
	uint64_t n, period, now = sys_clock();

	switch (op->code) {
	case DT_OP_EVERY:
		n = pop(g);
		g->over |= !n || __atomic_fetch_add(&counter->every, 1, __ATOMIC_RELAXED) % n;
		return true;
	case DT_OP_FIRST:
		g->over |= !take_one(&counter->first, pop(g));
		return true;
	case DT_OP_RATE:
		period = pop(g);
		if (now - __atomic_load_n(&counter->period, __ATOMIC_RELAXED) >= period) {
			__atomic_store_n(&counter->period, now, __ATOMIC_RELAXED);
			__atomic_store_n(&counter->rate, 0, __ATOMIC_RELAXED);
		}
		g->over |= !take_one(&counter->rate, pop(g));
		return true;
	default:
		return false;
	}
}

const struct dt_return_slot *gather_stub(const struct gather *g)
{
	return g->program->rip ? NULL : (const struct dt_return_slot *)g->regs->general[RSI];
}

/* A word that the call's entry kept for its exit. */
static uint64_t kept_value(struct gather *g, uint32_t number)
{
	const struct dt_return_slot *stub = gather_stub(g);

	if (stub && number < DT_KEPT_MAX)
		return *(const uint64_t *)((const uint8_t *)stub + DT_KEPT_AT(number));
	g->failed = true;
	return 0;
}

static uint64_t register_value(const struct gather *g, uint32_t number)
{
	if (number == RSI && gather_stub(g))
		return *(const uint64_t *)(g->regs->general[RSP] - 8);
	if (number < 16)
		return g->regs->general[number];
	switch (number) {
	case DT_REG_RIP:
		return gather_stub(g) ? gather_stub(g)->ra : g->program->rip;
	case DT_REG_FLAGS:
		return g->regs->flags;
	case DT_REG_DURATION:
		return g->regs->duration;
	case DT_REG_ST0:
		return (uint64_t)g->regs->st0;
	case DT_REG_ST1:
		return (uint64_t)g->regs->st1;
	case DT_REG_FS_BASE:
		return sys_fs_base();
	default:
		return sys_gs_base();
	}
}

/* ---- fields ---------------------------------------------------------------------------------- */

bool gather_align(struct gather *g, uint32_t to, uint32_t room)
{
	uint32_t at = to ? (uint32_t)DT_ROUND_UP(g->at, to) : g->at;

	if (!g->event || g->over || at + room > g->program->size_max)
		return false;
	while (g->at < at)
		g->event[g->at++] = 0; /* memory of an image had other bytes, and may be a key */
	return true;
}

void gather_list_unreadable(struct gather *g, uint32_t field)
{
	if (g->failed && field < DT_PROGRAM_FIELDS_MAX)
		g->unreadable[field / 64] |= 1ULL << field % 64;
	g->failed = false;
}

/* Lists it as unreadable; inside of a list, the element isn't kept. */
void gather_close(struct gather *g, uint32_t field)
{
	if (g->failed && g->depth) {
		g->lists[g->depth - 1].failed = true;
		g->failed = false;
	}
	gather_list_unreadable(g, field);
}

static void store(struct gather *g, uint64_t value, uint32_t size, uint32_t field)
{
	if (g->failed)
		value = 0;
	gather_close(g, field);
	if (size > 8 || !gather_align(g, size, size))
		return;
	for (uint32_t i = 0; i < size; i++)
		g->event[g->at + i] = (uint8_t)(value >> 8 * i);
	g->at += size;
}

static void copy(struct gather *g, uint64_t address, const struct dt_op *op)
{
	if (!gather_align(g, op->a, op->b))
		return;
	if (!g->failed && read_cache_read_all(g, address, g->event + g->at, op->b) != op->b)
		g->failed = true;
	if (g->failed) {
		for (uint32_t i = 0; i < op->b; i++)
			g->event[g->at + i] = 0;
	}
	g->at += op->b;
	gather_close(g, op->c);
}

static void store_backtrace(struct gather *g, uint32_t most)
{
	uint32_t at, count;

	if (!gather_align(g, 4, 4))
		return;
	at = g->at;
	g->at += 4;
	gather_align(g, 8, 0);
	count = gather_room(g, most * 8) / 8;
	count = unwind_walk(g, (uint64_t *)(g->event + g->at), count);
	*(uint32_t *)(g->event + at) = count;
	g->at += count * 8;
}

static const char *text_of(const struct dt_program *program, uint32_t offset)
{
	const char *texts = (const char *)(program->ops + program->op_count);

	return offset < program->text_size ? texts + offset : "";
}

/* ---- operations ------------------------------------------------------------------------------ */

static void run_table(struct gather *g)
{
	uint64_t index = pop(g), mask = pop(g);

	push(g, walk_table(g, pop(g), mask, index));
}

static void run_btree(struct gather *g)
{
	uint64_t offsets = pop(g);
	struct walk_btree at = { .height = pop(g) };

	at.index = pop(g);
	at.node = pop(g);
	walk_btree(g, offsets, &at);
	push(g, at.node), push(g, at.index), push(g, at.height);
}

/* Operations that push a number or change the stack. */
static bool run_value(struct gather *g, const struct dt_op *op)
{
	uint64_t x, y;

	switch (op->code) {
	case DT_OP_REG: push(g, register_value(g, op->a)); break;
	case DT_OP_XMM: push(g, g->regs->xmm[op->a & 15][op->b & 1]); break;
	case DT_OP_KEPT: push(g, kept_value(g, op->a)); break;
	case DT_OP_LOAD: push(g, load(g, pop(g), op->a, op->b)); break;
	case DT_OP_OFFSET: push(g, pop(g) + (uint64_t)(int32_t)op->c); break;
	case DT_OP_BITS: push(g, dt_bits(pop(g), op->a, op->b, op->c)); break;
	case DT_OP_PICK: push(g, op->a < g->top ? g->stack[g->top - 1 - op->a] : 0); break;
	case DT_OP_DROP: pop(g); break;
	case DT_OP_SWAP:
		y = pop(g), x = pop(g);
		push(g, y), push(g, x);
		break;
	case DT_OP_ROT: {
		uint64_t z = pop(g);

		y = pop(g), x = pop(g);
		push(g, z), push(g, x), push(g, y);
		break;
	}
	case DT_OP_REAL_LOAD: push(g, load_x87(g, pop(g))); break;
	case DT_OP_TREE_NEXT: push(g, walk_tree(g, pop(g), op->a)); break;
	case DT_OP_TABLE_NEXT: run_table(g); break;
	case DT_OP_BTREE_NEXT: run_btree(g); break;
	case DT_OP_GET: push(g, g->locals[op->a % DT_LOCALS_MAX]); break;
	case DT_OP_SET:
		x = pop(g);
		g->locals[op->a % DT_LOCALS_MAX] = g->failed ? 0 : x;
		break;
	case DT_OP_CHECK: g->failed |= !pop(g); break;
	case DT_OP_TID: push(g, own_tid(g)); break;
	case DT_OP_PID: push(g, own_pid(g)); break;
	case DT_OP_CPU: push(g, cpu_number()); break;
	case DT_OP_HITS: push(g, count_hits(g, op)); break;
	default:
		if (dt_is_changing(op->code)) {
			push(g, dt_change(op, pop(g)));
			return true;
		}
		if (!dt_is_combining(op->code))
			return false;
		y = pop(g), x = pop(g);
		push(g, dt_combine(op->code, x, y, &g->failed));
	}
	return true;
}

static void run_match(struct gather *g, const struct dt_op *op)
{
	bool failed = false;
	uint64_t length = op->a ? pop(g) : UINT64_MAX;
	bool matches = text_match(g, pop(g), length, text_of(g->program, op->c), op->b, &failed);

	g->failed |= failed;
	push(g, matches);
}

static void run_prefetch(struct gather *g, uint32_t count)
{
	uint64_t addresses[WINDOWS];

	if (count > WINDOWS)
		count = WINDOWS;
	for (uint32_t i = 0; i < count; i++)
		addresses[i] = pop(g);
	read_cache_prefetch(g, addresses, count);
	g->failed = false;
}

/* The text itself tells if it couldn't be read. But if nothing told where it is, the element of a
 * list isn't one. */
static void close_text(struct gather *g)
{
	if (g->depth)
		gather_close(g, DT_PROGRAM_FIELDS_MAX);
	g->failed = false;
}

static void run_string(struct gather *g, const struct dt_op *op)
{
	uint64_t length = op->c != DT_STRING_NUL ? pop(g) : ~0ULL;
	uint64_t address = pop(g);
	bool counted = op->c == DT_STRING_COUNTED || op->c == DT_STRING_OPTIONAL;

	if (g->failed) /* a length that couldn't be read isn't 0 */
		address = length = ~0ULL;
	if (op->c == DT_STRING_OPTIONAL && !address)
		length = 1; /* it isn't an empty one */
	if (op->a == 2 || op->a == 4)
		text_store_wide(g, address, op->a, length, op->b);
	else
		text_store(g, address, length, counted, op->b);
	close_text(g);
}

static void run_wide(struct gather *g, const struct dt_op *op)
{
	uint64_t high = pop(g), low = pop(g);

	text_store_number(g, low, high, op->a);
	close_text(g);
}

/* Operations that store. */
static void run_field(struct gather *g, const struct dt_op *op)
{
	event_room_begin(g);
	if (g->slot && event_room_is_forked(g))
		g->over = true;
	switch (op->code) {
	case DT_OP_ALIGN: gather_align(g, op->a, 0); break;
	case DT_OP_STORE: store(g, pop(g), op->a, op->c); break;
	case DT_OP_COPY: copy(g, pop(g), op); break;
	case DT_OP_STRING: run_string(g, op); break;
	case DT_OP_WIDE: run_wide(g, op); break;
	case DT_OP_LIST: lists_begin(g, op, pop(g)); break;
	case DT_OP_BACKTRACE: store_backtrace(g, op->b); break;
	case DT_OP_COMM: text_store_comm(g); break;
	case DT_OP_UNREADABLE: text_store_unreadable(g); break;
	default: g->over = true;
	}
}

/* Returns the number of operations to skip. */
static uint32_t run_list(struct gather *g, const struct dt_op *op)
{
	if (g->slot && event_room_is_forked(g)) {
		g->over = true;
		return 0;
	}
	return op->code == DT_OP_EACH ? lists_each(g, op) : lists_next(g, op);
}

/* Results for counts by key, in the head of an image. */
static void run_result(struct gather *g, const struct dt_op *op)
{
	uint64_t *head;

	event_room_begin(g);
	if (g->over || !g->regs->image)
		return;
	head = (uint64_t *)g->regs->image;
	if (op->code == DT_OP_VALUE)
		head[1] = pop(g);
	else if (op->a)
		head[0] = key_of_number(*(const uint64_t *)(op + 1), pop(g));
	else
		head[0] = key_of_text(*(const uint64_t *)(op + 1), g->event + EVENT_ROOM_HEAD,
				      g->at - EVENT_ROOM_HEAD);
	if (g->failed)
		head[op->code == DT_OP_VALUE] = 0;
	g->failed = false;
}

/* Returns the number of operations to skip. */
static uint32_t run_op(struct gather *g, const struct dt_op *op)
{
	switch (op->code) {
	case DT_OP_CONST:
		push(g, *(const uint64_t *)(op + 1));
		return 1;
	case DT_OP_KEY:
		run_result(g, op);
		return 1;
	case DT_OP_VALUE:
		run_result(g, op);
		return 0;
	case DT_OP_EACH:
	case DT_OP_NEXT:
		return run_list(g, op);
	case DT_OP_SKIP:
		return op->c;
	case DT_OP_SKIP_ZERO:
		return pop(g) ? 0 : op->c;
	case DT_OP_REQUIRE:
		g->over |= !pop(g) || g->failed;
		return 0;
	case DT_OP_MATCH:
		run_match(g, op);
		return 0;
	case DT_OP_PREFETCH:
		run_prefetch(g, op->a);
		return 0;
	default:
		if (!run_value(g, op) && !run_limit(g, op))
			run_field(g, op);
		return 0;
	}
}

uint64_t gather_run(struct gather *g)
{
	const struct dt_program *program = g->program;

	if (!thread_has_clock(g->control)) {
		slow_give_up(g->control, program->id, program->size_max);
		return 0;
	}
	g->slot = NULL;
	g->event = NULL;
	g->at = g->top = g->depth = g->turns = 0;
	g->failed = g->over = false;
	for (uint32_t i = 0; i < DT_PROGRAM_FIELDS_MAX / 64; i++)
		g->unreadable[i] = 0;
	read_cache_clear(g);
	for (uint32_t i = 0; i < program->op_count && !g->over; i++) {
		if (program->ops[i].code == DT_OP_END)
			break;
		i += run_op(g, &program->ops[i]);
	}
	if (!g->over)
		event_room_begin(g); /* an event without fields */
	event_room_finish(g);
	return g->event != NULL;
}

uint64_t gather_event(const struct dt_control *control, const struct dt_program *program,
		      const struct dt_regs *regs, struct dt_slot *open)
{
	struct unwind unwind;
	struct gather g;
	uint64_t here = (uint64_t)&g;
	uint32_t before = 0;

	/* (B8) Before the first operation: a second run would count the hit twice. */
	if (!regs->image && (open ? !event_room_may_begin(control, open, program->size_max) :
				    slow_must_wait(control, program->size_max)))
		return SLOW_AGAIN;
	g.control = control;
	g.program = program;
	g.regs = regs;
	g.open = open;
	g.own = (struct dt_range){ here, here };
	if (open)
		g.own.end += stack_room_above(control, open, here);
	g.draft = NULL;
	g.unwind = &unwind;
	g.loads = open && loads_enter(control, open, regs->general[RSP], &before);
	uint64_t written = gather_run(&g);
	if (g.loads)
		loads_leave(control, open, before);
	return written;
}
