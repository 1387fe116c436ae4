/*
 * row_cache.h - the row of an unwind table for an address (shared/unwind.h).
 *
 * Takes no lock, makes no system call, and can't fault. Rows are known by a key: the address behind
 * the byte that is looked up, so that a return address is its own key.
 */
#ifndef DYNTRACE_ROW_CACHE_H
#define DYNTRACE_ROW_CACHE_H

#include "shared/unwind.h"
#include "agent_parts.h"

/*
 * The lower bits of a kept word, the row: enum dt_cfa_rule, the offset of the CFA in bytes, enum
 * dt_rbp_rule, the offset of rbp in words.
 */
#define ROW_CFA_RULE 7u
#define ROW_CFA 0x3ff8u
#define ROW_RBP_RULE 14
#define ROW_RBP 16
#define ROW_RBP_MAX 31u
#define ROW_BITS 21
#define ROW_INDEX_BITS 13
#define ROW_ADDRESS_BITS 47
/* Of usual frames (unwind.c): DT_CFA_RSP, or with the first of these bits DT_CFA_RBP; DT_RBP_SAME,
 * or with the second DT_RBP_SAVED. */
#define ROW_FROM_RBP (DT_CFA_RSP ^ DT_CFA_RBP)
#define ROW_SAVES_RBP (DT_RBP_SAVED << ROW_RBP_RULE)
#define ROW_UNUSUAL ((ROW_CFA_RULE | 3u << ROW_RBP_RULE) & ~(ROW_FROM_RBP | ROW_SAVES_RBP))

_Static_assert(DT_ROWS_CACHED == 1u << ROW_INDEX_BITS, "kept rows");
_Static_assert(ROW_ADDRESS_BITS - ROW_INDEX_BITS + DT_TURN_BITS + ROW_BITS == 64, "kept rows");

struct row_cache {
	uint64_t *rows; /* dt_state.rows */
	uint64_t turn; /* (T4) */
	const struct dt_unwind *table;
};

/* For one walk: what it finds is of this turn. */
static inline void row_cache_open(const struct dt_control *control, struct row_cache *ret_cache)
{
	ret_cache->turn = __atomic_load_n(&control->rows_turn, __ATOMIC_ACQUIRE); /* T4 */
	ret_cache->table = (const struct dt_unwind *)__atomic_load_n(&control->unwind,
								     __ATOMIC_ACQUIRE);
	ret_cache->rows = agent_state(control)->rows;
}

/* DT_CFA_NONE: nothing is known of the code there. */
struct dt_unwind_row row_cache_find(const struct row_cache *cache, uint64_t key);

/* The address and the turn, as a kept word has them (T5). */
static inline uint64_t row_cache_name(const struct row_cache *cache, uint64_t key)
{
	return key >> ROW_INDEX_BITS << DT_TURN_BITS | cache->turn;
}

/* Is it the word of that address, of this turn? */
static inline bool row_cache_is(const struct row_cache *cache, uint64_t word, uint64_t key)
{
	return word >> ROW_BITS == row_cache_name(cache, key);
}

#endif
