/*
 * Keys that a tracepoint counts by (src/shared/keys.h): while one process adds a key, another one
 * adds the same key, or one that wants the same slot, between any two instructions of the first.
 */
#include "rig.h"
#include "shared/keys.h"
#include "shared/program.h"
#include "stepping.h"

#define BITS 4
#define CAPACITY 12
#define KEY 77
#define TABLE_SIZE 4096

static struct dt_key_table *table;

static struct {
	struct dt_program program;
	struct dt_op ops[3];
} by_number = {
	.program = { .id = RIG_BARE, .size_max = 16, .op_count = 3, .rip = 1 },
	.ops = { { .code = DT_OP_REG, .a = 7 }, { .code = DT_OP_KEY, .a = 1 } },
};

/* The index of a key, by the built agent. */
static uint64_t index_of(uint64_t key)
{
	uint64_t image[2] = { 99, 99 };
	struct dt_regs regs = { .general[7] = key, .image = (uint64_t)image };

	rig_gather_raw(&regs, &by_number);
	return image[0];
}

/* ---- two processes --------------------------------------------------------------------------- */

/* The other process: a control page and a state of its own, the same table. */
static struct dt_control *others_control;
static uint64_t others_key, others_index, my_index;

static void up(void)
{
	uint64_t address;

	rig_up(1, 1, DT_NO_SYSCALLS); /* so that no signal is blocked */
	rig_control->tid_offset = RIG_TID_OFFSET;
	others_control = rig_map(-1, DT_CONTROL_SIZE);
	memcpy(others_control, rig_control, DT_CONTROL_SIZE);
	others_control->state = (uint64_t)rig_map(-1, sizeof(struct dt_state));
	table = rig_map(-1, TABLE_SIZE);
	address = (uint64_t)table;
	memcpy(&by_number.ops[2], &address, sizeof(address));
}

static void down(void)
{
	munmap((void *)others_control->state, sizeof(struct dt_state));
	munmap(others_control, DT_CONTROL_SIZE);
	munmap(table, TABLE_SIZE);
	rig_down();
}

static void empty_table(void)
{
	memset(table, 0, TABLE_SIZE);
	table->bits = BITS;
	table->capacity = CAPACITY;
	table->used = 1;
	table->size = table->texts = TABLE_SIZE;
}

/* A3: what a slot names is complete. */
static void check_slots(void)
{
	for (unsigned i = 0; i < 1u << BITS; i++) {
		const struct dt_key_slot *slot = &table->slots[i];

		if (slot->index)
			assert_int_equal(dt_key_at(table, (uint32_t)slot->index)->number,
					 slot->key);
	}
}

static void other_adds(void)
{
	struct dt_control *mine = rig_control;

	check_slots();
	rig_control = others_control;
	others_index = index_of(others_key);
	rig_control = mine;
	check_slots();
}

static void adds(void)
{
	my_index = index_of(KEY);
}

static void meet_at(unsigned at)
{
	empty_table();
	assert_true(stepping_interrupt(at, adds, other_adds));
	check_slots();
	assert_in_range(my_index, 1, CAPACITY - 1);
	assert_in_range(others_index, 1, CAPACITY - 1);
	assert_int_equal(my_index == others_index, others_key == KEY); /* A3 */
	assert_int_equal(index_of(KEY), my_index); /* A2 */
	assert_int_equal(index_of(others_key), others_index);
}

static void meet_everywhere(uint64_t key)
{
	up();
	others_key = key;
	empty_table();
	stepping_note(adds);
	for (unsigned at = 0; at < stepping.count; at++)
		meet_at(at);
	down();
}

static void test_same_key(void **unused)
{
	meet_everywhere(KEY);
}

static void test_same_slot(void **unused)
{
	uint64_t key = KEY + 1;

	while (dt_key_place(key, BITS) != dt_key_place(KEY, BITS))
		key++;
	meet_everywhere(key);
}

/* A4: keys for which there is no room are one row, which no key has. */
static void test_no_room(void **unused)
{
	up();
	empty_table();
	for (int round = 0; round < 2; round++) {
		for (uint64_t key = 1; key < 100; key++)
			assert_int_equal(index_of(key), key < CAPACITY ? key : DT_KEY_OTHER);
	}
	down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_key),
		cmocka_unit_test(test_same_slot),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
