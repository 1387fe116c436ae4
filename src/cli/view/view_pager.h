/*
 * view_pager.h - long output page by page, on a terminal.
 *
 * $DYNTRACE_PAGER, $PAGER or less reads what is written to stdout from view_pager_begin on.
 */
#ifndef DYNTRACE_VIEW_PAGER_H
#define DYNTRACE_VIEW_PAGER_H

#include <stdbool.h>

/* Starts the pager, unless stdout is no terminal or no pager is wanted ("" and cat are none).
 * Whoever asks whether stdout is a terminal asks before. */
void view_pager_begin(void);
bool view_pager_is_on(void);
/* Waits until the user has seen everything. */
void view_pager_end(void);

#endif
