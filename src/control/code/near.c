/*
 * near.c - gaps and pieces.
 *
 * A gap lies between two mappings. Below the module is best: the heap of an ordinary program grows
 * upwards behind it, so the address space below stays unused. In a gap that the heap grows into,
 * near_find_gap takes the far end, and only if the heap keeps HEAP_ROOM (H17). Before the first brk
 * the list has no [heap] yet: it will start somewhere in the HEAP_RANDOM bytes after the
 * executable, which is the file mapped lowest. Below the stack STACK_ROOM stays free, the least
 * that the kernel itself keeps free there.
 *
 * A piece is part of a window. A window is a bitmap with one bit per 16 bytes: freed pieces join
 * their neighbours by themselves, and a double free is noticed. `first` is where searches begin,
 * and `full_for` is a size known not to fit: so full windows cost nothing.
 *
 * (U1) first is the lowest clear bit of the window, or the number of its bits.
 * (U2) used = 16 * (bits set in all windows).
 */
#include "near.h"

#include <assert.h>
#include <string.h>

#include "shared/layout.h"
#include "control/base/cleanup.h"
#include "control/base/vec.h"

#define ADDRESS_MIN (64ULL << 10)
#define ADDRESS_MAX 0x7ffffffff000ULL
/* rel32 counts from the end of an instruction: a page less covers any length, at both ends. */
#define REACH ((1ULL << 31) - DT_PAGE)
#define HEAP_ROOM (512ULL << 20)
#define HEAP_RANDOM (1ULL << 30)
#define STACK_ROOM (128ULL << 20)

#define GRAIN NEAR_GRAIN

/* ---- gaps ----------------------------------------------------------------------------------- */

struct range {
	uint64_t low, high; /* [low, high) */
};

static uint64_t max64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The range whose addresses and [low, high) reach one another. */
static bool reach_of(taddr low, taddr high, struct range *ret_reach)
{
	if (high.v < low.v || high.v - low.v > REACH)
		return false;
	ret_reach->low = high.v > REACH ? high.v - REACH : 0;
	ret_reach->high = low.v + REACH;
	return true;
}

static bool is_named(const struct mapping *mapping, const char *name)
{
	return strcmp(mapping->path, name) == 0;
}

/*
 * The index of the mapping after which the heap lies or will lie; *ret_room: bytes to keep free
 * after it. maps->count: none.
 */
static size_t find_heap(const struct maps *maps, uint64_t *ret_room)
{
	size_t exe = maps->count, last = maps->count;

	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];

		if (is_named(m, "[heap]")) {
			*ret_room = HEAP_ROOM;
			return i;
		}
		if (exe == maps->count && m->inode)
			exe = i;
		if (exe != maps->count && m->inode == maps->items[exe].inode &&
		    m->device == maps->items[exe].device)
			last = i;
	}
	/* .bss follows the file's last page */
	while (last + 1 < maps->count && !*maps->items[last + 1].path &&
	       maps->items[last + 1].start.v == maps->items[last].end.v)
		last++;
	*ret_room = HEAP_RANDOM + HEAP_ROOM;
	return last;
}

/* The usable part of the gap between the mappings `index` - 1 and `index`. */
static struct range usable_gap(const struct maps *maps, size_t index, size_t heap,
			       uint64_t heap_room)
{
	struct range gap = { ADDRESS_MIN, ADDRESS_MAX };

	if (index > 0)
		gap.low = max64(gap.low, maps->items[index - 1].end.v);
	if (index > 0 && index - 1 == heap)
		gap.low += heap_room;
	if (index < maps->count) {
		gap.high = min64(gap.high, maps->items[index].start.v);
		if (is_named(&maps->items[index], "[stack]"))
			gap.high -= min64(gap.high, STACK_ROOM);
	}
	return gap;
}

/* Cuts the gap down to its part in `reach`, page aligned. False: `size` bytes don't fit. */
static bool clip(struct range *gap, struct range reach, uint64_t size)
{
	gap->low = DT_ROUND_UP(max64(gap->low, reach.low), DT_PAGE);
	gap->high = min64(gap->high, reach.high) & ~(DT_PAGE - 1);
	return gap->high > gap->low && gap->high - gap->low >= size;
}

struct error *near_find_gap(const struct maps *maps, taddr low, taddr high, uint64_t size,
			    taddr *ret_at)
{
	struct range reach;
	uint64_t heap_room, above = 0;
	size_t heap = find_heap(maps, &heap_room);

	size = DT_ROUND_UP(size, DT_PAGE);
	if (!reach_of(low, high, &reach))
		return error_new(ERROR_REFUSED,
				 "0x%lx-0x%lx is too large to be reached from one place", low.v,
				 high.v);
	/* downwards: the first gap that ends below the module is the nearest */
	for (size_t i = maps->count + 1; i-- > 0;) {
		struct range gap = usable_gap(maps, i, heap, heap_room);
		struct range lower = { gap.low, min64(gap.high, low.v) };

		if (clip(&lower, reach, size)) {
			*ret_at = taddr_of(lower.high - size);
			return NULL;
		}
		gap.low = max64(gap.low, low.v);
		if (clip(&gap, reach, size)) /* the last one found is the nearest above */
			above = i > 0 && i - 1 == heap ? gap.high - size : gap.low;
	}
	if (!above)
		return error_new(ERROR_REFUSED,
				 "no free %lu KiB of address space within 2 GiB of 0x%lx-0x%lx",
				 size >> 10, low.v, high.v);
	*ret_at = taddr_of(above);
	return NULL;
}

struct error *near_find_lone(const struct proc *proc, taddr at, uint64_t size, taddr *ret_at)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	taddr gap;
	struct error *error = maps_read(proc, &maps);

	if (!error)
		error = near_find_gap(&maps, at, at, size + 2 * DT_PAGE, &gap);
	if (!error)
		*ret_at = taddr_add(gap, DT_PAGE);
	return error;
}

bool near_find_in(const struct maps *maps, taddr low, taddr high, uint64_t size, bool keep_heap,
		  taddr *ret_at)
{
	uint64_t heap_room;
	size_t heap = find_heap(maps, &heap_room);

	if (!keep_heap)
		heap_room = 0;
	for (size_t i = 0; i <= maps->count; i++) {
		struct range gap = usable_gap(maps, i, heap, heap_room);

		/* whole pages will be mapped */
		gap.low = max64(DT_ROUND_UP(gap.low, DT_PAGE), low.v);
		gap.high = min64(gap.high & ~(DT_PAGE - 1), high.v);
		if (gap.high > gap.low && gap.high - gap.low >= size) {
			*ret_at = taddr_of(gap.low);
			return true;
		}
	}
	return false;
}

/* ---- pieces --------------------------------------------------------------------------------- */

struct window {
	taddr at;
	uint64_t offset;
	size_t bits;
	uint64_t *map; /* a set bit: 16 bytes in use */
	size_t first; /* (U1) */
	bool fixed; /* near_pool_add_fixed */
	size_t full_for; /* the window has no run of so many free bits; SIZE_MAX: unknown */
};

struct near_pool {
	VEC(struct window) windows;
	VEC(struct near_shared) shared;
	uint64_t used; /* (U2) */
};

struct near_pool *near_pool_create(void)
{
	return calloc(1, sizeof(struct near_pool));
}

void near_pool_destroy(struct near_pool *pool)
{
	if (!pool)
		return;
	for (size_t i = 0; i < pool->windows.count; i++)
		free(pool->windows.items[i].map);
	vec_free(&pool->windows);
	vec_free(&pool->shared);
	free(pool);
}

uint64_t near_pool_used(const struct near_pool *pool)
{
	return pool->used;
}

static bool add_window(struct near_pool *pool, taddr at, uint64_t offset, uint64_t size, bool fixed)
{
	struct window window = { .at = at,
				 .offset = offset,
				 .bits = size / GRAIN,
				 .fixed = fixed,
				 .full_for = SIZE_MAX };

	assert(at.v % GRAIN == 0 && offset % GRAIN == 0);
	window.map = calloc(window.bits / 64 + 1, sizeof(*window.map));
	if (window.map && vec_push(&pool->windows, window))
		return true;
	free(window.map);
	return false;
}

bool near_pool_add(struct near_pool *pool, taddr at, uint64_t offset, uint64_t size)
{
	return add_window(pool, at, offset, size, false);
}

bool near_pool_add_fixed(struct near_pool *pool, taddr at, uint64_t offset, uint64_t size)
{
	return add_window(pool, at, offset, size, true);
}

/* The first bit of [from, to) that is set (or clear, with flip = ~0); `to`: none. */
static size_t next_bit(const uint64_t *map, size_t from, size_t to, uint64_t flip)
{
	size_t word = from / 64;
	uint64_t bits;

	if (from >= to)
		return to;
	bits = (map[word] ^ flip) & (~0ULL << from % 64);
	while (!bits) {
		if (++word * 64 >= to)
			return to;
		bits = map[word] ^ flip;
	}
	return min64(word * 64 + (size_t)__builtin_ctzll(bits), to);
}

static size_t next_set(const uint64_t *map, size_t from, size_t to)
{
	return next_bit(map, from, to, 0);
}

static size_t next_clear(const uint64_t *map, size_t from, size_t to)
{
	return next_bit(map, from, to, ~0ULL);
}

/* The start of n clear bits in [from, to); `to`: none. */
static size_t find_run(const struct window *w, size_t from, size_t to, size_t n)
{
	while (from < to) {
		from = next_clear(w->map, from, to);
		if (to - from < n)
			return to;

		size_t taken = next_set(w->map, from, from + n);

		if (taken == from + n)
			return from;
		from = taken;
	}
	return to;
}

static void flip_bits(struct window *w, size_t from, size_t n, bool set)
{
	assert(from + n <= w->bits);
	/* all bits must have the opposite value: else a double free, or an overlap */
	assert((set ? next_set(w->map, from, from + n) : next_clear(w->map, from, from + n)) ==
	       from + n);
	for (size_t i = from; i < from + n; i++)
		w->map[i / 64] ^= 1ULL << i % 64;
}

static void take_bits(struct near_pool *pool, struct window *w, size_t from, size_t n)
{
	flip_bits(w, from, n, true);
	pool->used += n * GRAIN;
	w->first = next_clear(w->map, w->first, w->bits); /* U1 */
}

static void give_bits(struct near_pool *pool, struct window *w, size_t from, size_t n)
{
	flip_bits(w, from, n, false);
	assert(pool->used >= n * GRAIN); /* U2 */
	pool->used -= n * GRAIN;
	w->first = min64(w->first, from); /* U1 */
	w->full_for = SIZE_MAX;
}

/* The bits of the window that lie in `reach`. */
static struct range bits_in(const struct window *w, struct range reach)
{
	uint64_t low = max64(w->at.v, reach.low),
		 high = min64(w->at.v + w->bits * GRAIN, reach.high);

	if (low >= high)
		return (struct range){ 0, 0 };
	return (struct range){ (low - w->at.v + GRAIN - 1) / GRAIN, (high - w->at.v) / GRAIN };
}

static bool alloc_in(struct near_pool *pool, struct window *w, struct range reach, size_t n,
		     struct near_piece *ret_piece)
{
	struct range bits = bits_in(w, reach);
	size_t found;

	if (n >= w->full_for)
		return false;
	assert(next_clear(w->map, w->first, w->bits) == w->first); /* U1 */
	found = find_run(w, max64(bits.low, w->first), bits.high, n);
	if (found >= bits.high) {
		if (bits.low == 0 && bits.high == w->bits)
			w->full_for = n;
		return false;
	}
	take_bits(pool, w, found, n);
	*ret_piece = (struct near_piece){ .at = taddr_add(w->at, (int64_t)(found * GRAIN)),
					  .offset = w->offset + found * GRAIN,
					  .size = (uint32_t)(n * GRAIN) };
	return true;
}

static bool alloc(struct near_pool *pool, taddr low, taddr high, uint32_t size, bool fixed,
		  struct near_piece *ret_piece)
{
	size_t n = ((size_t)size + GRAIN - 1) / GRAIN;
	struct range reach;

	if (n == 0 || n * GRAIN > UINT32_MAX || !reach_of(low, high, &reach))
		return false;
	for (size_t i = 0; i < pool->windows.count; i++) {
		if (pool->windows.items[i].fixed == fixed &&
		    alloc_in(pool, &pool->windows.items[i], reach, n, ret_piece))
			return true;
	}
	return false;
}

bool near_pool_alloc(struct near_pool *pool, taddr low, taddr high, uint32_t size,
		     struct near_piece *ret_piece)
{
	return alloc(pool, low, high, size, false, ret_piece);
}

bool near_pool_alloc_anywhere(struct near_pool *pool, taddr low, taddr high, uint32_t size,
			      struct near_piece *ret_piece)
{
	return alloc(pool, low, high, size, false, ret_piece) ||
	       alloc(pool, low, high, size, true, ret_piece);
}

bool near_pool_share(struct near_pool *pool, uint32_t key, struct near_piece piece)
{
	return vec_push(&pool->shared, ((struct near_shared){ key, piece }));
}

const struct near_shared *near_pool_find_shared(const struct near_pool *pool, taddr low, taddr high,
						uint32_t key)
{
	struct range reach;

	if (!reach_of(low, high, &reach))
		return NULL;
	for (size_t i = 0; i < pool->shared.count; i++) {
		const struct near_shared *shared = &pool->shared.items[i];

		if (shared->key == key && shared->piece.at.v >= reach.low &&
		    shared->piece.at.v + shared->piece.size <= reach.high)
			return shared;
	}
	return NULL;
}

size_t near_pool_shared_count(const struct near_pool *pool)
{
	return pool->shared.count;
}

const struct near_shared *near_pool_shared(const struct near_pool *pool, size_t index)
{
	assert(index < pool->shared.count);
	return &pool->shared.items[index];
}

bool near_pool_has(const struct near_pool *pool, taddr at)
{
	for (size_t i = 0; i < pool->windows.count; i++) {
		const struct window *w = &pool->windows.items[i];

		if (taddr_within(at, w->at, taddr_add(w->at, (int64_t)(w->bits * GRAIN))))
			return true;
	}
	return false;
}

static struct window *window_of(struct near_pool *pool, struct near_piece piece)
{
	for (size_t i = 0; i < pool->windows.count; i++) {
		struct window *w = &pool->windows.items[i];

		if (taddr_within(piece.at, w->at, taddr_add(w->at, (int64_t)(w->bits * GRAIN))))
			return w;
	}
	assert(!"a piece of this pool");
	return NULL;
}

bool near_pool_alloc_at(struct near_pool *pool, taddr at, uint32_t size,
			struct near_piece *ret_piece)
{
	uint64_t start = at.v & ~(GRAIN - 1), end = DT_ROUND_UP(at.v + size, GRAIN);

	for (size_t i = 0; i < pool->windows.count; i++) {
		struct window *w = &pool->windows.items[i];
		size_t from = (start - w->at.v) / GRAIN, n = (end - start) / GRAIN;

		if (start < w->at.v || from + n > w->bits)
			continue;
		if (next_set(w->map, from, from + n) != from + n)
			return false;
		take_bits(pool, w, from, n);
		*ret_piece = (struct near_piece){ .at = taddr_of(start),
						  .offset = w->offset + from * GRAIN,
						  .size = (uint32_t)(n * GRAIN) };
		return true;
	}
	return false;
}

void near_pool_trim(struct near_pool *pool, struct near_piece *piece, uint32_t size)
{
	uint32_t kept = (uint32_t)DT_ROUND_UP((uint64_t)size, GRAIN);
	struct window *w = window_of(pool, *piece);

	if (!w || kept >= piece->size)
		return;
	give_bits(pool, w, (size_t)(piece->at.v + kept - w->at.v) / GRAIN,
		  (piece->size - kept) / GRAIN);
	piece->size = kept;
}

void near_pool_free(struct near_pool *pool, struct near_piece piece)
{
	near_pool_trim(pool, &piece, 0);
}
