#include "count_keys.h"

#include <assert.h>
#include <string.h>

#include "control/event/question.h"
#include "control/record/histogram.h"
#include "control/session/state/session_state.h"
#include "shared/keys.h"

#define SLOTS_PER_KEY 4u
#define TEXTS_MAX (256u << 20)
#define HEAD_SIZE offsetof(struct dt_key_cell, buckets)
#define DURATION_MAX (1ULL << 63)

/* ---- layout ---------------------------------------------------------------------------------- */

static uint32_t stride_of(enum tramp_value value)
{
	size_t buckets = value == VALUE_NONE	 ? 0 :
			 value == VALUE_DURATION ? DT_KEY_BUCKETS :
						   2 * DT_KEY_BUCKETS;

	return buckets ? (uint32_t)DT_ROUND_UP(HEAD_SIZE + buckets * sizeof(uint64_t), 64) :
			 sizeof(uint64_t);
}

/* The most bytes of one key's text. */
static uint32_t text_room(const struct values *values)
{
	const struct dt_program *program =
		values->keys_at_exit ? values->exit_program : values->program;

	return program ? program->size_max : 0;
}

/* Keys of the same question mean the same, also to another controller. */
static uint64_t hash_question(const struct tracepoint_spec *spec)
{
	const char *words[] = { spec->by ? spec->by : "", spec->of ? spec->of : "" };
	uint64_t hash = spec->string_max;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = hash * DT_KEY_MULTIPLIER +
		       dt_bytes_hash((const uint8_t *)words[i], strlen(words[i]));
	return hash;
}

struct count_keys count_keys_of(const struct tracepoint *tracepoint)
{
	const struct values *values = &tracepoint->values;
	uint32_t wanted = tracepoint->request->spec.keys;
	struct count_keys keys = { 0 };
	uint64_t texts;

	if (!values->is_keyed)
		return keys;
	keys.capacity = (wanted ? wanted : QUESTION_KEYS_USUAL) + 1;
	assert(keys.capacity <= DT_KEYS_MAX + 1);
	while (1u << keys.bits < keys.capacity * SLOTS_PER_KEY)
		keys.bits++;
	keys.value = values->value;
	keys.question = hash_question(&tracepoint->request->spec);
	keys.stride = stride_of(keys.value);
	texts = (uint64_t)keys.capacity * text_room(values);
	if (texts > TEXTS_MAX)
		texts = TEXTS_MAX;
	texts += keys.capacity * sizeof(struct dt_key);
	keys.table_size = (uint32_t)DT_ROUND_UP(dt_keys_offset(keys.bits) + texts, DT_PAGE);
	return keys;
}

uint64_t count_keys_bytes(const struct count_keys *keys)
{
	return keys->capacity ? (uint64_t)keys->capacity * keys->stride + keys->table_size : 0;
}

static struct dt_key_table *table_of(const struct counts *counts, const struct counts_cell *cell,
				     const struct count_keys *keys)
{
	return (struct dt_key_table *)(counts->areas.items[cell->area].here + keys->table);
}

void count_keys_start(struct counts *counts, struct count_keys *keys, struct counts_cell *cell)
{
	struct dt_key_table *table;

	assert(cell->offset % DT_PAGE == 0); /* a program's word that looks like no operation */
	keys->table = cell->offset;
	table = table_of(counts, cell, keys);
	table->bits = keys->bits;
	table->capacity = keys->capacity;
	table->used = 1;
	table->size = keys->table_size;
	table->stride = keys->stride;
	table->value = (uint32_t)keys->value;
	table->question = keys->question;
	table->texts = (uint32_t)(dt_keys_offset(keys->bits) +
				  keys->capacity * sizeof(struct dt_key));
	cell->offset += keys->table_size;
}

void count_keys_way(const struct counts *counts, const struct counts_cell *cell,
		    const struct count_keys *keys, struct tramp_keys *ret_way)
{
	const struct counts_area *area = &counts->areas.items[cell->area];

	*ret_way = (struct tramp_keys){ .table = taddr_add(area->there, (int64_t)keys->table),
					.capacity = keys->capacity,
					.bits = keys->bits,
					.stride = keys->stride,
					.value = keys->value };
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A count of the target's; taken away, it is in this reading or in the next one, never in both. */
static uint64_t load(const struct count_keys *keys, uint64_t *word)
{
	uint64_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	return value && keys->takes ? __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL) : value;
}

static int64_t middle_of(uint32_t bucket)
{
	bool below = bucket >= DT_KEY_BUCKETS;
	uint64_t middle = histogram_middle(below ? bucket - DT_KEY_BUCKETS : bucket,
					   DT_KEY_BUCKET_BITS);

	return below ? -(int64_t)middle : (int64_t)middle;
}

/* Cycles as ns, if the values are times. */
static int64_t scale(const struct count_keys *keys, int64_t value)
{
	return keys->frequency ?
		       (int64_t)((__int128)value * 1000000000 / (__int128)keys->frequency) :
		       value;
}

static bool add_buckets(struct dt_key_cell *cell, const struct count_keys *keys,
			struct distribution *values)
{
	uint32_t count = keys->value != VALUE_DURATION ? 2 * DT_KEY_BUCKETS : DT_KEY_BUCKETS;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t n = load(keys, &cell->buckets[i]);

		if (n && !distribution_add(values, scale(keys, middle_of(i)), n))
			return false;
	}
	return true;
}

/* The smallest and the largest value as they were, and not the middles of their buckets. */
struct bounds {
	bool any;
	int64_t min, max;
};

static void widen(struct bounds *bounds, int64_t min, int64_t max)
{
	bounds->min = !bounds->any || min < bounds->min ? min : bounds->min;
	bounds->max = !bounds->any || max > bounds->max ? max : bounds->max;
	bounds->any = true;
}

static bool add_cell(struct dt_key_cell *cell, const struct count_keys *keys,
		     struct count_key *key, struct bounds *bounds)
{
	enum tramp_value value = keys->value;
	uint64_t max = load(keys, &cell->max), pending = load(keys, &cell->pending);
	uint64_t before = key->values.count;
	bool added = add_buckets(cell, keys, &key->values);

	key->total += load(keys, &cell->total);
	key->inside += load(keys, &cell->inside);
	if (value != VALUE_DURATION) {
		if (key->values.count > before)
			widen(bounds, (int64_t)(~pending ^ DT_KEY_SIGN),
			      (int64_t)(max ^ DT_KEY_SIGN));
		return added;
	}
	if (pending && pending <= DURATION_MAX) {
		added &= distribution_add(&key->values, scale(keys, (int64_t)pending - 1), 1);
		max = pending - 1 > max ? pending - 1 : max;
	}
	if (key->values.count > before)
		widen(bounds, bounds->any ? bounds->min : key->values.min, (int64_t)max);
	return added;
}

/* A key's part of all rows. */
static bool read_key(const struct counts_area *area, const struct counts_cell *cell,
		     const struct count_keys *keys, struct count_key *key)
{
	struct bounds bounds = { 0 };
	uint64_t again = 0;
	bool complete = true;

	for (uint32_t row = 0; row < area->rows; row++) {
		struct dt_key_cell *at =
			(void *)(area->here + row * area->row_size + cell->offset +
				       (uint64_t)key->index * keys->stride);
		uint64_t hits = load(keys, &at->hits);

		key->hits += hits;
		/* an unused cell has no memory yet, and reading it would allocate some */
		if (keys->value == VALUE_NONE || (!hits && !at->total && !at->pending))
			continue;
		complete &= add_cell(at, keys, key, &bounds);
		again += load(keys, &at->again);
	}
	key->values.sum = (int64_t)(key->total + again);
	if (bounds.any) {
		if (keys->value == VALUE_NUMBER)
			key->values.min = bounds.min;
		key->values.max = bounds.max;
	}
	return complete;
}

static void name_key(const struct dt_key_table *table, const struct count_keys *keys,
		     struct count_key *key)
{
	const struct dt_key *named = (const struct dt_key *)((const uint8_t *)table +
							     dt_keys_offset(keys->bits)) +
				     key->index;

	key->number = named->number;
	if (named->size && named->text < keys->table_size &&
	    named->size <= keys->table_size - named->text) {
		key->text = (const uint8_t *)table + named->text;
		key->size = named->size;
	}
}

bool count_keys_each(const struct counts *counts, const struct counts_cell *cell,
		     const struct count_keys *keys,
		     bool (*found)(void *context, struct count_key *key), void *context)
{
	const struct counts_area *area = &counts->areas.items[cell->area];
	const struct dt_key_table *table = table_of(counts, cell, keys);
	uint32_t used = __atomic_load_n(&table->used, __ATOMIC_ACQUIRE);
	bool more = true;

	assert(cell->area < counts->areas.count);
	if (used > keys->capacity)
		used = keys->capacity;
	for (uint32_t i = 1; i <= used && more; i++) {
		struct count_key key = { .index = i == used ? DT_KEY_OTHER : i };

		more = read_key(area, cell, keys, &key);
		if (key.index)
			name_key(table, keys, &key);
		assert(key.index < keys->capacity); /* A4 */
		if (more && (key.hits || key.values.count))
			more = found(context, &key);
		distribution_free(&key.values);
	}
	return more;
}

static bool sum_key(void *context, struct count_key *key)
{
	struct counts_sum *sum = context;

	sum->hits += key->hits;
	sum->exits += key->values.count;
	return true;
}

void count_keys_sum(const struct counts *counts, const struct counts_cell *cell,
		    const struct count_keys *keys, struct counts_sum *ret_sum)
{
	*ret_sum = (struct counts_sum){ 0 };
	count_keys_each(counts, cell, keys, sum_key, ret_sum);
}
