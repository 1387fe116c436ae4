/*
 * lttng_events.h - the static tracepoints of the workload: one without fields, as a bare probe, one with
 * the six words that a dyntrace function entry records, and one with a string.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER dyntrace_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_events.h"

#if !defined(DYNTRACE_BENCH_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define DYNTRACE_BENCH_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(dyntrace_bench, foo, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

LTTNG_UST_TRACEPOINT_EVENT(
	dyntrace_bench, foo6,
	LTTNG_UST_TP_ARGS(long, a, long, b, long, c, long, d, long, e, long, f),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(long, arg0, a)
		lttng_ust_field_integer(long, arg1, b)
		lttng_ust_field_integer(long, arg2, c)
		lttng_ust_field_integer(long, arg3, d)
		lttng_ust_field_integer(long, arg4, e)
		lttng_ust_field_integer(long, arg5, f)))

LTTNG_UST_TRACEPOINT_EVENT(dyntrace_bench, foo_text, LTTNG_UST_TP_ARGS(const char *, text),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text)))

#endif

#include <lttng/tracepoint-event.h>
