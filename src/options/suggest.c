#include "suggest.h"

#include <string.h>

#define WORD_MAX 64

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Counts letters to insert, remove, replace or swap; both words have at most WORD_MAX. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][WORD_MAX + 1];

	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		size_t *before = rows[(i + 1) % 3], *above = rows[(i - 1) % 3], *row = rows[i % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
			row[j] = least(row[j], least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
	}
	return rows[a_length % 3][b_length];
}

void suggest_offer(struct suggestion *suggestion, const char *candidate)
{
	size_t typed_length = strlen(suggestion->typed), length = strlen(candidate);

	if (typed_length > WORD_MAX || length > WORD_MAX || !typed_length)
		return;

	size_t distance = edit_distance(suggestion->typed, typed_length, candidate, length);
	size_t near_enough = 1 + least(typed_length, length) / 4;

	/* The beginning of a word is a good hint too. */
	if (typed_length >= 3 && !strncmp(candidate, suggestion->typed, typed_length))
		distance = 1;
	if (distance > near_enough || (suggestion->best && distance >= suggestion->distance))
		return;
	suggestion->best = candidate;
	suggestion->distance = distance;
}
