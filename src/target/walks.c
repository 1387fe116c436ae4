/*
 * walks.c - from one element of a container to the next, where that takes more than one pointer:
 * trees and hash tables.
 *
 * The memory may be anything: every read may fail, every walk has a bound, and a walk that meets
 * what no such container has counts as unreadable.
 */
#include "gather.h"

#define STEPS_MAX 128u /* a tree of 2^64 nodes is no deeper */
#define TABLE_READS 512u /* of 8 slots each */
#define BTREE_EDGES 12u

static uint64_t follow(struct gather *g, uint64_t node, uint32_t offset, uint32_t size)
{
	uint64_t next = 0;

	if (!node || read_cache_read_all(g, node + offset, &next, size) != size) {
		g->failed = true;
		return 0;
	}
	return next;
}

/* ---- binary trees ---------------------------------------------------------------------------- */

/* Nodes of libstdc++, of libc++. */
static const struct {
	uint8_t parent, left, right;
	/* The head has a left child only: a node that isn't a right child is no left one. */
	bool goes_by_left;
} trees[] = { { 8, 16, 24, false }, { 16, 0, 8, true } };

/* The leftmost one at the right, or the first ancestor that this one is at the left of. */
uint64_t walk_tree(struct gather *g, uint64_t node, uint32_t kind)
{
	kind %= sizeof(trees) / sizeof(trees[0]);
	uint64_t next = follow(g, node, trees[kind].right, 8), child;

	for (uint32_t i = 0; next && !g->failed; i++) {
		child = follow(g, next, trees[kind].left, 8);
		if (!child)
			return next;
		next = child;
		g->failed |= i >= STEPS_MAX;
	}
	for (uint32_t i = 0; !g->failed; i++) {
		child = node;
		node = follow(g, node, trees[kind].parent, 8);
		if (trees[kind].goes_by_left ? follow(g, node, trees[kind].left, 8) == child :
					       follow(g, node, trees[kind].right, 8) != child)
			return node;
		g->failed |= i >= STEPS_MAX;
	}
	return 0;
}

/* ---- hash tables of Rust --------------------------------------------------------------------- */

/* A byte per slot, below 0x80 if the slot is in use; the first bytes follow again behind the last.
 */
uint64_t walk_table(struct gather *g, uint64_t control, uint64_t mask, uint64_t index)
{
	uint32_t reads = 0;

	for (; reads < TABLE_READS && index <= mask && !g->failed; reads++, index += 8) {
		uint64_t used = ~follow(g, control + index, 0, 8) & 0x8080808080808080ULL;

		if (used) {
			index += (uint64_t)__builtin_ctzll(used) / 8;
			break;
		}
	}
	g->failed |= reads >= TABLE_READS || index > mask; /* Y9 */
	return g->failed ? 0 : index;
}

/* ---- B-trees of Rust ------------------------------------------------------------------------- */

/* From index -1 of the root it goes to the first. */
void walk_btree(struct gather *g, uint64_t offsets, struct walk_btree *at)
{
	uint32_t parent = (uint16_t)offsets, parent_index = (uint16_t)(offsets >> 16);
	uint32_t length = (uint16_t)(offsets >> 32), edges = (uint16_t)(offsets >> 48);

	at->index++;
	g->failed |= at->height > STEPS_MAX || at->index >= BTREE_EDGES;
	if (at->height && !g->failed) {
		at->node = follow(g, at->node, edges + (uint32_t)at->index * 8, 8);
		while (--at->height && !g->failed)
			at->node = follow(g, at->node, edges, 8);
		at->index = 0;
	}
	for (uint32_t i = 0; !g->failed && at->index >= follow(g, at->node, length, 2); /* Y10 */
	     i++) {
		at->index = follow(g, at->node, parent_index, 2);
		at->node = follow(g, at->node, parent, 8);
		at->height++;
		g->failed |= i >= STEPS_MAX || at->index >= BTREE_EDGES;
	}
}
