#include "tracepoint_rows.h"

#include <stdlib.h>
#include <string.h>

bool tracepoint_rows_is_one(const struct wire_message *item)
{
	return wire_get_number(item, WIRE_ROW, WIRE_ROW_NONE) != WIRE_ROW_NONE;
}

static bool take_keys(const struct wire_message *item, struct count_row *row)
{
	uint64_t numbers = wire_get_number(item, WIRE_KEY_NUMBERS, 0);
	struct wire_value value;
	size_t count = 0;

	for (size_t at = 0; count < QUESTION_KEYS_MAX && wire_next(item, &at, &value);) {
		if (value.tag != WIRE_KEY)
			continue;
		row->names[count] = strdup(value.text);
		row->is_number[count] = numbers >> count & 1;
		if (!row->names[count++])
			return false;
	}
	return true;
}

static int64_t number_of(const struct wire_message *item, enum wire_tag tag)
{
	return (int64_t)wire_get_number(item, tag, 0);
}

/* Buckets come as middles: the sum, the smallest and the largest value come besides. */
static bool take_values(const struct wire_message *item, struct count_row *row)
{
	struct wire_value value;
	int64_t middle = 0;

	for (size_t at = 0; wire_next(item, &at, &value);) {
		if (value.tag == WIRE_BUCKET)
			middle = (int64_t)value.number;
		else if (value.tag == WIRE_BUCKET_COUNT &&
			 !distribution_add(&row->values, middle, value.number))
			return false;
	}
	row->total = number_of(item, WIRE_TOTAL);
	row->self = number_of(item, WIRE_SELF);
	row->values.sum = number_of(item, WIRE_DURATIONS);
	if (row->values.count) {
		row->values.min = number_of(item, WIRE_SHORTEST);
		row->values.max = number_of(item, WIRE_LONGEST);
	}
	return true;
}

struct error *tracepoint_rows_take(struct count_rows *rows, const struct wire_message *item)
{
	uint64_t values = wire_get_number(item, WIRE_VALUES, WIRE_VALUES_NONE);
	struct count_row row = { .hits = wire_get_number(item, WIRE_HITS, 0) };

	row.is_other = wire_get_number(item, WIRE_ROW, WIRE_ROW_NONE) == WIRE_ROW_OTHER;
	rows->has_values |= values != WIRE_VALUES_NONE;
	rows->is_time |= values == WIRE_VALUES_TIMES;
	if (take_keys(item, &row) && take_values(item, &row) && vec_push(&rows->rows, row))
		return NULL;
	for (size_t i = 0; i < QUESTION_KEYS_MAX; i++)
		free(row.names[i]);
	distribution_free(&row.values);
	return error_new(ERROR_FAILED, "out of memory");
}
