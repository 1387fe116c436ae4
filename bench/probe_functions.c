/* What the tracer `call` is measured with. */
#include "../include/dyntrace/probe.h"

DYNTRACE_PROBE(on_hit_nothing)
{
}

/* Calls another one, so that nothing is known of it: all registers are saved. */
static void __attribute__((noinline)) nothing(void)
{
	__asm__ volatile("");
}

DYNTRACE_PROBE(on_hit_unknown)
{
	nothing();
}
