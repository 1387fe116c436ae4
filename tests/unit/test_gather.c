/*
 * Events that the agent gathers, with signals as they are: a signal at every instruction, whose
 * handler hits, jumps away or forks; which stacks count as a thread's own; what an event that
 * doesn't need its room gives back.
 */
#include <pthread.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <ucontext.h>

#include "../../src/shared/program.h"
#include "rig.h"
#include "thin.h"

#define TEXT RIG_SIX /* the rig's event, with a string instead */
#define LONGEST 256

static struct {
	struct dt_program head;
	struct dt_op ops[2];
} program = { { .id = TEXT, .size_max = 16 + LONGEST + 32, .op_count = 2, .rip = 1 },
	      { { DT_OP_REG, 7, 0, 0 }, { DT_OP_STRING, 1, LONGEST, DT_STRING_NUL } } };

static const char literal[] = "twenty bytes of text";

/* As a trampoline: 1 if the event was written. */
static int gather(const char *text)
{
	struct dt_regs regs = { .general = { [7] = (uint64_t)text } };
	const void *given = &regs, *run = &program;
	uint64_t written;

	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\tcall *%4\n\tleaq 128(%%rsp), %%rsp"
			 : "=a"(written), "+D"(given), "+S"(run)
			 : "b"(rig_control), "m"(rig_gather)
			 : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
	return (int)written;
}

/* The ranges that the controller finds (values/describe/stable_memory.c). */
static void note_memory(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end;

		assert_int_equal(sscanf(line, "%lx-%lx", &start, &end), 2);
		if (strstr(line, "[stack]"))
			rig_control->stack = (struct dt_range){ start - (1 << 20), end };
		if ((uint64_t)literal - start < end - start)
			rig_control->stable[0] = (struct dt_range){ start, end };
	}
	fclose(maps);
}

static void open_reader(struct rig_trace *trace)
{
	rig_open_trace(trace);
	struct event_type *type = &trace->types.items[TEXT];
	type->is_variable = true;
	type->size = 16;
	type->field_count = 1;
	type->fields[0].type = FIELD_STRING;
	type->fields[0].size = 0;
	type->fields[0].offset = 0;
	RIG_OK(writer_update(trace->writer, &trace->clock));
	rig_open_reader(trace);
}

static void up(struct rig_trace *trace)
{
	rig_up(4, 16, DT_FOLLOW_FORK);
	note_memory();
	rig_control->slow = (uint64_t)rig_slow;
	rig_control->sizes[TEXT] = DT_SIZE_VARIES;
	open_reader(trace);
}

static void down(struct rig_trace *trace)
{
	rig_remove(trace);
	rig_down();
}

/* No stack of the agent's can be had, so only a hit on the thread's own stack is recorded, while
 * its chunk has room. */
static int gather_open(const char *text)
{
	uint64_t busy = __atomic_exchange_n(&rig_state->stacks_busy, ~0ULL, __ATOMIC_SEQ_CST);
	int recorded = gather(text);

	__atomic_store_n(&rig_state->stacks_busy, busy, __ATOMIC_SEQ_CST);
	return recorded;
}

/* ---- room ------------------------------------------------------------------------------------ */

/* (B10) */
static void test_gives_back_what_it_does_not_need(void **unused)
{
	struct rig_trace trace;
	char expected[64];

	up(&trace);
	assert_int_equal(gather(literal), 1);
	uint64_t before = rig_my_slot()->reserve;
	assert_int_equal(gather_open(literal), 1);
	assert_int_equal(rig_my_slot()->reserve - before, DT_ROUND_UP(16 + sizeof(literal), 8));
	/* not the empty one: babeltrace2 prints the text before it instead */
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(gather(literal + i % (sizeof(literal) - 1)), 1);
	rig_finish(&trace);
	assert_int_equal(trace.totals.holes, 0);
	assert_int_equal(trace.types.items[TEXT].hits, 5002);
	snprintf(expected, sizeof(expected), "arg0 = \"%s\"", literal + 7);
	assert_int_equal(rig_judge(&trace, expected).events, 5000 / (sizeof(literal) - 1));
	down(&trace);
}

/* Every length at every offset, beside the way with signals blocked. */
static void test_both_ways_say_the_same(void **unused)
{
	static char bytes[3 * LONGEST];
	struct rig_trace trace;

	up(&trace);
	rig_control->stable[1] =
		(struct dt_range){ (uint64_t)bytes, (uint64_t)(bytes + sizeof(bytes)) };
	assert_int_equal(gather(literal), 1);
	struct dt_slot *slot = rig_my_slot();
	struct dt_own_stack *own = &rig_state->own_stacks[slot - rig_state->slots], kept = *own;
	for (unsigned length = 0; length < LONGEST + 9; length++) {
		for (unsigned offset = 0; offset < 9; offset++) {
			uint64_t texts[2][64];

			memset(bytes, 0xff, sizeof(bytes));
			for (unsigned i = 0; i < length; i++)
				bytes[offset + i] = (char)('a' + (i * 7 + length) % 26);
			if (length > 3 && offset == 3)
				memcpy(bytes + offset + length / 2, "\xc3\xa4", 2);
			if (length > 3 && offset == 4)
				bytes[offset + length / 2] = (char)0x80;
			bytes[offset + length] = 0;
			for (int way = 0; way < 2; way++) {
				*own = way ? (struct dt_own_stack){ .start = ~0ULL } : kept;
				uint64_t *event = (uint64_t *)((char *)rig_pool +
							       (uint32_t)slot->reserve);
				if ((uint32_t)slot->reserve + 512 > slot->limit) {
					assert_int_equal(gather(literal), 1);
					way = -1;
					continue;
				}
				assert_int_equal(way ? gather(bytes + offset) :
						       gather_open(bytes + offset), 1);
				memcpy(texts[way], event, sizeof(texts[way]));
			}
			assert_memory_equal(texts[0] + 1, texts[1] + 1, sizeof(texts[0]) - 8);
		}
	}
	rig_finish(&trace);
	down(&trace);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static int on_other_stack;
static ucontext_t here, there;

static void gather_there(void)
{
	gather(literal);
	on_other_stack = gather_open(literal);
}

/* Calls gather_there with the stack pointer there. */
static int gather_at(char *stack, size_t size)
{
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = size;
	there.uc_link = &here;
	makecontext(&there, gather_there, 0);
	on_other_stack = -1;
	swapcontext(&here, &there);
	return on_other_stack;
}

/* T3: memory that a coroutine or a signal's handler uses as a stack is followed by who knows
 * what. */
static void *in_thread(void *unused)
{
	static char stack[65536] __attribute__((aligned(16)));

	assert_int_equal(gather(literal), 1);
	assert_int_equal(gather_open(literal), 1);
	assert_int_equal(gather_at(stack, sizeof(stack)), 0);
	assert_int_equal(gather_open(literal), 1);
	return NULL;
}

static void test_only_own_stacks_count(void **unused)
{
	struct rig_trace trace;
	pthread_t thread;

	up(&trace);
	in_thread(NULL);
	assert_int_equal(pthread_create(&thread, NULL, in_thread, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	rig_finish(&trace);
	down(&trace);
}

#define GIVEN 131072u
static char around[3 * GIVEN] __attribute__((aligned(4096)));

/* T3: the stack is memory of the program's, which has other memory below it. There the coroutine
 * is, as goroutines are below the thread block of their thread. */
static void *on_given_stack(void *unused)
{
	assert_int_equal(gather(literal), 1);
	assert_int_equal(gather_open(literal), 1);
	assert_int_equal(gather_at(around + GIVEN - 65536, 65536), 0);
	/* at the low end of the stack, with less than the room */
	assert_int_equal(gather_at(around + GIVEN, 12288), 0);
	assert_int_equal(gather_open(literal), 1);
	return NULL;
}

static void test_given_stack_has_its_own_ends(void **unused)
{
	struct rig_trace trace;
	pthread_attr_t attributes;
	pthread_t thread;

	up(&trace);
	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstack(&attributes, around + GIVEN, GIVEN), 0);
	assert_int_equal(pthread_create(&thread, &attributes, on_given_stack, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_attr_destroy(&attributes);
	rig_finish(&trace);
	down(&trace);
}

/* T3: a thread block that isn't glibc's says nothing, whatever memory is below it. */
static void *with_other_block(void *unused)
{
	uint64_t *self = (uint64_t *)pthread_self(), kept = self[2];

	self[2] = 0;
	gather(literal);
	int recorded = gather_open(literal);
	self[2] = kept;
	assert_int_equal(recorded, 0);
	return NULL;
}

static void test_other_thread_blocks_say_nothing(void **unused)
{
	struct rig_trace trace;
	pthread_t thread;

	up(&trace);
	assert_int_equal(pthread_create(&thread, NULL, with_other_block, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	rig_finish(&trace);
	down(&trace);
}

/* T3 */
static void test_alternate_stack_in_own_stack(void **unused)
{
	char inside[16384];
	stack_t alternate = { .ss_sp = inside, .ss_size = sizeof(inside) };
	stack_t none = { .ss_flags = SS_DISABLE };
	struct rig_trace trace;

	up(&trace);
	assert_int_equal(sigaltstack(&alternate, NULL), 0);
	assert_int_equal(gather(literal), 1);
	assert_int_equal(gather_open(literal), 0);
	assert_int_equal(sigaltstack(&none, NULL), 0);
	rig_finish(&trace);
	down(&trace);
}

/* A filter that says no never begins an event; the thread has a slot all the same. */
static void test_condition_says_no(void **unused)
{
	static struct {
		struct dt_program head;
		struct dt_op ops[4];
	} no = { { .id = TEXT, .size_max = 64, .op_count = 4, .rip = 1 },
		 { { DT_OP_CONST, 0, 0, 0 },
		   { 0 },
		   { DT_OP_REQUIRE, 0, 0, 0 },
		   { DT_OP_TID, 0, 0, 0 } } };
	const void *given, *run;
	struct dt_regs regs = { .image = 0 };
	uint64_t written;
	struct rig_trace trace;

	up(&trace);
	given = &regs;
	run = &no;
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\tcall *%4\n\tleaq 128(%%rsp), %%rsp"
			 : "=a"(written), "+D"(given), "+S"(run)
			 : "b"(rig_control), "m"(rig_gather)
			 : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
	assert_int_equal(written, 0);
	assert_non_null(rig_my_slot());
	assert_true(rig_state->own_stacks[rig_my_slot() - rig_slots].size > 0);
	rig_finish(&trace);
	down(&trace);
}

/* ---- a signal at every instruction ----------------------------------------------------------- */

enum what { HITS, JUMPS, FORKS };

struct stepping {
	volatile uint32_t recorded, skipped, inner;
	volatile bool before, after;
	volatile enum what what;
};

static struct stepping *stepping;
static sigjmp_buf away;
static pid_t other;

static void on_signal(int number)
{
	(void)number;
	if (stepping->what == JUMPS)
		siglongjmp(away, 1);
	if (stepping->what == FORKS) {
		other = fork();
		return;
	}
	for (int i = 0; i < 60; i++)
		stepping->inner += (uint32_t)(rig_hit(RIG_TWO, 0) + gather(literal));
}

static void after_fork(void)
{
	int status;

	if (!other) {
		rig_hit(RIG_TWO, 0);
		_exit(0);
	}
	if (other > 0) {
		assert_int_equal(waitpid(other, &status, 0), other);
		assert_int_equal(status, 0);
	}
}

__attribute__((noinline)) static void stepping_child(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	other = -1;
	sigaction(SIGUSR1, &action, NULL);
	gather(literal);
	rig_hit(RIG_BARE, 0);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	if (!sigsetjmp(away, 1)) {
		raise(SIGSTOP);
		stepping->before = true;
		if (gather(literal + 3))
			stepping->recorded++;
		else
			stepping->skipped++;
		stepping->after = true;
	}
	after_fork();
	for (int i = 0; i < 20; i++)
		stepping->inner += stepping->what == JUMPS && gather_open(literal);
	raise(SIGSTOP);
	_exit(0);
}

static void step(pid_t child)
{
	int status;

	assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
}

static unsigned step_and_interrupt(unsigned steps)
{
	unsigned stepped = 0;
	int status;

	pid_t child = fork();
	if (!child)
		stepping_child();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	while (!stepping->before)
		step(child);
	for (; stepped < steps && !stepping->after; stepped++)
		step(child);
	assert_int_equal(ptrace(PTRACE_CONT, child, NULL, SIGUSR1), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGCHLD) {
		assert_int_equal(ptrace(PTRACE_CONT, child, NULL, 0), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
	}
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
		fail_msg("after %u instructions: status %x", steps, status);
	assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	return stepped;
}

static unsigned interrupt_at(enum what what, unsigned steps)
{
	char whole[64];
	struct rig_trace trace;

	memset(stepping, 0, sizeof(*stepping));
	stepping->what = what;
	up(&trace);
	unsigned stepped = step_and_interrupt(steps);
	rig_finish(&trace);
	uint64_t texts = trace.types.items[TEXT].hits, left = stepping->after ? 1 : 0;
	assert_int_equal(stepping->skipped, 0);
	assert_int_equal(trace.totals.lost, 0);
	if (what == HITS) {
		assert_int_equal(stepping->inner, 120);
		assert_int_equal(texts, 62);
		assert_int_equal(trace.types.items[RIG_TWO].hits, 60);
	} else if (what == JUMPS) {
		assert_int_equal(stepping->inner, 20);
		assert_in_range(texts + trace.totals.holes, 21 + left, 22);
	} else {
		/* the child continues the hit: with its parent's event, or one of its own */
		assert_in_range(texts, 2, 3);
		assert_int_equal(trace.types.items[RIG_TWO].hits, 1);
	}
	if (what != JUMPS)
		assert_int_equal(trace.totals.holes, 0);
	snprintf(whole, sizeof(whole), "arg0 = \"%s\"", literal + 3);
	if (steps % 50 == 0 && what == HITS)
		assert_int_equal(rig_judge(&trace, whole).events, 1);
	down(&trace);
	return stepped;
}

static void interrupt_everywhere(enum what what)
{
	stepping = mmap(NULL, sizeof(*stepping), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	unsigned total = interrupt_at(what, UINT_MAX);
	assert_in_range(total, 100, 1500);
	for (unsigned steps = 0; steps < total; steps += THIN(1, 3)) {
		if (what == HITS ? steps < 40 || steps % 4 == 0 : steps % 13 == 0)
			interrupt_at(what, steps);
	}
	munmap(stepping, sizeof(*stepping));
}

/* B2, B3, B10 */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gives_back_what_it_does_not_need),
		cmocka_unit_test(test_both_ways_say_the_same),
		cmocka_unit_test(test_only_own_stacks_count),
		cmocka_unit_test(test_given_stack_has_its_own_ends),
		cmocka_unit_test(test_other_thread_blocks_say_nothing),
		cmocka_unit_test(test_alternate_stack_in_own_stack),
		cmocka_unit_test(test_condition_says_no),
		cmocka_unit_test(test_handler_hits),
		cmocka_unit_test(test_handler_jumps_away),
		cmocka_unit_test(test_handler_forks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
