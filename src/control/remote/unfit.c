#include "unfit.h"

#include <time.h>

#include "control/base/cleanup.h"

#define TRIES_MAX 250
#define PAUSE_NS 2000000L

bool unfit_is(const struct error *error)
{
	return error && error_kind(error) == ERROR_UNFIT;
}

bool unfit_try_again(struct error **error, unsigned *tries)
{
	if (!unfit_is(*error) || ++*tries > TRIES_MAX)
		return false;
	error_free(take_ptr(error));
	nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	return true;
}
