/*
 * Values on stacks that nobody knows, as coroutines have: what trampolines read there themselves
 * (X13, X18), how much of the stack that takes (T8), and a signal at every instruction of it, whose
 * handler hits, jumps away, forks, goes to another coroutine, ends the thread or takes its
 * alternate stack away.
 */
#include <pthread.h>
#include <stdbool.h>
#include <ucontext.h>

#include "../../src/control/code/decode.h"
#include "../../src/control/codegen/gather_code.h"
#include "../../src/control/codegen/read_code.h"
#include "../../src/control/trampoline/trampoline.h"
#include "../../src/shared/program.h"
#include "../../src/shared/reads.h"
#include "../../src/shared/unwind.h"
#include "map_near.h"
#include "rig.h"
#include "thin.h"

#define TEXT RIG_SIX /* the rig's event, with a string instead */
#define LONGEST 256
#define SHORT 100 /* characters that a small image has room for */
#define SAVED (128 + 40) /* the red zone, and what every trampoline saves */
#define CODE_ROOM 8192
#define STACK_SIZE 65536
#define TRAP_FLAG 0x100

static struct {
	struct dt_program head;
	struct dt_op ops[3];
} program = { { .id = TEXT, .size_max = 16 + LONGEST + 40, .op_count = 3, .rip = 1 },
	      { { DT_OP_REG, 7, 0, 0 },
		{ DT_OP_STRING, 1, LONGEST, DT_STRING_NUL },
		{ DT_OP_UNREADABLE, 0, 0, 0 } } };

static struct tramp_event event = { .id = TEXT,
				    .keep_red_zone = true,
				    .program = &program.head,
				    .program_size = sizeof(program) };

static const char literal[] __attribute__((aligned(64))) = "twenty bytes of text";
static char texts[DT_PAGE] __attribute__((aligned(4096)));

/* A function with a probe. */
void far_hit(const char *text);
extern const char far_site[], far_site_end[];
void *far_code;
__asm__(".text\n"
	".globl far_hit\n"
	"far_hit:\n"
	"	jmp *far_code(%rip)\n"
	"far_site:\n"
	"	.byte 0x90, 0x90\n"
	"	lea (%rsp), %rsp\n"
	"far_site_end:\n"
	"	ret\n"
	/* as a goroutine whose stack has room */
	".globl far_hit_go\n"
	"far_hit_go:\n"
	"	push %r14\n"
	"	lea far_goroutine(%rip), %r14\n"
	"	call far_hit\n"
	"	pop %r14\n"
	"	ret\n");
void far_hit_go(const char *text);
uint64_t far_goroutine[4];
static void (*hit)(const char *) = far_hit;
#define GO_PUSHES 16 /* of far_hit_go, and its call */

/* ---- a target -------------------------------------------------------------------------------- */

static void emit(void)
{
	struct tramp_env env = { .control = taddr_of((uint64_t)rig_control),
				 .slots = taddr_of((uint64_t)rig_state->slots),
				 .pool = taddr_of((uint64_t)rig_pool) };
	struct tramp_event *events[] = { &event };
	size_t length = (size_t)(far_site_end - far_site), count = 0;
	struct insn insns[4];

	for (size_t at = 0; at < length; at += insns[count++].length)
		assert_true(decode((const uint8_t *)far_site + at, length - at,
				   taddr_of((uint64_t)far_site + at), &insns[count]));
	struct tramp tramp = {
		.insns = insns, .insn_count = count, .events = events, .event_count = 1
	};
	far_code = map_near(far_site, 16 << 20, CODE_ROOM);
	assert_true(trampoline_room(&tramp) <= CODE_ROOM);
	assert_null(trampoline_emit(&tramp, &env, far_code, CODE_ROOM,
				    taddr_of((uint64_t)far_code)));
}

static uint64_t routine(const char *name)
{
	Dl_info agent;

	assert_true(dladdr(rig_slow, &agent));
	void *at = dlsym(dlopen(agent.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
	assert_non_null(at);
	return (uint64_t)at;
}

static bool elsewhere; /* plain loads, whose faults would go to an alternate stack (X18) */

/* The literal is memory that stays; so is `texts` without plain loads. */
static void note_memory(void)
{
	rig_control->stable[0] = (struct dt_range){ (uint64_t)literal & ~(DT_PAGE - 1),
						    ((uint64_t)literal | (DT_PAGE - 1)) + 1 };
	if (!elsewhere)
		rig_control->stable[1] =
			(struct dt_range){ (uint64_t)texts, (uint64_t)texts + sizeof(texts) };
}

static void open_reader(struct rig_trace *trace)
{
	rig_open_trace(trace);
	struct event_type *type = &trace->types.items[TEXT];
	type->is_variable = true;
	type->size = 16;
	type->field_count = 2;
	for (int i = 0; i < 2; i++)
		type->fields[i].type = FIELD_STRING, type->fields[i].size = 0,
		type->fields[i].offset = 0;
	RIG_OK(writer_update(trace->writer, &trace->clock));
	rig_open_reader(trace);
}

static void up(struct rig_trace *trace)
{
	static const char *const names[DT_READS] = { "dt_read_text", "dt_read_bytes", "dt_read_end",
						     "dt_read_key", "dt_read_frames" };

	rig_up(64, 64, DT_FOLLOW_FORK);
	note_memory();
	for (int i = 0; i < DT_READS; i++)
		rig_control->reads[i] = routine(names[i]);
	rig_control->slow = (uint64_t)rig_slow;
	rig_control->gather = (uint64_t)rig_gather;
	rig_control->sizes[TEXT] = DT_SIZE_VARIES;
	emit();
	open_reader(trace);
}

static void down(struct rig_trace *trace)
{
	munmap(far_code, CODE_ROOM);
	rig_remove(trace);
	rig_down();
}

/* ---- a coroutine ----------------------------------------------------------------------------- */

static char stack[STACK_SIZE] __attribute__((aligned(4096)));
static __thread ucontext_t here, there;

static void on_stack(char *memory, size_t size, void (*run)(void))
{
	getcontext(&there);
	there.uc_stack.ss_sp = memory;
	there.uc_stack.ss_size = size;
	there.uc_link = &here;
	makecontext(&there, run, 0);
	swapcontext(&here, &there);
}

/* The agent finds no stack for itself: only what a trampoline does alone is recorded. */
static uint64_t take_stacks(void)
{
	return __atomic_exchange_n(&rig_state->stacks_busy, ~0ULL, __ATOMIC_SEQ_CST);
}

static void give_stacks(uint64_t busy)
{
	__atomic_store_n(&rig_state->stacks_busy, busy, __ATOMIC_SEQ_CST);
}

static void alone(const char *text)
{
	uint64_t busy = take_stacks();

	hit(text);
	give_stacks(busy);
}

/* Makes room in the chunk; false: there was some. */
static bool make_room(void)
{
	if ((uint32_t)rig_my_slot()->reserve + 1024 <= rig_my_slot()->limit)
		return false;
	hit(literal);
	return true;
}

static struct dt_own_stack *my_own(void)
{
	return &rig_state->own_stacks[rig_my_slot() - rig_state->slots];
}

/* As if the agent had seen the thread open, with an alternate stack of two pages below `end`. */
static void open_up(uint64_t end)
{
	if (!elsewhere)
		return;
	my_own()->elsewhere = end;
	my_own()->elsewhere_size = 0 - 2 * DT_PAGE;
	my_own()->open = rig_state->loads;
}

/* ---- what is recorded ------------------------------------------------------------------------ */

static unsigned compared;

/* The event that the agent writes, and the one of the trampoline. */
static void compare(const char *text, bool is_short)
{
	uint64_t events[2][64];

	for (int way = 0; way < 2; way++) {
		while (make_room())
			compared++;
		struct dt_slot *slot = rig_my_slot();
		uint64_t *at = (uint64_t *)((char *)rig_pool + (uint32_t)slot->reserve);
		struct dt_regs regs = { .general = { [7] = (uint64_t)text } };

		if (!way)
			assert_int_equal(rig_gather_raw(&regs, &program), 1);
		else if (is_short)
			alone(text);
		else
			hit(text);
		memcpy(events[way], at, sizeof(events[way]));
		compared++;
	}
	assert_memory_equal(events[0] + 1, events[1] + 1, sizeof(events[0]) - 8);
}

/* Every length at every offset. */
static void compare_all(void)
{
	unsigned most = event.check_length ? LONGEST : SHORT;

	hit(texts);
	hit(literal);
	compared = 2;
	open_up(UINT64_MAX / 2);
	compare(NULL, true);
	for (unsigned length = 0; length < LONGEST + 9; length++) {
		for (unsigned offset = 0; offset < 17; offset += offset < 9 ? 1 : 7) {
			memset(texts, 0xff, 512);
			for (unsigned i = 0; i < length; i++)
				texts[offset + i] = (char)('a' + (i * 7 + length) % 26);
			if (length > 3 && offset == 3)
				memcpy(texts + offset + length / 2, "\xc3\xa4", 2);
			texts[offset + length] = 0;
			compare(texts + offset, length <= most && offset != 3);
		}
	}
	memset(texts, 'a', sizeof(texts));
	texts[sizeof(texts) - 1] = 0;
	for (unsigned length = 0; length < 40; length++)
		compare(texts + sizeof(texts) - 1 - length, true);
}

static void both_ways_say_the_same(void)
{
	struct rig_trace trace;

	up(&trace);
	on_stack(stack, sizeof(stack), compare_all);
	assert_int_equal(my_own()->loading, 0);
	rig_finish(&trace);
	assert_int_equal(trace.types.items[TEXT].hits, compared);
	assert_int_equal(trace.totals.lost + trace.totals.holes, 0);
	down(&trace);
}

/* X13, X18 */
static void test_both_ways_say_the_same(void **unused)
{
	both_ways_say_the_same();
	elsewhere = true;
	both_ways_say_the_same();
	elsewhere = false;
}

/* The trampoline reads only where a fault goes to the alternate stack. */
static void read_on_stacks(void)
{
	uint64_t high = (uint64_t)stack + sizeof(stack), low = (uint64_t)stack;

	hit(texts);
	strcpy(texts, "here");
	open_up(UINT64_MAX / 2);
	alone(texts);
	my_own()->elsewhere = high + 1; /* the thread is on its alternate stack */
	my_own()->elsewhere_size = low - high;
	alone(texts);
	my_own()->elsewhere_size = 0; /* it has none */
	alone(texts);
	open_up(UINT64_MAX / 2);
	my_own()->open++;
	alone(texts);
	my_own()->open--;
	my_own()->loading = 1; /* a handler is on top of a load */
	alone(texts);
	assert_int_equal(my_own()->loading, 1);
	my_own()->loading = 0;
	alone(texts);
	assert_int_equal(my_own()->loading, 0);
}

/* X18 */
static void test_which_stacks(void **unused)
{
	struct rig_trace trace;

	elsewhere = true;
	up(&trace);
	on_stack(stack, sizeof(stack), read_on_stacks);
	rig_finish(&trace);
	assert_int_equal(rig_judge(&trace, "\"here\"").events, 2);
	assert_int_equal(trace.totals.lost, 4);
	down(&trace);
	elsewhere = false;
}

static char *page;

static void read_page(void)
{
	far_hit(literal);
	far_hit(page);
	assert_int_equal(munmap(page, DT_PAGE), 0);
	far_hit(page);
}

/* X13: memory that may go away is left to the agent, although its page is known. */
static void test_other_memory_is_the_agents(void **unused)
{
	char expected[64];
	struct rig_trace trace;

	up(&trace);
	page = mmap(NULL, DT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(page, "here");
	rig_state->pages[(uint64_t)page / DT_PAGE % DT_PAGES] = (uint64_t)page + DT_PAGE;
	on_stack(stack, sizeof(stack), read_page);
	rig_finish(&trace);
	snprintf(expected, sizeof(expected), "\"(unreadable 0x%lx)\"", (uint64_t)page);
	assert_int_equal(rig_judge(&trace, expected).events, 1);
	assert_int_equal(rig_judge(&trace, "\"here\"").events, 1);
	assert_int_equal(trace.types.items[TEXT].hits, 3);
	down(&trace);
}

#define HEAP_PAGES 3

static void read_opened(char *closed, char *third)
{
	memset(rig_state->stays, 0, sizeof(rig_state->stays));
	memcpy(closed - 3, "abc", 3);
	alone(page);
	alone(closed - 3);
	alone(closed);
	alone(third);
	assert_int_equal(rig_state->stays[(uint64_t)third / DT_PAGE % DT_PAGES], 0);
	memcpy(third + DT_PAGE - 4, "tail", 4);
	far_hit(third + DT_PAGE - 4); /* it ends above the heap */
}

static void read_heap(void)
{
	char *closed = page + DT_PAGE, *third = page + 2 * DT_PAGE;

	far_hit(literal);
	rig_control->pid++; /* as in a forked child */
	far_hit(page);
	assert_int_equal(rig_state->stays[(uint64_t)page / DT_PAGE % DT_PAGES], 0);
	assert_int_equal(rig_state->opened.size, 0);
	rig_control->pid--;
	far_hit(page);
	assert_int_equal(rig_state->opened.size, DT_PAGE);
	alone(page);
	far_hit(closed);
	assert_false(rig_pool->heap_asked);
	assert_int_equal(mprotect(closed, DT_PAGE, PROT_READ | PROT_WRITE), 0);
	strcpy(closed, "opened");
	far_hit(closed);
	assert_true(rig_pool->heap_asked);
	alone(closed);
	rig_pool->heap_asked = 0;
	rig_control->heap.open = rig_control->heap.end;
	far_hit(third);
	assert_false(rig_pool->heap_asked);
	read_opened(closed, third);
	assert_true(rig_pool->heap_asked);
	far_hit(third + DT_PAGE);
	assert_int_equal(munmap(third + DT_PAGE, DT_PAGE), 0);
	far_hit(third + DT_PAGE);
}

static void assert_texts(struct rig_trace *trace)
{
	static const struct {
		const char *text;
		uint64_t count;
	} found[] = { { "\"here\"", 4 },	{ "\"opened\"", 3 },	  { "\"third\"", 2 },
		      { "\"abcopened\"", 1 }, { "\"tailabove\"", 1 }, { "\"above\"", 1 } };
	char expected[64];

	for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
		assert_int_equal(rig_judge(trace, found[i].text).events, found[i].count);
	for (int i = 1; i <= HEAP_PAGES; i += 2) {
		snprintf(expected, sizeof(expected), "\"(unreadable 0x%lx)\"",
			 (uint64_t)(page + i * DT_PAGE));
		assert_int_equal(rig_judge(trace, expected).events, 1);
	}
	assert_int_equal(trace->types.items[TEXT].hits, 15);
}

/* X15: Go's heap from when it could be read first; what lies above it may go away. */
static void test_heap(void **unused)
{
	struct rig_trace trace;

	up(&trace);
	page = mmap(NULL, (HEAP_PAGES + 1) * DT_PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rig_state->opened.start = rig_control->heap.start = (uint64_t)page;
	rig_control->heap.open = (uint64_t)page + DT_PAGE;
	rig_control->heap.end = (uint64_t)page + HEAP_PAGES * DT_PAGE;
	rig_control->heap.most = rig_control->heap.end + DT_PAGE;
	strcpy(page, "here");
	strcpy(page + 2 * DT_PAGE, "third");
	strcpy(page + HEAP_PAGES * DT_PAGE, "above");
	assert_int_equal(mprotect(page + DT_PAGE, DT_PAGE, PROT_NONE), 0);
	on_stack(stack, sizeof(stack), read_heap);
	rig_finish(&trace);
	assert_texts(&trace);
	munmap(page, HEAP_PAGES * DT_PAGE);
	down(&trace);
}

/* ---- the stack ------------------------------------------------------------------------------- */

#define PAINT 0xa5
static uint64_t depth;

/* Bytes below the return address of far_hit, whose function's frame is above `top`. */
static void measure_depth(const char *text, bool by_trampoline)
{
	char *mark = __builtin_frame_address(0), *low = stack + 4096, *at = low;

	memset(low, PAINT, (size_t)(mark - 512 - low));
	uint64_t rsp;
	uint64_t busy = by_trampoline ? take_stacks() : 0;
	__asm__ volatile("movq %%rsp, %0\n\tleaq -256(%%rsp), %%rsp\n\tcall *%2\n\t"
			 "leaq 256(%%rsp), %%rsp"
			 : "=&r"(rsp)
			 : "D"(text), "r"(hit)
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	if (by_trampoline)
		give_stacks(busy);
	while (at < mark && (unsigned char)*at == PAINT)
		at++;
	depth = rsp - 256 - 8 - (uint64_t)at;
}

static uint64_t depth_most; /* found on the test's own stack: emitting code takes 43 KiB of it */

static void check_depths(void)
{
	hit(literal);
	hit(texts);
	open_up(UINT64_MAX / 2);
	measure_depth(elsewhere ? texts : literal, true);
	assert_in_range(depth, 200, depth_most);
	memset(texts, 'a', 512);
	texts[512] = 0;
	for (unsigned length = 0; length < 512; length++) {
		measure_depth(texts + 512 - length, false); /* the agent's ways */
		assert_in_range(depth, 200, depth_most);
	}
}

/* T8 */
static void check_all_depths(void)
{
	struct rig_trace trace;

	up(&trace);
	strcpy(texts, literal);
	assert_int_equal(read_far_stack(&event, false), gather_stack(&event));
	depth_most = SAVED + (uint64_t)gather_stack(&event);
	on_stack(stack, sizeof(stack), check_depths);
	rig_finish(&trace);
	assert_int_equal(trace.types.items[TEXT].hits, 515);
	down(&trace);
}

static void test_depth(void **unused)
{
	check_all_depths();
	elsewhere = true;
	check_all_depths();
	elsewhere = false;
}

/* T8: behind the stack check of a Go function, strings of all lengths fit. */
static void test_checked_stack(void **unused)
{
	void (*const runs[])(void) = { compare_all, check_depths };
	struct rig_trace trace;

	event.check_length = (uint8_t)(far_site_end - far_site);
	hit = far_hit_go;
	for (int i = 0; i < 2; i++) {
		up(&trace);
		assert_true(event.is_checked);
		/* the goroutine's stack has 928 bytes left */
		assert_in_range(read_far_stack(&event, false), LONGEST + 256, 928 - SAVED - 16);
		depth_most = GO_PUSHES + SAVED + (uint64_t)read_far_stack(&event, false);
		strcpy(texts, literal);
		on_stack(stack, sizeof(stack), runs[i]);
		rig_finish(&trace);
		assert_int_equal(trace.types.items[TEXT].hits, i ? 515 : compared);
		assert_int_equal(trace.totals.lost + trace.totals.holes, 0);
		down(&trace);
	}
	event.check_length = 0;
	hit = far_hit;
}

/* ---- frames ---------------------------------------------------------------------------------- */

#define CALLEE 0x123000ULL
#define CALLER 0x456789ULL
#define SLOT_OF_NOBODY 5

static uint8_t *(*read_frames)(const struct dt_control *, const struct dt_slot *, uint64_t pc,
			       uint64_t sp, uint64_t bp, uint8_t *field);

/* Keeps a row as target/row_cache.c does. */
static void keep_row(uint64_t key, uint64_t rule)
{
	rig_state->rows[key % DT_ROWS_CACHED] =
		((key / DT_ROWS_CACHED) << DT_TURN_BITS | rig_control->rows_turn) << 21 | rule;
}

/* The frames from CALLEE on, up to `most`; 0: gave up. */
static uint32_t frames_from(const uint64_t *sp, uint32_t most, uint64_t *frames)
{
	uint64_t field[32];

	field[0] = most | DT_READ_SHALLOW;
	if (!read_frames(rig_control, &rig_slots[SLOT_OF_NOBODY], CALLEE, (uint64_t)sp, 0,
			 (uint8_t *)field))
		return 0;
	memcpy(frames, field + 1, (uint32_t)field[0] * 8);
	return (uint32_t)field[0];
}

/* T7 */
static void test_frames_of_the_page(void **unused)
{
	char *memory = mmap(NULL, 3 * DT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	uint64_t *end = (uint64_t *)(memory + 2 * DT_PAGE), frames[32];

	rig_up(4, 4, 0);
	read_frames = (void *)routine("dt_read_frames");
	rig_control->rows_turn = 1;
	keep_row(CALLEE + 1, DT_CFA_RSP | 56); /* a word before the end */
	keep_row(CALLER, DT_CFA_END);
	assert_int_equal(mprotect(end, DT_PAGE, PROT_NONE), 0);
	end[-2] = end[-DT_PAGE / 8 - 2] = CALLER;
	assert_int_equal(frames_from(end - 8, 20, frames), 2);
	assert_true(frames[0] == CALLEE && frames[1] == CALLER);
	assert_int_equal(frames_from(end - 8, 2 | DT_READ_PART, frames), 0);
	assert_int_equal(frames_from(end - 8, 3 | DT_READ_PART, frames), 2);
	/* the page behind may be anything, at its very start, too */
	assert_int_equal(frames_from(end - 7, 20, frames), 0);
	assert_int_equal(frames_from(end, 20, frames), 0);
	assert_int_equal(frames_from(end - DT_PAGE / 8 - 8, 20, frames), 2);
	assert_int_equal(frames_from(end - DT_PAGE / 8 - 7, 20, frames), 0);
	/* unless it stays, or is of the thread's own stack */
	rig_control->stable[0] = (struct dt_range){ (uint64_t)memory, (uint64_t)end };
	end[-DT_PAGE / 8 - 1] = CALLER;
	assert_int_equal(frames_from(end - DT_PAGE / 8 - 7, 20, frames), 2);
	assert_int_equal(frames_from(end - 7, 20, frames), 0);
	rig_control->stable[0].end = 0;
	rig_state->own_stacks[SLOT_OF_NOBODY].start = (uint64_t)end - 2 * DT_PAGE;
	rig_state->own_stacks[SLOT_OF_NOBODY].size = 1;
	assert_int_equal(frames_from(end - DT_PAGE / 8 - 7, 20, frames), 2);
	/* code without a table ends the walk */
	keep_row(CALLER, DT_CFA_NONE);
	assert_int_equal(frames_from(end - 8, 20, frames), 3);
	assert_true(frames[1] == CALLER && frames[2] == DT_FRAME_UNKNOWN);
	assert_int_equal(frames_from(end - 8, 2, frames), 2);
	rig_state->rows[CALLER % DT_ROWS_CACHED] = 0; /* it has to be searched */
	assert_int_equal(frames_from(end - 8, 20, frames), 0);
	munmap(memory, 3 * DT_PAGE);
	rig_down();
}

/* ---- a signal at every instruction ----------------------------------------------------------- */

enum what { HITS, JUMPS, FORKS, SWAPS, ENDS, TAKES, WHATS, NOTES };

static __thread struct {
	enum what what;
	unsigned steps, at; /* the handler acts at that one; 0: never */
	bool on, acted;
	pid_t child;
} stepping;
static __thread sigjmp_buf away;
static __thread ucontext_t handler, aside;
static unsigned inner;

static void hit_aside(void)
{
	far_hit(literal + 2);
	inner++;
}

/* As by a change of an action, behind which the agent has looked: a load that the thread doesn't
 * count yet would kill. */
static void take_alternate_stack(void)
{
	if (my_own()->loading)
		return;
	my_own()->elsewhere_size = 0;
	my_own()->open = ++rig_state->loads;
	assert_int_equal(mprotect(texts, sizeof(texts), PROT_NONE), 0);
}

static void act(void)
{
	static char other[STACK_SIZE];

	stepping.acted = true;
	for (int i = 0; i < 3; i++, inner++)
		far_hit(literal + 1);
	if (stepping.what == JUMPS)
		siglongjmp(away, 1);
	if (stepping.what == FORKS)
		stepping.child = fork();
	if (stepping.what == ENDS)
		pthread_exit(NULL);
	if (stepping.what == TAKES)
		take_alternate_stack();
	if (stepping.what == SWAPS) {
		getcontext(&aside);
		aside.uc_stack.ss_sp = other;
		aside.uc_stack.ss_size = sizeof(other);
		aside.uc_link = &handler;
		makecontext(&aside, hit_aside, 0);
		swapcontext(&handler, &aside);
	}
}

static unsigned noted;

/* The thread is on its own stack. */
static void check_note(uint64_t sp)
{
	uint32_t note = my_own()->loading;

	if (!note)
		return;
	noted++;
	assert_true(note & 1 && note != 1);
	assert_in_range((uint32_t)(note - (uint32_t)sp + DT_PAGE), 0, 2 * DT_PAGE);
}

static void on_step(int number, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	if (stepping.what == NOTES && stepping.on)
		check_note((uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP]);

	(void)number;
	(void)info;
	if (stepping.on && ++stepping.steps != stepping.at)
		return;
	*flags &= ~TRAP_FLAG;
	if (stepping.on) {
		stepping.on = false;
		act();
	}
}

static void hit_stepped(void)
{
	stepping.on = true;
	__writeeflags(__readeflags() | TRAP_FLAG);
	far_hit(elsewhere ? texts : literal);
	stepping.on = false;
	__asm__ volatile("nop"); /* the last step */
	if (!stepping.child)
		_exit(0);
}

static void hit_once(void)
{
	far_hit(literal);
}

/* In a thread of its own. Gives the instructions of a hit. */
static void *interrupt(void *argument)
{
	stepping.child = -1;
	stepping.what = *(enum what *)argument % WHATS;
	stepping.at = *(unsigned *)argument / WHATS;
	on_stack(stack, sizeof(stack), hit_once); /* the agent looks */
	if (elsewhere)
		rig_state->pages[(uint64_t)texts / DT_PAGE % DT_PAGES] = (uint64_t)texts + DT_PAGE;
	open_up(UINT64_MAX / 2);
	if (!sigsetjmp(away, 1))
		on_stack(stack, sizeof(stack), hit_stepped);
	assert_int_equal(mprotect(texts, sizeof(texts), PROT_READ | PROT_WRITE), 0);
	if (stepping.child > 0) {
		int status;

		assert_int_equal(waitpid(stepping.child, &status, 0), stepping.child);
		assert_int_equal(status, 0);
	}
	/* whatever has happened: the trampoline reads by itself */
	uint64_t busy = take_stacks();
	on_stack(stack, sizeof(stack), hit_once);
	give_stacks(busy);
	return (void *)(uint64_t)stepping.steps;
}

static unsigned interrupt_at(enum what what, unsigned at)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	unsigned argument = at * WHATS + what;
	struct rig_trace trace;
	pthread_t thread;
	void *steps;

	up(&trace);
	inner = 0;
	strcpy(texts, literal);
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, interrupt, &argument), 0);
	assert_int_equal(pthread_join(thread, &steps), 0);
	rig_finish(&trace);
	uint64_t hits = trace.types.items[TEXT].hits, holes = trace.totals.holes;
	assert_int_equal(trace.totals.lost, 0);
	assert_int_equal(inner, at ? 3 + (what == SWAPS) : 0);
	if (!at || what == HITS || what == SWAPS || what == TAKES) {
		assert_int_equal(hits, 3 + inner);
	} else if (what == FORKS) {
		assert_in_range(hits, 3 + inner, 4 + inner); /* the child goes on, too */
	} else {
		unsigned others = what == ENDS ? 1 : 2;

		assert_in_range(hits + holes, others + inner, others + 1 + inner);
		assert_in_range(holes, 0, 1);
	}
	if (what != JUMPS && what != ENDS)
		assert_int_equal(holes, 0);
	down(&trace);
	return (unsigned)(uint64_t)steps;
}

static void interrupt_everywhere(enum what what)
{
	for (int i = 0; i < 2; i++, elsewhere = !elsewhere) {
		if (what == TAKES && !elsewhere)
			continue;
		unsigned total = interrupt_at(what, 0);

		assert_in_range(total, 80, 400);
		bool often = what == HITS || what == TAKES;
		for (unsigned at = 1; at < total; at += often ? THIN(1, 3) : THIN(5, 11))
			interrupt_at(what, at);
	}
}

static void test_handler_hits(void **unused)
{
	interrupt_everywhere(HITS);
}

static void test_handler_jumps_away(void **unused)
{
	interrupt_everywhere(JUMPS);
}

static void test_handler_forks(void **unused)
{
	interrupt_everywhere(FORKS);
}

static void test_handler_goes_to_another_coroutine(void **unused)
{
	interrupt_everywhere(SWAPS);
}

static void test_handler_ends_the_thread(void **unused)
{
	interrupt_everywhere(ENDS);
}

/* X18 */
static void test_handler_takes_the_alternate_stack(void **unused)
{
	interrupt_everywhere(TAKES);
}

static void *load_on_own_stack(void *unused)
{
	pthread_attr_t attributes;
	void *start;
	size_t size;

	assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
	assert_int_equal(pthread_attr_getstack(&attributes, &start, &size), 0);
	pthread_attr_destroy(&attributes);
	far_hit(literal);
	my_own()->start = (uint64_t)start;
	my_own()->size = size - DT_STACK_ROOM;
	rig_state->pages[(uint64_t)texts / DT_PAGE % DT_PAGES] = (uint64_t)texts + DT_PAGE;
	open_up(UINT64_MAX / 2);
	stepping.what = NOTES;
	stepping.child = -1;
	hit_stepped();
	return unused;
}

/* X20 */
static void test_where_a_thread_loads(void **unused)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	struct rig_trace trace;
	pthread_t thread;

	elsewhere = true;
	up(&trace);
	strcpy(texts, literal);
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, load_on_own_stack, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_in_range(noted, 10, 200);
	rig_finish(&trace);
	assert_int_equal(trace.types.items[TEXT].hits, 2);
	down(&trace);
	elsewhere = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ways_say_the_same),
		cmocka_unit_test(test_which_stacks),
		cmocka_unit_test(test_other_memory_is_the_agents),
		cmocka_unit_test(test_heap),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_checked_stack),
		cmocka_unit_test(test_frames_of_the_page),
		cmocka_unit_test(test_handler_hits),
		cmocka_unit_test(test_handler_jumps_away),
		cmocka_unit_test(test_handler_forks),
		cmocka_unit_test(test_handler_goes_to_another_coroutine),
		cmocka_unit_test(test_handler_ends_the_thread),
		cmocka_unit_test(test_handler_takes_the_alternate_stack),
		cmocka_unit_test(test_where_a_thread_loads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
