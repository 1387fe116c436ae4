/*
 * view_tree.h - a trace as a tree of calls: indented, a leaf on one line, the duration and the
 * result where a call ends.
 *
 *	  1.49 us [4460] |   mid(n = 0) {
 *	    14 ns [4460] |     leaf(n = 0, text = "hello") = 104
 *	  1.52 us [4460] |   } mid = 312
 */
#ifndef DYNTRACE_VIEW_TREE_H
#define DYNTRACE_VIEW_TREE_H

#include "view_own.h"

struct view_tree;

/* `all_arguments`: also those without a name. NULL: out of memory. */
struct view_tree *view_tree_create(struct viewer *viewer, bool all_arguments);
void view_tree_free(struct view_tree *tree);
static inline void view_tree_freep(struct view_tree **tree)
{
	view_tree_free(*tree);
}
/* Takes the next event or loss, in the order of time. `is_shown`: appends its line, too. Gives how
 * many lines were appended. */
unsigned view_tree_take(struct view_tree *tree, struct trace_stream *stream, bool is_shown);
/* Appends what is known of calls that were open at the end of the trace. */
void view_tree_end(struct view_tree *tree);
/* Has the trace exits? Otherwise there is no tree. */
bool view_tree_has_exits(const struct own_traces *traces);

#endif
