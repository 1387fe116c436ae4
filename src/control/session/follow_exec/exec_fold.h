/*
 * exec_fold.h - keep the counts of an exec session that is over.
 */
#ifndef DYNTRACE_EXEC_FOLD_H
#define DYNTRACE_EXEC_FOLD_H

#include "control/session/state/session_state.h"

/* Adds the counts of an exec session that is over to its parent's (F3): fails with none added, if
 * memory lacks. */
struct error *exec_fold(struct session *root, struct session *exec);

#endif
