"""The tracers, in the order of the table. One file per tracer, each with its CASES."""

from . import bpftrace, call, count, dyntrace, exits, fenced, lttng, lttng_dynamic, tracefs, uftrace

CASES = [*dyntrace.CASES, *fenced.CASES, *count.CASES, *call.CASES, *lttng.CASES, *lttng_dynamic.CASES, *uftrace.CASES,
         *bpftrace.CASES, *tracefs.CASES,
         *exits.CASES]
