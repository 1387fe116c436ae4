/*
 * The agent's slow paths without a system call (src/target/quiet.c), where no signal is blocked:
 * interrupted at every instruction by a handler that hits, every hit is in the trace or counted.
 * And filters that come while other threads wait in the agent.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "rig.h"
#include "shared/program.h"
#include "stepping.h"

#define GATHERED RIG_WORD /* has a program here: its size varies */
#define VALUE 0x5afec0de
#define ROOM 16 /* of two bare events */

static struct {
	struct dt_program program;
	struct dt_op ops[3];
} gathered = {
	.program = { .id = GATHERED, .size_max = 24, .op_count = 3, .rip = 1 },
	.ops = { { .code = DT_OP_REG, .a = 7 }, { .code = DT_OP_STORE, .a = 8 }, { DT_OP_END } },
};

static struct rig_trace trace;
static uint64_t recorded[RIG_TYPES], hits[RIG_TYPES];
static uint32_t loudest; /* Q6: nobody is counted, nor for a moment */

static void count(unsigned id, bool is_recorded)
{
	hits[id]++;
	recorded[id] += is_recorded;
}

static void hit_plain(void)
{
	count(RIG_TWO, rig_hit(RIG_TWO, VALUE));
}

static void hit_gathered(void)
{
	struct dt_regs regs = { .general[7] = VALUE };

	count(GATHERED, rig_gather_raw(&regs, &gathered) == 1);
}

/* The handler hits twice; the chunk has room for both. */
static void hit_inside(void)
{
	loudest |= rig_state->loud;
	count(RIG_BARE, rig_hit(RIG_BARE, 0));
	count(RIG_BARE, rig_hit(RIG_BARE, 0));
}

/* Until the thread's chunk has room for two bare events only. */
static void fill_chunk(void)
{
	count(RIG_BARE, rig_hit(RIG_BARE, 0));
	const struct dt_slot *slot = rig_my_slot();
	assert_non_null(slot);
	while (slot->limit > (uint32_t)slot->reserve + ROOM)
		count(RIG_BARE, rig_hit(RIG_BARE, 0));
	assert_int_equal(slot->limit, (uint32_t)slot->reserve + ROOM);
}

static int up(void **unused)
{
	rig_up(8, 0, DT_NO_SYSCALLS);
	rig_control->tid_offset = RIG_TID_OFFSET;
	memset(recorded, 0, sizeof(recorded));
	memset(hits, 0, sizeof(hits));
	rig_open(&trace);
	struct event_type *type = &trace.types.items[GATHERED];
	type->is_variable = true;
	type->size = 16;
	type->fields[0].size = 8;
	type->fields[0].offset = 0;
	RIG_OK(writer_update(trace.writer, &trace.clock));
	return 0;
}

static int down(void **unused)
{
	rig_remove(&trace);
	rig_down();
	return 0;
}

static void prepare(bool full)
{
	size_t chunks;

	RIG_OK(reader_drain(trace.reader, &chunks));
	if (full)
		fill_chunk();
}

static void interrupt_everywhere(void (*hit)(void), bool full)
{
	unsigned come = 0;

	hit(); /* the first one of a thread has a way of its own */
	prepare(full);
	stepping_note(hit);
	for (unsigned at = 0; at < stepping.count; at++) {
		prepare(full);
		come += stepping_interrupt(at, hit, hit_inside);
	}
	assert_true(come > stepping.count * 3 / 4);
	assert_int_equal(loudest, 0);
	rig_finish(&trace);
	assert_int_equal(trace.totals.holes, 0);
	for (unsigned id = RIG_BARE; id < RIG_TYPES; id++) {
		assert_int_equal(trace.types.items[id].hits, recorded[id]);
		assert_int_equal(trace.types.items[id].lost, hits[id] - recorded[id]);
	}
}

/* Q4: a chunk is published, and the next one taken. */
static void test_full_chunk(void **unused)
{
	interrupt_everywhere(hit_plain, true);
}

/* Q5 */
static void test_gathered(void **unused)
{
	interrupt_everywhere(hit_gathered, false);
}

static void test_gathered_full_chunk(void **unused)
{
	interrupt_everywhere(hit_gathered, true);
}

/* A program that reads a vector register when the event has begun. */
static const struct {
	struct dt_program program;
	struct dt_op ops[4];
} late_read = {
	.program = { .id = GATHERED, .size_max = 24, .op_count = 4, .rip = 1 },
	.ops = { { .code = DT_OP_REG, .a = 7 }, { .code = DT_OP_STORE, .a = 8 },
		 { .code = DT_OP_XMM }, { DT_OP_END } },
};

static uint8_t *pages;
static uint64_t reserve_then;

static void on_read(int number)
{
	reserve_then = rig_my_slot()->reserve;
	mprotect(pages, DT_PAGE, PROT_READ);
}

/* Q5: a handler that comes while values are read finds no room taken: if it jumps away, there is
 * nothing that the reader would wait for. */
static void test_gathered_room_comes_last(void **unused)
{
	pages = mmap(NULL, 2 * DT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	/* the first vector register is on the first page, all else on the second */
	struct dt_regs *regs = (void *)(pages + DT_PAGE - sizeof(regs->xmm[0]));
	regs->general[7] = VALUE;
	hit_gathered();
	uint64_t before = rig_my_slot()->reserve;

	assert_int_equal(mprotect(pages, DT_PAGE, PROT_NONE), 0);
	signal(SIGSEGV, on_read);
	count(GATHERED, rig_gather_raw(regs, &late_read) == 1);
	signal(SIGSEGV, SIG_DFL);
	assert_int_equal(reserve_then, before);
	assert_int_equal(rig_my_slot()->reserve, before + late_read.program.size_max);
	assert_int_equal(recorded[GATHERED], 2);
	munmap(pages, 2 * DT_PAGE);
	rig_finish(&trace);
	assert_int_equal(trace.types.items[GATHERED].hits, 2);
}

/* ---- a filter comes while another thread is in the agent (Q6) -------------------------------- */

#define LONG_MS 100000u /* longer than the test may take */
#define SOON_S 30

static void *ask(void *id)
{
	return (void *)(long)rig_hit_raw((uint32_t)(uint64_t)id, 0, 0);
}

/* The thread that asks waits for a controller, which doesn't answer; `asked` says so. */
static void filter_while_waiting(uint32_t id, const uint32_t *asked, uint32_t value)
{
	pthread_t thread;
	struct timespec end;

	assert_int_equal(pthread_create(&thread, NULL, ask, (void *)(uint64_t)id), 0);
	while (__atomic_load_n(asked, __ATOMIC_ACQUIRE) != value)
		sched_yield();
	assert_int_equal(rig_state->loud, 1);
	__atomic_store_n(&rig_state->inherited.filtered, 1, __ATOMIC_SEQ_CST);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += SOON_S;
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &end), 0);
	assert_int_equal(rig_state->loud, 0);
}

static void test_filter_while_a_thread_waits(void **unused)
{
	rig_up(8, 0, DT_WAIT_MODULES);
	rig_control->modules_ms = LONG_MS;
	filter_while_waiting(DT_ASK_MODULES, &rig_pool->modules_asked, 1);
	rig_down();
}

static void test_filter_while_a_thread_executes(void **unused)
{
	rig_up(8, 0, 0);
	rig_control->block_ms = LONG_MS;
	filter_while_waiting(DT_ASK_EXEC, &rig_pool->execs[0].state, DT_EXEC_ASKED);
	assert_int_equal(rig_pool->execs_missed, 1);
	rig_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_full_chunk, up, down),
		cmocka_unit_test_setup_teardown(test_gathered, up, down),
		cmocka_unit_test_setup_teardown(test_gathered_full_chunk, up, down),
		cmocka_unit_test_setup_teardown(test_gathered_room_comes_last, up, down),
		cmocka_unit_test(test_filter_while_a_thread_waits),
		cmocka_unit_test(test_filter_while_a_thread_executes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
