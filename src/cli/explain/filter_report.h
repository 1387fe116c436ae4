/*
 * filter_report.h - what the seccomp filters of a process allow dyntrace, in words.
 */
#ifndef DYNTRACE_FILTER_REPORT_H
#define DYNTRACE_FILTER_REPORT_H

#include "control/proc/proc.h"

/* Stops the process for a moment if it has a filter, and prints which of dyntrace's calls the
 * filters of its threads forbid, and what is lost by that. Changes nothing in the process. */
struct error *filter_report(struct proc *proc);

#endif
