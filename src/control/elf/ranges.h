/*
 * ranges.h - address ranges, sorted, and the one that holds an address.
 *
 * Ranges of a hostile file may overlap: ranges_find gives the one that starts last, or none.
 */
#ifndef DYNTRACE_RANGES_H
#define DYNTRACE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t start;
	uint64_t end;
};

struct ranges {
	struct range *items;
	size_t count;
	size_t room;
};

void ranges_sort(struct ranges *ranges);
const struct range *ranges_find(const struct ranges *ranges, uint64_t address); /* NULL: none */

#endif
