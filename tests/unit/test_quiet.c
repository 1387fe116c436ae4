/*
 * The agent's slow paths without a system call (src/target/quiet.c), where no signal is blocked:
 * interrupted at every instruction by a handler that hits, every hit is in the trace or counted.
 */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_full_chunk, up, down),
		cmocka_unit_test_setup_teardown(test_gathered, up, down),
		cmocka_unit_test_setup_teardown(test_gathered_full_chunk, up, down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
