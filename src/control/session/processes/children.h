/*
 * children.h - tracepoints come also to those that were forked from the target before.
 */
#ifndef DYNTRACE_CHILDREN_H
#define DYNTRACE_CHILDREN_H

#include "control/patch/patch.h"

struct session;
struct tracepoint_list;

bool children_create(struct session *session);
void children_free(struct session *session);

/*
 * The sites were just placed in the target, or taken out for those that took their place. Does the
 * same in every process that has the code of the target's tracepoints. What can't be done in one of
 * them is left as it is there, and told by session_children_left.
 */
void children_place(struct session *session, const struct tracepoint_list *list,
		    struct patch_site *const *patches, size_t count);

/* session_children_left. */
size_t children_left(const struct session *session, const char **ret_why);

#endif
