/* Code memory within reach of a module: gaps in its address space, and the pool of windows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/code/emit.h"
#include "control/code/near.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

/* ---- gaps ----------------------------------------------------------------------------------- */

struct row {
	uint64_t start, end;
	const char *path;
	uint64_t inode;
};

static struct mapping mappings[32];

static struct maps maps_of(const struct row *rows, size_t count)
{
	assert_true(count <= 32);
	for (size_t i = 0; i < count; i++)
		mappings[i] = (struct mapping){ .start = taddr_of(rows[i].start),
						.end = taddr_of(rows[i].end),
						.inode = rows[i].inode,
						.path = (char *)rows[i].path };
	return (struct maps){ .items = mappings, .count = count };
}

static void check_gap(const struct maps *maps, uint64_t low, uint64_t high, uint64_t size,
		      uint64_t at)
{
	assert_int_equal(at % 4096, 0);
	assert_true(at >= 65536 && at + size <= 0x7ffffffff000);
	for (size_t i = 0; i < maps->count; i++)
		assert_true(at + size <= maps->items[i].start.v || at >= maps->items[i].end.v);
	/* every byte reaches every byte, whatever the instruction's length */
	for (int length = 1; length <= 15; length++) {
		assert_true(emit_reaches(taddr_of(low + length), taddr_of(at)));
		assert_true(emit_reaches(taddr_of(low + length), taddr_of(at + size - 1)));
		assert_true(emit_reaches(taddr_of(high - 1 + length), taddr_of(at)));
		assert_true(emit_reaches(taddr_of(high - 1 + length), taddr_of(at + size - 1)));
		assert_true(emit_reaches(taddr_of(at + length), taddr_of(low)));
		assert_true(emit_reaches(taddr_of(at + length), taddr_of(high - 1)));
		assert_true(emit_reaches(taddr_of(at + size - 1 + length), taddr_of(low)));
		assert_true(emit_reaches(taddr_of(at + size - 1 + length), taddr_of(high - 1)));
	}
}

static uint64_t gap_of(const struct maps *maps, uint64_t low, uint64_t high, uint64_t size)
{
	taddr at;

	assert_null(near_find_gap(maps, taddr_of(low), taddr_of(high), size, &at));
	check_gap(maps, low, high, size, at.v);
	return at.v;
}

static void no_gap(const struct maps *maps, uint64_t low, uint64_t high, uint64_t size,
		   const char *why)
{
	taddr at = taddr_of(1);
	_cleanup_error_ struct error *err =
		near_find_gap(maps, taddr_of(low), taddr_of(high), size, &at);

	assert_non_null(err);
	assert_int_equal(error_kind(err), ERROR_REFUSED);
	assert_non_null(strstr(error_text(err), why));
	assert_int_equal(at.v, 1);
}

#define MAPS(rows) maps_of(rows, sizeof(rows) / sizeof(*(rows)))

/* An ordinary program: position independent, heap behind it, libraries under the stack. */
static const struct row pie[] = {
	{ 0x555555554000, 0x555555600000, "/bin/program", 7 },
	{ 0x555555600000, 0x555555610000, "", 0 },
	{ 0x555555611000, 0x555555632000, "[heap]", 0 },
	{ 0x7ffff7c00000, 0x7ffff7e00000, "/lib/libc.so.6", 8 },
	{ 0x7ffff7fc0000, 0x7ffff7fff000, "/lib/ld.so", 9 },
	{ 0x7ffffffde000, 0x7ffffffff000, "[stack]", 0 },
	{ 0xffffffffff600000, 0xffffffffff601000, "[vsyscall]", 0 },
};

static void test_pie(void **state)
{
	struct maps maps = MAPS(pie);

	assert_int_equal(gap_of(&maps, 0x555555554000, 0x555555610000, MIB), 0x555555554000 - MIB);
	assert_int_equal(gap_of(&maps, 0x7ffff7c00000, 0x7ffff7e00000, MIB), 0x7ffff7c00000 - MIB);
	/* between the libraries: nearer to ld.so than below libc */
	assert_int_equal(gap_of(&maps, 0x7ffff7fc0000, 0x7ffff7fff000, MIB), 0x7ffff7fc0000 - MIB);
	assert_int_equal(gap_of(&maps, 0x7ffff7fc0000, 0x7ffff7fff000, 3 * MIB),
			 0x7ffff7c00000 - 3 * MIB);
	/* sizes are rounded to pages */
	assert_int_equal(gap_of(&maps, 0x7ffff7c00000, 0x7ffff7e00000, 5000),
			 0x7ffff7c00000 - 8192);
}

/* Not position independent: a little room below, and the heap's way above. */
static const struct row fixed[] = {
	{ 0x400000, 0x600000, "/bin/program", 7 },
	{ 0x601000, 0x602000, "/bin/program", 7 },
	{ 0x1000000, 0x2000000, "[heap]", 0 },
	{ 0x7ffff7c00000, 0x7ffff7e00000, "/lib/libc.so.6", 8 },
	{ 0x7ffffffde000, 0x7ffffffff000, "[stack]", 0 },
};

static void test_fixed(void **state)
{
	struct maps maps = MAPS(fixed);

	assert_int_equal(gap_of(&maps, 0x400000, 0x602000, MIB), 0x400000 - MIB);
	assert_int_equal(gap_of(&maps, 0x400000, 0x602000, 0x400000 - 0x10000), 0x10000);
	/* doesn't fit below: between the program and its heap */
	assert_int_equal(gap_of(&maps, 0x400000, 0x602000, 8 * MIB), 0x602000);

	/* nor there: far behind the heap, as far as rel32 reaches */
	uint64_t at = gap_of(&maps, 0x400000, 0x602000, 64 * MIB);

	assert_int_equal(at, 0x400000 + 2 * GIB - 4096 - 64 * MIB);
	assert_true(at >= 0x2000000 + 512 * MIB);
}

static void test_fixed_large_heap(void **state)
{
	struct row rows[5];

	memcpy(rows, fixed, sizeof(rows));
	rows[2].end = 0x60000000; /* 1.5 GiB: less than 512 MiB are left in reach */

	struct maps maps = MAPS(rows);

	no_gap(&maps, 0x400000, 0x602000, 64 * MIB, "65536 KiB");
	assert_int_equal(gap_of(&maps, 0x400000, 0x602000, MIB), 0x400000 - MIB);
}

/* At the first instruction there is no heap yet; it will be somewhere behind the program. */
static void test_no_heap_yet(void **state)
{
	static const struct row rows[] = {
		{ 0x400000, 0x600000, "/bin/program", 7 },
		{ 0x601000, 0x602000, "/bin/program", 7 },
		{ 0x602000, 0x700000, "", 0 },
		{ 0x7ffff7fc0000, 0x7ffff7fff000, "/lib/ld.so", 9 },
		{ 0x7ffffffde000, 0x7ffffffff000, "[stack]", 0 },
	};
	struct maps maps = MAPS(rows);

	assert_int_equal(gap_of(&maps, 0x400000, 0x700000, 64 * MIB),
			 0x400000 + 2 * GIB - 4096 - 64 * MIB);
	assert_true(0x400000 + 2 * GIB - 4096 - 64 * MIB > 0x700000 + GIB + 512 * MIB);
	no_gap(&maps, 0x400000, 0x700000, GIB, "2 GiB");
}

/* Right under the stack, with libraries packed below: the stack keeps its room to grow. */
static void test_stack(void **state)
{
	static struct row rows[] = {
		{ 0x7fff00000000 - 3 * GIB, 0x7fff00000000, "/lib/huge", 8 },
		{ 0x7fff00000000, 0x7fff00100000, "/lib/libc.so.6", 9 },
		{ 0x7fff10000000, 0x7fff10021000, "[stack]", 0 },
	};
	struct maps maps = MAPS(rows);

	assert_int_equal(gap_of(&maps, 0x7fff00000000, 0x7fff00100000, MIB), 0x7fff00100000);
	assert_int_equal(gap_of(&maps, 0x7fff00000000, 0x7fff00100000, 127 * MIB), 0x7fff00100000);
	/* more than that would come within 128 MiB of the stack: behind the stack instead */
	assert_int_equal(gap_of(&maps, 0x7fff00000000, 0x7fff00100000, 128 * MIB), 0x7fff10021000);
}

static void test_ends_of_reach(void **state)
{
	/* only one place is left, exactly as far as is allowed, and then one page further */
	static struct row rows[] = {
		{ 0x100000000000, 0x100000000000, "", 0 },
		{ 0x200000000000, 0x200000100000, "/lib/libc.so.6", 9 },
	};
	uint64_t low = 0x200000000000, high = 0x200000100000;

	rows[0].start = 0x10000;
	rows[0].end = high - 2 * GIB + 4096; /* the first byte in reach */
	rows[1].end = low + 3 * GIB;

	struct maps maps = MAPS(rows);

	assert_int_equal(gap_of(&maps, low, high, 2 * GIB - 4096 - MIB), rows[0].end);
	no_gap(&maps, low, high, 2 * GIB - MIB, "no free");
	rows[0].end = low;
	maps = MAPS(rows);
	no_gap(&maps, low, high, 4096, "no free 4 KiB");
	no_gap(&maps, low, low + 2 * GIB, 4096, "too large");
}

static void test_nothing_mapped(void **state)
{
	struct maps maps = { 0 };

	assert_int_equal(gap_of(&maps, 0x400000, 0x401000, MIB), 0x400000 - MIB);
	assert_int_equal(gap_of(&maps, 0x7ffff7000000, 0x7ffff7001000, MIB), 0x7ffff7000000 - MIB);
}

/* ---- pieces --------------------------------------------------------------------------------- */

static void test_pool_exact(void **state)
{
	struct near_pool *pool = near_pool_create();
	taddr low = taddr_of(0x400000), high = taddr_of(0x500000);
	struct near_piece a, b, c;

	assert_false(near_pool_alloc(pool, low, high, 16, &a));
	assert_true(near_pool_add(pool, taddr_of(0x300000), 0x10000, 4096));
	assert_true(near_pool_alloc(pool, low, high, 100, &a));
	assert_int_equal(a.at.v, 0x300000);
	assert_int_equal(a.offset, 0x10000);
	assert_int_equal(a.size, 112);
	assert_true(near_pool_alloc(pool, low, high, 1, &b));
	assert_int_equal(b.at.v, 0x300070);
	assert_int_equal(b.offset, 0x10070);
	assert_int_equal(near_pool_used(pool), 128);
	near_pool_trim(pool, &a, 33);
	assert_int_equal(a.size, 48);
	assert_int_equal(near_pool_used(pool), 64);
	assert_true(near_pool_alloc(pool, low, high, 64, &c)); /* where a was */
	assert_int_equal(c.at.v, 0x300030);
	assert_false(near_pool_alloc(pool, low, high, 4096 - 128 + 1, &a));
	assert_true(near_pool_alloc(pool, low, high, 4096 - 128, &a));
	assert_false(near_pool_alloc(pool, low, high, 1, &b));
	near_pool_free(pool, a);
	near_pool_free(pool, c);
	assert_int_equal(near_pool_used(pool), 64);
	assert_false(near_pool_alloc(pool, low, high, 0, &a));
	near_pool_destroy(pool);
}

/* Only what is in reach is handed out, also when only a part of a window is. */
static void test_pool_reach(void **state)
{
	struct near_pool *pool = near_pool_create();
	uint64_t far = 0x400000 + 2 * GIB - 8192; /* its upper half is out of reach */
	struct near_piece piece;

	assert_true(near_pool_add(pool, taddr_of(0x700000000000), 0, MIB));
	assert_false(near_pool_alloc(pool, taddr_of(0x400000), taddr_of(0x500000), 16, &piece));
	assert_true(near_pool_alloc(pool, taddr_of(0x700010000000), taddr_of(0x700020000000), 16,
				    &piece));
	assert_int_equal(piece.at.v, 0x700000000000);
	assert_true(near_pool_add(pool, taddr_of(far), MIB, 16384));
	assert_false(
		near_pool_alloc(pool, taddr_of(0x400000), taddr_of(0x500000), 4096 + 16, &piece));
	assert_true(near_pool_alloc(pool, taddr_of(0x400000), taddr_of(0x500000), 4096, &piece));
	assert_int_equal(piece.at.v, far);
	assert_false(near_pool_alloc(pool, taddr_of(0x400000), taddr_of(0x500000), 16, &piece));
	/* what was full for one is not for another */
	assert_true(near_pool_alloc(pool, taddr_of(far), taddr_of(far + 4096), 12288, &piece));
	assert_int_equal(piece.at.v, far + 4096);
	assert_int_equal(piece.offset, MIB + 4096);
	near_pool_destroy(pool);
}

#define MODEL_WINDOWS 3
#define MODEL_SIZE (256u << 10)
#define MODEL_PIECES 20000

struct model {
	uint8_t owned[MODEL_WINDOWS][MODEL_SIZE / 16];
	struct near_piece pieces[MODEL_PIECES];
	size_t count;
	uint64_t used;
};

static uint64_t window_at(size_t i)
{
	return 0x10000000ULL + i * 0x1000000ULL;
}

static void model_mark(struct model *m, struct near_piece piece, uint32_t from, bool take)
{
	size_t w = (size_t)((piece.at.v - 0x10000000) / 0x1000000);

	assert_true(w < MODEL_WINDOWS && piece.at.v % 16 == 0 && piece.size % 16 == 0);
	assert_int_equal(piece.offset, w * MODEL_SIZE + (piece.at.v - window_at(w)));
	for (uint64_t a = piece.at.v + from; a < piece.at.v + piece.size; a += 16) {
		uint8_t *bit = &m->owned[w][(a - window_at(w)) / 16];

		assert_true(a < window_at(w) + MODEL_SIZE);
		assert_int_equal(*bit, !take);
		*bit = take;
		m->used += take ? 16 : (uint64_t)-16;
	}
}

/* The longest free run of the model, to judge refusals. */
static uint32_t model_longest(const struct model *m)
{
	uint32_t longest = 0;

	for (size_t w = 0; w < MODEL_WINDOWS; w++) {
		uint32_t run = 0;

		for (size_t i = 0; i < MODEL_SIZE / 16; i++) {
			run = m->owned[w][i] ? 0 : run + 16;
			longest = run > longest ? run : longest;
		}
	}
	return longest;
}

static void model_alloc(struct model *m, struct near_pool *pool, uint32_t size)
{
	struct near_piece piece;

	if (m->count == MODEL_PIECES)
		return;
	if (!near_pool_alloc(pool, taddr_of(0x20000000), taddr_of(0x20001000), size, &piece)) {
		assert_true(model_longest(m) < size);
		return;
	}
	assert_true(piece.size >= size && piece.size < size + 16);
	model_mark(m, piece, 0, true);
	m->pieces[m->count++] = piece;
}

static void model_free(struct model *m, struct near_pool *pool, size_t index)
{
	model_mark(m, m->pieces[index], 0, false);
	near_pool_free(pool, m->pieces[index]);
	m->pieces[index] = m->pieces[--m->count];
}

static void model_trim(struct model *m, struct near_pool *pool, size_t index, uint32_t size)
{
	struct near_piece *piece = &m->pieces[index];
	uint32_t kept = (size + 15) / 16 * 16;

	if (kept < piece->size)
		model_mark(m, *piece, kept, false);
	near_pool_trim(pool, piece, size);
	assert_true(piece->size <= kept || piece->size < size);
}

/* (U1, U2) Random allocations, trims and frees against a model of all windows. */
static void test_pool_model(void **state)
{
	static struct model m;
	struct near_pool *pool = near_pool_create();

	srand48(4711);
	for (size_t i = 0; i < MODEL_WINDOWS; i++)
		assert_true(
			near_pool_add(pool, taddr_of(window_at(i)), i * MODEL_SIZE, MODEL_SIZE));
	for (int step = 0; step < 60000; step++) {
		long what = lrand48() % 10;
		uint32_t size = (uint32_t)(lrand48() % (step % 7 == 0 ? 4096 : 300) + 1);

		if (what < 5 || m.count == 0)
			model_alloc(&m, pool, size);
		else if (what < 8)
			model_free(&m, pool, (size_t)lrand48() % m.count);
		else
			model_trim(&m, pool, (size_t)lrand48() % m.count, size);
		assert_int_equal(near_pool_used(pool), m.used);
	}
	while (m.count)
		model_free(&m, pool, m.count / 2);
	assert_int_equal(near_pool_used(pool), 0);
	for (size_t i = 0; i < MODEL_WINDOWS; i++) /* all joined up again */
		model_alloc(&m, pool, MODEL_SIZE);
	assert_int_equal(m.count, MODEL_WINDOWS);
	near_pool_destroy(pool);
}

/* As a batch does it: reserve much, keep little, 20,000 times; then free every other one and
 * refill. */
static void test_pool_many(void **state)
{
	static struct near_piece pieces[20000];
	struct near_pool *pool = near_pool_create();
	taddr low = taddr_of(0x20000000), high = taddr_of(0x20100000);

	assert_true(near_pool_add(pool, taddr_of(0x10000000), 0, 8 * MIB));
	for (size_t i = 0; i < 20000; i++) {
		assert_true(near_pool_alloc(pool, low, high, 2048, &pieces[i]));
		near_pool_trim(pool, &pieces[i], 208);
		assert_int_equal(pieces[i].at.v, 0x10000000 + i * 208);
	}
	for (size_t i = 0; i < 20000; i += 2)
		near_pool_free(pool, pieces[i]);
	for (size_t i = 0; i < 20000; i += 2) {
		assert_true(near_pool_alloc(pool, low, high, 208, &pieces[i]));
		assert_int_equal(pieces[i].at.v, 0x10000000 + i * 208);
	}
	assert_int_equal(near_pool_used(pool), 20000 * 208);
	near_pool_destroy(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pie),
		cmocka_unit_test(test_fixed),
		cmocka_unit_test(test_fixed_large_heap),
		cmocka_unit_test(test_no_heap_yet),
		cmocka_unit_test(test_stack),
		cmocka_unit_test(test_ends_of_reach),
		cmocka_unit_test(test_nothing_mapped),
		cmocka_unit_test(test_pool_exact),
		cmocka_unit_test(test_pool_reach),
		cmocka_unit_test(test_pool_model),
		cmocka_unit_test(test_pool_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
