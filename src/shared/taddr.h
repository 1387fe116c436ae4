/*
 * taddr.h - an address in the traced process.
 *
 * A target address is not a pointer: the controller can't dereference it, and the compiler says so.
 * Freestanding; used on both sides.
 */
#ifndef DYNTRACE_TADDR_H
#define DYNTRACE_TADDR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
	uint64_t v;
} taddr;

static inline taddr taddr_of(uint64_t v)
{
	return (taddr){ v };
}

static inline taddr taddr_add(taddr a, int64_t n)
{
	return (taddr){ a.v + (uint64_t)n };
}

/* Distance from b to a; negative if a is below b. */
static inline int64_t taddr_diff(taddr a, taddr b)
{
	return (int64_t)(a.v - b.v);
}

static inline bool taddr_equal(taddr a, taddr b)
{
	return a.v == b.v;
}

/* True if a lies in [start, end). */
static inline bool taddr_within(taddr a, taddr start, taddr end)
{
	return a.v >= start.v && a.v < end.v;
}

#endif
