#include "answers.h"

#include <assert.h>
#include <string.h>

void answers_free(struct answers *answers)
{
	filters_free(&answers->filters);
}

enum filters_found answers_read(struct answers *answers, pid_t tid)
{
	struct filters filters;
	enum filters_found found = filters_read(tid, &filters);

	if (found != FILTERS_READ ||
	    (answers->generation && filters_equal(&filters, &answers->filters))) {
		filters_free(&filters);
		return found;
	}
	filters_free(&answers->filters);
	answers->filters = filters;
	answers->generation++;
	memset(answers->asked, 0, sizeof(answers->asked)); /* E4 */
	return FILTERS_READ;
}

/* Most filters decide by the number alone. With any arguments, from anywhere, nothing is stricter
 * than the answer (E2). */
static bool allow_number(const struct answers *answers, long number)
{
	static const uint64_t none[6];
	struct bpf_call call = fence_call(number, none, 0);

	call.unknown = BPF_UNKNOWN_RIP;
	for (unsigned i = 0; i < 6; i++)
		call.unknown |= BPF_UNKNOWN_ARG(i);
	return filters_is_allowed(filters_answer(&answers->filters, &call));
}

/* All rows of that number. */
static void note_allowed(struct answers *answers, long number)
{
	uint64_t args[6];

	for (size_t row = 0; row < fence_rows(); row++) {
		if (fence_row(row, args) != number)
			continue;
		answers->asked[row] = true;
		answers->rows[row] = SECCOMP_RET_ALLOW;
	}
}

uint32_t answers_ask(struct answers *answers, size_t row)
{
	uint64_t args[6];
	long number = fence_row(row, args);

	assert(answers->generation);
	if (!answers->asked[row] && allow_number(answers, number))
		note_allowed(answers, number);
	if (!answers->asked[row]) {
		struct bpf_call call = fence_row_call(row);

		answers->rows[row] = filters_answer(&answers->filters, &call);
		answers->asked[row] = true;
	}
	return answers->rows[row];
}

void answers_ask_all(struct answers *answers)
{
	for (size_t row = 0; answers->generation && row < fence_rows(); row++)
		answers_ask(answers, row);
}

bool answers_allow(struct answers *answers, long number, const uint64_t args[6])
{
	size_t row = fence_find_row(number, args);

	return row < fence_rows() && filters_is_allowed(answers_ask(answers, row));
}
