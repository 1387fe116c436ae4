/* The probe functions for measuring the tracer `call`. */
#include "../include/dyntrace/probe.h"

DYNTRACE_PROBE(on_hit_nothing)
{
}

/* Calls another function, so that nothing is known about its registers: all are saved. */
static void __attribute__((noinline)) nothing(void)
{
	__asm__ volatile("");
}

DYNTRACE_PROBE(on_hit_unknown)
{
	nothing();
}
