/*
 * Return stubs, run for real in this process with the built agent: each call's exit is recorded
 * once, with the function's result, and every register survives; frames that vanish are counted.
 *
 * `traced(f)` is the trampoline that a site at f would jump to: calling it is calling f, traced.
 */
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unwind.h>

#include "control/codegen/shared_code.h"
#include "map_near.h"
#include "rig.h"

#include "../../src/control/trampoline/trampoline.h"
#include "../../src/control/exits/code/exit_stub.h"
#include "../../src/shared/program.h"

#define ENTRY RIG_TWO /* 24 bytes, as the exit has; then RIG_SIX is the exit's id */
#define EXIT (RIG_TWO + 1)
#define CODE_ROOM (64u << 10)
#define TRACED_MAX 16u
#define STUBS_OFFSET 4096u

static struct dt_returns *returns;
static uint8_t *stub_window, *code;
static size_t code_used, fde_offset;
static struct tramp_env env;
static struct rig_trace trace;

void __register_frame_info(const void *begin, void *object);
void *__deregister_frame_info(const void *begin);

static void *map_at(uint64_t at, size_t size, int protection)
{
	void *memory = mmap((void *)at, size, protection,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

/* The exit's event has two words, as RIG_TWO has. */
static void open_trace(void)
{
	rig_open(&trace);
	trace.types.items[EXIT].size = EXIT_EVENT_SIZE;
	trace.types.items[EXIT].field_count = 2;
	RIG_OK(writer_update(trace.writer, &trace.clock));
}

static void write_stubs(uint32_t count)
{
	assert_true(exit_emit_stubs(&env, rig_control->stub_count, count,
				    stub_window + STUBS_OFFSET +
					    rig_control->stub_count * DT_STUB_SIZE));
	rig_control->stub_count = count;
}

static int setup(void **state)
{
	uint64_t window = STUBS_OFFSET + (uint64_t)DT_STUBS_MAX * DT_STUB_SIZE;
	size_t size;

	rig_up(64, 200, DT_FOLLOW_FORK);
	stub_window =
		map_at(0, window + sizeof(*returns) + 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	returns = (struct dt_returns *)((uint64_t)(stub_window + window + 4095) & ~4095ULL);
	code = map_near((const void *)setup, 64 << 20, CODE_ROOM);
	code_used = 0;
	returns->used = 1;
	returns->pid = (uint32_t)getpid();
	returns->mark = DT_PRIVATE_MARK;
	rig_control->returns = rig_state->returns = (uint64_t)returns;
	rig_control->stubs = (uint64_t)stub_window + STUBS_OFFSET;
	rig_control->slow = (uint64_t)rig_slow;
	rig_control->gather = (uint64_t)rig_gather;
	rig_control->callers[0] = (struct dt_callers){ 0, ~0ULL }; /* (R6) */
	rig_control->caller_count = 1;
	env = (struct tramp_env){ .control = taddr_of((uint64_t)rig_control),
				  .slots = taddr_of((uint64_t)rig_slots),
				  .pool = taddr_of((uint64_t)rig_pool),
				  .returns = taddr_of((uint64_t)returns),
				  .stubs = taddr_of(rig_control->stubs),
				  .exit = taddr_of((uint64_t)stub_window),
				  .ns_multiplier = 1ULL << 32 };
	assert_true(exit_emit_code(&env, stub_window, EXIT_CODE_ROOM, env.exit, &size));
	assert_true(exit_frame_table(&env, stub_window + EXIT_CODE_ROOM, EXIT_FRAME_ROOM, &size,
				     &fde_offset));
	write_stubs(DT_STUBS_FIRST);
	__register_frame_info(stub_window + EXIT_CODE_ROOM, returns->objects[0]);
	open_trace();
	return 0;
}

static int teardown(void **state)
{
	uint64_t window = STUBS_OFFSET + (uint64_t)DT_STUBS_MAX * DT_STUB_SIZE;

	__deregister_frame_info(stub_window + EXIT_CODE_ROOM);
	munmap(stub_window, window + sizeof(*returns) + 4096);
	munmap(code, CODE_ROOM);
	rig_remove(&trace);
	rig_down();
	return 0;
}

static bool shares; /* trampolines call routines (shared_code.h) */

static taddr write_routine(uint32_t kind)
{
	uint8_t *at = code + code_used;
	size_t size;

	assert_true(trampoline_emit_shared(&env, kind, at, SHARED_ROOM, taddr_of((uint64_t)at),
					   &size));
	code_used += (size + 63) & ~63ULL;
	return taddr_of((uint64_t)at);
}

/* The trampoline of a function whose first instructions can be moved. */
static void *traced_with(const void *function, const struct tramp_event *at_exit)
{
	static const enum reg regs[] = { RDI, RSI };
	struct tramp_event event = {
		.id = ENTRY, .size = 24, .exit = true, .field_count = 2, .at_exit = at_exit
	};
	struct tramp_event *events[] = { &event };
	struct insn insns[4];
	struct tramp tramp = { .insns = insns, .events = events, .event_count = 1 };

	if (shares) {
		assert_true(trampoline_can_share(&event));
		event.routine = write_routine(trampoline_shares(&event));
		event.taking = write_routine(SHARED_STUB);
	}
	uint8_t *at = code + code_used;
	for (size_t i = 0; i < 2; i++)
		event.fields[i] = (struct tramp_field){ .source = SOURCE_REGISTER,
							.reg = regs[i],
							.offset = (uint16_t)(8 + 8 * i) };
	for (size_t n = 0; n < 5; n += insns[tramp.insn_count++].length)
		assert_true(decode((const uint8_t *)function + n, 16,
				   taddr_of((uint64_t)function + n), &insns[tramp.insn_count]));
	assert_null(
		trampoline_emit(&tramp, &env, at, trampoline_room(&tramp), taddr_of((uint64_t)at)));
	code_used += (tramp.size + 63) & ~63ULL;
	assert_true(code_used < CODE_ROOM);
	return at;
}

static void *traced(const void *function)
{
	return traced_with(function, NULL);
}

static uint32_t stubs_in_use(void)
{
	uint32_t count = 0;

	for (uint32_t i = 1; i < returns->used; i++)
		count += returns->slots[i].sp != 0;
	return count;
}

/* Ends the trace; all entries and exits of this process and its children. */
static void finish(uint64_t entries, uint64_t exits)
{
	rig_finish(&trace);
	assert_int_equal(trace.types.items[ENTRY].hits, entries);
	assert_int_equal(trace.types.items[EXIT].hits, exits);
	assert_int_equal(trace.totals.lost, 0);
	assert_int_equal(trace.totals.holes, 0);
}

/* ---- functions to trace ---------------------------------------------------------------------- */

typedef uint64_t (*function2)(uint64_t, uint64_t);

static function2 traced_sum;
static volatile uint64_t sink;

__attribute__((noinline)) static uint64_t add(uint64_t a, uint64_t b)
{
	sink = sink + 1;
	return a + b;
}

/* Recursion through its own trampoline. */
__attribute__((noinline)) static uint64_t sum(uint64_t n, uint64_t step)
{
	sink = sink + 1;
	return n ? n + traced_sum(n - step, step) : 0;
}

/* ---- registers ------------------------------------------------------------------------------- */

struct registers {
	uint64_t rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, flags;
	uint8_t xmm0[16], xmm1[16];
	uint8_t st0[10];
};

void harness_call(const struct registers *in, struct registers *out, const void *function);
uint64_t harness_nothing(uint64_t, uint64_t);

/* Loads everything, calls, stores everything. */
__asm__(".text\n"
	"harness_call:\n"
	"	push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"	push %rsi\n"
	"	mov %rdx, harness_function(%rip)\n"
	"	fldt 160(%rdi)\n"
	"	movups 128(%rdi), %xmm0\n movups 144(%rdi), %xmm1\n"
	"	mov 8*1(%rdi), %rcx\n mov 8*2(%rdi), %rdx\n mov 8*3(%rdi), %rbx\n mov 8*4(%rdi), "
	"%rbp\n"
	"	mov 8*5(%rdi), %rsi\n"
	"	mov 8*7(%rdi), %r8\n mov 8*8(%rdi), %r9\n mov 8*9(%rdi), %r10\n mov 8*10(%rdi), "
	"%r11\n"
	"	mov 8*11(%rdi), %r12\n mov 8*12(%rdi), %r13\n mov 8*13(%rdi), %r14\n mov "
	"8*14(%rdi), %r15\n"
	"	push 8*15(%rdi)\n"
	"	mov 8*0(%rdi), %rax\n mov 8*6(%rdi), %rdi\n"
	"	popf\n"
	"	call *harness_function(%rip)\n"
	"	pushf\n"
	"	push %rax\n"
	"	cld\n"
	"	mov 16(%rsp), %rax\n"
	"	mov %rcx, 8*1(%rax)\n mov %rdx, 8*2(%rax)\n mov %rbx, 8*3(%rax)\n mov %rbp, "
	"8*4(%rax)\n"
	"	mov %rsi, 8*5(%rax)\n mov %rdi, 8*6(%rax)\n mov %r8, 8*7(%rax)\n mov %r9, "
	"8*8(%rax)\n"
	"	mov %r10, 8*9(%rax)\n mov %r11, 8*10(%rax)\n mov %r12, 8*11(%rax)\n mov %r13, "
	"8*12(%rax)\n"
	"	mov %r14, 8*13(%rax)\n mov %r15, 8*14(%rax)\n"
	"	movups %xmm0, 128(%rax)\n movups %xmm1, 144(%rax)\n fstpt 160(%rax)\n"
	"	pop 8*0(%rax)\n"
	"	pop 8*15(%rax)\n"
	"	pop %rsi\n"
	"	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
	"	ret\n"
	"harness_nothing:\n"
	"	nop\n nop\n lea (%rsp), %rsp\n nop\n"
	"	ret\n"
	".data\n"
	"harness_function: .quad 0\n"
	".text\n");

static void test_registers(void **state)
{
	static const uint64_t bits[] = { 1, 4, 16, 64, 128, 1024, 2048 };
	void *function = traced(harness_nothing);
	struct registers in, out;

	for (unsigned n = 0; n < 128; n++) {
		for (size_t i = 0; i < sizeof(in) / 8; i++)
			((uint64_t *)&in)[i] = 0x0111111111111111ULL * (i % 13 + 1) + i;
		in.st0[9] = 0x40; /* a number, not a NaN */
		in.flags = 0x202;
		for (unsigned i = 0; i < 7; i++)
			in.flags |= n >> i & 1 ? bits[i] : 0;
		memset(&out, 0x55, sizeof(out));
		memcpy(out.st0 + 10, in.st0 + 10,
		       sizeof(in) - offsetof(struct registers, st0) - 10);
		harness_call(&in, &out, function);
		in.st0[7] |= 0x80; /* as the FPU normalises nothing, it must be there already */
		out.st0[7] |= 0x80;
		assert_memory_equal(&in, &out, sizeof(in));
		if (n % 32 == 7) /* the slow ways too */
			rig_my_slot()->limit = 0;
	}
	assert_int_equal(stubs_in_use(), 0);
	assert_int_equal(returns->used, 2); /* one call site, one stub */
	finish(128, 128);
}

static void fill_registers(struct registers *in)
{
	for (size_t i = 0; i < sizeof(*in) / 8; i++)
		((uint64_t *)in)[i] = 0x0111111111111111ULL * (i % 13 + 1) + i;
	in->flags = 0x202;
	memcpy(in->st0, &(long double){ 2.5L }, sizeof(in->st0));
}

/* Calls it twice, the second time by the slow way; nothing is changed. */
static void call_twice(void *function)
{
	struct registers in, out;

	fill_registers(&in);
	for (unsigned i = 0; i < 2; i++) {
		out = in;
		memset(&out, 0x55, offsetof(struct registers, st0) + sizeof(out.st0));
		harness_call(&in, &out, function);
		assert_memory_equal(&in, &out, sizeof(in));
		rig_my_slot()->limit = 0;
	}
	assert_int_equal(stubs_in_use(), 0);
}

/* An exit with fields of its own. */
static void test_own_fields(void **state)
{
	static const struct tramp_event own = {
		.size = 24,
		.fields = { { .source = SOURCE_REGISTER, .reg = RDX, .offset = 8 },
			    { .source = SOURCE_XMM, .reg = 1, .offset = 16, .size = 8 } },
		.field_count = 2,
	};
	struct registers in;
	char expected[128];
	uint64_t xmm1;

	fill_registers(&in);
	memcpy(&xmm1, in.xmm1, sizeof(xmm1));
	call_twice(traced_with(harness_nothing, &own));
	finish(2, 2);
	snprintf(expected, sizeof(expected), "arg0 = %llu, arg1 = %llu",
		 (unsigned long long)in.rdx, (unsigned long long)xmm1);
	assert_int_equal(rig_judge(&trace, expected).events, 2);
}

/* One that the agent writes: the duration, then st(0) as a double. */
static void test_own_program(void **state)
{
	static struct {
		struct dt_program head;
		struct dt_op ops[7];
	} program = { { .id = EXIT, .size_max = 40, .op_count = 7 },
		      { { DT_OP_REG, DT_REG_DURATION, 0, 0 },
			{ DT_OP_STORE, 8, 0, 0 },
			{ DT_OP_REG, DT_REG_ST0, 0, 0 },
			{ DT_OP_REAL_LOAD, 0, 0, 0 },
			{ DT_OP_STORE, 8, 0, 1 },
			{ DT_OP_REG, RAX, 0, 0 },
			{ DT_OP_STORE, 8, 0, 0 } } };
	const struct tramp_event own = { .size = 40,
					 .program = &program.head,
					 .program_size = sizeof(program),
					 .st0 = true };
	struct event_type *type = &trace.types.items[EXIT];
	struct registers in;
	char expected[128];

	type->size = 32;
	type->is_variable = true;
	type->field_count = 3;
	type->fields[1].type = FIELD_FLOAT;
	for (size_t i = 0; i < 3; i++)
		type->fields[i].offset = 0;
	RIG_OK(writer_update(trace.writer, &trace.clock));
	fill_registers(&in);
	call_twice(traced_with(harness_nothing, &own));
	finish(2, 2);
	snprintf(expected, sizeof(expected), "arg1 = 2.5, arg2 = %llu", (unsigned long long)in.rax);
	assert_int_equal(rig_judge(&trace, expected).events, 2);
}

static void test_values(void **state)
{
	function2 f = (function2)traced(add);

	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(f(i, 2 * i), 3 * i);
	finish(1000, 1000);
	assert_int_equal(rig_judge(&trace, "two: { cpu_id").events, 0);
	assert_int_equal(rig_judge(&trace, "arg0 = 999, arg1 = 1998").events, 1);
	assert_int_equal(rig_judge(&trace, "arg0 = 2997, ").events,
			 1); /* the exit: ret, then the duration */
}

/* A stub and its slot, as far as it is bound. */
static void expect_bound_as(const struct dt_return_slot *before, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		const struct dt_return_slot *slot = &returns->slots[i];

		assert_true(slot->ra == before[i].ra && slot->id == before[i].id); /* R1 */
		assert_int_equal(slot->use, -1); /* R3 */
		assert_int_equal(slot->next, before[i].next); /* R5 */
	}
}

/* R1: the same stubs stand for the same calls, however often they are taken. */
static void test_stubs_stay_bound(void **state)
{
	static struct dt_return_slot before[64];

	traced_sum = (function2)traced(sum);
	assert_int_equal(traced_sum(20, 1), 210);
	uint32_t used = returns->used;
	assert_in_range(used, 2, 64);
	memcpy(before, returns->slots, sizeof(before));
	for (unsigned round = 0; round < 100; round++) {
		assert_int_equal(traced_sum(round % 20, 1), (round % 20) * (round % 20 + 1) / 2);
		expect_bound_as(before, used);
	}
	rig_finish(&trace);
}

static void spoil_hints(uint32_t value, bool none)
{
	for (uint32_t slot = 0; slot < DT_SLOTS; slot++) {
		uint32_t offset = returns->tables[slot] & ~(DT_RETURN_TABLE_ALIGN - 1);
		struct dt_return_table *table = (void *)((uint8_t *)returns + offset);

		for (uint32_t i = 0; offset && i < 1u << table->bits; i++)
			table->hints[i] = none ? 0 : value ? value : i % returns->used;
	}
}

/* R4: whatever the hints name, each call returns to its caller, and nothing is lost. */
static void test_wrong_hints(void **state)
{
	traced_sum = (function2)traced(sum);
	assert_int_equal(traced_sum(20, 1), 210);
	for (uint32_t i = 0; i < returns->used + 1; i++) {
		spoil_hints(i, false);
		assert_int_equal(traced_sum(20, 1), 210);
		assert_int_equal(stubs_in_use(), 0); /* R2 */
	}
	rig_finish(&trace);
	assert_int_equal(trace.types.items[ENTRY].hits, trace.types.items[EXIT].hits);
	assert_int_equal(rig_pool->tallies[ENTRY].missed + rig_pool->tallies[ENTRY].unwound, 0);
}

/* R5: a tracepoint is removed, and comes back under the same id: its stubs do, too. */
static void test_retired_stubs_come_back(void **state)
{
	traced_sum = (function2)traced(sum);
	assert_int_equal(traced_sum(20, 1), 210);
	uint32_t used = returns->used;
	for (uint32_t i = 1; i < used; i++) { /* as exits_release.c does */
		struct dt_return_slot *slot = &returns->slots[i];

		slot->body = 0;
		slot->exit = (uint64_t)stub_window;
		slot->use = 0;
		slot->length |= DT_RETURN_RETIRED;
	}
	for (unsigned round = 0; round < 3; round++)
		assert_int_equal(traced_sum(19, 1), 190);
	assert_in_range(returns->used, used, used + 1); /* for the call from here */
	assert_int_equal(stubs_in_use(), 0);
	finish(21 + 3 * 20, 21 + 3 * 20);
	assert_int_equal(rig_pool->tallies[ENTRY].missed, 0);
}

static void test_recursion(void **state)
{
	traced_sum = (function2)traced(sum);
	for (unsigned round = 0; round < 4; round++) {
		/* as a call with the same hint does, before it is this one's turn */
		spoil_hints(0, round > 1);
		assert_int_equal(traced_sum(10000, 1), 10000ULL * 10001 / 2);
	}
	assert_int_equal(stubs_in_use(), 0);
	assert_in_range(returns->used, 10002, 10003);
	finish(40004, 40004);
	assert_int_equal(rig_pool->tallies[ENTRY].missed, 0);
}

/* No stubs are left: entries are recorded, the calls without an exit are counted. */
static void test_runs_out(void **state)
{
	rig_control->stub_count = 101; /* 100 stubs */
	traced_sum = (function2)traced(sum);
	assert_int_equal(traced_sum(200, 1), 200 * 201 / 2);
	assert_int_equal(rig_pool->tallies[ENTRY].missed, 101);
	assert_int_equal(traced_sum(50, 1), 50 * 51 / 2);
	assert_int_equal(stubs_in_use(), 0);
	finish(201 + 51, 100 + 50);
	assert_int_equal(rig_pool->tallies[ENTRY].missed,
			 102); /* the second outer call came from elsewhere */
}

/* ---- frames that vanish ---------------------------------------------------------------------- */

static jmp_buf jump_back;
static void (*traced_leap)(uint64_t);

__attribute__((noinline)) static void leap(uint64_t deep)
{
	sink = sink + 1;
	if (!deep)
		longjmp(jump_back, 1);
	traced_leap(deep - 1);
	sink = sink + 1;
}

/* R2: the stack no longer holds the stubs of frames that are gone. */
static void test_longjmp(void **state)
{
	traced_leap = (void (*)(uint64_t))traced(leap);
	for (volatile unsigned i = 0; i < 1000; i++) {
		if (!setjmp(jump_back))
			traced_leap(i % 3);
	}
	uint32_t inside = stubs_in_use();
	assert_in_range(returns->used, 3, 33); /* they come back */
	finish(334 * 1 + 333 * 2 + 333 * 3, 0);
	assert_int_equal(rig_pool->tallies[ENTRY].unwound + inside, 334 * 1 + 333 * 2 + 333 * 3);
	assert_int_equal(rig_pool->tallies[ENTRY].missed, 0);
}

/* (R1, R7) Something has returned through a free stub: frames that seem to be gone may come back,
 * and keep their stubs. */
static void test_stacks_that_move(void **state)
{
	returns->stray = 1;
	traced_leap = (void (*)(uint64_t))traced(leap);
	for (volatile unsigned i = 0; i < 1000; i++) {
		if (!setjmp(jump_back))
			traced_leap(0);
	}
	assert_int_equal(stubs_in_use(), 1000);
	finish(1000, 0);
	assert_int_equal(rig_pool->tallies[ENTRY].unwound + rig_pool->tallies[ENTRY].missed, 0);
}

/* ---- tail calls ------------------------------------------------------------------------------ */

static function2 traced_even, traced_odd;

/* Each jumps to the other's trampoline: one stack word, many stubs. */
__attribute__((noinline)) static uint64_t even(uint64_t n, uint64_t total)
{
	sink = sink + 1;
	if (!n)
		return total;
	return traced_odd(n - 1, total + 1);
}

__attribute__((noinline)) static uint64_t odd(uint64_t n, uint64_t total)
{
	sink = sink + 2;
	if (!n)
		return total + 1000;
	return traced_even(n - 1, total + 1);
}

static void test_tail_calls(void **state)
{
	traced_even = (function2)traced(even);
	traced_odd = (function2)traced(odd);
	for (unsigned round = 0; round < 20; round++)
		assert_int_equal(traced_even(40, 0), 40);
	assert_int_equal(stubs_in_use(), 0);
	assert_int_equal(returns->used, 42);
	finish(20 * 41, 20 * 41);
	assert_int_equal(rig_pool->tallies[ENTRY].unwound, 0);
}

/* ---- unwinding ------------------------------------------------------------------------------- */

struct walk {
	void *pcs[64];
	size_t count;
};

/* libgcc's, unless a test says otherwise. */
static _Unwind_Reason_Code (*walk_frames)(_Unwind_Trace_Fn, void *) = _Unwind_Backtrace;
static _Unwind_Ptr (*frame_pc)(struct _Unwind_Context *) = _Unwind_GetIP;

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *data)
{
	struct walk *walk = data;

	if (walk->count < 64)
		walk->pcs[walk->count++] = (void *)frame_pc(context);
	return _URC_NO_REASON;
}

static struct walk walk;
static function2 walk_next;

__attribute__((noinline)) static uint64_t walk_at_end(uint64_t n, uint64_t unused)
{
	uint64_t result;

	sink = sink + 1;
	if (n) {
		result = walk_next(n - 1, 0) + 1;
	} else {
		walk.count = 0;
		walk_frames(note_frame, &walk);
		result = 0;
	}
	return result;
}

static size_t count_outside_stubs(void)
{
	size_t count = 0;

	for (size_t i = 0; i < walk.count; i++) {
		uint64_t offset = (uint64_t)walk.pcs[i] - rig_control->stubs;

		count += offset >= (uint64_t)DT_STUBS_MAX * DT_STUB_SIZE;
	}
	return count;
}

/* The same frames with and without stubs, and one more for each stub. */
static void check_backtrace(void)
{
	size_t plain;

	walk_next = walk_at_end;
	assert_int_equal(walk_next(5, 0), 5);
	plain = walk.count;
	walk_next = (function2)traced(walk_at_end);
	assert_int_equal(walk_next(5, 0), 5);
	assert_int_equal(walk.count, plain + 6);
	assert_int_equal(count_outside_stubs(), plain);
}

static void test_backtrace(void **state)
{
	check_backtrace();
	finish(6, 6);
}

/* LLVM's libunwind is told of one FDE, not of a table. */
static void test_llvm_backtrace(void **state)
{
	void *library = dlopen("libunwind.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		skip();
	void (*tell)(const void *) = dlsym(library, "__register_frame");
	void (*forget)(const void *) = dlsym(library, "__deregister_frame");
	walk_frames = dlsym(library, "_Unwind_Backtrace");
	frame_pc = dlsym(library, "_Unwind_GetIP");
	assert_true(tell && forget && walk_frames && frame_pc);
	tell(stub_window + EXIT_CODE_ROOM + fde_offset);
	check_backtrace();
	forget(stub_window + EXIT_CODE_ROOM + fde_offset);
	walk_frames = _Unwind_Backtrace;
	frame_pc = _Unwind_GetIP;
	dlclose(library);
	finish(6, 6);
}

/* ---- signals, threads, processes ------------------------------------------------------------- */

static volatile uint64_t handler_calls;

static void on_alarm(int number)
{
	handler_calls++;
	if (traced_sum(3, 1) != 6)
		abort();
}

/* (R3) A handler that interrupts the taking of a stub, and takes stubs itself. */
static void test_signals(void **state)
{
	struct itimerval fast = { { 0, 50 }, { 0, 50 } }, off = { 0 };
	struct sigaction action = { .sa_handler = on_alarm }, old;
	uint64_t calls = 0;

	handler_calls = 0;
	traced_sum = (function2)traced(sum);
	sigaction(SIGALRM, &action, &old);
	setitimer(ITIMER_REAL, &fast, NULL);
	while (handler_calls < 500) {
		assert_int_equal(traced_sum(20, 1), 210);
		calls++;
	}
	setitimer(ITIMER_REAL, &off, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_int_equal(stubs_in_use(), 0);
	assert_int_equal(rig_pool->tallies[ENTRY].unwound + rig_pool->tallies[ENTRY].missed, 0);
	rig_finish(&trace);
	uint64_t hits = calls * 21 + handler_calls * 4, lost = trace.totals.lost;
	assert_true(trace.types.items[ENTRY].hits + trace.types.items[EXIT].hits + lost <=
		    2 * hits);
	if (!lost)
		assert_int_equal(trace.types.items[EXIT].hits, hits);
	assert_int_equal(trace.types.items[ENTRY].hits,
			 trace.types.items[EXIT].hits + trace.types.items[EXIT].lost);
}

static void *run_thread(void *unused)
{
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(traced_sum(20, 1), 210);
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[4];

	traced_sum = (function2)traced(sum);
	for (unsigned round = 0; round < 10; round++) {
		for (size_t i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, run_thread, NULL), 0);
		for (size_t i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
	assert_int_equal(stubs_in_use(), 0);
	assert_in_range(returns->used, 22, 10 * 4 * 22);
	finish(40 * 200 * 21, 40 * 200 * 21);
}

/* Whatever the guesses say, nobody records in a slot that isn't his: neither one with another key,
 * nor one with another tid. */
static void test_wrong_guesses(void **state)
{
	function2 f = (function2)traced(add);
	struct dt_slot *mine = NULL, before;

	assert_int_equal(f(1, 2), 3);
	for (uint32_t i = 0; i < DT_SLOTS; i++)
		mine = rig_slots[i].key ? &rig_slots[i] : mine;
	struct dt_slot *decoy = mine == rig_slots ? mine + 1 : rig_slots;
	for (unsigned i = 0; i < 2; i++) {
		*decoy = *mine;
		*(i ? &decoy->tid : (uint32_t *)&decoy->key) ^= 1;
		before = *decoy;
		for (uint32_t n = 0; n < DT_NEAR_COUNT; n++)
			rig_state->near[n] = (uint32_t)((uint64_t)decoy - (uint64_t)rig_slots);
		for (unsigned n = 0; n < 100; n++)
			assert_int_equal(f(n, 2), n + 2);
		assert_memory_equal(decoy, &before, sizeof(before));
		uint32_t corrected = 0;
		for (uint32_t n = 0; n < DT_NEAR_COUNT; n++)
			corrected += rig_state->near[n] == (uint64_t)mine - (uint64_t)rig_slots;
		assert_int_equal(corrected, 1);
	}
	memset(decoy, 0, sizeof(*decoy));
	finish(201, 201);
}

static volatile pid_t child;

__attribute__((noinline)) static uint64_t forks(uint64_t a, uint64_t b)
{
	sink = sink + 1;
	child = fork();
	if (!child && traced_sum(10, 1) != 55)
		_exit(9);
	return a + b;
}

/* (R2) Both sides return to the right place; the parent's call has one exit. */
static void test_fork(void **state)
{
	function2 f = (function2)traced(forks);
	int status;

	traced_sum = (function2)traced(sum);
	assert_int_equal(f(3, 4), 7);
	if (!child) { /* it finds its stubs without the slow path, as its parent does */
		bool knows = rig_state->returns == (uint64_t)returns && rig_my_slot()->returns;

		_exit(stubs_in_use() ? 8 : returns->stray ? 7 : !knows ? 6 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(stubs_in_use(), 0);
	finish(1 + 11, 1 + 11);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_registers), CASE(test_values),	 CASE(test_recursion),
		CASE(test_runs_out),  CASE(test_longjmp),	 CASE(test_tail_calls),
		CASE(test_backtrace), CASE(test_llvm_backtrace), CASE(test_signals),
		CASE(test_threads),   CASE(test_fork),	 CASE(test_own_fields),
		CASE(test_own_program), CASE(test_wrong_guesses),
		CASE(test_stacks_that_move), CASE(test_stubs_stay_bound),
		CASE(test_wrong_hints), CASE(test_retired_stubs_come_back),
	};

	int failed = cmocka_run_group_tests_name("own code", tests, NULL, NULL);

	shares = true;
	return failed + cmocka_run_group_tests_name("shared code", tests, NULL, NULL);
}
