/*
 * unfit.h - try again where no thread of the target can be borrowed.
 *
 * A thread at the end of its stack, or in a handler of that, is elsewhere a moment later. So an
 * operation that failed with ERROR_UNFIT, and has changed nothing, is made once more in another
 * stop, for a while.
 */
#ifndef DYNTRACE_UNFIT_H
#define DYNTRACE_UNFIT_H

#include "control/base/error.h"

/* Does the error say that no thread can be borrowed? False on NULL. */
bool unfit_is(const struct error *error);
/* After a try, with no thread held. True: frees the error, and pauses; the caller tries again.
 * False: the caller keeps the error, if any. *tries: 0 at first. */
bool unfit_try_again(struct error **error, unsigned *tries);

#endif
