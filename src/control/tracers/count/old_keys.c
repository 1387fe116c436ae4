#include "old_keys.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/record/histogram.h"
#include "shared/key_find.h"

#define ROWS_MAX 65536u
#define WORD(field) (offsetof(struct dt_key_cell, field) / sizeof(uint64_t))
#define DURATION_MAX (1ULL << 63)

void old_keys_free(struct old_keys *keys)
{
	for (size_t i = 0; i < keys->items.count; i++) {
		free(keys->items.items[i].text);
		vec_free(&keys->items.items[i].words);
	}
	vec_free(&keys->items);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct source {
	struct proc *proc;
	const struct dt_counted *from;
	struct dt_key_table table; /* its head */
	uint64_t *words, *sum; /* of one cell: of a row, of all rows */
};

static taddr cell_at(const struct source *source, uint64_t row, uint32_t index)
{
	const struct dt_counted *from = source->from;

	return taddr_of(from->cell + source->table.size + (row << (from->row_shift & 63)) +
			(uint64_t)index * source->table.stride);
}

/* A duration that its cell's next one would have moved to a bucket. */
static void settle_pending(uint64_t *words)
{
	uint64_t pending = words[WORD(pending)];

	words[WORD(pending)] = 0;
	if (!pending || pending > DURATION_MAX)
		return;
	words[WORD(buckets) + histogram_bucket(pending - 1, DT_KEY_BUCKET_BITS)]++;
	if (pending - 1 > words[WORD(max)])
		words[WORD(max)] = pending - 1;
}

static bool is_largest(uint32_t word)
{
	return word == WORD(max) || word == WORD(pending);
}

/* An unused cell has no memory yet, and reading all of it would allocate some. */
static struct error *add_row(struct source *source, uint64_t row, uint32_t index)
{
	size_t count = source->table.stride / sizeof(uint64_t);
	size_t head = count < WORD(buckets) ? count : WORD(buckets);
	taddr at = cell_at(source, row, index);
	struct error *error = mem_read(source->proc, at, source->words, head * sizeof(uint64_t));
	uint64_t any = 0;

	for (size_t i = 0; !error && i < head; i++)
		any |= source->words[i];
	if (error || !any)
		return error;
	if (count > head)
		error = mem_read(source->proc, taddr_add(at, (int64_t)(head * sizeof(uint64_t))),
				 source->words + head, (count - head) * sizeof(uint64_t));
	if (error)
		return error;
	if (source->table.value == VALUE_DURATION)
		settle_pending(source->words);
	for (uint32_t i = 0; i < count; i++) {
		if (!is_largest(i))
			source->sum[i] += source->words[i];
		else if (source->words[i] > source->sum[i])
			source->sum[i] = source->words[i];
	}
	return NULL;
}

static struct error *read_name(struct source *source, uint32_t index, struct old_key *key)
{
	const struct dt_key_table *table = &source->table;
	struct dt_key named;
	taddr at = taddr_of(source->from->cell + dt_keys_offset(table->bits) +
			    (uint64_t)index * sizeof(named));
	struct error *error = mem_read(source->proc, at, &named, sizeof(named));

	if (error)
		return error;
	key->number = named.number;
	if (!named.size || named.text > table->size || named.size > table->size - named.text)
		return NULL;
	key->text = malloc(named.size);
	if (!key->text)
		return error_new(ERROR_FAILED, "out of memory");
	key->size = named.size;
	return mem_read(source->proc, taddr_of(source->from->cell + named.text), key->text,
			named.size);
}

static bool keep_words(const struct source *source, struct old_key *key)
{
	for (uint32_t i = 0; i < source->table.stride / sizeof(uint64_t); i++) {
		struct old_word word = { i, source->sum[i] };

		if (word.value && !vec_push(&key->words, word))
			return false;
	}
	return true;
}

static struct error *read_key(struct source *source, uint32_t index, struct old_keys *keys)
{
	struct old_key key = { .is_other = index == DT_KEY_OTHER };
	struct error *error = NULL;

	memset(source->sum, 0, source->table.stride);
	for (uint64_t row = 0; row <= source->from->row_mask && row < ROWS_MAX && !error; row++)
		error = add_row(source, row, index);
	if (!error && !keep_words(source, &key))
		error = error_new(ERROR_FAILED, "out of memory");
	if (!error && key.words.count && !key.is_other)
		error = read_name(source, index, &key);
	if (!error && key.words.count && vec_push(&keys->items, key))
		return NULL;
	if (!error && key.words.count)
		error = error_new(ERROR_FAILED, "out of memory");
	free(key.text);
	vec_free(&key.words);
	return error;
}

static bool is_sound(const struct dt_key_table *table)
{
	return table->bits < 32 && table->capacity && table->capacity <= DT_KEYS_MAX + 1 &&
	       table->stride && table->stride % sizeof(uint64_t) == 0 &&
	       table->stride <= sizeof(struct dt_key_cell) + 64 &&
	       (table->stride == sizeof(uint64_t) || table->value != VALUE_NONE) &&
	       (table->value != VALUE_DURATION ||
		table->stride >= (WORD(buckets) + DT_KEY_BUCKETS) * sizeof(uint64_t));
}

struct error *old_keys_collect(struct proc *proc, const struct dt_counted *from,
			       struct old_keys *ret_keys)
{
	struct source source = { .proc = proc, .from = from };
	struct old_keys keys = { 0 };
	struct error *error =
		mem_read(proc, taddr_of(from->cell), &source.table, sizeof(source.table));

	if (error)
		return error;
	if (!is_sound(&source.table))
		return error_new(ERROR_FAILED, "the table of keys is damaged");
	_cleanup_free_ uint64_t *words = calloc(2, source.table.stride);
	if (!words)
		return error_new(ERROR_FAILED, "out of memory");
	source.words = words;
	source.sum = words + source.table.stride / sizeof(uint64_t);
	keys.question = source.table.question;
	keys.stride = source.table.stride;
	keys.value = source.table.value;
	uint32_t used = source.table.used;
	for (uint32_t i = 0; i < used && i < source.table.capacity && !error; i++)
		error = read_key(&source, i, &keys);
	if (error)
		old_keys_free(&keys);
	else
		*ret_keys = keys;
	return error;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static void add_word(uint64_t *at, const struct old_word *word)
{
	uint64_t now = __atomic_load_n(at, __ATOMIC_RELAXED);

	if (!is_largest(word->at)) {
		__atomic_fetch_add(at, word->value, __ATOMIC_RELAXED);
		return;
	}
	while (now < word->value &&
	       !__atomic_compare_exchange_n(at, &now, word->value, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

void old_keys_add(struct counts *counts, const struct counts_cell *cell,
		  const struct count_keys *keys, const struct old_keys *old)
{
	const struct dt_key_shape shape = { keys->bits, keys->capacity, keys->table_size };
	uint8_t *first;

	assert(cell->area < counts->areas.count);
	if (old->question != keys->question || old->stride != keys->stride ||
	    old->value != (uint32_t)keys->value)
		return;
	first = counts->areas.items[cell->area].here;
	for (size_t i = 0; i < old->items.count; i++) {
		const struct old_key *key = &old->items.items[i];
		uint32_t index = key->is_other ?
					 DT_KEY_OTHER :
					 dt_key_find((struct dt_key_table *)(first + keys->table),
						     shape, key->number, key->text, key->size);
		uint64_t *words = (void *)(first + cell->offset + (uint64_t)index * keys->stride);

		assert(index < keys->capacity); /* A4 */
		for (size_t j = 0; j < key->words.count; j++)
			add_word(&words[key->words.items[j].at], &key->words.items[j]);
	}
}
