#include "counts.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "control/record/histogram.h"

#define ROWS_MAX 1024u
/* Bytes of address space; only touched pages take memory. More than AREA_MAX for one row alone:
 * more rows than that take memory for each processor. */
#define AREA_MAX (1ULL << 30)
#define ROW_MAX (1ULL << 34)
#define ROW_MIN 65536u
#define DURATION_MAX (1ULL << 63)
#define PLAIN_SIZE sizeof(uint64_t)
#define TIMED_SIZE DT_ROUND_UP(sizeof(struct dt_cell), 64)

static uint64_t round_to_power(uint64_t n)
{
	uint64_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

static uint64_t row_bytes(size_t plain, size_t timed)
{
	return plain * PLAIN_SIZE + timed * TIMED_SIZE + 64;
}

/* One row per CPU, or as many as fit: CPUs may share a row, since additions are locked. */
static uint32_t choose_rows(uint64_t row_size)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	uint64_t rows = round_to_power(cpus > 0 ? (uint64_t)cpus : 1);

	while (rows > 1 && (rows > ROWS_MAX || rows * row_size > AREA_MAX))
		rows /= 2;
	return (uint32_t)rows;
}

struct error *counts_map(struct counts *counts, struct stop *stop, struct agent *agent,
			 size_t plain, size_t timed, uint64_t keyed)
{
	uint64_t need = row_bytes(plain, timed) + keyed;

	const struct counts_area *last = counts->areas.count ? vec_last(&counts->areas) : NULL;
	struct counts_area area = { .row_size = round_to_power(need) };
	void *here;

	if (!plain && !timed && !keyed)
		return NULL;
	if (last && last->row_size - last->used >= need)
		return NULL;
	if (area.row_size < ROW_MIN)
		area.row_size = ROW_MIN;
	area.rows = choose_rows(area.row_size);
	if (area.row_size > AREA_MAX && keyed)
		return error_new(ERROR_FAILED,
				 "so many keys need %" PRIu64 " MiB of memory (lower --keys)",
				 need >> 20);
	if (area.row_size > ROW_MAX)
		return error_new(ERROR_FAILED,
				 "%zu counting tracepoints at once are too many (name fewer)",
				 plain + timed);
	if (!vec_reserve(&counts->areas, 1))
		return error_new(ERROR_FAILED, "out of memory");
	assert((area.rows & (area.rows - 1)) == 0 && (area.row_size & (area.row_size - 1)) == 0);
	struct error *error = agent_share(stop, agent, "dyntrace-counts",
					  area.row_size * area.rows, &here, &area.there, &area.fd);
	if (error)
		return error;
	area.here = here;
	counts->areas.items[counts->areas.count++] = area;
	return NULL;
}

bool counts_take(struct counts *counts, bool has_times, struct counts_cell *ret_cell,
		 struct tramp_count *ret_count)
{
	struct counts_area *area = counts->areas.count ? vec_last(&counts->areas) : NULL;
	uint64_t size = has_times ? TIMED_SIZE : PLAIN_SIZE;
	uint64_t at = area ? DT_ROUND_UP(area->used, has_times ? 64 : PLAIN_SIZE) : 0;

	if (!area || at + size > area->row_size)
		return false;
	area->used = at + size;
	*ret_cell = (struct counts_cell){ counts->areas.count - 1, at, has_times };
	*ret_count = counts_way(counts, ret_cell);
	return true;
}

bool counts_take_bytes(struct counts *counts, uint64_t size, struct counts_cell *ret_cell)
{
	struct counts_area *area = counts->areas.count ? vec_last(&counts->areas) : NULL;
	uint64_t at = area ? DT_ROUND_UP(area->used, DT_PAGE) : 0;

	if (!area || at > area->row_size || size > area->row_size - at)
		return false;
	area->used = at + size;
	*ret_cell = (struct counts_cell){ counts->areas.count - 1, at, false };
	return true;
}

struct tramp_count counts_way(const struct counts *counts, const struct counts_cell *cell)
{
	const struct counts_area *area = &counts->areas.items[cell->area];

	assert(cell->area < counts->areas.count && cell->offset < area->used);
	return (struct tramp_count){ .cell = taddr_add(area->there, (int64_t)cell->offset),
				     .row_shift = (uint8_t)__builtin_ctzll(area->row_size),
				     .row_mask = (uint16_t)(area->rows - 1) };
}

/* Has the page with the cell's hits any memory? Reading it would give it some. */
static bool is_touched(const struct counts_area *area, uint64_t at)
{
	off_t page = (off_t)(at & ~(DT_PAGE - 1)), data = lseek(area->fd, page, SEEK_DATA);

	return data == page || (data < 0 && errno != ENXIO);
}

bool counts_are_touched(const struct counts *counts, const struct counts_cell *cell)
{
	const struct counts_area *area = &counts->areas.items[cell->area];

	for (uint32_t row = 0; row < area->rows; row++) {
		if (is_touched(area, row * area->row_size + cell->offset))
			return true;
	}
	return false;
}

uint64_t counts_hits(const struct counts *counts, const struct counts_cell *cell)
{
	const struct counts_area *area = &counts->areas.items[cell->area];
	uint64_t hits = 0;

	assert(cell->area < counts->areas.count && cell->offset < area->used);
	for (uint32_t row = 0; row < area->rows; row++) {
		const struct dt_cell *at =
			(const void *)(area->here + row * area->row_size + cell->offset);

		hits += __atomic_load_n(&at->hits, __ATOMIC_RELAXED);
	}
	return hits;
}

/* Adds one row's part; the target writes there meanwhile. */
static void add_row(const struct dt_cell *cell, struct dt_cell *words)
{
	uint64_t max = __atomic_load_n(&cell->max, __ATOMIC_RELAXED);
	uint64_t pending = __atomic_load_n(&cell->pending, __ATOMIC_RELAXED);

	words->total += __atomic_load_n(&cell->total, __ATOMIC_RELAXED);
	words->again += __atomic_load_n(&cell->again, __ATOMIC_RELAXED);
	words->inside += __atomic_load_n(&cell->inside, __ATOMIC_RELAXED);
	words->max = max > words->max ? max : words->max;
	if (pending && pending <= DURATION_MAX) {
		words->buckets[histogram_bucket(pending - 1, DT_BUCKET_BITS)]++;
		words->max = pending - 1 > words->max ? pending - 1 : words->max;
	}
	for (uint32_t i = 0; i < DT_BUCKETS; i++)
		words->buckets[i] += __atomic_load_n(&cell->buckets[i], __ATOMIC_RELAXED);
}

/* Fills in the quantiles; the rest is there. */
static void find_quantiles(struct counts_sum *sum, const uint64_t *buckets)
{
	struct histogram histogram = { DT_BUCKET_BITS, buckets, DT_BUCKETS, sum->exits, sum->max };

	sum->p50 = histogram_quantile(&histogram, 0.50);
	sum->p90 = histogram_quantile(&histogram, 0.90);
	sum->p99 = histogram_quantile(&histogram, 0.99);
}

void counts_gather(const struct counts *counts, const struct counts_cell *cell,
		   struct dt_cell *words)
{
	const struct counts_area *area = &counts->areas.items[cell->area];

	assert(cell->area < counts->areas.count && cell->offset < area->used);
	for (uint32_t row = 0; row < area->rows; row++) {
		uint64_t offset = row * area->row_size + cell->offset;
		const struct dt_cell *at = (const void *)(area->here + offset);

		/* an unused cell has no memory, and reading its buckets would give it some */
		if (cell->has_times && !is_touched(area, offset))
			continue;
		if (cell->has_times && (at->hits || at->total || at->pending))
			add_row(at, words);
		/* after the exits: hits must not be fewer */
		words->hits += __atomic_load_n(&at->hits, __ATOMIC_ACQUIRE);
	}
}

void counts_sum_up(const struct dt_cell *words, bool has_times, struct counts_sum *ret_sum)
{
	*ret_sum = (struct counts_sum){ .hits = words->hits };
	/* of thousands of functions most are never called: their buckets are empty */
	if (!has_times || !(words->hits | words->total | words->again | words->max))
		return;
	ret_sum->total = words->total;
	ret_sum->durations = words->total + words->again;
	ret_sum->inside = words->inside;
	ret_sum->max = words->max;
	for (uint32_t i = 0; i < DT_BUCKETS; i++)
		ret_sum->exits += words->buckets[i];
	find_quantiles(ret_sum, words->buckets);
}

void counts_read(const struct counts *counts, const struct counts_cell *cell,
		 struct counts_sum *ret_sum)
{
	struct dt_cell words;

	if (cell->has_times && !counts_are_touched(counts, cell)) {
		*ret_sum = (struct counts_sum){ 0 };
		return;
	}
	memset(&words, 0, cell->has_times ? sizeof(words) : PLAIN_SIZE);
	counts_gather(counts, cell, &words);
	counts_sum_up(&words, cell->has_times, ret_sum);
}

/* ---- cells of another controller ------------------------------------------------------------- */

/* Skips the histogram of an unused row: it has no memory yet, and reading would allocate some. */
static struct error *collect_times(struct proc *proc, taddr at, const struct dt_cell *head,
				   struct dt_cell *words)
{
	const size_t buckets_at = offsetof(struct dt_cell, buckets);
	struct dt_cell row;
	struct error *error;

	if (!head->hits && !head->total && !head->pending)
		return NULL;
	error = mem_read(proc, taddr_add(at, (int64_t)buckets_at), row.buckets,
			 sizeof(row.buckets));
	if (error)
		return error;
	for (uint32_t i = 0; i < DT_BUCKETS; i++)
		words->buckets[i] += row.buckets[i];
	words->total += head->total;
	words->again += head->again;
	words->inside += head->inside;
	words->max = head->max > words->max ? head->max : words->max;
	if (!head->pending || head->pending > DURATION_MAX)
		return NULL;
	words->buckets[histogram_bucket(head->pending - 1, DT_BUCKET_BITS)]++;
	words->max = head->pending - 1 > words->max ? head->pending - 1 : words->max;
	return NULL;
}

struct error *counts_collect(struct proc *proc, const struct dt_counted *from,
			     struct dt_cell *words)
{
	bool has_times = from->form == DT_COUNTED_TIMES;
	const size_t head_size = has_times ? offsetof(struct dt_cell, buckets) : PLAIN_SIZE;
	struct error *error = NULL;

	memset(words, 0, has_times ? sizeof(*words) : PLAIN_SIZE);
	for (uint64_t row = 0; row <= from->row_mask && row < ROWS_MAX && !error; row++) {
		taddr at = taddr_of(from->cell + (row << (from->row_shift & 63)));
		struct dt_cell head;

		error = mem_read(proc, at, &head, head_size);
		if (!error)
			words->hits += head.hits;
		if (!error && has_times)
			error = collect_times(proc, at, &head, words);
	}
	return error;
}

static void add_word(uint64_t *word, uint64_t n)
{
	if (n)
		__atomic_fetch_add(word, n, __ATOMIC_RELAXED);
}

void counts_add(struct counts *counts, const struct counts_cell *cell, const struct dt_cell *words)
{
	struct dt_cell *first = (void *)(counts->areas.items[cell->area].here + cell->offset);
	uint64_t max;

	assert(cell->area < counts->areas.count);
	add_word(&first->hits, words->hits);
	if (!cell->has_times)
		return;
	add_word(&first->total, words->total);
	add_word(&first->again, words->again);
	add_word(&first->inside, words->inside);
	for (uint32_t i = 0; i < DT_BUCKETS; i++)
		add_word(&first->buckets[i], words->buckets[i]);
	max = words->max ? __atomic_load_n(&first->max, __ATOMIC_RELAXED) : 0;
	while (max < words->max &&
	       !__atomic_compare_exchange_n(&first->max, &max, words->max, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

void counts_free(struct counts *counts)
{
	vec_free(&counts->areas);
}
