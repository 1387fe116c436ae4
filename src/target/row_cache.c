/*
 * row_cache.c - rows of unwind tables by address: those found before, in dt_state.rows, and the
 * search in the tables.
 *
 * A search halves the list of modules and the module's rows, and each halving is a guess of the
 * processor's that fails half of the time. So what was found is kept, by the lower bits of the
 * address, as one word:
 *
 *	the other bits of the address | the turn (T4) | the row (row_cache.h)
 *
 * (T5) A word is stored and loaded whole, and names its address and its turn completely. So threads
 * and handlers of signals that interrupt each other need no lock: whoever finds the address and the
 * turn has the row that belongs to them, or finds something else and searches. A row with an
 * offset that doesn't fit isn't kept.
 */
#include "row_cache.h"

#include "shared/sorted.h"

#define TABLES_MAX 64u

static const struct dt_unwind_module *find_module(const struct dt_unwind *table, uint64_t pc)
{
	size_t n = sorted_count(table->module_count, i, table->modules[i].start <= pc);

	return n && pc < table->modules[n - 1].end ? &table->modules[n - 1] : NULL;
}

/* The row for pc; DT_CFA_NONE: none. */
static struct dt_unwind_row search(const struct dt_unwind *table, uint64_t pc)
{
	const struct dt_unwind_row none = { .cfa_rule = DT_CFA_NONE };
	const struct dt_unwind_module *module = NULL;
	const struct dt_unwind_row *rows;
	uint32_t key;
	size_t n;

	for (uint32_t i = 0; table && i < TABLES_MAX && !(module = find_module(table, pc)); i++)
		table = (const struct dt_unwind *)table->next;
	if (!module || !table)
		return none;
	rows = (const struct dt_unwind_row *)((const uint8_t *)table + table->rows_offset) +
	       module->first;
	key = (uint32_t)(pc - module->base);
	n = sorted_count(module->count, i, rows[i].pc <= key);
	return n ? rows[n - 1] : none;
}

/* Offsets are counted away from where they begin: up from rsp and rbp to the CFA, down from the CFA
 * to the saved rbp, and down from rbp to the word that has the CFA. */
static bool pack(const struct dt_unwind_row *row, uint64_t *ret_rule)
{
	uint32_t cfa = 8 * (uint32_t)(row->cfa_rule == DT_CFA_AT_RBP ? -row->cfa : row->cfa);
	uint32_t rbp = (uint32_t)(row->rbp_rule == DT_RBP_SAVED ? -row->rbp : row->rbp);

	if (cfa > ROW_CFA || rbp > ROW_RBP_MAX)
		return false;
	*ret_rule = row->cfa_rule | cfa | (uint32_t)row->rbp_rule << ROW_RBP_RULE | rbp << ROW_RBP;
	return true;
}

static struct dt_unwind_row unpack(uint64_t rule)
{
	struct dt_unwind_row row = { .cfa = (int16_t)((rule & ROW_CFA) / 8),
				     .rbp = (int8_t)(rule >> ROW_RBP & ROW_RBP_MAX),
				     .cfa_rule = rule & ROW_CFA_RULE,
				     .rbp_rule = rule >> ROW_RBP_RULE & 3 };

	if (row.cfa_rule == DT_CFA_AT_RBP)
		row.cfa = (int16_t)-row.cfa;
	if (row.rbp_rule == DT_RBP_SAVED)
		row.rbp = (int8_t)-row.rbp;
	return row;
}

struct dt_unwind_row row_cache_find(const struct row_cache *cache, uint64_t key)
{
	uint64_t *kept = &cache->rows[key % DT_ROWS_CACHED], rule;
	uint64_t word = __atomic_load_n(kept, __ATOMIC_RELAXED);
	struct dt_unwind_row row;

	if (cache->turn && row_cache_is(cache, word, key))
		return unpack(word);
	row = search(cache->table, key - 1);
	if (cache->turn && key >> ROW_ADDRESS_BITS == 0 && pack(&row, &rule)) /* T5 */
		__atomic_store_n(kept, row_cache_name(cache, key) << ROW_BITS | rule,
				 __ATOMIC_RELAXED);
	return row;
}
