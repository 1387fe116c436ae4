#include "interrupt.h"

#include <signal.h>

static volatile sig_atomic_t requested;

void interrupt_request(void)
{
	requested = 1;
}

bool interrupt_requested(void)
{
	return requested;
}

struct error *interrupt_check(void)
{
	return requested ? error_new(ERROR_INTERRUPTED, "interrupted") : NULL;
}
