/*
 * children.h - place tracepoints also in processes that were forked from the target before.
 */
#ifndef DYNTRACE_CHILDREN_H
#define DYNTRACE_CHILDREN_H

#include "control/patch/patch.h"

struct session;
struct tracepoint_list;

bool children_create(struct session *session);
void children_free(struct session *session);

/*
 * After sites were placed in the target, or replaced: does the same in every forked process that
 * has the target's code. A process where that isn't possible stays as it is; session_children_left
 * reports it.
 */
void children_place(struct session *session, const struct tracepoint_list *list,
		    struct patch_site *const *patches, size_t count);

/* Do processes run that were forked from the target and have its code? True if nobody can tell. */
bool children_are_left(const struct session *session);

/* session_children_left. */
size_t children_left(const struct session *session, const char **ret_why);

#endif
