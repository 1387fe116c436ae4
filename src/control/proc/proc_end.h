/*
 * proc_end.h - how a process has ended that isn't our child.
 */
#ifndef DYNTRACE_PROC_END_H
#define DYNTRACE_PROC_END_H

#include "proc.h"

/* The status of a process that has ended, as waitpid gives it. False: unknown, for its parent has
 * waited for it, and the kernel is older than 6.15. */
bool proc_end_status(const struct proc *proc, int *ret_status);
/* "exit status 3", "killed by SIGSEGV (core dumped)", "exit status unknown". */
void proc_end_describe(const struct proc *proc, char *ret_text, size_t size);
/* "killed by SIGSEGV". False: a process with that status ended otherwise. */
bool proc_end_killed(int status, char *ret_text, size_t size);

#endif
