/*
 * top_callers.h - who calls the function that `top` shows closely: a tracepoint more, while it is
 * shown, which counts by caller.
 */
#ifndef DYNTRACE_TOP_CALLERS_H
#define DYNTRACE_TOP_CALLERS_H

#include "top_view.h"

/* Begins to count the callers of view->name. Not an error where that can't be done. */
void top_callers_begin(struct top_view *view, struct session *session);
void top_callers_end(struct top_view *view, struct session *session);
/* Appends the callers so far. */
void top_callers_add(const struct top_view *view, const struct session *session,
		     struct strbuf *lines);

#endif
